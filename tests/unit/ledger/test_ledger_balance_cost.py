"""What a balance costs does not grow with what was spent before it."""

import json
import time

from sfumato.ledger.entries import prices_text
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
    tiny = Guarantee.gaussian(1e4)
    with ledger._writing(name) as book:
        wires = {
            "guarantee_wire": json.dumps(tiny.to_dict(), sort_keys=True),
            "prices_wire": prices_text(book.known.filter.price(tiny)),
        }
        for number in range(count):
            book.append("hold" if number % 2 else "spend", **wires)
