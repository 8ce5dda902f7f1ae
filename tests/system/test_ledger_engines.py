"""Many threads and processes on one ledger, on SQLite and a real PostgreSQL: nothing lost or overspent."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
from ledger_server import postgresql  # noqa: F401 (a fixture)
from ledger_workers import make_ledger, pay_and_release, spend_after_forking, start
from sqlalchemy import create_engine, text

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Filter, Ledger, LedgerUnavailable
from sfumato.privacy import Guarantee

KILLS = int(os.environ.get("SFUMATO_SOAK_KILLS", "60"))
WORKERS = 8
EPSILON, DELTA = 8.0, 1e-6


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def engine(request):
    return request.param


@pytest.fixture
def new_url(engine, tmp_path, request):
    """Makes the URL of a ledger that does not exist yet."""
    if engine == "PostgreSQL":
        return request.getfixturevalue("postgresql")
    names = iter(range(1000))
    return lambda: f"sqlite:///{tmp_path}/budget{next(names)}.db"


@pytest.fixture
def url(new_url):
    return new_url()


@pytest.fixture
def show(record_property):
    """Tells a count, which is printed at the end of the run."""
    return lambda line: record_property("count", line)


def slices(count):
    """A Gaussian release of which exactly ``count`` fit the budget."""
    rule = Filter.for_budget(EPSILON, DELTA)
    guarantee = Guarantee.gaussian(((count + 0.5) ** 0.5) / rule.left_mu(rule.nothing()))
    price = rule.price(guarantee)
    assert rule.fits(tuple(count * amount for amount in price))
    assert not rule.fits(tuple((count + 1) * amount for amount in price))
    return guarantee


def test_of_64_threads_exactly_as_many_succeed_as_fit(url, engine, show):
    fit, threads = 10, 64
    one = slices(fit)
    ledgers = [Ledger(url) for _ in range(4)]
    ledgers[0].open("clinic", epsilon=EPSILON, delta=DELTA)
    barrier, outcomes = threading.Barrier(threads), []

    def race(index):
        barrier.wait()
        try:
            outcomes.append(ledgers[index % len(ledgers)].spend("clinic", one).kind)
        except BudgetRefused:
            outcomes.append("refused")

    racers = [threading.Thread(target=race, args=(index,)) for index in range(threads)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    counts = Counter(outcomes)
    show(f"{engine}: {threads} threads for {fit} slices: {dict(counts)}")
    assert counts == {"spend": fit, "refused": threads - fit}
    assert ledgers[0].balance("clinic").spends == fit
    assert ledgers[0].check() == []


def test_of_many_who_ask_at_once_one_has_the_lease_and_keeps_the_certificate(url):
    with Ledger(url) as ledger:
        ledger.open("ward", EPSILON, DELTA)
        ledger.spend("ward", Guarantee.pure(1.0), key="run")
        won, kept, barrier = [], [], threading.Barrier(16)

        def resume(holder):
            barrier.wait()
            with suppress(BadInput):
                ledger.lease("ward", 2, holder)
                won.append(holder)
            with suppress(BadInput):
                kept.append(ledger.keep_certificate("ward", 2, holder, holder))

        threads = [threading.Thread(target=resume, args=(f"machine {number}",)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert kept == won
        assert ledger.certificates("ward") == {2: won[0]}
        ledger.end_lease("ward", 2, won[0])
        ledger.lease("ward", 2, "another machine")
        ledger.end_lease("ward", 2, "another machine", for_good=True)
        with pytest.raises(BadInput, match="released nothing"):
            ledger.lease("ward", 2, "another machine")
        assert ledger.check() == []


def test_workers_killed_at_random_points_lose_nothing_and_overspend_nothing(url, engine, tmp_path, show):
    fit = 12 * KILLS
    one, chance = slices(fit), random.Random()
    (tmp_path / "released").mkdir()
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=EPSILON, delta=DELTA)
        workers = [start(pay_and_release, url, str(tmp_path), slot, one) for slot in range(WORKERS)]
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.0, 0.15))
            slot = chance.randrange(WORKERS)
            os.kill(workers[slot].pid, signal.SIGKILL)
            workers[slot].join()
            assert workers[slot].exitcode == -signal.SIGKILL
            workers[slot] = start(pay_and_release, url, str(tmp_path), slot, one)
        (tmp_path / "stop").touch()
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
        by_workers = len(ledger.history("clinic"))
        spend_what_is_left(ledger, one)

        assert ledger.check() == []
        history, rule = ledger.history("clinic"), Filter.for_budget(EPSILON, DELTA)
        assert [entry.number for entry in history] == list(range(1, len(history) + 1))
        given_back = {entry.refers_to for entry in history if entry.kind == "release"}
        committed = {entry.refers_to for entry in history if entry.kind == "commit"}
        total, kept = rule.nothing(), {}
        for entry in history:
            if entry.kind in ("spend", "hold") and entry.number not in given_back:
                total = tuple(spent + price for spent, price in zip(total, entry.prices, strict=True))
                kept[entry.hash] = entry
        assert rule.fits(total)
        assert len(kept) == ledger.balance("clinic").spends == fit

        released = set(os.listdir(tmp_path / "released"))
        assert released <= kept.keys()
        assert all(kept[hash_].kind == "spend" or kept[hash_].number in committed for hash_ in released)
        keys = [entry.key for entry in history if entry.key is not None]
        assert len(keys) == len(set(keys))
        kinds = dict(Counter(entry.kind for entry in history[:by_workers]))
        show(
            f"{engine}: {KILLS} kills of {WORKERS} workers; they wrote {by_workers} rows {kinds} and "
            f"{len(released)} releases; 0 rows lost, 0 releases unpaid, {len(kept)} of {fit} that fit paid"
        )
        assert released


def test_processes_that_make_a_ledger_at_once_make_one(new_url, tmp_path):
    for attempt in range(4):
        url, at = new_url(), time.time() + 0.5
        files = [tmp_path / f"{attempt} {slot}" for slot in range(WORKERS)]
        makers = [start(make_ledger, url, at, str(file)) for file in files]
        for maker in makers:
            maker.join(60)
            assert maker.exitcode == 0
        assert len({file.read_text() for file in files}) == 1
        with Ledger(url) as ledger:
            assert [entry.kind for entry in ledger.history("clinic")] == ["open"]
            assert ledger.check() == []


def test_a_ledger_may_be_used_on_both_sides_of_a_fork(url):
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        process = start(spend_after_forking, url, 4, 10)
        process.join(60)
        assert process.exitcode == 0
        assert ledger.balance("clinic").spends == 1 + 5 * 10
        assert ledger.check() == []


def test_checking_and_reading_while_others_spend_finds_nothing_wrong(url):
    done = threading.Event()
    with Ledger(url) as ledger, Ledger(url) as other:
        ledger.open("clinic", epsilon=1.0, delta=0.0)

        def spend():
            while not done.is_set():
                other.release_hold("clinic", other.hold("clinic", Guarantee.pure(0.001)).number)

        writer = threading.Thread(target=spend)
        writer.start()
        try:
            while len(ledger.history("clinic")) < 100:
                assert ledger.check() == []
                assert ledger.balance("clinic").spends in (0, 1)
        finally:
            done.set()
            writer.join()


def test_long_names_and_keys_that_do_not_compress_will_do(url):
    letters = [chr(code) for code in range(0x1F300, 0x1F600)]
    name, key = ("".join(random.Random(3).choices(letters, k=count)) for count in (10_000, 500))
    with Ledger(url) as ledger:
        ledger.open(name, epsilon=1.0, delta=0.0)
        paid = ledger.spend(name, Guarantee.pure(0.5), purpose=name, key=key)
        assert ledger.spend(name, Guarantee.pure(0.5), key=key) == paid
        assert ledger.find(paid.hash) == paid
        assert ledger.names() == [name]
        assert ledger.check() == []


def test_rows_edited_and_deleted_by_another_hand_are_found(url):
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        for _ in range(3):
            ledger.spend("clinic", Guarantee.pure(0.1))
        by_hand(url, "UPDATE entries SET purpose = 'x' WHERE number = 2")
        assert [(one.number, one.what) for one in ledger.check()] == [(2, "the row was altered")]
        by_hand(url, "DELETE FROM entries WHERE number = 2")
        assert [(one.number, one.what) for one in ledger.check()] == [(3, "rows before this one are missing")]


def test_the_call_that_opens_a_missing_budget_tells_no_password(postgresql):  # noqa: F811 (the fixture)
    for url in (postgresql().replace("postgres@", "postgres:hunter2@"), f"{postgresql()}&password=hunter2"):
        with pytest.raises(BudgetRefused) as missing:
            Ledger(url, charging="clinic")
        Ledger(url).open("other", EPSILON, DELTA)
        with Ledger(url, charging="clinic") as ledger, pytest.raises(BudgetRefused) as unopened:
            ledger.require_open("clinic")
        for said in map(str, (missing.value, unopened.value)):
            assert "`sf.Ledger(...).open('clinic', epsilon=..., delta=...)`" in said
            assert "hunter2" not in said


def test_a_ledger_of_a_newer_version_is_refused(url):
    with Ledger(url):
        by_hand(url, "UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(LedgerUnavailable, match="written by a newer version of Sfumato"):
            Ledger(url)


@pytest.mark.parametrize("engine", ["PostgreSQL"], indirect=False)
def test_a_shared_server_is_used_where_no_name_is_taken(url):
    by_hand(url, "CREATE TABLE patients (id int)")
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        assert ledger.names() == ["clinic"]
        assert ledger.check() == []


@pytest.mark.parametrize("engine", ["PostgreSQL"], indirect=False)
@pytest.mark.parametrize("table", ["accounts", "alembic_version"])
def test_a_shared_server_where_a_name_is_taken_is_refused(url, table):
    by_hand(url, f"CREATE TABLE {table} (version_num text)")
    with pytest.raises(LedgerUnavailable, match="holds tables of another program"):
        Ledger(url)


@pytest.mark.parametrize("engine", ["PostgreSQL"], indirect=False)
def test_a_server_that_would_answer_too_early_is_told_to_wait_for_the_disk(url):
    name = url.split("/")[3].split("?")[0]
    by_hand(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with Ledger(url) as ledger, ledger._storage.writing() as transaction:
        assert transaction.first(text("SHOW synchronous_commit"), {}).synchronous_commit == "on"


@pytest.mark.parametrize("engine", ["PostgreSQL"], indirect=False)
def test_a_server_that_dropped_its_connections_costs_no_spend(url):
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        by_hand(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        assert ledger.spend("clinic", Guarantee.pure(0.5)).number == 2


def spend_what_is_left(ledger, guarantee):
    with suppress(BudgetRefused):
        while True:
            ledger.spend("clinic", guarantee)


def by_hand(url, statement):
    """Run a statement behind the ledger's back."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
