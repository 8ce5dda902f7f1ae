"""Plans: what a release would guarantee and cost, from shapes and types alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.mechanisms import UNITS, ExpectedError, Mechanism
from sfumato.privacy import TEXT_WIDTH, Guarantee, Statement, format_delta, format_upper, printable
from sfumato.release.combined_statement import check_charge, combine_statements
from sfumato.release.engines import LocalEngine
from sfumato.release.folder import (
    NAMED,
    NUMBERED,
    Piece,
    count_of,
    list_skipped,
    pieces_of,
    require_files,
)
from sfumato.release.path import Payment, asked_for, silent
from sfumato.release.protection import opener_of
from sfumato.release.record_files import Files, SourceFile
from sfumato.release.request import Located, ReleaseRequest, located

if TYPE_CHECKING:
    from sfumato.ledger import Ledger, Preview
    from sfumato.mechanisms.transforms import Transform
    from sfumato.release.media_files import MediaMechanisms

__all__ = ["plan"]

# Records that change together: several rows of one person, a household, a ward.
_GROUPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Plan:
    """What ``protect`` with the same arguments would do.

    ``rows`` is None if only reading the file would tell. ``grouped`` is what is proven of groups of records
    that change together. ``expected`` of a folder says in which file, if that makes a difference. ``cost`` is
    what the ledger would say. ``what`` names media for people; ``skipped`` are files of a folder that would
    be left out, and why.
    """

    source: str
    rows: int | None
    columns: int
    statement: Statement
    grouped: Mapping[int, Guarantee]
    expected: tuple[ExpectedError, ...]
    cost: Preview | None
    what: str | None = None
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def groups(self) -> dict[int, float]:
        """Return ε for each group size, at its own δ; infinite if nothing is proven."""
        return {size: proven.epsilon() for size, proven in self.grouped.items()}

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the plan for people, its statement in lines of at most ``width`` characters."""
        rows = "as many records as it holds" if self.rows is None else f"{self.rows:,} records"
        what = self.what or f"{rows} of {self.columns:,} columns"
        lines = [self.statement.table(width), "", f"Would release: {what} from {printable(self.source)}"]
        lines += list_skipped("Would skip", self.skipped)
        for size, epsilon in self.groups.items():
            unit, delta = self.statement.proven.unit, self.grouped[size].at_delta
            who = f"one {unit}" if size == 1 else f"{size} {unit}s that change together"
            why = "" if self.statement.proven.proves_nothing else f" ({self.grouped[size].theorem})"
            finite = math.isfinite(epsilon)
            said = f"ε = {format_upper(epsilon)} at δ = {format_delta(delta)}" if finite else f"nothing{why}"
            lines.append(f"  proven for {who}: {said}")
        if self.expected:
            lines += ["Expected error, clipping aside:", *(f"  {error}" for error in self.expected)]
        if self.cost is None:
            lines.append("Cost: none is counted without `dataset` and an open budget")
        elif self.cost.fits:
            left = self.cost.balance
            lines.append(f"Cost: it fits; {left.used:.1%} of the budget would be used; after it would fit")
            lines.append(f"  {left.gaussian_left}")
        else:
            lines.append(f"Cost: refused, {printable(self.cost.refusal or '')}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; an infinite ε is None, and so is the δ if nothing is proven."""
        return {
            "source": self.source,
            "rows": self.rows,
            "columns": self.columns,
            "statement": self.statement.to_dict(),
            "epsilon_of_group": {str(k): e if math.isfinite(e) else None for k, e in self.groups.items()},
            "delta_of_group": {
                str(k): None if proven.proves_nothing else proven.at_delta
                for k, proven in self.grouped.items()
            },
            "expected_error": [error.to_dict() for error in self.expected],
            "cost": None if self.cost is None else self.cost.to_dict(),
            "what": self.what,
            "warnings": list(self.statement.warnings),
            "skipped": [{"file": name, "why": why} for name, why in self.skipped],
        }


def plan(
    source: str | os.PathLike[str],
    mechanism: Mechanism | MediaMechanisms | ReleaseRequest,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    disjoint: bool = False,
    public_names: bool = False,
    uncharged: bool = False,
) -> Plan:
    """Return what ``protect`` would guarantee for ``source``, its cost, and the error to expect.

    Of media only headers are read, but for a video, whose frames have to be counted. A folder is planned as
    one release of its files without those that their headers refuse; ``disjoint`` and
    ``public_names`` are those of ``protect``. A :class:`~sfumato.release.request.ReleaseRequest` in the place
    of a mechanism says what its parameters, ``array``, ``schema``, ``then``, ``dataset``, ``disjoint`` and
    ``public_names`` are.
    """
    options: dict[str, Any] = {
        "array": array,
        "schema": schema,
        "then": then,
        "disjoint": disjoint,
        "public_names": public_names,
    }
    if isinstance(mechanism, ReleaseRequest):
        mechanism.refuse_beside(dataset=dataset, **options)
        dataset, public_names = mechanism.dataset, mechanism.public_names
    given, payment = located(source), Payment(dataset, ledger, uncharged=uncharged)
    with given.store:
        opener = opener_of(given, mechanism, **options)
        if isinstance(mechanism, ReleaseRequest) and mechanism.bounds_from_data:
            raise BadInput(
                "`bounds_from_data` proves nothing and reads the data; there is nothing to plan.",
                parameter="bounds_from_data",
            )
        found, skipped = _opened(given, opener)
        if given.name is None:
            require_files(given.store, found, skipped)
        files = list(found.values())
        statement, added = files[0].statement, list[Statement]()
        if given.name is None:
            statements = [file.statement for file in files]
            statement = combine_statements(statements, opener.headline, apart=opener.apart)
            added = statements if opener.apart is None else []
            names = NAMED if public_names else NUMBERED
            statement = replace(statement, notes=(*statement.notes, names))
            if payment.payer is not None:
                payment.require_budget(statement.proven)
                check_charge([piece.shown for piece in found], statements, payment)
    statement.forewarn()
    largest = max(files, key=lambda file: file.values)
    return Plan(
        source=given.shown,
        rows=largest.rows if given.name is not None else len(files),
        columns=largest.values,
        statement=statement,
        grouped=groups_of(_together(statement.proven)),
        expected=_expected(files),
        cost=cost_of(statement, payment, added),
        what=count_of(files) if given.name is None else largest.what,
        skipped=tuple((piece.shown, why) for piece, why in skipped.items()),
    )


def _opened(given: Located, opener: Files) -> tuple[dict[Piece, SourceFile], dict[Piece, str]]:
    """Return the files that are meant, opened; those of a folder that cannot be, with the reason."""
    if given.name is not None:
        with given.store.reading(given.name) as path:
            return {Piece(given.name, given.name): opener.open(path)}, {}

    def one(piece: Piece) -> SourceFile:
        with piece.at(given.store) as path:
            return piece.opened(opener, path)

    pieces = pieces_of(given.store, public_names=True)  # in order; none is written
    done = LocalEngine().each(one, pieces, "looking", silent)
    # In the order of the folder, in whichever order threads came to them.
    skipped = {piece: done.refused[piece] for piece in pieces if piece in done.refused}
    return {piece: done.results[piece] for piece in pieces if piece in done.results}, skipped


def _expected(files: Sequence[SourceFile]) -> tuple[ExpectedError, ...]:
    """Return the error to expect; if it differs with the size of files, that of three of them."""
    alike: dict[tuple[type, type], list[SourceFile]] = {}
    for file in files:
        alike.setdefault((type(file), type(file.mechanism)), []).append(file)
    found: list[ExpectedError] = []
    for same in alike.values():
        same.sort(key=lambda file: file.values)
        last = len(same) - 1
        sizes = {0: "the smallest file", (last + 1) // 2: "a file of middle size", last: "the largest file"}
        errors: dict[str, dict[str, ExpectedError]] = {}
        for index, where in sizes.items():
            for one in same[index].expected():  # a grey picture has fewer kinds of values than one in colour
                errors.setdefault(one.of, {})[where] = one
        for of, each in errors.items():
            differ = len(set(each.values())) > 1
            placed = [replace(one, of=f"{of}, in {where}") for where, one in each.items()]
            found += placed if differ else list(each.values())[:1]
    return tuple(found)


def _together(proven: Guarantee) -> Callable[[int], Guarantee]:
    """Return a function that says what is proven of so many units, given what is ``proven`` of one.

    Mechanisms for tensors draw the noise and the coins of each component by themselves. So k components, in
    one tensor or in several, are k independent releases, each of which one change is in: they compose, coins
    included, to a chance of 1 − (1 − p)^k that one is shown. Where coins look at a whole tensor, the bound of
    one component has all of them, and k times that has at least as many. Of tensors the same holds.
    """
    if proven.unit.name not in UNITS:
        return proven.group

    def of(size: int) -> Guarantee:
        made = proven.times(size)
        if size == 1 or made.proves_nothing or made.slack > 0.0:
            return made
        # What the noise of one unit has of its δ beside the coin, so many times, beside the coins of all.
        beside = max(0.0, (proven.at_delta - proven.revealed) / (1.0 - proven.revealed))
        return replace(made, at_delta=made.revealed + (1.0 - made.revealed) * min(1.0, size * beside))

    return of


def groups_of(group: Callable[[int], Guarantee]) -> dict[int, Guarantee]:
    """Return what is proven of groups of records that change together; ``group`` says it of a size."""
    return {size: group(size) for size in _GROUPS}


def cost_of(statement: Statement, payment: Payment, added: Sequence[Statement] = ()) -> Preview | None:
    """Return what the ledger would say to a release with ``statement``; None if nothing is charged.

    ``added`` are the statements of the files whose costs add up to it.
    """
    if payment.payer is None:
        return None
    ledger, dataset = payment.payer
    return ledger.preview(dataset, payment.charged(statement), asked=asked_for(statement, added))
