"""Durable spends beside raw single-row commits into SQLite, and what a balance costs after many of them.

Raw means: the driver alone inserts the same row into a table of the same shape, with the same durability, but
without lock, admission, chain and running totals.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from sfumato.ledger import Ledger
from sfumato.ledger.entries import prices_text
from sfumato.privacy import Guarantee
from timing import Row, interleaved

WRITERS = 8
SECONDS, ROUNDS = 1.0, 4
TINY = Guarantee.gaussian(1e6)
FEW, MANY = 10**5, 10**6


def measure() -> list[Row]:
    # Where the benchmark is run, and not in /tmp, which may be memory: commits are to wait for a disk.
    with tempfile.TemporaryDirectory() as folder:
        return [*spends(Path(folder).resolve()), *balances(Path(folder).resolve())]


def spends(folder: Path) -> list[Row]:
    """Commits a second of one and of several processes, raw and through the ledger, taking turns."""
    with Ledger(f"sqlite:///{folder}/budget.db") as ledger:
        ledger.open("clinic", epsilon=8.0, delta=1e-6)
    Ledger(f"sqlite:///{folder}/raw.db")  # the same tables
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sfumato.ledger"])
    pipes = []
    for slot in range(WRITERS):
        ours, theirs = context.Pipe()
        context.Process(target=_writer, args=(str(folder), slot, theirs), daemon=True).start()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()  # every process is ready
    best = {(kind, writers): 0.0 for writers in (1, WRITERS) for kind in ("raw", "ledger")}
    for _ in range(ROUNDS):
        for kind, writers in best:
            start = time.time() + 0.1
            for pipe in pipes[:writers]:
                pipe.send((kind, start))
            rate = sum(pipe.recv() for pipe in pipes[:writers]) / SECONDS
            best[kind, writers] = max(best[kind, writers], rate)
    for pipe in pipes:
        pipe.send(None)
    rows = []
    for (kind, writers), rate in best.items():
        name = "Ledger.spend" if kind == "ledger" else "raw INSERT, COMMIT"
        many = "1 writer" if writers == 1 else f"{writers} writers"
        ratio = rate / best["raw", writers]
        rows.append(
            Row(f"{name}, {many}", f"{rate:,.0f}/s", ratio, at_least=0.3 if kind == "ledger" else None)
        )
    return rows


def balances(folder: Path) -> list[Row]:
    """What a balance costs after 10⁵ and 10⁶ spends."""
    with Ledger(f"sqlite:///{folder}/long.db") as ledger:
        for name, count in (("few", FEW), ("many", MANY)):
            ledger.open(name, epsilon=8.0, delta=1e-6)
            fill(ledger, name, count)
            assert ledger.balance(name).spends == count
        asked: dict[str, Callable[[], object]] = {
            name: lambda name=name: ledger.balance(name) for name in ("few", "many")
        }
        seconds = interleaved(asked, rounds=1000)
    ratio = seconds["many"] / seconds["few"]
    return [
        Row("balance after 10⁵ spends", f"{seconds['few'] * 1e6:.0f} µs", 1.0),
        Row("balance after 10⁶ spends", f"{seconds['many'] * 1e6:.0f} µs", ratio, at_most=2.0),
    ]


def fill(ledger: Ledger, name: str, count: int) -> None:
    """The rows that ``count`` spends would leave, in one transaction."""
    with ledger._writing(name) as book:
        wires = {
            "guarantee_wire": json.dumps(TINY.to_dict(), sort_keys=True),
            "prices_wire": prices_text(book.known.filter.price(TINY)),
        }
        for _ in range(count):
            book.append("spend", **wires)


def _connected(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None, timeout=120)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _writer(folder: str, slot: int, pipe: Connection) -> None:
    """A process that commits as often as it can in the second it is told, one way or the other."""
    with Ledger(f"sqlite:///{folder}/budget.db") as ledger, closing(_connected(Path(folder))) as connection:
        paid, numbers = ledger.spend("clinic", TINY), itertools.count()
        row = ("spend", paid.at, paid.previous, "", None, None, paid.guarantee_wire, paid.prices_wire)
        sql = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

        def raw() -> None:
            number = next(numbers)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(sql, (slot, number, *row, f"{hash((slot, number)):064x}"))
            connection.execute("COMMIT")

        work: dict[str, Callable[[], object]] = {"raw": raw, "ledger": lambda: ledger.spend("clinic", TINY)}
        for once in work.values():
            once()
        pipe.send("ready")
        while (told := pipe.recv()) is not None:
            kind, start = told
            time.sleep(max(0.0, start - time.time()))
            done = 0
            while time.time() < start + SECONDS:
                work[kind]()
                done += 1
            pipe.send(done)
