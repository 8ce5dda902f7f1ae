"""``sfumato publish``: a dataset to hand over in the place of a private one."""

from __future__ import annotations

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
    Overwrite,
    PlanOnly,
    PublicClassNames,
    Uncharged,
    White,
    charged_ledger,
    option,
)
from sfumato.errors import BadInput
from sfumato.privacy import DELTA, PUBLICATIONS

if TYPE_CHECKING:
    from sfumato.release import Published


# Options that are those of ``sf.publish`` as they stand.
_SAME = (
    *("method", "delta", "neighbours", "classes", "top", "pictures", "labels", "public_names", "records"),
    *("checkpoint", "report", "audit", "dataset", "uncharged", "overwrite", "multiplier", "kept", "parts"),
    *("block", "radius", "k", "clusters", "latent", "centres", "strategy", "decoder", "embeddings", "small"),
    *("mode", "steps", "rate"),
)
_SOME = "For some methods"


def publish(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", hidden=True)],
    *,
    method: Annotated[
        str,
        option(
            PROMISE,
            "NAME",
            "certified (proves ε for each record), vaegan-dp or dpdm (trained with noise); curvature, "
            "pixelation, blur or k-anonymity, which prove nothing.",
        ),
    ] = "certified",
    epsilon: Annotated[
        list[float] | None, option(PROMISE, "ε", "The budget of one record, for everything published.")
    ] = None,
    delta: Annotated[float | None, option(PROMISE, "δ", f"{DELTA:g} unless given.")] = None,
    neighbours: Annotated[
        str | None,
        option(
            PROMISE,
            "NAME",
            "certified: what may become of a record: add/remove, zero-out or replace; unless given as the "
            f"budget counts, or {PUBLICATIONS.neighbours} without one.",
        ),
    ] = None,
    classes: Classes = None,
    top: White = None,
    pictures: Annotated[
        str | None, option(DATA, "NAME", "Which array of an .npz holds the pictures; x unless given.")
    ] = None,
    labels: Labels = None,
    public_names: PublicClassNames = False,
    records: Annotated[
        int | None, option(DATA, "N", "How many pictures to publish; about as many unless given.")
    ] = None,
    time_budget: Annotated[
        str | None, option(_SOME, "TIME", "Stop training after 90s, 20m or 1h30m; best effort by then.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        option(_SOME, "FILE", "curvature: where training keeps its state, to go on after a stop; private."),
    ] = None,
    multiplier: Annotated[
        float | None, option(_SOME, "σ", "vaegan-dp, dpdm: noise of a step, instead of --epsilon.")
    ] = None,
    kept: Annotated[
        int | None, option(_SOME, "K", "certified: frequencies kept each way; 14 unless given.")
    ] = None,
    parts: Annotated[
        int | None, option(_SOME, "K", "certified: Gaussians a class; chosen by ε unless given.")
    ] = None,
    embeddings: Annotated[
        int | None, option(_SOME, "K", "certified: Fourier features released too; none unless given.")
    ] = None,
    steps: Annotated[int | None, option(_SOME, "N", "vaegan-dp, dpdm: steps of training.")] = None,
    rate: Annotated[
        float | None, option(_SOME, "Q", "vaegan-dp, dpdm: chance of a record to be taken at a step.")
    ] = None,
    mode: Annotated[
        str | None, option(_SOME, "NAME", "vaegan-dp: paper, which proves nothing; private unless given.")
    ] = None,
    block: Annotated[
        int | None, option(_SOME, "B", "pixelation: side of a block in pixels; 3 unless given.")
    ] = None,
    radius: Annotated[float | None, option(_SOME, "PIXELS", "blur: its reach; 1.5 unless given.")] = None,
    k: Annotated[
        int | None, option(_SOME, "K", "k-anonymity: fewest members of a cluster; 10 unless given.", "--k")
    ] = None,
    clusters: Annotated[
        int | None, option(_SOME, "N", "k-anonymity: how many clusters; 1000 unless given.")
    ] = None,
    small: Annotated[
        str | None, option(_SOME, "NAME", "k-anonymity: smaller clusters are kept; dropped unless given.")
    ] = None,
    latent: Annotated[
        int | None, option(_SOME, "D", "curvature, vaegan-dp: dimensions of the latent space.")
    ] = None,
    centres: Annotated[int | None, option(_SOME, "N", "curvature: centres of the latent space.")] = None,
    strategy: Annotated[
        str | None, option(_SOME, "NAME", "curvature: anywhere, highest or linear; lowest unless given.")
    ] = None,
    decoder: Annotated[str | None, option(_SOME, "NAME", "curvature: dense or conv.")] = None,
    output: Annotated[
        Path | None,
        option(FILES, "OUT", "Where it is published: an .npz file, or a folder.", "-o", "--output"),
    ] = None,
    report: Annotated[
        Path | None,
        option(
            FILES,
            "FILE.html",
            "Write a report with originals beside what was published; for those who may see them.",
        ),
    ] = None,
    audit: Annotated[
        bool,
        option(
            PROMISE,
            None,
            "Leave a few records out of the fit, by coins, and measure what is shown of the others.",
            "--audit/--no-audit",
        ),
    ] = True,
    plan: PlanOnly = False,
    dataset: Annotated[
        str | None, option(BUDGET, "NAME", "Whose budget is charged; see sfumato budget --help.")
    ] = None,
    ledger: LedgerUrl = None,
    uncharged: Uncharged = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Publish a dataset of labelled pictures in the place of SOURCE, with a statement of what is promised.

    SOURCE is an .npz with pictures and labels, or a folder with one sub-folder of pictures for each class;
    OUT is either, whatever SOURCE is.
    """
    options = dict(locals())
    from sfumato.release import publish as run
    from sfumato.release import seconds_of

    if epsilon is not None and len(epsilon) != 1:
        raise BadInput(f"publish takes one ε, as in --epsilon 1, not {len(epsilon)}.")
    if output is None and not plan:
        raise BadInput("publish needs -o/--output, an .npz file or a folder to publish as.")
    same = {name: options[name] for name in _SAME}
    same |= {
        "epsilon": None if epsilon is None else epsilon[0],
        "time_budget": None if time_budget is None else seconds_of(time_budget),
    }
    with (
        terminal.progress(not as_json) as progress,
        charged_ledger(ledger, dataset, uncharged, neighbours=neighbours) as book,
    ):
        if plan or output is None:
            planned = run(source, plan=True, ledger=book, **same)
            terminal.show(planned, as_json)
            return
        done = run(source, output, ledger=book, progress=progress, **same)
    print(terminal.json_text(done.to_dict()) if as_json else terminal.in_line(_told(done)))


def _told(done: Published) -> str:
    name = terminal.printable
    lines = [
        done.statement.table(terminal.width()),
        "",
        f"Published: {name(done.output)} ({done.certified.what})",
        f"Certificate: {name(done.certified.certificate_file)}",
    ]
    lines += terminal.classes(done.folders)
    if done.page is not None:
        lines.append(f"Report: {name(done.page)} (shows originals: keep it in-house)")
    return "\n".join(lines)
