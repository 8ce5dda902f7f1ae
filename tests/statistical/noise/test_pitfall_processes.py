"""Forked children and threads: no shared noise, no disturbed precision."""

import os
import threading

import mpmath
import numpy as np
from fed import Fed

from sfumato.mechanisms import Gaussian
from sfumato.noise import NORMAL, Secure, Seeded, Stream, gaussian_noise
from sfumato.noise.grid import _exactly


def test_a_forked_child_draws_other_words_than_its_parent_and_its_siblings():
    """False-alarm rate below 1e-70: four words of 64 bits each would have to coincide."""
    stream = Secure().stream(b"")
    stream.words(3)
    children = [in_a_child(lambda: stream.words(4).tobytes()) for _ in range(2)]
    own = stream.words(4).tobytes()
    assert len({own, *children}) == 3


def test_a_forked_child_releases_other_noise():
    """False-alarm rate below 1e-70: 64 Gaussian values of some thousand steps each would have to coincide."""
    mechanism, data = Gaussian(1.0, 1e-6, 1.0), np.zeros((1, 64))
    child = in_a_child(lambda: mechanism.release(data).value.tobytes())
    assert child != mechanism.release(data).value.tobytes()


def test_a_seeded_child_repeats_its_parent():
    """No chance involved: a seed is for repeating, in every process."""
    child = in_a_child(lambda: Seeded(4).stream(b"x").words(4).tobytes())
    assert child == Seeded(4).stream(b"x").words(4).tobytes()


class Meddled:
    """The normal law; once both ends of an interval are known, another thread cuts mpmath to 20 bits."""

    def __init__(self):
        self.calls = 0

    def exact(self, p):
        ends = NORMAL.exact(p)
        self.calls += 1
        if self.calls == 2:
            meddler = threading.Thread(target=lambda: setattr(mpmath.mp, "prec", 20))
            meddler.start()
            meddler.join()
        return ends


def test_another_thread_that_changes_mpmaths_precision_disturbs_nothing():
    """No chance involved: 64 bits decide these words, unless the sums that follow keep only 20 of theirs."""
    before = mpmath.mp.prec
    try:
        for word in Seeded(2).stream(b"precise").words(100).tolist():
            quiet, meddled = Fed([]), Fed([])
            expected = _exactly(NORMAL, [word], [2.0**30], quiet)
            assert _exactly(Meddled(), [word], [2.0**30], meddled) == expected
            assert quiet.further == meddled.further == 0
    finally:
        mpmath.mp.prec = before


def test_exact_arithmetic_leaves_mpmaths_own_precision_alone():
    """No chance involved: two threads that both need exact arithmetic, and the precision after them."""
    before = mpmath.mp.prec
    gaussian_noise(2.0**34, 2**20 + 2**17, grid=1.0, threads=2)
    assert mpmath.mp.prec == before


def test_noise_does_not_depend_on_the_number_of_threads():
    """No chance involved: three blocks of work on one, two and three threads."""
    draws = [gaussian_noise(1.0, 2**21 + 5, randomness=Seeded(9), threads=n).tobytes() for n in (1, 2, 3)]
    assert len(set(draws)) == 1


def test_two_streams_of_one_source_differ():
    """False-alarm rate below 1e-70."""
    assert Stream().words(4).tobytes() != Stream().words(4).tobytes()
    assert Secure().stream(b"a").words(4).tobytes() != Secure().stream(b"a").words(4).tobytes()


def in_a_child(work):
    """What ``work`` returns, as bytes, in a forked child of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, work())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer, "the child failed"
    return answer
