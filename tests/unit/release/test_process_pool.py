"""Worker processes: the bytes that threads give, no secret in a worker, and an end whatever happens."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput, StorageFull
from sfumato.io import encode_picture
from sfumato.media.images import PlaneMeans
from sfumato.noise import Keyed
from sfumato.release import engines
from sfumato.release.engines import LocalEngine
from sfumato.release.manifest import verify_folder
from sfumato.release.process_pool import ProcessPool, Sent, WorkerLost
from sfumato.reports import MANIFEST, KeyRing

SECRET = bytes(range(64, 96))
KEYED = Keyed(SECRET, dataset="album", version="1", release="r1")


def silent(stage, share):
    """Progress that nobody is told."""


def halved(number):
    """What is done with a piece."""
    if number == 13:
        raise BadInput("13 is refused.")
    if number == 14:
        raise StorageFull("the disk is full.")
    if number == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid(), number / 2, os.environ["OPENBLAS_NUM_THREADS"]


@pytest.fixture
def engine(monkeypatch):
    """Two workers, also for few pieces."""
    monkeypatch.setattr(engines, "MANY", 3)
    made = LocalEngine(2)
    yield made
    made.close()


@pytest.fixture
def photos(tmp_path):
    """Twelve pictures of two shapes, as PNG and as JPEG, and one that is none."""
    rng = np.random.default_rng(7)
    (tmp_path / "in").mkdir()
    for number in range(12):
        suffix = ".jpg" if number % 3 else ".png"
        values = rng.integers(0, 256, (24, 32 if number % 2 else 20, 3), dtype=np.uint8)
        (tmp_path / "in" / f"{number}{suffix}").write_bytes(encode_picture(values, suffix))
    (tmp_path / "in" / "none.png").write_bytes(b"no picture")
    return tmp_path / "in"


def released(source, output, engine, noise=KEYED, mechanism=PlaneMeans):
    """What the files of a release hold, by their names."""
    ring = KeyRing(output.parent / "keys")
    made = mechanism(epsilon=4.0, unit="region(8)", randomness=noise)
    done = sf.protect(source, output, made, keys=ring, public_names=True, engine=engine)
    assert verify_folder(output, ring).holds
    assert [name for name, _ in done.skipped] == ["none.png"]
    return {file.name: file.read_bytes() for file in output.iterdir() if MANIFEST not in file.name}


def test_work_is_done_elsewhere_on_one_thread_each_and_refusals_come_back(engine):
    done = engine.each(halved, range(14), "halving", silent)
    places, halves, threads = zip(*done.results.values(), strict=True)
    assert halves == tuple(number / 2 for number in done.results)
    assert os.getpid() not in places
    assert 1 <= len(set(places)) <= 2
    assert set(threads) == {"1"}
    assert done.refused == {13: "13 is refused."}
    again = engine.each(halved, range(3), "halving", silent)
    assert {place for place, _, _ in again.results.values()} <= set(places)


@pytest.mark.parametrize(("last", "error"), [(14, StorageFull), (15, WorkerLost)])
def test_a_full_disk_or_a_killed_worker_ends_it_and_no_worker_stays(engine, last, error):
    (place, _, _), *_ = engine.each(halved, range(3), "halving", silent).results.values()
    with pytest.raises(error):
        engine.each(halved, [0, 1, 2, last], "halving", silent)
    with pytest.raises(ProcessLookupError):
        os.kill(place, 0)
    assert len(engine.each(halved, range(3), "halving", silent).results) == 3


def test_workers_end_with_their_engine(monkeypatch):
    monkeypatch.setattr(engines, "MANY", 3)
    (place, _, _), *_ = LocalEngine(2).each(halved, range(3), "halving", silent).results.values()
    with pytest.raises(ProcessLookupError):
        os.kill(place, 0)


def test_work_that_cannot_be_sent_or_loaded_is_done_here(engine):
    there = []
    done = engine.each(lambda number: there.append(number) or os.getpid(), range(5), "", silent)
    assert set(done.results.values()) == {os.getpid()}
    assert sorted(there) == list(range(5))


def test_keyed_pictures_have_the_bytes_of_one_process_drawn_one_by_one(photos, tmp_path, engine, monkeypatch):
    alone = released(photos, tmp_path / "alone", LocalEngine(1))
    elsewhere = released(photos, tmp_path / "elsewhere", engine)
    assert len(alone) == 12
    assert elsewhere == alone
    monkeypatch.setattr(PlaneMeans, "batched", False)
    assert released(photos, tmp_path / "one by one", LocalEngine(1)) == alone


def test_fresh_noise_is_drawn_for_each_file_and_each_run(photos, tmp_path, engine):
    first, second = (set(released(photos, tmp_path / run, engine, None).values()) for run in "ab")
    assert len(first) == len(second) == 12
    assert first.isdisjoint(second)


def test_no_secret_is_in_what_is_sent():
    mechanism = PlaneMeans(epsilon=4.0, randomness=KEYED)
    sent = Sent(mechanism)
    assert SECRET not in sent.content
    (noise,) = sent.noise
    assert noise is KEYED
    with pytest.raises(BadInput, match="asks for its keys"):
        pickle.loads(sent.content).randomness.commitment(bytes(32))
    with pytest.raises(BadInput, match="is not pickled"):
        pickle.dumps(mechanism)


SCRIPT = """
import sys
import numpy as np
import sfumato as sf
from sfumato.io import encode_picture
from sfumato.media.images import PlaneMeans
from sfumato.release import engines
from sfumato.reports import KeyRing
from pathlib import Path

class Own(PlaneMeans):
    pass

engines.MANY = 3
rng = np.random.default_rng(1)
Path("in").mkdir()
for number in range(4):
    picture = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Path("in", f"{number}.png").write_bytes(encode_picture(picture, ".png"))
for kind in (PlaneMeans, Own):
    engine = engines.LocalEngine(2)
    mechanism = kind(epsilon=4.0, unit="region(4)")
    done = sf.protect("in", kind.__name__, mechanism, keys=KeyRing(Path("keys")), engine=engine)
    print(len(done.released))
"""


def test_a_script_needs_no_guard_and_may_have_mechanisms_of_its_own(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "4\n4\n", run.stderr


WAITING = """
import os, sys, time
from sfumato.release.process_pool import ProcessPool, Sent
pool = ProcessPool(1)
print(pool._workers[0].process.pid, flush=True)
pool.each(Sent(time.sleep), [[60.0]], print)
"""


def test_workers_end_when_their_parent_is_killed():
    run = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True)
    worker = int(run.stdout.readline())
    time.sleep(0.5)
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 30.0
    while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_pool_that_was_closed_is_not_alive():
    pool = ProcessPool(1)
    assert pool.alive
    pool.close()
    assert not pool.alive


@pytest.mark.skipif(not Path("/proc").exists(), reason="the environment of a process is read from /proc")
def test_no_setting_of_ours_reaches_a_worker(monkeypatch):
    monkeypatch.setenv("SFUMATO_PASSPHRASE", "of the signing key")
    monkeypatch.setenv("SFUMATO_LEDGER", "postgresql://user:password@host/ledger")
    pool = ProcessPool(1)
    try:
        (worker,) = pool._workers
        words = Path(f"/proc/{worker.process.pid}/environ").read_bytes()
    finally:
        pool.close()
    assert b"OMP_NUM_THREADS=1" in words
    assert b"of the signing key" not in words
    assert b"password" not in words
