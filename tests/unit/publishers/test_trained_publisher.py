"""Trained publishers: a run that is resumed from kept sums, or from a kept state, is the same run."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("torch")

from sfumato.noise import NoisedSums, Secure, Seeded
from sfumato.publishers import DPDMPublisher, VAEGANDPPublisher
from sfumato.publishers.trained_publisher import make_generator

DIGITS = load_digits()
PICTURES, LABELS = DIGITS.images[:200], DIGITS.target[:200].astype(np.int64)
STEPS = 6


class Kept(NoisedSums):
    """Returns the sums of ``log`` that it has, draws the others, and has drawn ``drawn``."""

    def __init__(self, log, *, first=0, state=None):
        super().__init__(Seeded(3))
        self.log, self.drawn, self.states = log, [], []
        self.count, self.state = first, state

    def save(self, state):
        self.states.append(state())

    def _sum(self, number, drawn):
        if number < len(self.log):
            return self.log[number]
        self.drawn.append(number)
        self.log.append(drawn())
        return self.log[-1]


@pytest.fixture(params=["vaegan-dp", "dpdm"])
def make(request):
    shared = {
        "multiplier": 1.0,
        "rate": 0.1,
        "steps": STEPS,
        "shape": (8, 8),
        "top": 16.0,
        "randomness": Seeded(1),
    }
    if request.param == "dpdm":
        return lambda: DPDMPublisher(width=8, drawing=3, **shared)
    return lambda: VAEGANDPPublisher(latent=2, hidden=8, **shared)


def published(publisher, sums):
    return publisher.fit(PICTURES, LABELS, sums=sums).publish(5).value[0]


def test_kept_sums_are_not_drawn_again_and_make_the_same_pictures(make):
    whole = Kept([])
    expected = published(make(), whole)
    assert whole.drawn == list(range(STEPS))
    assert all(found.ndim == 1 for found in whole.log)
    carried = Kept(whole.log[:4])
    np.testing.assert_array_equal(published(make(), carried), expected)
    assert carried.drawn == [4, 5]


def test_a_kept_state_stands_for_all_sums_before_it(make):
    whole = Kept([])
    expected = published(make(), whole)
    assert len(whole.states) == STEPS
    carried = Kept([None] * 4, first=4, state=whole.states[3])
    np.testing.assert_array_equal(published(make(), carried), expected)
    assert carried.drawn == [4, 5]


def test_other_sums_make_other_pictures(make):
    expected = published(make(), Kept([]))
    other = Kept([])
    other._randomness = Seeded(4)
    assert not np.array_equal(published(make(), other), expected)


def test_generators_of_other_labels_and_other_runs_differ():
    seeds = [
        make_generator(randomness.stream(label)).initial_seed()
        for label in (b"a", b"b")
        for randomness in (Seeded(1), Seeded(2), Secure(), Secure())
    ]
    assert len(set(seeds)) == len(seeds)
    assert make_generator(Seeded(1).stream(b"a")).initial_seed() == seeds[0]
