"""Quotas: never more than they say in a minute, a day or at once, whoever counts at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.serve.jobs.job_store import JobTable
from sfumato.serve.refusals import QuotaRefused
from sfumato.serve.tenant_registry import Quotas, Registry, Usage

DAY = 86_400


@pytest.fixture
def clinic(registry):
    return registry.create_tenant("clinic")


@pytest.fixture
def school(registry):
    return registry.create_tenant("school")


def refused(call):
    with pytest.raises(QuotaRefused) as raised:
        call()
    assert str(raised.value).endswith(".")
    return raised.value


def test_nothing_limits_a_new_tenant(registry, clinic, begin_job):
    assert registry.quotas(clinic.id) == Quotas()
    for _ in range(20):
        registry.charge(clinic.id, 1000, bytes=1 << 40)
    for number in range(20):
        begin_job(registry, clinic.id, number)


def test_requests_are_counted_a_minute(registry, clinic, clock):
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=3))
    clock.pass_by(seconds=10)
    for _ in range(3):
        registry.charge(clinic.id)
    refusal = refused(lambda: registry.charge(clinic.id))
    assert refusal.seconds == pytest.approx(50)
    assert str(refusal) == "the quota of 3 requests a minute is used up for 50 seconds more."
    clock.pass_by(seconds=refusal.seconds)
    registry.charge(clinic.id, requests=3)
    refused(lambda: registry.charge(clinic.id))


def test_bytes_are_counted_a_day_and_a_refusal_counts_nothing(registry, clinic, clock):
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=5, bytes_per_day=100))
    registry.charge(clinic.id, bytes=60)
    refusal = refused(lambda: registry.charge(clinic.id, bytes=41))
    assert refusal.seconds == pytest.approx(DAY / 2)
    registry.charge(clinic.id, bytes=40)
    registry.charge(clinic.id)  # brings no bytes, so those of the day do not matter
    registry.charge(clinic.id, requests=2)
    assert refused(lambda: registry.charge(clinic.id)).seconds == pytest.approx(60)
    clock.pass_by(days=0.5)
    registry.charge(clinic.id, bytes=100)


def test_a_request_that_no_window_holds_is_told_that_waiting_does_not_help(registry, clinic, begin_job):
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=0, bytes_per_day=100, jobs_at_once=0))
    refusal = refused(lambda: registry.charge(clinic.id, requests=0, bytes=101))
    assert refusal.seconds is None
    assert "101 of 100 bytes a day" in str(refusal)
    assert refused(lambda: registry.charge(clinic.id)).seconds is None
    assert refused(lambda: begin_job(registry, clinic.id, 1)).seconds is None


def test_tenants_are_counted_apart(registry, clinic, school, begin_job):
    for tenant in (clinic, school):
        registry.set_quotas(tenant.id, Quotas(requests_per_minute=1, jobs_at_once=1))
    registry.charge(clinic.id)
    begin_job(registry, clinic.id, 1)
    registry.charge(school.id)
    ended = begin_job(registry, school.id, 2)
    JobTable(registry).finish(ended.id, "accepting", "failed")
    begin_job(registry, school.id, 3)
    refused(lambda: begin_job(registry, clinic.id, 4))


def test_new_quotas_keep_what_was_counted(registry, clinic):
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=5))
    registry.charge(clinic.id, requests=4)
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=2))
    assert registry.quotas(clinic.id) == Quotas(requests_per_minute=2)
    refused(lambda: registry.charge(clinic.id))
    registry.charge(clinic.id, requests=0, bytes=7)  # of the quota that is passed it asks for nothing


@pytest.mark.parametrize("place", ["one registry", "several"])
def test_threads_are_given_exactly_the_quota(registry, registry_file, clinic, clock, place, begin_job):
    """Eight threads ask 25 times each for three of 100; 33 times they are given them."""
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=100, jobs_at_once=5))
    others = [Registry(f"sqlite:///{registry_file}", clock=lambda: clock.now) for _ in range(7)]
    asked = [registry, *others] if place == "several" else [registry] * 8

    def ask(number):
        given = jobs = 0
        for turn in range(25):
            try:
                asked[number].charge(clinic.id, requests=3)
                given += 1
            except QuotaRefused:
                pass
            try:
                begin_job(asked[number], clinic.id, 100 * number + turn)
                jobs += 1
            except QuotaRefused:
                pass
        return given, jobs

    with ThreadPoolExecutor(8) as pool:
        given, jobs = zip(*pool.map(ask, range(8)), strict=True)
    for other in others:
        other.close()
    assert (sum(given), sum(jobs)) == (33, 5)


def test_counting_leaves_durable_writes_durable(registry, clinic):
    """A connection that counted waits for the disk again when it writes a key; also after a refusal."""
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=1))
    registry.charge(clinic.id)
    refused(lambda: registry.charge(clinic.id))
    with registry.database.writing() as transaction:
        assert transaction._cursor.execute("PRAGMA synchronous").fetchone() == (2,)
    with registry.database.counting() as transaction:
        assert transaction._cursor.execute("PRAGMA synchronous").fetchone() == (1,)


@pytest.mark.parametrize("value", [-1, 1.5, True, "3", 2**53 + 1])
@pytest.mark.parametrize("name", ["requests_per_minute", "bytes_per_day", "jobs_at_once"])
def test_quotas_are_whole_numbers(name, value):
    with pytest.raises(BadInput, match=f"the quota {name} must be a whole number"):
        Quotas(**{name: value})


def test_a_clock_a_little_behind_does_not_empty_the_count_and_one_far_wrong_is_not_followed():
    limits = Quotas(requests_per_minute=2)
    ahead = Usage().after(limits, 600.0, requests=2, bytes=0)
    behind = refused(lambda: ahead.after(limits, 599.0, requests=1, bytes=0))
    assert behind.seconds == pytest.approx(61.0)
    assert ahead.after(limits, 100.0, requests=1, bytes=0).requests == 1


@given(
    st.integers(1, 10),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0.0, 4e4), st.integers(0, 4), st.integers(0, 30)), max_size=40),
)
def test_no_minute_and_no_day_is_given_more_than_the_quota(requests, size, asked):
    """Against sums of what was granted, taken minute by minute and day by day; what fits is granted."""
    limits, usage, now = Quotas(requests, size), Usage(), 0.0
    minutes, days = {}, {}
    for pause, many, large in asked:
        now += pause
        minute, day = int(now // 60), int(now // DAY)
        after = (minutes.get(minute, 0) + many, days.get(day, 0) + large)
        fits = (many == 0 or after[0] <= requests) and (large == 0 or after[1] <= size)
        try:
            usage = usage.after(limits, now, requests=many, bytes=large)
        except QuotaRefused:
            assert not fits
        else:
            assert fits
            minutes[minute], days[day] = after
    assert all(total <= requests for total in minutes.values())
    assert all(total <= size for total in days.values())
