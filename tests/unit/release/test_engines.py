"""Engines: each piece gives one result or one refusal, and what nobody foresaw ends the work."""

import pickle
import threading

import pytest

from sfumato.errors import BadInput
from sfumato.media.audio import BandNoise
from sfumato.media.images import Blur, PlaneMeans
from sfumato.noise import Keyed, processors
from sfumato.release.engines import LocalEngine, opened_engine
from sfumato.release.media_files import MediaMechanisms
from sfumato.reports import SigningKey


def halved(number):
    if number % 2:
        raise BadInput(f"{number} is odd.")
    return number // 2


def test_results_and_refusals_by_piece_and_progress_to_the_end():
    told = []
    done = LocalEngine().each(halved, range(5), "halving", lambda *step: told.append(step))
    assert done.results == {0: 0, 2: 1, 4: 2}
    assert done.refused == {1: "1 is odd.", 3: "3 is odd."}
    assert told == [("halving", pytest.approx(k / 5)) for k in range(1, 6)]


def test_what_nobody_foresaw_ends_it():
    def work(number):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        LocalEngine().each(work, range(3), "", lambda stage, share: None)


def test_as_many_threads_as_asked_for():
    seen, gate = set(), threading.Barrier(3, timeout=30)

    def work(number):
        gate.wait()
        seen.add(threading.get_ident())

    LocalEngine(3).each(work, range(3), "", lambda stage, share: None)
    assert len(seen) == 3


def test_engines_by_name():
    with opened_engine("local", 2) as engine:
        assert isinstance(engine, LocalEngine)
        assert engine.workers == 2
    for name, workers, sentence in (("rey", None, "did you mean ray"), ("local", 0, "accepted: 1 or more")):
        with pytest.raises(BadInput, match=sentence), opened_engine(name, workers):
            pass


def test_the_environment_says_how_many_processors_to_use(monkeypatch):
    for told, used in (("1", 1), ("3", 3)):
        monkeypatch.setenv("SFUMATO_THREADS", told)
        assert processors() == used
    monkeypatch.delenv("SFUMATO_THREADS")
    whole = processors()
    for nonsense in ("0", "-1", "many", ""):
        monkeypatch.setenv("SFUMATO_THREADS", nonsense)
        assert processors() == whole


def test_a_signing_key_goes_to_a_worker_of_ones_own():
    key = SigningKey.new()
    sent = pickle.loads(pickle.dumps(key))
    assert sent.public.id == key.public.id
    assert key.public.signed(b"message", sent.sign(b"message"))


def test_media_are_keyed_once_all_noise_is():
    noise = Keyed(b"k" * 32, dataset="d", version="1", release="r")
    keyed, fresh = PlaneMeans(1.0, randomness=noise), BandNoise(1.0)
    assert MediaMechanisms(keyed, fresh).keyed is None
    assert MediaMechanisms(keyed, fresh).keyed_by(noise).keyed is noise
    assert MediaMechanisms(Blur(), BandNoise(1.0, randomness=noise)).keyed is noise
