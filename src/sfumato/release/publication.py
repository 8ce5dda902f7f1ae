"""Publications: datasets that appear in the place of private ones, as one kind of release.

What a publication leaves behind is an archive, or a folder with a manifest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audits import Finding, audit_publication, refutable, usual_delta
from sfumato.errors import BadInput
from sfumato.io import (
    ArrayPair,
    DatasetSource,
    is_archive,
    open_dataset,
    stored_values,
    write_archive,
    write_class_folders,
    write_whole,
)
from sfumato.ledger import Ledger
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee, Neighbours, Statement
from sfumato.publishers import ALIKE, Labelled, Publisher
from sfumato.release.audit_slack import own_chance, own_slack, set_aside, slack_of, withholding_note
from sfumato.release.catalogue import kind_of_publisher, make_publisher
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.locations import (
    canary_coins,
    check_places,
    drawn_coins,
    keep_coins,
    one_run_at_a_time,
    refuse_existing,
)
from sfumato.release.manifest import manifest_of
from sfumato.release.path import Certify, Kind, Protected, Report, release, silent
from sfumato.release.payment import Content, Payment, Spending, under_budget
from sfumato.release.public_facts import PublicFacts, facts_of, read_pictures
from sfumato.release.publication_evidence import (
    audited_statements,
    canaries_of,
    fitted_records,
    may_withhold,
    write_publication_report,
)
from sfumato.release.release_plan import Plan, cost_of, groups_of
from sfumato.reports import MANIFEST, KeyRing, certificate_file

__all__ = ["Published"]

# What a statement says of the names of classes.
_NAMED = "the classes have the names of their folders, which the owner declares public"
_NUMBERED = "the classes are numbered in the alphabetical order of their folders; no name of a class travels"


@dataclass(frozen=True)
class Published:
    """What ``publish`` wrote, and what its audit found.

    ``certified`` is the file that carries the certificate: the archive, or the manifest of a folder.
    ``statement`` has the measured column, which the certificate leaves out wherever something is proven: it
    is computed from the records and not covered by what is proven. ``page`` is the report, if one was asked
    for; it shows originals. ``folders`` says which class is of which folder, for the owner alone.
    """

    output: Path
    certified: Protected
    statement: Statement
    findings: tuple[Finding, ...]
    class_names: tuple[str, ...]
    page: Path | None = None
    folders: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "classes": list(self.class_names),
            "class_folders": dict(self.folders),
            "statement": self.statement.to_dict(),
            "findings": [item.to_dict() for item in self.findings],
            "report": None if self.page is None else str(self.page),
        }


def certified_file(output: Path) -> Path:
    """The file of ``output`` that has a certificate beside it."""
    return output if is_archive(output) else output / MANIFEST


def names_of(source: DatasetSource, classes: int) -> tuple[str, ...]:
    """What the classes are called where others read it: as in :class:`ClassFolders`, or by their labels."""
    if source.class_names is not None:
        return source.class_names
    width = len(str(classes - 1))
    return tuple(f"{label:0{width}d}" for label in range(classes))


def names_note(source: DatasetSource) -> tuple[str, ...]:
    """What a statement says of the names of class folders; nothing of an archive, which has none."""
    if isinstance(source, ArrayPair):
        return ()
    return (_NAMED if source.public_names else _NUMBERED,)


def owned_names(source: DatasetSource) -> dict[str, str]:
    """Which class is of which folder, for the owner alone; nothing of an archive."""
    return {} if isinstance(source, ArrayPair) else dict(zip(source.class_names, source.folders, strict=True))


@dataclass(frozen=True)
class Publication:
    """A publication before any picture is read: the dataset, its publisher and what would be stated.

    Where an ``audited`` publication may be kept back, ``slack`` of ``delta`` is set aside for that, and the
    publisher is calibrated to the rest (:mod:`~sfumato.release.audit_slack`).
    """

    source: DatasetSource
    publisher: Publisher
    facts: PublicFacts
    audited: bool = True
    delta: float = 0.0
    slack: float = 0.0

    @property
    def chance(self) -> float:
        """With which an honest publication is kept back, at most; a function of what is public."""
        return own_chance(self.publisher.guarantee(), self.slack) if self.slack > 0.0 else 0.0

    @property
    def statement(self) -> Statement:
        """What the publisher states, with what the classes of a folder are called."""
        stated = self.publisher.statement()
        parameters, names = dict(stated.parameters), self.source.class_names
        if names is not None:
            parameters["class_names"] = list(names)
        stated = replace(stated, notes=(*stated.notes, *names_note(self.source)))
        if self.slack == 0.0:
            return replace(stated, parameters=parameters)
        return replace(
            stated,
            proven=self.proven(),
            parameters=parameters | {"delta": self.delta},
            notes=(*stated.notes, withholding_note(self.slack)),
        )

    def proven(self, size: int = 1) -> Guarantee:
        """What is proven of ``size`` records that change together, with what an audit may cost."""
        own = self.publisher.guarantee().group(size)
        if self.slack == 0.0:
            return own
        return set_aside(own, self.slack if size == 1 else own_slack(own, self.chance), self.delta)

    def data(self, report: Report) -> Labelled:
        """The pictures and labels, once they are known to be what the facts say.

        Pictures that are all the same are refused where nothing is proven; elsewhere a publication appears
        whatever they are, since a refusal would tell of them.
        """
        data = read_pictures(self.source, self.facts, report)
        return data.varied() if self.publisher.guarantee().proves_nothing else data


def open_publication(
    source: str | os.PathLike[str],
    method: str,
    options: Mapping[str, Any],
    *,
    pictures: str | None = None,
    labels: str | None = None,
    classes: int | None = None,
    top: float | None = None,
    public_names: bool = False,
    audited: bool = True,
    randomness: Randomness | None = None,
    payment: Payment | None = None,
) -> Publication:
    """The publication of the dataset ``source`` by ``method``; only names and headers are read.

    ``options`` are parameters of the publisher. ``classes`` and ``top``, the value of white, are declared;
    a folder declares its classes, and bytes and 16 bits have a white of their own. The names of class folders
    do not travel unless ``public_names`` declares them public. ``audited`` will leave some
    records out of the fit, by coins, to measure what the publication shows of the others. Unless neighbours
    are given, those of the budget that is to pay are taken (``payment``).
    """
    options = under_budget(kind_of_publisher(method), options, payment)
    found = open_dataset(source, pictures=pictures, labels=labels, public_names=public_names)
    facts = facts_of(found, classes=classes, top=top)
    publisher = make_publisher(method, options, facts, randomness=randomness)
    if not (audited and may_withhold(publisher)):
        return Publication(found, publisher, facts, audited)
    delta = publisher.guarantee().at_delta
    slack = slack_of(delta)
    rest = make_publisher(method, {**options, "delta": delta - slack}, facts, randomness=randomness)
    proven = rest.guarantee()
    if not refutable(proven, facts.records, own_chance(proven, slack)):
        return Publication(found, publisher, facts, audited)
    return Publication(found, rest, facts, audited, delta, slack)


def plan_publication(
    publication: Publication,
    *,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    uncharged: bool = False,
) -> Plan:
    """What the publication would promise and cost; nothing but names and headers was read."""
    statement, facts = publication.statement, publication.facts
    statement.forewarn()
    sides = " × ".join(str(side) for side in facts.shape)
    return Plan(
        source=str(publication.source.path),
        rows=facts.records,
        columns=int(np.prod(facts.shape)),
        statement=statement,
        grouped=groups_of(publication.proven),
        expected=(),
        cost=cost_of(statement, Payment(dataset, ledger, uncharged=uncharged)),
        what=f"pictures of {sides} in place of {facts.records:,}",
    )


@one_run_at_a_time
def publish(
    publication: Publication,
    output: str | os.PathLike[str],
    *,
    records: int | None = None,
    page: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    uncharged: bool = False,
    overwrite: bool = False,
    keys: KeyRing | None = None,
    report: Report | None = None,
) -> Published:
    """Publish a dataset in the place of a private one, as the ``.npz`` or the folder ``output``.

    A file that is there is refused unless it may be overwritten (``overwrite``), and a folder that is not
    empty is refused.
    ``records`` is how many pictures to publish, where the method can choose. ``page`` is where a report with
    originals goes. ``dataset`` is charged in ``ledger`` before the fit, unless ``uncharged``.
    ``checkpoint`` is where a publisher that proves nothing keeps its state; it is private, and beside it the
    choice of the records that are left out. Others keep a :mod:`~sfumato.release.checkpoint` by themselves:
    called again after an interruption, this resumes the run, which is paid once. The certificate is signed
    with the key in ``keys``, unless the run can be repeated. Raises
    :class:`~sfumato.errors.BadInput`, leaving no output and spending nothing, where anything is wrong with
    the input, and :class:`~sfumato.reports.VerificationFailed` where the audit contradicts the proof beyond
    doubt.
    """
    target, tell = Path(output), report or silent
    shown, state = (None if place is None else Path(place) for place in (page, checkpoint))
    run = _Run(publication, target, records, state)
    # Of a run that was interrupted the output may stand.
    begun = run.checkpoint is not None and run.checkpoint.exists
    check_places(publication.source.path, target, shown, state, begun=begun)
    if not overwrite and is_archive(target) and target.exists() and not begun:
        refuse_existing(target.name)
    done = release(run, Payment(dataset, ledger, uncharged=uncharged), keys, tell)
    if shown is not None:
        tell("writing the report", None)
        try:
            run.write_report(shown)
        except BadInput as error:
            raise error.at(f"{target.name} is published, and its report is not") from None
    return Published(
        target, done, run.measured, run.findings, run.names, shown, owned_names(publication.source)
    )


class _Run(Kind[Spending]):
    """One fit of ``publication``, whose pictures appear at ``target``."""

    findings: tuple[Finding, ...] = ()

    def __init__(
        self, publication: Publication, target: Path, records: int | None, state: Path | None
    ) -> None:
        self._publication, self._target, self._records = publication, target, records
        self._publisher, self._facts = publication.publisher, publication.facts
        self.output, self.name, self.price = certified_file(target), target.name, publication.statement
        self.measured = self._open_to_all = self.price
        self.reproducible = self._publisher.randomness.reproducible
        self.checkpoint = None if self.price.proven.proves_nothing else Checkpoint(target)
        self._state = state if publication.audited and self.checkpoint is None else None
        _check_number(self._publisher, records)

    def check(self, content: Content, report: Report) -> None:
        self._data = self._publication.data(report)
        content.add(self._data.pictures, self._data.labels)
        self.names = names_of(self._publication.source, self._data.classes)
        if self.checkpoint is None:
            self._coins = drawn_coins(self._publisher.randomness, self._state)
        self._pictures = self._data.pictures * np.float32(self._facts.top)

    def draw(self, pay: Spending, report: Report) -> None:
        self.measured = self._open_to_all = replace(self.price, notes=(*self.price.notes, *pay()))
        publisher, count, words = self._publisher, self._facts.records, dict[str, Any]()
        if self.checkpoint is not None:
            drawn = publisher.randomness if self.reproducible else self.checkpoint.noise
            words["sums"] = self.checkpoint.sums(drawn, report)
            self._coins = canary_coins(drawn)
        elif self._state is not None:
            keep_coins(self._coins, self._state)
        self._rng = np.random.default_rng(self._coins)
        neighbours, given = self.price.proven.neighbours, (self._pictures, self._data.labels)
        self._canaries, self._fitted = None, np.arange(count)
        if self._publication.audited:
            self._canaries = canaries_of(publisher, count, neighbours, self._rng)
            self._fitted = self._canaries.fitted
            given = fitted_records(*given, self._fitted, neighbours)
        publisher.fit(*given, report=_told(report), **words)
        records = self._records
        if records is None and neighbours is Neighbours.ZERO_OUT and not publisher.one_to_one:
            records = count  # a record that is zeroed out still counts
        self._released = publisher.publish(records).value

    def judge(self, report: Report) -> None:
        statement = self.measured
        if self._canaries is not None:
            self.findings = audit_publication(
                self._pictures,
                self._data.labels,
                self._canaries,
                *self._released,
                one_to_one=self._publisher.one_to_one,
                delta=usual_delta(statement.proven),
                report=report,
            )
            fitted, chance = self._publisher.guarantee(), self._publication.chance
            self.measured, self._open_to_all = audited_statements(
                statement, self._canaries, self.findings, fitted, chance
            )
        if self._data.alike:  # for whoever publishes, and nobody else
            self.measured = replace(self.measured, notes=(*self.measured.notes, ALIKE))

    def write(self, certify: Certify, report: Report) -> None:
        source, (pictures, labels), names = self._publication.source, self._released, ("images", "labels")
        as_files = not is_archive(self._target)
        values = stored_values(pictures, self._facts.top, source.dtype, as_files=as_files)

        def finish(folder: Path, files: Sequence[Path]) -> None:
            inside = folder / MANIFEST
            write_whole(inside, manifest_of(folder, files), first=(certificate_file(inside), certify))

        if as_files:
            write_class_folders(self._target, values, labels, self.names, finish=finish, report=report)
            return
        if isinstance(source, ArrayPair):
            names = (source.pictures.name or names[0], source.labels.name or names[1])
        first = certificate_file(self.output), certify
        write_archive(self._target, dict(zip(names, (values, labels), strict=True)), first=first)

    def released(self) -> Protected:
        labels, columns = self._released[1], int(np.prod(self._facts.shape))
        what = f"{len(labels):,} pictures of {_some(np.unique(labels).size, len(self.names))}"
        return Protected(self.output, self._open_to_all, len(labels), columns, (), what=what)

    def write_report(self, page: Path) -> None:
        write_publication_report(
            page,
            self.name,
            self.measured,
            self.findings,
            originals=(self._pictures, self._data.labels),
            fitted=self._fitted,
            released=self._released,
            top=self._facts.top,
            class_names=self.names,
            rng=self._rng,
        )


def _check_number(publisher: Publisher, records: int | None) -> None:
    """Refuse a number of pictures that is none, or that the method cannot choose."""
    if publisher.one_to_one and records is not None:
        raise BadInput(
            "this method publishes one picture for each record; leave out `records`.", parameter="records"
        )
    if records is not None and records < 1:
        raise BadInput(f"`records` was {records}", parameter="records", accepted="1 or more")


def _some(shown: int, classes: int) -> str:
    """How many classes are published; noise may leave a rare one out."""
    return f"{classes} classes" if shown == classes else f"{shown} of {classes} classes"


def _told(tell: Report) -> Any:
    """Progress of a fit, with its losses behind the stage."""

    def on(stage: str, share: float, facts: Mapping[str, float]) -> None:
        losses = ", ".join(f"{name} {value:.3g}" for name, value in facts.items())
        tell(f"{stage} ({losses})" if losses else stage, share)

    return on
