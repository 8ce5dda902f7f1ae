"""Publications: datasets of images that appear in the place of private ones, as one kind of release.

A publication is written as an archive, or as a folder with a manifest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audits import audit_publication, refutable, usual_delta
from sfumato.errors import BadInput
from sfumato.io import (
    ArrayPair,
    is_archive,
    open_dataset,
    stored_values,
    write_archive,
    write_class_folders,
    write_whole,
)
from sfumato.noise import Randomness
from sfumato.privacy import TEXT_WIDTH, Guarantee, Neighbours, printable
from sfumato.publishers import ALIKE, Labelled, Publisher
from sfumato.release.audit_slack import own_chance, own_slack, slack_of
from sfumato.release.catalogue import class_of, make_publisher
from sfumato.release.labelled_release import (
    FittedKind,
    FittedResult,
    OpenedFit,
    PublicFacts,
    check_places,
    check_range,
    facts_of,
    names_of,
    owned_names,
    under_budget,
    write_owner_report,
)
from sfumato.release.manifest import manifest_of
from sfumato.release.path import (
    Certify,
    Content,
    Payment,
    Protected,
    Report,
    Spending,
    one_run_at_a_time,
    refuse_existing,
    release,
    silent,
)
from sfumato.release.publication_evidence import (
    audited_statements,
    canaries_of,
    canary_coins,
    drawn_coins,
    fitted_records,
    keep_coins,
    may_withhold,
    publication_entry,
)
from sfumato.reports import MANIFEST, Entry, KeyRing, certificate_file


@dataclass(frozen=True, kw_only=True)
class Published(FittedResult):
    """What ``publish`` wrote, and what its audit found; the report shows originals."""

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the result for people, its statement in lines of at most ``width`` characters."""
        lines = self.lines(width, self.statement, "Published")
        if self.page is not None:
            lines.append(f"Report: {printable(self.page)} (shows originals: keep it private)")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, kw_only=True)
class Publication(OpenedFit):
    """A publication before any image is read: the dataset, its publisher and what would be stated."""

    fitted: Publisher
    facts: PublicFacts

    @property
    def chance(self) -> float:
        """The largest chance that an honest publication is withheld; a function of what is public."""
        return own_chance(self.fitted.guarantee(), self.slack) if self.slack > 0.0 else 0.0

    def group_slack(self, guarantee: Guarantee, size: int) -> float:
        """Return the slack of ``size`` records: the release itself decides whether it appears."""
        return self.slack if size == 1 else own_slack(guarantee, self.chance)

    def shape(self) -> tuple[int, int, str]:
        """Return how many images and values of each there are, and what would be released, for people."""
        shape, records = self.facts.shape, self.facts.records
        sides = " × ".join(str(side) for side in shape)
        return records, int(np.prod(shape)), f"pictures of {sides} in place of {records:,}"

    def data(self, report: Report) -> Labelled:
        """Return the images and labels, if they are what the facts say.

        Images that are all the same are refused where nothing is proven; elsewhere a publication appears
        whatever they are, since a refusal would tell of them.
        """
        pictures, labels = self.source.read(report)
        facts = self.facts
        data = Labelled.checked(pictures, labels, top=facts.top, shape=facts.shape, classes=facts.classes)
        check_range(pictures, facts.top)
        return data.varied() if self.fitted.guarantee().proves_nothing else data


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
    """Open the publication of the dataset ``source`` by ``method``; only names and headers are read.

    ``options`` are parameters of the publisher; all others are those of :func:`sfumato.publish`. Unless
    neighbours are given, those of the budget that pays are taken.
    """
    options = under_budget(class_of("publish", method), options, payment)
    found = open_dataset(source, pictures=pictures, labels=labels, public_names=public_names)
    facts = facts_of(found, classes=classes, top=top)
    publisher = make_publisher(method, options, facts, randomness=randomness)
    opened = Publication(
        source=found, fitted=publisher, audited=audited, payment=payment or Payment(), facts=facts
    )
    if not (audited and may_withhold(publisher)):
        return opened
    delta = publisher.guarantee().at_delta
    slack = slack_of(delta)
    rest = make_publisher(method, {**options, "delta": delta - slack}, facts, randomness=randomness)
    proven = rest.guarantee()
    if not refutable(proven, facts.records, own_chance(proven, slack)):
        return opened
    return replace(opened, fitted=rest, delta=delta, slack=slack)


@one_run_at_a_time
def publish(
    publication: Publication,
    output: str | os.PathLike[str],
    *,
    records: int | None = None,
    page: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    keys: KeyRing | None = None,
    report: Report | None = None,
) -> Published:
    """Publish a dataset in the place of a private one, as the ``.npz`` or the folder ``output``.

    ``records`` is how many images to publish, if the method can choose. ``page`` is the report with
    originals. ``checkpoint`` is where a publisher that proves nothing keeps its state; it is private, and
    beside it the choice of the records that are left out. Others keep a :mod:`~sfumato.release.checkpoint` by
    themselves. Raises :class:`~sfumato.reports.VerificationFailed` if the audit contradicts the proof beyond
    doubt.
    """
    target, tell = Path(output), report or silent
    shown, state = (None if place is None else Path(place) for place in (page, checkpoint))
    run = _Run(publication, target, records, state)
    check_places(publication.source.path, target, shown, state, begun=run.begun)
    if not overwrite and is_archive(target) and target.exists() and not run.begun:
        refuse_existing(target.name)
    done = release(run, publication.payment, keys, tell)
    if shown is not None:
        write_owner_report(shown, "Publication report", run.entry, target, tell)
    return Published(
        output=target,
        certified=done,
        statement=run.measured,
        findings=run.findings,
        class_names=run.names,
        page=shown,
        folders=owned_names(publication.source),
    )


class _Run(FittedKind):
    """One fit of ``publication``, whose images appear at ``target``."""

    def __init__(
        self, publication: Publication, target: Path, records: int | None, state: Path | None
    ) -> None:
        certified = target if is_archive(target) else target / MANIFEST
        super().__init__(publication, target, certified)
        self._publication, self._records = publication, records
        self._publisher, self._facts = publication.fitted, publication.facts
        self.measured = self._open_to_all = self.price
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
        publisher.fit(*given, report=_with_losses(report), **words)
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
        shown, classes = np.unique(labels).size, len(self.names)  # noise may leave a rare class out
        some = f"{classes} classes" if shown == classes else f"{shown} of {classes} classes"
        what = f"{len(labels):,} pictures of {some}"
        return Protected(self.output, self._open_to_all, len(labels), columns, (), what=what)

    def entry(self) -> Entry:
        """Return what a report says about the publication, with originals."""
        return publication_entry(
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
    """Refuse a number of images that is not positive, or that the method cannot choose."""
    if publisher.one_to_one and records is not None:
        raise BadInput(
            "this method publishes one picture for each record; leave out `records`.", parameter="records"
        )
    if records is not None and records < 1:
        raise BadInput(f"`records` was {records}", parameter="records", accepted="1 or more")


def _with_losses(tell: Report) -> Any:
    """Return the progress of a fit, which writes its losses behind the stage."""

    def on(stage: str, share: float, facts: Mapping[str, float]) -> None:
        losses = ", ".join(f"{name} {value:.3g}" for name, value in facts.items())
        tell(f"{stage} ({losses})" if losses else stage, share)

    return on
