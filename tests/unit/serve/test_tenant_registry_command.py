"""The commands by which whoever runs a service looks after its tenants."""

import json

import pytest

from sfumato.cli import main
from sfumato.serve.refusals import QuotaRefused
from sfumato.serve.service import NewKey, Service
from sfumato.serve.settings import Settings


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a command on one data folder: what it printed, from JSON where that was asked for."""

    def run(*words, code=0):
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--data", str(tmp_path / "service"), *words])
        told = capsys.readouterr()
        assert ended.value.code == code, told.err
        return json.loads(told.out) if "--json" in words else told.out + told.err

    return run


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service"))
    yield made
    made.close()


def test_tenants_are_listed_with_their_ids(run):
    assert run("tenants", "--json") == []
    made = [run("tenant", name, "--json") for name in ("clinic", "school")]
    listed = run("tenants", "--json")
    assert [(one["tenant"], one["name"], one["closed"]) for one in listed] == [
        (one["tenant"], one["name"], None) for one in made
    ]
    assert f"{made[0]['tenant']}  clinic, since 20" in run("tenants")


def test_quotas_are_shown_and_changed_one_by_one(run):
    run("tenant", "clinic")
    free = {"requests_per_minute": None, "bytes_per_day": None, "jobs_at_once": None, "bytes_kept": None}
    assert run("quotas", "clinic", "--json") == free
    assert run("quotas", "clinic", "--requests-per-minute", "60", "--json") == free | {
        "requests_per_minute": 60
    }
    more = ("--bytes-per-day", "5000000", "--jobs-at-once", "0", "--requests-per-minute", "none")
    assert run("quotas", "clinic", *more) == (
        "requests per minute: no limit\nbytes per day: 5,000,000\njobs at once: 0\n"
        "bytes kept: the limit of the service\n"
    )


def test_a_service_that_runs_minds_new_quotas(run, service):
    token = run("tenant", "clinic", "--json")["token"]
    caller = service.registry.authenticate(token)
    run("quotas", "clinic", "--requests-per-minute", "0")
    with pytest.raises(QuotaRefused, match="0 requests a minute"):
        service.registry.charge(caller.tenant)


@pytest.mark.parametrize("limit", ["-1", "1.5", "x", "9007199254740993", "²"])
def test_what_is_no_limit_is_refused_in_a_sentence(run, limit):
    run("tenant", "clinic")
    told = run("quotas", "clinic", f"--bytes-per-day={limit}", code=2)
    assert "whole number from 0 to 2^53, or none" in told
    assert run("quotas", "clinic", "--json")["bytes_per_day"] is None


@pytest.mark.parametrize("command", ["quotas", "key", "close"])
def test_a_tenant_that_is_not_there_is_named(run, command):
    assert "no tenant named 'clinic'" in run(command, "clinic", code=2)


def test_an_owner_who_lost_the_only_key_is_given_another(run, service):
    first = run("tenant", "clinic", "--json")
    second = run("key", "clinic", "--json")
    assert second["tenant"] == first["tenant"]
    for one in (first, second):
        caller = service.registry.authenticate(one["token"])
        assert (caller.tenant, caller.role, caller.id) == (first["tenant"], "owner", one["key"])
    assert run("key", "clinic").startswith("Key, shown once: sfu_")


def test_a_closed_tenant_has_no_key_and_gets_none_while_its_ledger_stays(run, service):
    first, other = (run("tenant", name, "--json") for name in ("clinic", "school"))
    owner = service.registry.authenticate(first["token"])
    service.open_budget(owner, "ward", epsilon=1.0, delta=0.0)
    _, second = service.make_key(owner, NewKey(name="more", role="publisher"))
    closed = run("close", "clinic", "--json")
    assert closed["closed"] is not None
    assert run("close", "clinic", "--json") == closed
    assert "clinic is closed" in run("close", "clinic")
    for token in (first["token"], second):
        assert service.registry.authenticate(token) is None
    assert service.registry.authenticate(other["token"]) is not None
    assert "is given no more keys" in run("key", "clinic", code=2)
    assert ", closed 20" in run("tenants")
    assert "choose another name" in run("tenant", "clinic", code=2)
    assert service.ledger.has(f"{first['tenant']}:ward")
