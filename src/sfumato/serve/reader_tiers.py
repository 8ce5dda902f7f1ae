"""Reader tiers: levels of distrust, how files are released to each, and what owners declare about them.

The tenant's policy gives a reader its distrust τ, and the reader gets the declared level at τ or just above
it: never one for readers who are trusted more. Levels are declared by an owner and never derived from data.

Tiers of arrays (``TrustTier``), tables (``TierRows``) and images under Gaussian noise (``PlaneTier``) are
nested: all of them together cost what the most trusted one costs. Those of images under Laplace noise, audio
and video are not: each is drawn from noise of its own, and charged when it is first requested. The statement
of every release says which of the two it is.

A declaration never changes: another one, even under the same name, has an id of its own, and with it noise
and payments of its own.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import bindparam, delete, insert, update

from sfumato.errors import BadInput
from sfumato.io import MEDIA, Kind, Schema, TableSource
from sfumato.ledger import Row
from sfumato.mechanisms import TierRows, TrustTier, epsilon_range, share
from sfumato.media.images import PlaneTier
from sfumato.noise import Keyed
from sfumato.privacy import Statement, Unit
from sfumato.release import (
    MediaMechanisms,
    RecordFiles,
    ReleaseRequest,
    SourceFile,
    TableFile,
    bounds_pair,
    keyed,
)
from sfumato.serve.authentication import shortened
from sfumato.serve.refusals import Conflict, RegistryUnavailable, Unknown
from sfumato.serve.registry_database import RegistryDatabase, readers, rows_where, sources
from sfumato.serve.trust_policy import Context


class _TierTable(TableFile):
    """Releases the rows of ``source`` for the tier of ``mechanism``."""

    def __init__(self, source: TableSource, mechanism: TrustTier) -> None:
        super().__init__(source, mechanism)
        schema = source.schema
        self._rows = TierRows(
            mechanism,
            [column.bounds or (0.0, 0.0) for column in schema.numeric],
            [len(column.categories) for column in schema.coded],
            [column.weight for column in (*schema.numeric, *schema.coded)],
        )
        self.statement = self._rows.statement()


#: The kinds of files that can be declared, and the parameters of each.
KINDS: Mapping[Kind, tuple[str, ...]] = {
    "array": ("epsilon", "delta", "clip", "bounds", "neighbours"),
    "table": ("epsilon", "delta", "neighbours"),
    "picture": ("epsilon", "delta", "unit", "block", "restore", "chroma"),
    "sound": ("epsilon", "delta", "unit", "clip", "keep", "shapes", "cutoff", "weighting", "restore"),
    "video": ("epsilon", "delta", "unit", "block", "restore", "chroma"),
}
# A picture of this shape shows whether parameters are good, before there is one.
_SOME_PICTURE = (64, 64, 3)


@dataclass(frozen=True)
class TierFile:
    """A file opened for one tier: the statement that is charged, and the declaration that shapes the noise.

    ``nested`` is whether the charge is for all tiers at once.
    """

    file: SourceFile
    charged: Statement
    declared: Mapping[str, Any]
    nested: bool


@dataclass(frozen=True)
class TierTerms:
    """How files of one ``kind`` are released; ``epsilon`` is the range (ε_min, ε_max) of the tiers.

    ``columns`` declares a table, ``array`` names one of several in an archive.
    """

    kind: Kind
    parameters: Mapping[str, Any]
    columns: Mapping[str, Any] | None = None
    array: str | None = None

    @property
    def nested(self) -> bool:
        """Return whether all tiers are charged at once."""
        delta = share("delta", self.parameters.get("delta", 0.0))
        return self.kind in ("array", "table") or (self.kind == "picture" and delta > 0.0)

    def check(self, levels: Sequence[float]) -> list[Statement]:
        """Raise if nothing could be released; return the statement of each tier, for a file of some shape."""
        if self.kind not in KINDS:
            raise BadInput(f"files are of the kinds {', '.join(KINDS)}, not {shortened(self.kind)}.")
        for name in self.parameters:
            if name not in KINDS[self.kind]:
                raise BadInput(
                    f"{name[:40]!r} is no parameter of a {self.kind}; {', '.join(KINDS[self.kind])} are."
                )
        if "epsilon" not in self.parameters:
            raise BadInput(
                f"a {self.kind} needs a range of ε for its tiers, as in `epsilon=(1, 8)`.",
                parameter="epsilon",
            )
        low, high = epsilon_range(self.parameters["epsilon"])
        if len(levels) > 1 and low == high:
            raise BadInput(
                f"tiers differ in their `epsilon`, but that of a {self.kind} is one value.",
                parameter="epsilon",
            )
        if (self.columns is None) == (self.kind == "table"):
            raise BadInput("the columns of a table are declared, and those of nothing else.")
        if self.array is not None and self.kind != "array":
            raise BadInput(f"a {self.kind} holds no arrays to choose from.")
        return [self._tried(level, levels) for level in levels]

    def opened(
        self, path: Path, level: float, levels: Sequence[float], noise: Callable[[float | None], Keyed]
    ) -> TierFile:
        """Open the file at ``path`` for the tier ``level`` of ``levels``.

        ``noise(None)`` is that of all tiers together, ``noise(level)`` that of one which is not nested.
        """
        nested = self.nested
        file = self._open(path, level, levels, noise(None if nested else level))
        charged = file.statement
        if nested:
            charged = self._open(path, levels[0], levels, noise(None)).statement
        else:
            note = (
                f"tier {level:g} of {len(levels)}, which are not nested for this kind of file: each is "
                "charged by itself when it is first asked for"
            )
            file.statement = replace(file.statement, notes=(*file.statement.notes, note))
        declared = {"columns": file.declared, "tiers": list(levels), "array": self.array}
        return TierFile(file, charged, declared, nested)

    def _open(self, path: Path, level: float, levels: Sequence[float], noise: Keyed) -> SourceFile:
        made = self.mechanism(level, levels)
        if isinstance(made, MediaMechanisms):
            return made.keyed_by(noise).open(path)
        if self.kind == "table":
            return _TierTable(TableSource(path, self._schema()), keyed(made, noise))
        return RecordFiles(made, self.array).keyed_by(noise).open(path)

    def mechanism(self, level: float, levels: Sequence[float]) -> TrustTier | MediaMechanisms:
        """Return the mechanism of one tier, its noise not yet keyed."""
        given = dict(self.parameters)
        if self.kind in MEDIA:
            unit = Unit.parse(given["unit"]) if "unit" in given else None
            if self.nested:
                return MediaMechanisms(
                    picture=PlaneTier(distrust=level, levels=tuple(levels), **given), unit=unit
                )
            low, high = epsilon_range(given["epsilon"])
            asked = ReleaseRequest(None, given | {"epsilon": high - level * (high - low)})
            return MediaMechanisms.of(asked.make_mechanism(self.kind))
        if "bounds" in given:
            given["bounds"] = bounds_pair(given["bounds"])
        return TrustTier(distrust=level, levels=tuple(levels), **given)

    def _tried(self, level: float, levels: Sequence[float]) -> Statement:
        made = self.mechanism(level, levels)
        if isinstance(made, MediaMechanisms):
            if made.picture is not None:
                return made.picture.shaped(_SOME_PICTURE).statement()
            assert made.sound is not None
            return made.sound.shaped((8_000,), 8_000).statement()
        if self.kind == "table":
            self._schema()
            return TrustTier(**(made.get_params(deep=False) | {"bounds": (0.0, 1.0)})).statement()
        return made.statement()

    def _schema(self) -> Schema:
        return Schema.from_dict({"columns": dict(self.columns or {})})


_MOST_LEVELS = 16
_MOST_FACTS = 100
_MOST_TEXT = 200


@dataclass(frozen=True)
class TierLevels:
    """The declared levels of distrust, the most trusted first: 1 to 16 different numbers in [0, 1]."""

    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = all(
            isinstance(one, int | float) and not isinstance(one, bool) and 0.0 <= one <= 1.0
            for one in self.levels
        )
        if not numbers or not 1 <= len(self.levels) <= _MOST_LEVELS:
            raise BadInput(f"tiers are 1 to {_MOST_LEVELS} numbers from 0, most trusted, to 1.")
        if len({float(one) for one in self.levels}) != len(self.levels):
            raise BadInput("each tier has a level of its own; two of them are the same.")
        object.__setattr__(self, "levels", tuple(sorted(float(one) for one in self.levels)))

    def level_for(self, distrust: float) -> float | None:
        """Return the level for readers of ``distrust``; None if all are for more trusted readers."""
        if math.isnan(distrust):
            return None
        return next((level for level in self.levels if level >= distrust), None)


class ReaderFacts(BaseModel):
    """The facts that the tenant states about a reader: its authorisations and its jurisdiction."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    authorisations: frozenset[str] = Field(default=frozenset(), max_length=_MOST_FACTS)
    jurisdiction: str | None = Field(default=None, min_length=1, max_length=_MOST_TEXT)

    def require_printable(self) -> None:
        """Raise if an authorisation or the jurisdiction is empty, too long or not printable."""
        texts = [*self.authorisations, *([] if self.jurisdiction is None else [self.jurisdiction])]
        if not all(1 <= len(one) <= _MOST_TEXT and one.isprintable() for one in texts):
            raise BadInput(
                f"a reader has at most {_MOST_FACTS} authorisations and a jurisdiction, each of 1 to "
                f"{_MOST_TEXT} printable characters."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"authorisations": sorted(self.authorisations), "jurisdiction": self.jurisdiction}


def context_of(
    facts: ReaderFacts, address: str | None, collected: date | None, now: datetime | None = None
) -> Context:
    """Return what is known of a request from ``address`` for data that was ``collected`` on a day.

    Nothing in it comes from what the reader sends. A day in the future makes the data new, not younger.
    """
    age = None
    if collected is not None:
        age = max(0.0, float(((now or datetime.now(UTC)).date() - collected).days))
    return Context(address, facts.authorisations, facts.jurisdiction, age)


_DECLARED = rows_where(sources, "tenant").where(sources.c.removed == "").order_by(sources.c.name)
_DECLARED_NAME = _DECLARED.where(sources.c.name == bindparam("name"))
_DECLARE = insert(sources)
_REMOVE = update(sources).where(sources.c.id == bindparam("which")).values(removed=bindparam("at"))
_READERS = rows_where(readers, "tenant").order_by(readers.c.reader)
_READER = rows_where(readers, "tenant", "reader")
_ADD_READER = insert(readers)
_REMOVE_READER = delete(readers).where(
    readers.c.tenant == bindparam("tenant"), readers.c.reader == bindparam("reader")
)


@dataclass(frozen=True)
class Declaration:
    """A stored declaration; the ``document`` is as it was declared."""

    id: str
    tenant: str
    name: str
    document: Mapping[str, Any]
    created: datetime


class TierStore:
    """Declarations and readers on the registry's ``database``; each call is about one tenant."""

    def __init__(self, database: RegistryDatabase) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, document: Mapping[str, Any]) -> Declaration:
        """Store a declaration; repeating it returns the first, another one of its name is refused."""
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            row = transaction.first(_DECLARED_NAME, {"tenant": tenant, "name": name})
            if row is not None:
                before = _declaration(row)
                if before.document != json.loads(json.dumps(document)):
                    raise Conflict(
                        f"{name!r} is declared otherwise already, and a declaration never changes; remove it "
                        "first, or choose another name."
                    )
                return before
            made = Declaration(secrets.token_hex(12), tenant, name, document, datetime.now(UTC))
            texts = {"created": made.created.isoformat(), "document": json.dumps(document, sort_keys=True)}
            transaction.run(_DECLARE, vars(made) | texts | {"removed": ""})
        return made

    def declared(self, tenant: str, name: str) -> Declaration | None:
        """Return the declaration in force under ``name``, or None."""
        with self._database.reading() as transaction:
            row = transaction.first(_DECLARED_NAME, {"tenant": tenant, "name": name})
        return None if row is None else _declaration(row)

    def all_declared(self, tenant: str) -> list[Declaration]:
        """Return every declaration in force, by name."""
        with self._database.reading() as transaction:
            return [_declaration(row) for row in transaction.all(_DECLARED, {"tenant": tenant})]

    def remove(self, tenant: str, name: str) -> Declaration:
        """End a declaration; what was paid for it stays paid."""
        with self._database.writing() as transaction:
            row = transaction.first(_DECLARED_NAME, {"tenant": tenant, "name": name})
            if row is None:
                raise Unknown(f"nothing is declared under the name {name[:63]!r}.")
            now = datetime.now(UTC).isoformat()
            transaction.run(_REMOVE, {"which": row.id, "at": f"{now} {row.id}"})
        return _declaration(row)

    def facts(self, tenant: str, reader: str | None) -> ReaderFacts:
        """Return what the tenant states about ``reader``; no facts if it states nothing."""
        if reader is None:
            return ReaderFacts()
        with self._database.reading() as transaction:
            row = transaction.first(_READER, {"tenant": tenant, "reader": reader})
        return ReaderFacts() if row is None else _facts(row)

    def readers(self, tenant: str) -> dict[str, ReaderFacts]:
        """Return every reader about whom the tenant states something."""
        with self._database.reading() as transaction:
            return {row.reader: _facts(row) for row in transaction.all(_READERS, {"tenant": tenant})}

    def say(self, tenant: str, reader: str, facts: ReaderFacts | None) -> None:
        """Replace the facts about ``reader``; None removes them."""
        named = {"tenant": tenant, "reader": reader}
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            transaction.run(_REMOVE_READER, named)
            if facts is not None:
                transaction.run(_ADD_READER, named | {"document": json.dumps(facts.to_dict())})


def _declaration(row: Row) -> Declaration:
    try:
        document = json.loads(row.document)
        return Declaration(row.id, row.tenant, row.name, document, datetime.fromisoformat(row.created))
    except ValueError:
        raise _unreadable(f"source {row.id!r}") from None


def _facts(row: Row) -> ReaderFacts:
    try:
        return ReaderFacts(**json.loads(row.document))
    except (ValueError, TypeError):
        raise _unreadable("a reader") from None


def _unreadable(what: str) -> RegistryUnavailable:
    return RegistryUnavailable(
        f"the row of {what} cannot be read: it was changed outside of Sfumato; restore a backup."
    )
