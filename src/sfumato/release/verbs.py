"""The verbs ``learn``, ``publish``, ``federate`` and ``verify``, beside ``protect`` and ``plan``.

Each takes a source, an output and options by the names of the command line, and the command calls it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.privacy import DELTA, FEDERATED
from sfumato.release.locations import at_hand
from sfumato.release.manifest import verify_folder
from sfumato.release.payment import Payment
from sfumato.reports import MANIFEST, KeyRing, PackVerification, Verification, verify_pack
from sfumato.reports import verify as verify_file

if TYPE_CHECKING:
    from sfumato.noise import Randomness
    from sfumato.release.federation import FederatedModel, FederationPlan
    from sfumato.release.model_release import Learned
    from sfumato.release.path import Report
    from sfumato.release.publication import Published
    from sfumato.release.release_plan import Plan

__all__ = ["federate", "learn", "publish", "verify"]

Place = str | os.PathLike[str]
Warn = Callable[[str], None]


@overload
def learn(source: Place, output: Place, *, plan: Literal[False] = False, **options: Any) -> Learned: ...
@overload
def learn(source: Place, output: Place | None = None, *, plan: Literal[True], **options: Any) -> Plan: ...
def learn(
    source: Place,
    output: Place | None = None,
    *,
    method: str = "dp-sgd",
    epsilon: float | None = None,
    delta: float | None = None,
    neighbours: str | None = None,
    classes: int | None = None,
    extractor: str | None = None,
    reach: float | None = None,
    top: float | None = None,
    pictures: str | None = None,
    labels: str | None = None,
    public_names: bool = False,
    test: Place | None = None,
    report: Place | None = None,
    audit: bool = True,
    shadows: int | None = None,
    plan: bool = False,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    uncharged: bool = False,
    keys: KeyRing | None = None,
    randomness: Randomness | None = None,
    progress: Report | None = None,
    warn: Warn | None = None,
    **parameters: Any,
) -> Learned | Plan:
    """Learn a classifier from ``source`` and keep it in the folder ``output``.

    ``source`` is an .npz with pictures or features and labels, or a folder with one sub-folder of pictures
    for each class. ``parameters`` are those of the method, such as ``steps``. ``classes``, ``top`` (the value
    of white) and ``reach`` (the length of features) are declared, never read off the data. ``test`` holds
    records that are not protected, on which accuracy is measured; ``report`` is the HTML file of a report for
    the owner. ``audit`` learns further models, ``shadows`` of them for attacks by shadow models, and attacks
    them. ``dataset`` is charged in ``ledger`` before the fit. With ``plan`` nothing is read but headers: the
    promise and its cost are returned. ``progress`` is told stages and shares, and ``warn`` each warning,
    before anything is read.
    """
    from sfumato.audits import SHADOWS
    from sfumato.release.model_release import learn as run
    from sfumato.release.model_release import open_learning, plan_learning

    target = _target(output, plan, "learn needs `output`, a folder to keep the model in")
    if parameters.get("spread") is not None and parameters.get("pace") is not None:
        raise BadInput(
            "`spread` sets the pace, and `pace` was given: take one of them away.", parameter="spread"
        )
    if shadows is not None and not audit:
        raise BadInput(
            "`shadows` is for an audit, and `audit=False` was given: take one of them away.",
            parameter="shadows",
        )
    opened = open_learning(
        source,
        method,
        {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, **parameters},
        pictures=pictures,
        labels=labels,
        classes=classes,
        top=top,
        reach=reach,
        extractor=extractor,
        public_names=public_names,
        audited=audit,
        shadows=SHADOWS if shadows is None else shadows,
        randomness=randomness,
        payment=Payment(dataset, ledger, uncharged=uncharged),
    )
    if plan:
        return plan_learning(opened, dataset=dataset, ledger=ledger, uncharged=uncharged)
    if warn is not None:
        for sentence in opened.warnings:
            warn(sentence)
    return run(
        opened,
        target,
        test=test,
        page=report,
        dataset=dataset,
        ledger=ledger,
        uncharged=uncharged,
        keys=keys,
        report=progress,
    )


@overload
def publish(source: Place, output: Place, *, plan: Literal[False] = False, **options: Any) -> Published: ...
@overload
def publish(source: Place, output: Place | None = None, *, plan: Literal[True], **options: Any) -> Plan: ...
def publish(
    source: Place,
    output: Place | None = None,
    *,
    method: str = "certified",
    epsilon: float | None = None,
    delta: float | None = None,
    neighbours: str | None = None,
    classes: int | None = None,
    top: float | None = None,
    pictures: str | None = None,
    labels: str | None = None,
    public_names: bool = False,
    records: int | None = None,
    checkpoint: Place | None = None,
    report: Place | None = None,
    audit: bool = True,
    plan: bool = False,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    uncharged: bool = False,
    overwrite: bool = False,
    keys: KeyRing | None = None,
    randomness: Randomness | None = None,
    progress: Report | None = None,
    **parameters: Any,
) -> Published | Plan:
    """Publish pictures in the place of those of ``source``, as the .npz or the folder ``output``.

    ``source`` is an .npz with pictures and labels, or a folder with one sub-folder of pictures for each
    class. ``parameters`` are those of the method, such as ``parts``. ``records`` is how many pictures to
    publish, ``report`` the HTML file of a report that shows originals. ``audit`` leaves a few records out of
    the fit, by coins, and measures what is shown of the others. The other options are those of :func:`learn`.
    """
    from sfumato.release.publication import open_publication, plan_publication
    from sfumato.release.publication import publish as run

    target = _target(output, plan, "publish needs `output`, an .npz file or a folder to publish as")
    promise = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "checkpoint": checkpoint}
    opened = open_publication(
        source,
        method,
        promise | parameters,
        pictures=pictures,
        labels=labels,
        classes=classes,
        top=top,
        public_names=public_names,
        audited=audit,
        randomness=randomness,
        payment=Payment(dataset, ledger, uncharged=uncharged),
    )
    if plan:
        return plan_publication(opened, dataset=dataset, ledger=ledger, uncharged=uncharged)
    return run(
        opened,
        target,
        records=records,
        page=report,
        checkpoint=checkpoint,
        dataset=dataset,
        ledger=ledger,
        uncharged=uncharged,
        overwrite=overwrite,
        keys=keys,
        report=progress,
    )


@overload
def federate(
    source: Place, output: Place, *, plan: Literal[False] = False, **options: Any
) -> FederatedModel: ...
@overload
def federate(
    source: Place, output: Place | None = None, *, plan: Literal[True], **options: Any
) -> FederationPlan: ...
def federate(
    source: Place,
    output: Place | None = None,
    *,
    clients: int = 3,
    rounds: int = 10,
    engine: str = "rounds",
    wait: float = 600.0,
    mechanism: str = "gaussian",
    epsilon: float | None = None,
    delta: float = DELTA,
    clip: float | None = None,
    limit: float | None = None,
    neighbours: str | None = None,
    central: bool = False,
    sample: float = 1.0,
    model: str = "linear",
    epochs: int = 1,
    batch: int = 64,
    rate: float = 0.05,
    seed: int = 0,
    classes: int | None = None,
    extractor: str | None = None,
    top: float | None = None,
    pictures: str | None = None,
    labels: str | None = None,
    public_names: bool = False,
    test: Place | None = None,
    plan: bool = False,
    dataset: str | None = None,
    ledger: str | None = None,
    uncharged: bool = False,
    keys: KeyRing | None = None,
    progress: Report | None = None,
    warn: Warn | None = None,
    **parameters: Any,
) -> FederatedModel | FederationPlan:
    """Let ``clients`` train a classifier on their shares of ``source``, and keep it in the folder ``output``.

    Records are dealt to the clients in turn. ``epsilon`` is the budget of one client over all ``rounds``;
    ``parameters`` are those of the mechanism, such as ``levels``. ``ledger`` is a URL, in which ``{client}``
    may stand, since each client opens the ledger that it pays from; the budgets ``dataset``/client-1 and so
    on are charged. The other options are those of :func:`learn`.
    """
    from sfumato.release.client_budget import Waiting
    from sfumato.release.federated_release import federate as run
    from sfumato.release.federated_release import open_federation, plan_federation

    target = _target(output, plan, "federate needs `output`, a folder to keep the model in")
    terms = {
        "clients": clients,
        "rounds": rounds,
        "mechanism": mechanism,
        "epsilon": epsilon,
        "delta": delta,
        "clip": clip,
        "limit": limit,
        "neighbours": neighbours or ("zero-out" if sample < 1.0 else FEDERATED.neighbours),
        "central": central,
        "sample": sample,
        "options": {name: value for name, value in parameters.items() if value is not None},
        "model": model,
        "epochs": epochs,
        "batch": batch,
        "rate": rate,
        "seed": seed,
    }
    opened = open_federation(
        source,
        terms,
        pictures=pictures,
        labels=labels,
        classes=classes,
        top=top,
        extractor=extractor,
        public_names=public_names,
        dataset=dataset,
        ledger=ledger,
        uncharged=uncharged,
    )
    planned = plan_federation(opened, None if plan else target)
    if plan:
        return planned
    if warn is not None:
        for sentence in (planned.cost(), *planned.warnings):
            warn(sentence)
    waiting = Waiting(timeout=wait)
    return run(opened, target, engine=engine, waiting=waiting, test=test, keys=keys, report=progress)


def verify(
    file: Place, *, ledger: Ledger | str | None = None, keys: KeyRing | None = None
) -> Verification | PackVerification:
    """Check the release, released folder or pack ``file`` against its certificate; also in an object store.

    The row of the ledger is checked where ``ledger`` or its URL is given, the signature against the keys that
    ``keys`` trusts (default: in the home folder). ``holds`` of the result is False where one check fails.
    """
    ring = keys or KeyRing()
    with at_hand(file) as place:
        if place.is_dir() and not (place / MANIFEST).exists():
            return PackVerification(place, tuple(verify_pack(place, ring)))
        run = verify_folder if place.is_dir() else verify_file
        if not isinstance(ledger, str):
            return run(place, ring, ledger)
        with Ledger(ledger, make=False) as book:
            return run(place, ring, book)


def _target(output: Place | None, plan: bool, missing: str) -> Path:
    """Return ``output`` as a path; refuse that there is none, unless only a plan is wanted."""
    if output is None and not plan:
        raise BadInput(f"{missing}.", parameter="output")
    return Path(output or "")
