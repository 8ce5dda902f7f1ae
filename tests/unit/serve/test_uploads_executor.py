"""Work that requests wait for: how much of it, how much at a time, how long, and what goes on meanwhile."""

import asyncio
import io
import threading
import time

import httpx
import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

ASKED = '{"parameters": {"epsilon": 1.0, "clip": 1.0}}'


def npz(rows=30):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(rows, 4)))
    return out.getvalue()


@pytest.fixture
def made(tmp_path):
    """Makes a service of two tenants; their headers."""
    services = []

    def make(**settings):
        service = Service(Settings(tmp_path / "service", **settings))
        services.append(service)
        headers = []
        for name in ("clinic", "school"):
            id_ = service.registry.create_tenant(name).id
            token = service.registry.create_key(id_, name="k", role="owner")[1]
            service.open_budget(service.registry.authenticate(token), "ward", epsilon=8.0, delta=1e-5)
            headers.append({"Authorization": f"Bearer {token}"})
        return service, *headers

    yield make
    for service in services:
        service.close()


def asked(service, talk):
    """What ``talk`` makes of a client of the service, in one loop."""

    async def main():
        transport = httpx.ASGITransport(app=make_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://service", timeout=60) as client:
            return await talk(client)

    return asyncio.run(main())


def protect(client, headers, content=None, **words):
    content = npz() if content is None else content
    params = {"name": "X.npz", "asked": ASKED}
    return client.post("/v1/datasets/ward/protect", params=params, content=content, headers=headers, **words)


def test_keys_and_readiness_are_answered_while_a_tenant_does_all_it_may(made):
    """A hundred releases that do not end: another tenant, and machines, notice nothing."""
    service, clinic, school = made()
    ends = threading.Event()

    def slow(caller, *_, **__):
        ends.wait(60)
        raise BadInput("it was slow.")

    quick = service.protect
    service.protect = lambda caller, *rest, **words: (
        slow(caller) if caller.tenant == first else quick(caller, *rest, **words)
    )
    first = service.registry.authenticate(clinic["Authorization"].split()[1]).tenant

    async def talk(client):
        slow_ones = [asyncio.ensure_future(protect(client, clinic)) for _ in range(100)]
        await asyncio.sleep(1.0)
        try:
            for path in ("/readyz", "/v1/me", "/v1/budgets"):
                answer = await asyncio.wait_for(client.get(path, headers=school), 10)
                assert answer.status_code == 200
            assert (await asyncio.wait_for(protect(client, school), 20)).status_code == 200
        finally:
            ends.set()
        return [answer.status_code for answer in await asyncio.gather(*slow_ones)]

    assert set(asked(service, talk)) <= {400, 429}


def test_a_tenant_has_so_many_at_a_time_and_the_next_is_told_when(made):
    service, clinic, _ = made(direct_at_once=2)
    service.direct._patience = 0.2
    ends, lock, running, most = threading.Event(), threading.Lock(), 0, 0

    def slow(*_, **__):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        ends.wait(60)
        with lock:
            running -= 1
        raise BadInput("it was slow.")

    service.protect = slow

    async def talk(client):
        first = [asyncio.ensure_future(protect(client, clinic)) for _ in range(2)]
        while running < 2:
            await asyncio.sleep(0.01)
        refused = await protect(client, clinic)
        ends.set()
        await asyncio.gather(*first)
        return refused, await protect(client, clinic)

    refused, after = asked(service, talk)
    assert (refused.status_code, refused.json()["type"]) == (429, "quota")
    assert int(refused.headers["Retry-After"]) >= 1
    assert "2 synchronous requests under way" in refused.json()["detail"]
    assert (most, after.json()["detail"]) == (2, "it was slow.")


@pytest.mark.parametrize("key", [None, "again"])
@pytest.mark.parametrize("rows", [30, 50_000])  # kept in memory, and on the disk, until it is worked on
def test_a_release_that_takes_too_long_is_answered_goes_on_and_is_kept(made, key, rows):
    service, clinic, _ = made(direct_seconds=0.3)
    caller = service.registry.authenticate(clinic["Authorization"].split()[1])
    quick, ended = service.protect, threading.Event()

    def slow(*rest, **words):
        time.sleep(1.0)
        try:
            return quick(*rest, **words)
        finally:
            ended.set()

    service.protect = slow
    content, headers = npz(rows), clinic | ({} if key is None else {"Idempotency-Key": key})

    async def talk(client):
        late = await protect(client, headers, content)
        while not ended.is_set():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        service.protect = quick
        service.direct._seconds = 60.0
        return late, await protect(client, headers, content)

    late, again = asked(service, talk)
    assert (late.status_code, late.json()["type"]) == (503, "took-too-long")
    assert "longer than 0.3 seconds" in late.json()["detail"]
    assert ("same idempotency key" in late.json()["detail"]) == (key is not None)
    assert again.status_code == 200
    releases = service.releases(caller)
    assert len(releases) == service.budget(caller, "ward")["spends"] == (2 if key is None else 1)
    assert again.headers["Sfumato-Release"] in {one.id for one in releases}
    mine = service.settings.work.rglob("X.npz")
    assert not list(mine)  # nothing private was left behind


@pytest.mark.parametrize("way", ["plan", "protect"])
@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize("said", [False, True])
def test_what_is_waited_for_is_smaller_than_what_is_a_job(made, way, form, said):
    service, clinic, _ = made(direct_bytes=10_000)
    content = npz(1000)

    async def chunks():
        yield content

    async def talk(client):
        answers = []
        for where in (way, "jobs"):
            words = {"params": {"name": "X.npz", "asked": ASKED}, "content": content if said else chunks()}
            if form:
                words = {"files": {"file": ("X.npz", content)}, "params": {"asked": ASKED}}
            answers.append(await client.post(f"/v1/datasets/ward/{where}", headers=clinic, **words))
        return answers

    refused, job = asked(service, talk)
    assert (refused.status_code, refused.json()["type"]) == (413, "too-large")
    assert "larger than 10,000 bytes" in refused.json()["detail"]
    assert "/jobs" in refused.json()["detail"]
    assert job.status_code == 202
