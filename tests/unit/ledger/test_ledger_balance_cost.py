"""What a balance costs does not grow with what was spent before it."""

import time

from sfumato.ledger.entries import Entry, guarantee_text, prices_text
from sfumato.ledger.ledger_tables import append_entry, read_account
from sfumato.privacy import Guarantee

FEW, MANY = 1_000, 100_000


def test_a_balance_after_a_hundred_thousand_spends_costs_as_much_as_after_a_thousand(ledger):
    for name, count in (("few", FEW), ("many", MANY)):
        ledger.open(name, epsilon=8.0, delta=1e-6)
        fill(ledger, name, count)
        assert ledger.balance(name).spends == count
        assert ledger.balance(name).open_holds == count // 2
    best = dict.fromkeys(("few", "many"), float("inf"))
    for _ in range(300):
        for name in best:
            start = time.perf_counter()
            ledger.balance(name)
            best[name] = min(best[name], time.perf_counter() - start)
    for name, seconds in best.items():
        print(f"balance after {name} spends: {seconds * 1e6:.0f} µs")
    assert best["many"] <= 2.0 * best["few"]
    assert ledger.check("many") == []


def fill(ledger, name, count):
    """``count`` charges in one transaction, every second a hold: the rows that as many calls would leave."""
    known, tiny = ledger._dataset(name), Guarantee.gaussian(1e4)
    wire, prices = guarantee_text(tiny), prices_text(known.filter.price(tiny))
    with ledger._storage.writing() as transaction:
        account = read_account(transaction, known, lock=True)
        for number in range(2, count + 2):
            entry = Entry(
                ledger=ledger.identity,
                dataset=name,
                number=number,
                kind="hold" if number % 2 else "spend",
                at=account.at,
                previous=account.head,
                guarantee_wire=wire,
                prices_wire=prices,
            )
            account = account.after(entry, known.filter)
            append_entry(transaction, known, account, entry)
