"""Bodies: as long as is allowed, at a pace, and small unless a route asks for more."""

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel

from sfumato.serve.refusals import TooLarge, TooSlow
from sfumato.serve.rest.rest_app import add_problems
from sfumato.serve.rest.rest_requests import Bounded, received
from sfumato.serve.uploads import Pace, written


def test_a_pace_gives_time_for_what_came_and_none_for_silence():
    clock = SimpleNamespace(now=100.0)
    pace = Pace(clock=lambda: clock.now)
    assert pace.patience() == 30.0
    clock.now += 29.0
    pace.add(1)
    assert pace.patience() == pytest.approx(1.0, abs=0.01)  # a byte buys no time
    pace.add(10 * (16 << 10))
    assert pace.patience() == pytest.approx(11.0, abs=0.01)
    pace.add(1 << 30)
    assert pace.patience() == 30.0  # nor does a gigabyte buy an hour of silence
    clock.now += 1e6
    assert pace.patience() == 0.0


async def _chunks(*parts):
    for part in parts:
        yield part


def test_a_body_is_written_for_its_owner_alone(tmp_path):
    asyncio.run(written(_chunks(b"ab", b"", b"c"), tmp_path / "file", 3))
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TooLarge, match="larger than 2 bytes"):
        asyncio.run(written(_chunks(b"ab", b"c"), tmp_path / "other", 2))


def test_a_sender_that_is_too_slow_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.serve.uploads._PAUSE_SECONDS", 0.2)

    async def drops():
        while True:
            await asyncio.sleep(0.05)
            yield b"x"

    with pytest.raises(TooSlow):
        asyncio.run(written(drops(), tmp_path / "file", 1 << 20))


class _Words(BaseModel):
    words: list[str]


@pytest.fixture
def client(tmp_path):
    app = FastAPI()
    add_problems(app)
    app.add_middleware(Bounded)

    @app.post("/small")
    def small(words: _Words) -> int:
        return len(words.words)

    @app.post("/file")
    async def file(request: Request) -> int:
        place = tmp_path / "file"
        place.unlink(missing_ok=True)
        await received(request, place, 5 << 20)
        return place.stat().st_size

    with TestClient(app) as made:
        yield made


def chunked(size):
    """A body whose length is not announced."""
    for _ in range(size >> 16):
        yield b" " * (1 << 16)


def test_bodies_are_small_unless_a_route_takes_more(client):
    assert client.post("/small", json={"words": ["a"]}).json() == 1
    for body in (b" " * (3 << 20), chunked(3 << 20)):
        refused = client.post("/small", content=body, headers={"Content-Type": "application/json"})
        assert (refused.status_code, refused.json()["type"]) == (413, "too-large")
    for body in (b" " * (3 << 20), chunked(3 << 20)):
        assert client.post("/file", content=body).json() == 3 << 20
    for body in (b" " * (6 << 20), chunked(6 << 20)):
        refused = client.post("/file", content=body)
        assert (refused.status_code, refused.json()["type"]) == (413, "too-large")
