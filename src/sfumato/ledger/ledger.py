"""``Ledger``: the durable record of what each dataset has spent."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import Engine

from sfumato.errors import BadInput, RequestReused
from sfumato.ledger.balance import Balance, Preview
from sfumato.ledger.database import Storage, Transaction
from sfumato.ledger.entries import (
    Dataset,
    Entry,
    Kind,
    checked_key,
    checked_name,
    checked_purpose,
    guarantee_text,
    lock_number,
    prices_text,
    printable_name,
    short,
)
from sfumato.ledger.integrity import Damage, damages
from sfumato.ledger.ledger_tables import (
    add_dataset,
    all_accounts,
    all_entries,
    append_entry,
    drop_lease,
    entry_at,
    entry_of,
    entry_with_key,
    find_dataset,
    identity_of,
    is_there,
    kept_guarantees,
    last_of_kind,
    names_of,
    prepare,
    put_certificate,
    put_lease,
    read_account,
    read_certificates,
    read_lease,
    rows_with_hash,
    settlement,
    unaltered,
    whole_entry,
)
from sfumato.ledger.rdp_filter import Filter, Prices, add_prices
from sfumato.ledger.refusal import (
    OF_THIS_KIND,
    Account,
    BudgetRefused,
    LedgerUnavailable,
    State,
    no_budget,
    refusal,
)
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

        # Who may not make a ledger is told which one lacks a budget; who may has it in hand.
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
            self._storage.one_at_a_time(transaction, lock_number(opened.name))
            known = find_dataset(transaction, opened.name)
            if known is None:
                known, account = add_dataset(transaction, opened)
                return self._append(transaction, known, account, "open", terms_wire=known.terms_wire)
            if not known.same_budget(opened):
                raise BadInput(
                    f"dataset {short(known.name)} is open already with ε={known.filter.epsilon:g}, "
                    f"δ={known.filter.delta:g} per {known.unit} under {known.neighbours}; "
                    "a budget never changes."
                )
            return self._entry(transaction, known, 1)

    def spend(
        self,
        dataset: str,
        guarantee: Guarantee,
        purpose: str = "",
        key: str | None = None,
        *,
        headline: Guarantee | None = None,
        what: str = OF_THIS_KIND,
    ) -> Entry:
        """Pay for one release, durably, before it is drawn.

        The same idempotency ``key`` pays once: asking again for the same guarantee returns the first entry,
        whatever happened since. Raises :class:`BudgetRefused` when it does not fit; where the ``headline``,
        which was asked for, is of another unit than the budget or of one of many files, the refusal says the
        ε that would fit of that, and ``what`` says whose it is.
        """
        return self._charge("spend", dataset, guarantee, purpose, key, headline, what)

    def hold(
        self,
        dataset: str,
        guarantee: Guarantee,
        purpose: str = "",
        key: str | None = None,
        *,
        headline: Guarantee | None = None,
        what: str = OF_THIS_KIND,
    ) -> Entry:
        """Reserve the price of a release for a long job; ``commit`` or ``release_hold`` settles it.

        ``key``, ``headline`` and ``what`` work as in ``spend``; the key of a hold that was given back pays
        for nothing any more.
        """
        return self._charge("hold", dataset, guarantee, purpose, key, headline, what)

    def commit(self, dataset: str, hold: int) -> Entry:
        """Turn entry ``hold`` into a spend. Doing it twice changes nothing."""
        return self._settle("commit", dataset, hold)

    def release_hold(self, dataset: str, hold: int) -> Entry:
        """Give entry ``hold`` back. Only for a job that drew nothing. Doing it twice changes nothing."""
        return self._settle("release", dataset, hold)

    def close(self, dataset: str) -> Entry:
        """Close ``dataset``: nothing further is admitted; holds may still be settled."""
        known = self._dataset(dataset)
        with self._storage.writing() as transaction:
            account = read_account(transaction, known, lock=True)
            before = (
                last_of_kind(transaction, self.identity, known, "close")
                if account.state == "closed"
                else None
            )
            return before or self._append(transaction, known, account, "close")

    def balance(self, dataset: str) -> Balance:
        """Return what ``dataset`` may still spend; the cost does not grow with what was spent before."""
        known = self._dataset(dataset)
        with self._storage.reading() as transaction:
            return Balance.of(known, read_account(transaction, known))

    def preview(
        self,
        dataset: str,
        guarantee: Guarantee,
        *,
        headline: Guarantee | None = None,
        what: str = OF_THIS_KIND,
    ) -> Preview:
        """Return what spending ``guarantee`` would do; nothing is spent and nothing promised for later."""
        known = self._to_charge(dataset, guarantee)
        rule, prices = known.filter, known.filter.price(guarantee)
        covered = not rule.fits(prices) and rule.covers(guarantee)
        with self._storage.reading() as transaction:
            account = read_account(transaction, known)
        if not account.admits(rule, prices, covered=covered):
            refused = refusal(known, account, guarantee, headline, what)
            return Preview(False, Balance.of(known, account), refused.largest, str(refused))
        spent = add_prices(account.spent, prices)
        state: State = "open" if rule.fits(spent) else "exhausted"
        after = replace(account, spent=spent, spends=account.spends + 1, state=state)
        return Preview(True, Balance.of(known, after), guarantee.epsilon())

    def keep_certificate(self, dataset: str, number: int, envelope: str, holder: str | None = None) -> str:
        """Keep the certificate of the release that entry ``number`` paid for; returns the one that is kept.

        It takes the place of an earlier one. Of a run that ``holder`` has leased the first one stays, and
        whoever lost the lease is refused: so a run that is paid once has one output.
        """
        known = self._dataset(dataset)
        with self._storage.writing() as transaction:
            read_account(transaction, known, lock=True)
            self._entry(transaction, known, number)
            if holder is not None:
                lease = read_lease(transaction, known, number)
                if lease is None or lease.holder != holder:
                    raise BadInput(f"the lease of entry {number} of {short(known.name)} was lost meanwhile.")
                if (before := read_certificates(transaction, known).get(number)) is not None:
                    return before
            put_certificate(transaction, known, number, envelope)
            return envelope

    def lease(self, dataset: str, number: int, holder: str) -> None:
        """Lease the run that entry ``number`` paid for to ``holder`` for ``LEASE_SECONDS``; again, to renew.

        Refused while the lease of another holder lasts, and once the run was ended for good. Where the
        clock was moved back, a lease that would last longer than leases do has ended.
        """
        known = self._dataset(dataset)
        with self._storage.writing() as transaction:
            read_account(transaction, known, lock=True)
            self._entry(transaction, known, number)
            now, lease = self._storage.clock(transaction), read_lease(transaction, known, number)
            if lease is not None and lease.until is None:
                raise BadInput(
                    f"the run that entry {number} of {short(known.name)} paid for has ended and released "
                    "nothing: it cannot be resumed."
                )
            if lease is not None and lease.holder != holder and now < lease.until <= now + self.LEASE_SECONDS:
                raise BadInput(
                    f"another process carries on the run that entry {number} of {short(known.name)} paid "
                    f"for: wait until it has ended, or {lease.until - now:.0f} seconds if it was killed."
                )
            put_lease(transaction, known, number, holder, now + self.LEASE_SECONDS)

    def end_lease(self, dataset: str, number: int, holder: str, *, for_good: bool = False) -> None:
        """Give the lease of ``holder`` back; ``for_good``, nobody may carry on the run of the entry again."""
        known = self._dataset(dataset)
        with self._storage.writing() as transaction:
            read_account(transaction, known, lock=True)
            lease = read_lease(transaction, known, number)
            if for_good:
                put_lease(transaction, known, number, "", None)
            elif lease is not None and lease.holder == holder:
                drop_lease(transaction, known, number)

    def certificates(self, dataset: str) -> dict[int, str]:
        """Return the certificates of the releases of ``dataset``, by the number of the entry that paid."""
        known = self._dataset(dataset)
        with self._storage.reading() as transaction:
            return read_certificates(transaction, known)

    def history(self, dataset: str) -> list[Entry]:
        """Return every entry of ``dataset``, oldest first; an altered row is refused (see ``check``)."""
        known = self._dataset(dataset)
        with self._storage.reading() as transaction:
            return [whole_entry(self.identity, known, row) for row in all_entries(transaction, known)]

    def names(self) -> list[str]:
        """Return the datasets, in the order in which they were opened."""
        with self._storage.reading() as transaction:
            return names_of(transaction)

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
            for row in rows_with_hash(transaction, hash_):
                known = find_dataset(transaction, row.name)
                if known is not None and unaltered(entry := entry_of(self.identity, known, row), row):
                    return entry
        return None

    def was_paid(self, entry: Entry) -> bool:
        """Return whether ``entry`` paid for anything: a spend, or a hold that was committed."""
        if entry.kind != "hold":
            return entry.kind == "spend"
        known = self._dataset(entry.dataset)
        with self._storage.reading() as transaction:
            settled = settlement(transaction, self.identity, known, entry.number)
        return settled is not None and settled.kind == "commit"

    def check(self, dataset: str | None = None) -> list[Damage]:
        """Return every place where a row was edited, deleted or added outside the ledger; empty if none was.

        Hashes are no signatures: whoever rewrites rows, their hashes and the totals together, or takes the
        newest rows away with them, is found by a certificate's row hash (``find``), not by this.
        """
        with self._storage.reading() as transaction:
            if dataset is not None and checked_name(dataset) not in names_of(transaction):
                raise BadInput(str(self._no_budget(dataset)))
            return list(damages(transaction, self.identity, dataset))

    def fixed_plan_epsilon(self, dataset: str) -> float:
        """Return ε at the budget's δ by privacy loss distributions: it bounds plans fixed in advance only."""
        known = self._dataset(dataset)
        with self._storage.reading() as transaction:
            kept = kept_guarantees(transaction, known)
        parts = [Guarantee.from_dict(json.loads(wire)).times(count) for wire, count in kept]
        return Guarantee.compose(parts).epsilon(known.filter.delta) if parts else 0.0

    def _charge(
        self,
        kind: Kind,
        dataset: str,
        guarantee: Guarantee,
        purpose: str,
        key: str | None,
        headline: Guarantee | None,
        what: str,
    ) -> Entry:
        purpose, key = checked_purpose(purpose), checked_key(key)
        known = self._to_charge(dataset, guarantee)
        # What takes time is done here and below, while nobody waits for the lock.
        rule, prices = known.filter, known.filter.price(guarantee)
        covered = not rule.fits(prices) and rule.covers(guarantee)
        wire, priced = guarantee_text(guarantee), prices_text(prices)
        with self._storage.writing() as transaction:
            account = read_account(transaction, known, lock=True)
            before = None if key is None else entry_with_key(transaction, self.identity, known, key)
            if before is not None:
                self._require_same(transaction, known, before, kind, guarantee)
                return before
            if account.admits(rule, prices, covered=covered):
                return self._append(
                    transaction,
                    known,
                    account,
                    kind,
                    guarantee_wire=wire,
                    prices_wire=priced,
                    purpose=purpose,
                    key=key,
                )
        raise refusal(known, account, guarantee, headline, what)

    def _require_same(
        self, transaction: Transaction, known: Dataset, before: Entry, kind: Kind, guarantee: Guarantee
    ) -> None:
        """Refuse a key that was used for another request, or whose hold was given back."""
        key = short(before.key or "")
        paid = before.guarantee
        # A theorem is a sentence, which another version may word in another way.
        same = paid is not None and replace(paid, theorem=guarantee.theorem) == guarantee
        if before.kind != kind or not same:
            raise RequestReused(f"the key {key} was used for another request on {short(known.name)}.")
        settled = settlement(transaction, self.identity, known, before.number) if kind == "hold" else None
        if settled is not None and settled.kind == "release":
            raise BadInput(
                f"the key {key} belongs to hold {before.number} of {short(known.name)}, which was given "
                "back; ask with a new key."
            )

    def _settle(self, kind: Kind, dataset: str, hold: int) -> Entry:
        known = self._dataset(dataset)
        with self._storage.writing() as transaction:
            account = read_account(transaction, known, lock=True)
            held = self._entry(transaction, known, hold)
            if held.kind != "hold":
                raise BadInput(f"entry {hold} of {short(known.name)} is not a hold but a {held.kind}.")
            before = settlement(transaction, self.identity, known, hold)
            if before is not None and before.kind != kind:
                raise BadInput(f"hold {hold} of {short(known.name)} was settled before, by a {before.kind}.")
            return before or self._append(transaction, known, account, kind, refers_to=hold, held=held.prices)

    def _append(
        self,
        transaction: Transaction,
        known: Dataset,
        account: Account,
        kind: Kind,
        *,
        held: Prices | None = None,
        **fields: Any,
    ) -> Entry:
        """Append the next entry, with these ``fields`` of its own."""
        entry = Entry(
            ledger=self.identity,
            dataset=known.name,
            number=account.entries + 1,
            kind=kind,
            # Order is that of the numbers; a clock that was moved back does not reorder history.
            at=max(datetime.now(UTC).isoformat(timespec="microseconds"), account.at),
            previous=account.head,
            **fields,
        )
        return append_entry(transaction, known, account.after(entry, known.filter, held), entry)

    def _dataset(self, dataset: str) -> Dataset:
        name = checked_name(dataset)
        found = self._found(name)
        if found is None:
            raise BadInput(str(self._no_budget(name)))
        return found

    def _to_charge(self, dataset: str, guarantee: Guarantee) -> Dataset:
        """Return ``dataset`` as it was opened, if its budget can pay for ``guarantee`` at all."""
        self.require_open(dataset, guarantee)
        known = self._dataset(dataset)
        known.require_terms(guarantee, self._named)
        return known

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

    def _entry(self, transaction: Transaction, known: Dataset, number: int) -> Entry:
        if isinstance(number, bool) or not isinstance(number, int):
            raise BadInput(f"an entry number was {number!r}: it must be a whole number.")
        found = entry_at(transaction, self.identity, known, number) if 0 < number <= 2**62 else None
        if found is None:
            raise BadInput(f"dataset {short(known.name)} has no entry {number}.")
        return found


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
