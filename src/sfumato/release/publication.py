"""The one path of a publication: open, check, pay, fit, publish, audit, write, certify.

All of the data is checked before anything is paid, and what is paid is durable before the fit; another fit
is paid for again. Nothing appears before the audit is done: a publication whose audit shows more than is
proven is not written at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audits.bound import usual_delta
from sfumato.audits.findings import Finding
from sfumato.audits.publication_attacks import audit_publication, refutable
from sfumato.errors import BadInput
from sfumato.io.image_datasets import DatasetSource, is_archive, open_dataset
from sfumato.ledger import Ledger
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee, Neighbours, Statement
from sfumato.publishers import Publisher
from sfumato.publishers.labelled_images import ALIKE, Labelled
from sfumato.release.audit_slack import own_chance, own_slack, set_aside, slack_of, withholding_note
from sfumato.release.output_lock import one_run_at_a_time, refuse_existing
from sfumato.release.payment import Content, Payment, under_budget
from sfumato.release.protected_file import Protected, Report
from sfumato.release.public_facts import PublicFacts, facts_of, read_pictures
from sfumato.release.publication_evidence import audited_statements, canaries_of, fitted_records, may_withhold
from sfumato.release.publication_place import check_places, drawn_coins, keep_coins
from sfumato.release.publication_report import write_publication_report
from sfumato.release.published_files import (
    Published,
    certified_file,
    names_note,
    names_of,
    owned_names,
    write_published,
)
from sfumato.release.publisher_catalogue import kind_of_publisher, make_publisher
from sfumato.release.release_plan import Plan, cost_of, groups_of
from sfumato.reports import KeyRing

__all__ = ["Publication", "open_publication", "plan_publication", "publish"]


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
    ``checkpoint`` is where the publisher keeps its state; it is private, and beside it the choice of the
    records that are left out. The certificate is signed with the key in ``keys``, unless the run can be
    repeated. Raises
    :class:`~sfumato.errors.BadInput`, leaving no output and spending nothing, where anything is wrong with
    the input, and :class:`~sfumato.reports.VerificationFailed` where the audit contradicts the proof beyond
    doubt.
    """
    target, tell = Path(output), report or (lambda stage, share: None)
    publisher, facts, source = publication.publisher, publication.facts, publication.source
    audited = publication.audited
    shown = None if page is None else Path(page)
    state = None if checkpoint is None else Path(checkpoint)
    check_places(source.path, target, shown, state)
    if not overwrite and is_archive(target) and target.exists():
        refuse_existing(target.name)
    _check_number(publisher, records)
    payment = Payment(dataset, ledger, uncharged=uncharged)
    payment.require_budget(publication.statement.proven)
    statement = publication.statement
    data = publication.data(tell)
    signer = None if publisher.randomness.reproducible else (keys or KeyRing()).signing_or_new()
    coins = drawn_coins(publisher.randomness, state if audited else None)
    statement.forewarn()
    statement, paid = payment.pay(statement, target.name, Content(), None)

    if audited and state is not None:
        keep_coins(coins, state)
    neighbours, rng = statement.proven.neighbours, np.random.default_rng(coins)
    canaries = canaries_of(publisher, facts.records, neighbours, rng) if audited else None
    pictures = data.pictures * np.float32(facts.top)
    fitted = np.arange(facts.records) if canaries is None else canaries.fitted
    given = (pictures, data.labels)
    if canaries is not None:
        given = fitted_records(pictures, data.labels, fitted, neighbours)
    publisher.fit(*given, report=_told(tell))
    if records is None and neighbours is Neighbours.ZERO_OUT and not publisher.one_to_one:
        records = facts.records  # a record that is zeroed out still counts
    values, labels = publisher.publish(records).value

    findings: tuple[Finding, ...] = ()
    measured = open_to_all = statement
    if canaries is not None:
        findings = audit_publication(
            pictures,
            data.labels,
            canaries,
            values,
            labels,
            one_to_one=publisher.one_to_one,
            delta=usual_delta(statement.proven),
            report=tell,
        )
        measured, open_to_all = audited_statements(
            statement, canaries, findings, publisher.guarantee(), publication.chance
        )
    if data.alike:
        measured = replace(measured, notes=(*measured.notes, ALIKE))  # for whoever publishes, and nobody else
    names = names_of(source, data.classes)
    done = Protected(
        certified_file(target),
        open_to_all,
        len(labels),
        int(np.prod(facts.shape)),
        (),
        dataset,
        paid,
        what=f"{len(labels):,} pictures of {_some(np.unique(labels).size, len(names))}",
    )
    write_published(
        done,
        target,
        source,
        values,
        labels,
        top=facts.top,
        class_names=names,
        certify=lambda written: payment.keep(paid, done.certified(written, signer)),
        report=tell,
    )
    if shown is not None:
        tell("writing the report", None)
        try:
            write_publication_report(
                shown,
                target.name,
                measured,
                findings,
                originals=(pictures, data.labels),
                fitted=fitted,
                released=(values, labels),
                top=facts.top,
                class_names=names,
                rng=rng,
            )
        except BadInput as error:
            raise error.at(f"{target.name} is published, and its report is not") from None
    return Published(target, done, measured, findings, names, shown, owned_names(source))


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
