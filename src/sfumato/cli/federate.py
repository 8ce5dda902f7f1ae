"""``sfumato federate``: a classifier that clients train together, each on its own records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli import terminal
from sfumato.cli.options import (
    BUDGET,
    DATA,
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
    option,
    refuse_idle,
    url_of,
)
from sfumato.errors import BadInput, spell
from sfumato.privacy import DELTA

if TYPE_CHECKING:
    from sfumato.release import FederatedModel, FederationPlan


_TRAINING, _RUN = "The training", "The run"
# Options that are those of ``sf.federate`` as they stand.
_SAME = (
    *("clients", "rounds", "engine", "wait", "mechanism", "delta", "clip", "limit", "neighbours", "central"),
    *("sample", "noise", "span", "retain", "levels", "curvature", "calibration", "model", "epochs", "batch"),
    *("rate", "seed", "classes", "extractor", "top", "pictures", "labels", "public_names", "test", "dataset"),
    "uncharged",
)


def federate(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", hidden=True)],
    *,
    clients: Annotated[
        int, option(_RUN, "N", "How many clients; record i goes to client 1 + i mod N. This is public.")
    ] = 3,
    rounds: Annotated[int, option(_RUN, "N", "How often clients train and send.")] = 10,
    engine: Annotated[
        str,
        option(
            _RUN,
            "NAME",
            "rounds (in this process), grpc (a process for each client), simulation (Flower on Ray) or "
            "processes (a Flower SuperLink, and a SuperNode for each client).",
        ),
    ] = "rounds",
    wait: Annotated[
        float,
        option(
            _RUN,
            "SECONDS",
            "How long each client has to answer in a round, with grpc and processes.",
        ),
    ] = 600.0,
    mechanism: Annotated[
        str,
        option(
            PROMISE,
            "NAME",
            "What clients draw: gaussian, laplace, grid-tensor-ldp, priv-unit, priv-unit-g, "
            "repeated-priv-unit-g, duchi, hybrid, piecewise, layer-adaptive (LLAGP), hessian-clipped "
            "(DPHSGD), matrix-variate-gaussian, independent-directional; tensor-ldp as its paper lists it; "
            "none.",
        ),
    ] = "gaussian",
    epsilon: Annotated[
        list[float] | None,
        option(PROMISE, "ε", "The budget of one client over all rounds; for tensor-ldp that of each round."),
    ] = None,
    delta: Annotated[float, option(PROMISE, "δ", "Of one client over all rounds.")] = DELTA,
    clip: Annotated[
        float | None,
        option(
            PROMISE,
            "LENGTH",
            "Longest update of a client: L2, L1 for laplace; for tensor-ldp the largest parameter.",
        ),
    ] = None,
    limit: Annotated[
        float | None, option(PROMISE, "VALUE", "Largest entry of an update; needed by mechanisms of a box.")
    ] = None,
    neighbours: Annotated[
        str | None,
        option(PROMISE, "NAME", "What may become of a client: replace, or zero-out (it learned nothing)."),
    ] = None,
    central: Annotated[
        bool,
        option(
            PROMISE, None, "Noise at the server, which is trusted, instead of at the clients.", "--central"
        ),
    ] = False,
    sample: Annotated[
        float, option(PROMISE, "Q", "With --central: chance of a client to take part in a round.")
    ] = 1.0,
    noise: Annotated[
        str | None, option(PROMISE, "NAME", "tensor-ldp: gaussian; laplace unless given.")
    ] = None,
    span: Annotated[
        float | None, option(PROMISE, "Δ", "tensor-ldp: width of the noise; 256 unless given.")
    ] = None,
    retain: Annotated[
        str | None,
        option(
            PROMISE,
            "NAME",
            "tensor-ldp: proof, the p of the paper's proof; that of its algorithm unless given.",
        ),
    ] = None,
    levels: Annotated[int | None, option(PROMISE, "N", "grid-tensor-ldp: how many values there are.")] = None,
    curvature: Annotated[
        str | None, option(PROMISE, "own", "hessian-clipped as its paper has it; proves nothing.")
    ] = None,
    calibration: Annotated[
        str | None,
        option(PROMISE, "paper", "matrix-variate-gaussian, independent-directional: their authors' noise."),
    ] = None,
    model: Annotated[str, option(_TRAINING, "NAME", "linear, mlp, or cnn (for pictures).")] = "linear",
    epochs: Annotated[int, option(_TRAINING, "N", "Passes over a client's records in a round.")] = 1,
    batch: Annotated[int, option(_TRAINING, "N", "Records in one step.")] = 64,
    rate: Annotated[float, option(_TRAINING, "RATE", "How far a step goes.")] = 0.05,
    seed: Annotated[
        int, option(_TRAINING, "N", "Of the first model and the order of records; public, and not of noise.")
    ] = 0,
    classes: Classes = None,
    extractor: Annotated[
        str | None, option(DATA, "NAME", "What makes features of pictures; pixels unless given.")
    ] = None,
    top: White = None,
    pictures: PicturesOrFeatures = None,
    labels: Labels = None,
    public_names: PublicClassNames = False,
    output: ModelFolder = None,
    test: TestFile = None,
    plan: PlanOnly = False,
    dataset: Annotated[
        str | None, option(BUDGET, "NAME", "Charge the budgets NAME/client-1, NAME/client-2, …")
    ] = None,
    ledger: LedgerUrl = None,
    uncharged: Uncharged = False,
    as_json: AsJson = False,
) -> None:
    """Let clients train a classifier together, and keep it with a statement of the promise to each client.

    SOURCE is an .npz with pictures or features and labels, or a folder with one sub-folder of pictures for
    each class; its records are dealt to the clients in turn.
    """
    options = dict(locals())
    if epsilon is not None and len(epsilon) != 1:
        raise BadInput(f"federate takes one ε, as in --epsilon 8, not {len(epsilon)}.")
    if output is None and not plan:
        raise BadInput("federate needs -o/--output, a folder to keep the model in.")
    from sfumato.release import federate as run

    same = {name: options[name] for name in _SAME}
    same |= {
        "epsilon": None if epsilon is None else epsilon[0],
        "ledger": url_of(ledger) if dataset is not None else None,
    }
    refuse_idle(dataset)
    with terminal.progress(not as_json) as progress:
        if plan or output is None:
            planned = run(source, plan=True, **same)
            print(terminal.json_text(planned.to_dict()) if as_json else terminal.in_line(_planned(planned)))
            return
        done = run(source, output, progress=progress, warn=None if as_json else terminal.complain_of, **same)
    print(terminal.json_text(done.to_dict()) if as_json else terminal.in_line(_told(done)))


def _planned(planned: FederationPlan) -> str:

    name = terminal.printable
    lines = [
        planned.statement.table(terminal.width()),
        "",
        f"Would train: {planned.what}, from {name(planned.source)}",
        f"Cost: {planned.cost()}",
    ]
    rounds = planned.statement.parameters["rounds"]
    for cost in planned.costs:
        if cost.preview is not None:
            left = spell(cost.preview.balance.gaussian_left, "command line")
            lines.append(
                f"  {name(cost.dataset)}: admits {cost.admitted} of {rounds} rounds; what still fits after "
                f"the first one: {left}"
            )
    return "\n".join([*lines, *(f"Note: {warning}" for warning in planned.warnings)])


def _told(done: FederatedModel) -> str:
    name, made = terminal.printable, done.made
    asked = done.statement.parameters["rounds"]
    lines = [
        done.statement.table(terminal.width()),
        "",
        f"Model: {name(done.output)} ({done.certified.what}, after {made.rounds} of {asked} rounds)",
        f"Certificate: {name(done.certified.certificate_file)}",
    ]
    lines += terminal.classes(done.folders)
    if made.stopped is not None:
        lines.append(f"Stopped: {name(made.stopped)}")
    lines += [f"Not used: {name(spell(str(item), 'command line'))}" for item in made.refused]
    lines += [
        f"Paid by {name(client)}: {len(rows)} rounds" for client, rows in sorted(done.spends.items()) if rows
    ]
    if done.accuracy is not None:
        said = done.accuracy
        lines.append(f"Accuracy: {said.share:.2%}, measured on {name(said.file)} ({said.records:,} records)")
    return "\n".join(lines)
