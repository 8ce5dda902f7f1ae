"""Tenants on SQLite and on a real PostgreSQL, from many threads and beside a ledger."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from ledger_server import postgresql  # noqa: F401 (a fixture)

from sfumato.ledger import Ledger
from sfumato.serve import Registry
from sfumato.serve.authentication import Token, ledger_name
from sfumato.serve.jobs.job_store import JobRecord, JobTable
from sfumato.serve.refusals import Conflict, QuotaRefused, RegistryUnavailable, Unknown
from sfumato.serve.tenant_registry import Quotas
from sfumato.serve.trust_policy import Context, Policy

THREADS = 8
NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def url(request, tmp_path):
    if request.param == "SQLite":
        return f"sqlite:///{tmp_path}/service.db"
    return request.getfixturevalue("postgresql")()


@pytest.fixture
def registry(url):
    """Its clock stands still, so that no minute ends while a test counts."""
    with Registry(url, clock=lambda: NOON) as made:
        yield made


def at_once(work):
    """What ``work(number)`` answers in each of so many threads that begin together."""
    barrier = threading.Barrier(THREADS)

    def run(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def attempted(call, *refusals):
    try:
        return call()
    except refusals:
        return None


def test_one_of_many_threads_makes_the_tables_and_one_the_tenant(url):
    def make(_):
        with Registry(url) as made:
            return attempted(lambda: made.create_tenant("clinic"), Conflict)

    made = [one for one in at_once(make) if one is not None]
    with Registry(url) as again:
        assert again.tenants() == made
    assert len(made) == 1


def test_keys_open_and_are_refused_alike(url, registry):
    clinic, school = registry.create_tenant("clinic"), registry.create_tenant("school")
    key, token = registry.create_key(
        clinic.id,
        name="nightly ünïcode",
        role="publisher",
        scopes=["protect"],
        datasets=["visits"],
        reader="anna",
        expires=NOON + timedelta(hours=1),
    )
    held = registry.authenticate(token)
    assert (held.tenant, held.reader, held.datasets) == (clinic.id, "anna", {"visits"})
    assert registry.keys(clinic.id) == [key]
    assert registry.authenticate(Token(key.id, Token.new().secret).shown()) is None
    assert registry.authenticate(Token.new().shown()) is None
    with Registry(url, clock=lambda: NOON + timedelta(hours=1)) as later:
        assert later.authenticate(token) is None
    for tenant_id in (school.id, "t\0", "\ud800"):
        with pytest.raises(Unknown):
            registry.revoke_key(tenant_id, key.id)
    assert registry.authenticate(token) is not None
    registry.revoke_key(clinic.id, key.id)
    assert registry.authenticate(token) is None


def test_threads_are_given_exactly_the_quota(registry):
    clinic = registry.create_tenant("clinic")
    registry.set_quotas(clinic.id, Quotas(requests_per_minute=50, bytes_per_day=1000, jobs_at_once=3))

    def ask(number):
        granted = [0, 0]
        for turn in range(20):
            if attempted(lambda: (registry.charge(clinic.id, bytes=30),), QuotaRefused):
                granted[0] += 1
            new = JobRecord(
                id=f"{100 * number + turn:024x}",
                tenant=clinic.id,
                kind="protect",
                dataset="ward",
                request=None,
                asked={},
                content="digest",
                created=NOON.isoformat(),
            )
            if attempted(lambda new=new: JobTable(registry).add(new, "accepting", 5.0), QuotaRefused):
                granted[1] += 1
        return granted

    given, jobs = zip(*at_once(ask), strict=True)
    assert (sum(given), sum(jobs)) == (33, 3)  # 33 × 30 bytes of 1,000


def test_policies_of_many_threads_are_numbered_without_a_gap(registry):
    clinic = registry.create_tenant("clinic")

    def put(number):
        rule = {"readers": [f"reader {number}"], "distrust": number / THREADS}
        return registry.set_policy(clinic.id, Policy.from_dict({"rules": [rule]}))

    made = at_once(put)
    assert sorted(one.version for one in made) == list(range(1, THREADS + 1))
    newest = max(made, key=lambda one: one.version)
    assert registry.policy(clinic.id) == newest
    (rule,) = newest.policy.rules
    assert registry.policy(clinic.id).policy.distrust(*rule.readers, Context()) == rule.distrust


def test_one_server_keeps_tenants_and_budgets_beside_each_other(postgresql):  # noqa: F811
    url = postgresql()
    with Registry(url) as registry, Ledger(url) as ledger:
        clinic, school = registry.create_tenant("clinic"), registry.create_tenant("school")
        for tenant in (clinic, school):
            ledger.open(ledger_name(tenant.id, "visits"), epsilon=1.0, delta=1e-6)
        assert len(ledger.names()) == 2
    with Registry(url) as again:
        assert [one.name for one in again.tenants()] == ["clinic", "school"]


def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path):
    with pytest.raises(RegistryUnavailable) as refused:
        Registry(f"postgresql://sfumato:hunter2@/none?host={tmp_path}")
    assert "could not be used" in str(refused.value)
    assert "hunter2" not in str(refused.value)
