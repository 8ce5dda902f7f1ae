"""``sfumato learn``: a classifier to hand over, learned from private records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli import terminal
from sfumato.cli.options import (
    BUDGET,
    DATA,
    FILES,
    PROMISE,
    AsJson,
    Classes,
    Labels,
    LedgerUrl,
    ModelFolder,
    PicturesOrFeatures,
    PlanOnly,
    PublicClassNames,
    TestFile,
    Uncharged,
    White,
    charged_ledger,
    option,
)
from sfumato.errors import BadInput
from sfumato.privacy import DELTA, MODELS

if TYPE_CHECKING:
    from sfumato.release import Learned


# Options that are those of ``sf.learn`` as they stand.
_SAME = (
    *("method", "delta", "neighbours", "classes", "extractor", "reach", "top", "pictures", "labels"),
    *("public_names", "steps", "clip", "pace", "momentum", "spread", "share", "sampling", "epochs", "batch"),
    *("rate", "mode", "test", "report", "audit", "shadows", "dataset", "uncharged"),
)
_SOME = "For some methods"


def learn(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", hidden=True)],
    *,
    method: Annotated[
        str,
        option(
            PROMISE,
            "NAME",
            "dp-sgd (a linear classifier, proves ε for each record), compact-certified (with contracted "
            "features, proves ε too); compact or compact-private, which prove nothing.",
        ),
    ] = "dp-sgd",
    epsilon: Annotated[
        list[float] | None, option(PROMISE, "ε", "The budget of one record, for the whole model.")
    ] = None,
    delta: Annotated[float | None, option(PROMISE, "δ", f"{DELTA:g} unless given; below 1/n.")] = None,
    neighbours: Annotated[
        str | None,
        option(
            PROMISE,
            "NAME",
            "What may become of a record: replace or zero-out; unless given as the budget counts, or "
            f"{MODELS.neighbours} without one.",
        ),
    ] = None,
    classes: Classes = None,
    extractor: Annotated[
        str | None,
        option(
            DATA,
            "NAME",
            "What makes features of pictures: scattering, pixels, efficientnet-lite0, mobilenet-v2, "
            "inception-v3, alexnet, vgg16 or a folder with weights; whitened-scattering unless given.",
        ),
    ] = None,
    reach: Annotated[
        float | None,
        option(DATA, "LENGTH", "For features: longer ones are scaled back to this; it is public."),
    ] = None,
    top: White = None,
    pictures: PicturesOrFeatures = None,
    labels: Labels = None,
    public_names: PublicClassNames = False,
    steps: Annotated[int | None, option(_SOME, "N", "all but compact: steps of training.")] = None,
    clip: Annotated[
        float | None,
        option(_SOME, "LENGTH", "all but compact: longest gradient of one record, over the features' reach."),
    ] = None,
    pace: Annotated[
        float | None, option(_SOME, "RATE", "all but compact: how far a step of the classifier goes.")
    ] = None,
    momentum: Annotated[
        float | None, option(_SOME, "SHARE", "all but compact: what a step keeps of the one before.")
    ] = None,
    spread: Annotated[
        float | None,
        option(_SOME, "S", "dp-sgd, compact-certified: noise in a logit that sets the pace, as a deviation."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        option(
            _SOME, "H", "compact, compact-private: adaptive, or a number in units of the features' scale."
        ),
    ] = None,
    share: Annotated[
        float | None,
        option(_SOME, "γ", "compact, compact-private: share of a class that anchors are taken from."),
    ] = None,
    sampling: Annotated[
        float | None, option(_SOME, "Q", "dp-sgd, compact-private: chance of a record to be taken at a step.")
    ] = None,
    epochs: Annotated[
        int | None, option(_SOME, "N", "compact, compact-private: passes over the records.")
    ] = None,
    batch: Annotated[int | None, option(_SOME, "N", "compact, compact-private: records in one step.")] = None,
    rate: Annotated[
        float | None,
        option(_SOME, "RATE", "compact, compact-private: how far a step of the contraction goes."),
    ] = None,
    mode: Annotated[
        str | None, option(_SOME, "NAME", "compact-private: paper; accountant unless given.")
    ] = None,
    output: ModelFolder = None,
    test: TestFile = None,
    report: Annotated[
        Path | None, option(FILES, "FILE.html", "Write a report with what was measured; for yourself.")
    ] = None,
    audit: Annotated[
        bool,
        option(
            PROMISE,
            None,
            "Learn further models, not kept, and attack them; canaries by coins where something is proven.",
            "--audit/--no-audit",
        ),
    ] = True,
    shadows: Annotated[
        int | None,
        option(
            PROMISE,
            "N",
            "How many of these models are for LiRA, RMIA and an attack network: 8 unless given, which take "
            "as long as four of them on all records (4,000 at most); 0 for none.",
        ),
    ] = None,
    plan: PlanOnly = False,
    dataset: Annotated[
        str | None, option(BUDGET, "NAME", "Whose budget is charged; see sfumato budget --help.")
    ] = None,
    ledger: LedgerUrl = None,
    uncharged: Uncharged = False,
    as_json: AsJson = False,
) -> None:
    """Learn a classifier from SOURCE and keep it, with a statement of what is promised to each record.

    SOURCE is an .npz with pictures or features and labels, or a folder with one sub-folder of pictures for
    each class.
    """
    options = dict(locals())
    if epsilon is not None and len(epsilon) != 1:
        raise BadInput(f"learn takes one ε, as in --epsilon 1, not {len(epsilon)}.")
    if output is None and not plan:
        raise BadInput("learn needs -o/--output, a folder to keep the model in.")
    from sfumato.release import learn as run

    same = {name: options[name] for name in _SAME}
    same |= {
        "epsilon": None if epsilon is None else epsilon[0],
        "bandwidth": None if bandwidth is None else _bandwidth(bandwidth),
    }
    with terminal.progress(not as_json) as progress, charged_ledger(ledger, dataset, uncharged) as book:
        if plan or output is None:
            planned = run(source, plan=True, ledger=book, **same)
            terminal.show(planned, as_json)
            return
        warn = None if as_json else terminal.complain_of
        done = run(source, output, ledger=book, progress=progress, warn=warn, **same)
    print(terminal.json_text(done.to_dict()) if as_json else terminal.in_line(_told(done)))


def _bandwidth(given: str) -> str | float:
    try:
        return float(given)
    except ValueError:
        return given


def _told(done: Learned) -> str:
    name = terminal.printable
    attacks = done.audit.attacks
    # Bounds on ε and the strongest attack: all of them would fill several screens.
    shown = [item for item in done.findings if item.epsilon_lower is not None]
    shown += [] if attacks is None else [attacks.strongest]
    statement = replace(done.statement, measured=tuple(item.evidence() for item in shown))
    lines = [
        statement.table(terminal.width()),
        "",
        f"Model: {name(done.output)} ({done.certified.what})",
        f"Certificate: {name(done.certified.certificate_file)}",
    ]
    lines += terminal.classes(done.folders)
    if attacks is not None:
        several = sum(item.measure == "AUC" for item in attacks.findings)
        told = f"the strongest of {several} on members is above"
        lines.append(f"Attacks: {told}; --report and --json have all, and the loss threshold class by class")
    if done.accuracy is not None:
        said = done.accuracy
        lines.append(f"Accuracy: {said.share:.2%}, measured on {name(said.file)} ({said.records:,} records)")
    if done.page is not None:
        lines.append(f"Report: {name(done.page)} (what was measured on records: keep it in-house)")
    return "\n".join(lines)
