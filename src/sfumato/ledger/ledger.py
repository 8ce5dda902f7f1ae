"""``Ledger``: the durable record of what each dataset has spent."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from sqlalchemy import Engine

from sfumato.errors import BadInput, RequestReused
from sfumato.ledger.accounts import (
    Asked,
    Balance,
    BudgetRefused,
    LedgerUnavailable,
    Preview,
    State,
    no_budget,
    refusal,
)
from sfumato.ledger.database import Storage
from sfumato.ledger.entries import (
    MAX_KEY,
    MAX_TEXT,
    Dataset,
    Entry,
    Kind,
    checked_name,
    checked_text,
    prices_text,
    printable_name,
    short,
)
from sfumato.ledger.integrity import Damage, damages
from sfumato.ledger.ledger_tables import (
    Book,
    add_dataset,
    all_accounts,
    all_datasets,
    find_dataset,
    find_entry,
    identity_of,
    is_there,
    prepare,
)
from sfumato.ledger.rdp_filter import Filter, Prices, add_prices
from sfumato.privacy import RECORD, RECORDS, Guarantee, Neighbours, Unit

__all__ = ["Ledger"]

# Names that somebody types, and may mistype.
_LONGEST_TYPED = 100


class Ledger:
    """Budgets that outlive the process: a spend is on disk before noise is drawn.

    ``url`` is ``sqlite:///file`` or ``postgresql://…``. Rows are append-only and chained by hashes. Any
    number of threads and processes may share a ledger; together they never overspend.

    A ledger that is not there is made, unless that was not asked for (``make``) or it is opened to charge the
    dataset ``charging``, which then has no budget: that is refused, since a URL with a slip in it would
    otherwise release for nothing. ``unit`` and ``neighbours`` are those of the budget which the refusal tells
    how to open.
    """

    #: How long the run that an entry paid for is leased at a time; whoever carries it on renews the lease.
    LEASE_SECONDS = 90.0

    def __init__(
        self,
        url: str = "sqlite:///sfumato-budget.db",
        *,
        make: bool = True,
        charging: str | None = None,
        unit: Unit | str = RECORD,
        neighbours: Neighbours | str = RECORDS.neighbours,
    ) -> None:
        if charging is not None:
            printable_name(charging)

        # The URL, for refusals that say how to open a budget; None where the caller may make a ledger.
        self._named: str | None = None

        def found_or_made(engine: Engine) -> str:
            if charging is None and make:
                return prepare(engine)
            place = engine.url.set(drivername=engine.url.get_backend_name())
            # Parameters of a URL may hold a password, too.
            self._named = "..." if place.password or "?" in url else repr(url)
            if is_there(engine):
                return prepare(engine)
            shown = place.set(query={}).render_as_string(hide_password=True)
            if charging is not None:
                terms = Unit.parse(unit), _neighbours(neighbours)
                raise no_budget(charging, *terms, ledger=self._named, missing=shown)
            raise LedgerUnavailable(f"there is no ledger at {shown}; `ledger.open(...)` makes one.")

        self._storage = Storage(url, found_or_made, what="ledger", unavailable=LedgerUnavailable)
        self._known: dict[str, Dataset] = {}
        self._balances: dict[str, tuple[str, Balance]] = {}

    @property
    def identity(self) -> str:
        """The id of this ledger, which no other ledger has."""
        return self._storage.prepared

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.close()

    def open(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        unit: Unit | str = RECORDS.unit,
        neighbours: Neighbours | str = RECORDS.neighbours,
    ) -> Entry:
        """Open a budget for ``dataset``; opening it again with the same budget changes nothing."""
        opened = Dataset.opened(
            checked_name(dataset),
            Unit.parse(unit),
            _neighbours(neighbours),
            Filter.for_budget(_number("epsilon", epsilon), _number("delta", delta)),
        )
        with self._storage.writing() as transaction:
            lock = int.from_bytes(hashlib.sha256(opened.name.encode()).digest()[:8], "big", signed=True)
            self._storage.one_at_a_time(transaction, lock)
            known = find_dataset(transaction, opened.name)
            if known is None:
                known = add_dataset(transaction, opened)
                return Book(transaction, self.identity, known).append("open", terms_wire=known.terms_wire)
            if not known.same_budget(opened):
                raise BadInput(
                    f"dataset {short(known.name)} is open already with ε={known.filter.epsilon:g}, "
                    f"δ={known.filter.delta:g} per {known.unit} under {known.neighbours}; "
                    "a budget never changes."
                )
            return Book(transaction, self.identity, known).entry(1)

    def spend(
        self,
        dataset: str,
        guarantee: Guarantee,
        purpose: str = "",
        key: str | None = None,
        *,
        asked: Asked | None = None,
    ) -> Entry:
        """Pay for one release, durably, before it is drawn.

        The same idempotency ``key`` pays once: asking again for the same guarantee returns the first entry,
        whatever happened since. Raises :class:`BudgetRefused` when it does not fit. Where another guarantee
        was ``asked`` for, of another unit than the budget or of one of many files, the refusal tells the ε of
        that which would fit; the text says whose it is.
        """
        return self._charge("spend", dataset, guarantee, purpose, key, asked)

    def hold(
        self,
        dataset: str,
        guarantee: Guarantee,
        purpose: str = "",
        key: str | None = None,
        *,
        asked: Asked | None = None,
    ) -> Entry:
        """Reserve the price of a release for a long job; ``commit`` or ``release_hold`` settles it.

        ``key`` and ``asked`` work as in ``spend``; the key of a hold that was given back pays for nothing any
        more.
        """
        return self._charge("hold", dataset, guarantee, purpose, key, asked)

    def commit(self, dataset: str, hold: int) -> Entry:
        """Turn entry ``hold`` into a spend. Doing it twice changes nothing."""
        return self._settle("commit", dataset, hold)

    def release_hold(self, dataset: str, hold: int) -> Entry:
        """Give entry ``hold`` back. Only for a job that drew nothing. Doing it twice changes nothing."""
        return self._settle("release", dataset, hold)

    def close(self, dataset: str) -> Entry:
        """Close ``dataset``: nothing further is admitted; holds may still be settled."""
        with self._writing(dataset) as book:
            before = book.newest("close") if book.account.state == "closed" else None
            return before or book.append("close")

    def balance(self, dataset: str) -> Balance:
        """Return what ``dataset`` may still spend; the cost does not grow with what was spent before."""
        with self._reading(dataset) as book:
            account = book.account
        return Balance.of(book.known, account)

    def preview(self, dataset: str, guarantee: Guarantee, *, asked: Asked | None = None) -> Preview:
        """Return what spending ``guarantee`` would do; nothing is spent and nothing promised for later."""
        known, prices, covered = self._priced(dataset, guarantee)
        with self._reading(dataset) as book:
            account = book.account
        if not account.admits(known.filter, prices, covered=covered):
            refused = refusal(known, account, guarantee, asked)
            return Preview(False, Balance.of(known, account), refused.largest, str(refused))
        spent = add_prices(account.spent, prices)
        state: State = "open" if known.filter.fits(spent) else "exhausted"
        after = replace(account, spent=spent, spends=account.spends + 1, state=state)
        return Preview(True, Balance.of(known, after), guarantee.epsilon())

    def keep_certificate(self, dataset: str, number: int, envelope: str, holder: str | None = None) -> str:
        """Keep the certificate of the release that entry ``number`` paid for; returns the one that is kept.

        It takes the place of an earlier one. Of a run that ``holder`` has leased the first one stays, and
        whoever lost the lease is refused: so a run that is paid once has one output.
        """
        with self._writing(dataset) as book:
            book.entry(number)
            if holder is not None:
                lease = book.lease(number)
                if lease is None or lease.holder != holder:
                    raise BadInput(
                        f"the lease of entry {number} of {short(book.known.name)} was lost meanwhile."
                    )
                if (before := book.certificates().get(number)) is not None:
                    return before
            book.put_certificate(number, envelope)
            return envelope

    def lease(self, dataset: str, number: int, holder: str) -> None:
        """Lease the run that entry ``number`` paid for to ``holder`` for ``LEASE_SECONDS``; again, to renew.

        Refused while the lease of another holder lasts, and once the run was ended for good. Where the
        clock was moved back, a lease that would last longer than leases do has ended.
        """
        with self._writing(dataset) as book:
            book.entry(number)
            now, lease = self._storage.clock(book.transaction), book.lease(number)
            run = f"the run that entry {number} of {short(book.known.name)} paid for"
            if lease is not None and lease.until is None:
                ended = "has its one output" if lease.holder else "has ended and released nothing"
                raise BadInput(f"{run} {ended}: it cannot be resumed.")
            if lease is not None and lease.holder != holder and now < lease.until <= now + self.LEASE_SECONDS:
                raise BadInput(
                    f"another process carries on {run}: wait until it has ended, or "
                    f"{lease.until - now:.0f} seconds if it was killed."
                )
            book.put_lease(number, holder, now + self.LEASE_SECONDS)

    def end_lease(self, dataset: str, number: int, holder: str, *, for_good: bool = False) -> None:
        """Give the lease of ``holder`` back; ``for_good``, nobody may carry on the run of the entry again."""
        with self._writing(dataset) as book:
            lease = book.lease(number)
            if for_good and not (lease is not None and lease.until is None):  # a bound entry stays bound
                book.put_lease(number, "", None)
            elif lease is not None and lease.holder == holder:
                book.drop_lease(number)

    def bind(self, dataset: str, key: str, output: str) -> None:
        """Bind the entry with this idempotency ``key`` to its one ``output``, a digest, for good.

        Refused if it is bound to another one. So what was paid once is drawn once, however many copies of a
        run there are.
        """
        with self._writing(dataset) as book:
            entry = book.with_key(key)
            if entry is None:
                name = short(book.known.name)
                raise BadInput(f"no entry of {name} has the key {short(key)}: nothing was paid under it.")
            bound = book.lease(entry.number)
            if bound is None:
                book.put_lease(entry.number, output, None)
            elif bound.holder != output:
                raise BadInput(
                    f"entry {entry.number} of {short(book.known.name)} paid for another output before: one "
                    "spend has one output, so this copy of the run cannot be resumed."
                )

    def certificates(self, dataset: str) -> dict[int, str]:
        """Return the certificates of the releases of ``dataset``, by the number of the entry that paid."""
        with self._reading(dataset) as book:
            return book.certificates()

    def history(self, dataset: str) -> list[Entry]:
        """Return every entry of ``dataset``, oldest first; an altered row is refused (see ``check``)."""
        with self._reading(dataset) as book:
            return book.history()

    def names(self) -> list[str]:
        """Return the datasets, in the order in which they were opened."""
        with self._storage.reading() as transaction:
            return [row.name for row in all_datasets(transaction)]

    def has(self, dataset: str) -> bool:
        """Return whether ``dataset`` was opened; once it was, the database is not asked again."""
        return self._found(checked_name(dataset)) is not None

    def counted(self, dataset: str) -> tuple[str, str]:
        """Return the unit and the neighbours relation of the budget of ``dataset``."""
        known = self._dataset(dataset)
        return str(known.unit), str(known.neighbours)

    def require_open(self, dataset: str, guarantee: Guarantee | None = None) -> None:
        """Raise :class:`BudgetRefused`, with the command that opens one, where ``dataset`` has no budget."""
        if not self.has(dataset):
            raise self._no_budget(dataset, guarantee)

    def balances(self) -> dict[str, Balance]:
        """Return what every dataset may still spend, by name; computed anew only where an entry was added."""
        with self._storage.reading() as transaction:
            found = all_accounts(transaction)
        for known, account in found:
            before = self._balances.get(known.name)
            if before is None or before[0] != account.head:
                self._balances[known.name] = (account.head, Balance.of(known, account))
        return {known.name: self._balances[known.name][1] for known, _ in found}

    def require_answer(self) -> None:
        """Raise :class:`LedgerUnavailable` unless the database answers and is still this ledger."""
        with self._storage.reading() as transaction:
            if identity_of(transaction) != self.identity:
                raise LedgerUnavailable(
                    "the database holds another ledger than when it was opened: restart the program."
                )

    def find(self, hash_: str) -> Entry | None:
        """Return the entry with this hash, if this ledger holds it unaltered."""
        with self._storage.reading() as transaction:
            return find_entry(transaction, self.identity, hash_)

    def was_paid(self, entry: Entry) -> bool:
        """Return whether ``entry`` paid for anything: a spend, or a hold that was committed."""
        if entry.kind != "hold":
            return entry.kind == "spend"
        with self._reading(entry.dataset) as book:
            settled = book.settlement(entry.number)
        return settled is not None and settled.kind == "commit"

    def check(self, dataset: str | None = None) -> list[Damage]:
        """Return every place where a row was edited, deleted or added outside the ledger; empty if none was.

        Hashes are no signatures: whoever rewrites rows, their hashes and the totals together, or takes the
        newest rows away with them, is found by a certificate's row hash (``find``), not by this.
        """
        with self._storage.reading() as transaction:
            names = [row.name for row in all_datasets(transaction)]
            if dataset is not None and checked_name(dataset) not in names:
                raise BadInput(str(self._no_budget(dataset)))
            return list(damages(transaction, self.identity, dataset))

    def fixed_plan_epsilon(self, dataset: str) -> float:
        """Return ε at the budget's δ by privacy loss distributions: it bounds plans fixed in advance only."""
        with self._reading(dataset) as book:
            kept = book.kept_guarantees()
        parts = [Guarantee.from_dict(json.loads(wire)).times(count) for wire, count in kept]
        return Guarantee.compose(parts).epsilon(book.known.filter.delta) if parts else 0.0

    def _charge(
        self,
        kind: Kind,
        dataset: str,
        guarantee: Guarantee,
        purpose: str,
        key: str | None,
        asked: Asked | None,
    ) -> Entry:
        checked_text("a purpose", purpose, 0, MAX_TEXT)
        if key is not None:
            checked_text("an idempotency key", key, 1, MAX_KEY)
        # What takes time is done here and below, while nobody waits for the lock.
        known, prices, covered = self._priced(dataset, guarantee)
        paid: dict[str, Any] = {
            "guarantee_wire": json.dumps(guarantee.to_dict(), sort_keys=True),
            "prices_wire": prices_text(prices),
            "purpose": purpose,
            "key": key,
        }
        with self._writing(dataset) as book:
            before = None if key is None else book.with_key(key)
            if before is not None:
                self._require_same(book, before, kind, guarantee)
                return before
            if book.account.admits(known.filter, prices, covered=covered):
                return book.append(kind, **paid)
        raise refusal(known, book.account, guarantee, asked)

    def _priced(self, dataset: str, guarantee: Guarantee) -> tuple[Dataset, Prices, bool]:
        """Return ``dataset``, what ``guarantee`` costs there, and whether the budget is enough for it alone.

        A guarantee that the budget cannot pay for at all is refused.
        """
        self.require_open(dataset, guarantee)
        known = self._dataset(dataset)
        known.require_terms(guarantee, self._named)
        prices = known.filter.price(guarantee)
        return known, prices, not known.filter.fits(prices) and known.filter.covers(guarantee)

    def _require_same(self, book: Book, before: Entry, kind: Kind, guarantee: Guarantee) -> None:
        """Refuse a key that was used for another request, or whose hold was given back."""
        key, name = short(before.key or ""), short(book.known.name)
        paid = before.guarantee
        # A theorem is a sentence, which another version may word in another way.
        same = paid is not None and replace(paid, theorem=guarantee.theorem) == guarantee
        if before.kind != kind or not same:
            raise RequestReused(f"the key {key} was used for another request on {name}.")
        settled = book.settlement(before.number) if kind == "hold" else None
        if settled is not None and settled.kind == "release":
            raise BadInput(
                f"the key {key} belongs to hold {before.number} of {name}, which was given back; ask with a "
                "new key."
            )

    def _settle(self, kind: Kind, dataset: str, hold: int) -> Entry:
        with self._writing(dataset) as book:
            held, name = book.entry(hold), short(book.known.name)
            if held.kind != "hold":
                raise BadInput(f"entry {hold} of {name} is not a hold but a {held.kind}.")
            before = book.settlement(hold)
            if before is not None and before.kind != kind:
                raise BadInput(f"hold {hold} of {name} was settled before, by a {before.kind}.")
            return before or book.append(kind, refers_to=hold, held=held.prices)

    @contextmanager
    def _reading(self, dataset: str) -> Iterator[Book]:
        """Yield the rows of ``dataset`` in one consistent view."""
        known = self._dataset(dataset)
        with self._storage.reading() as transaction:
            yield Book(transaction, self.identity, known)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[Book]:
        """Yield the rows of ``dataset``, which nobody else changes meanwhile."""
        known = self._dataset(dataset)
        with self._storage.writing() as transaction:
            yield Book(transaction, self.identity, known, lock=True)

    def _dataset(self, dataset: str) -> Dataset:
        name = checked_name(dataset)
        found = self._found(name)
        if found is None:
            raise BadInput(str(self._no_budget(name)))
        return found

    def _no_budget(self, name: str, guarantee: Guarantee | None = None) -> BudgetRefused:
        """Return the refusal to charge ``guarantee`` to ``name``; a dataset of a similar name is named."""
        terms = (guarantee.unit, guarantee.neighbours) if isinstance(guarantee, Guarantee) else ()
        known = [one for one in self.names() if len(one) <= _LONGEST_TYPED]
        near = difflib.get_close_matches(name[:_LONGEST_TYPED], known, 1)
        return no_budget(name, *terms, ledger=self._named, near=next(iter(near), None))

    def _found(self, name: str) -> Dataset | None:
        """Return the dataset as it was opened, which never changes and is read once."""
        if name not in self._known:
            with self._storage.reading() as transaction:
                known = find_dataset(transaction, name)
            if known is None:
                return None
            self._known[name] = known
        return self._known[name]


def _number(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"`{what}` was {value!r}: it must be a number.", parameter=what)
    return float(value)


def _neighbours(value: Neighbours | str) -> Neighbours:
    try:
        return Neighbours(value)
    except ValueError:
        accepted = ", ".join(Neighbours)
        raise BadInput(
            f"`neighbours` must be one of {accepted}, not {value!r}.", parameter="neighbours"
        ) from None
