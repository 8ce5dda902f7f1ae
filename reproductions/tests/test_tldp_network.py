"""The small network: it learns, gives the same answers twice, and leaves torch as it was."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions.datasets import load
from sfumato_reproductions.tldp.network import FEATURES, check_torch, fit_features, fit_pictures

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def digits():
    """1,200 digits to learn from and 500 to test on, on levels from 0 to 256."""
    records, labels = load("digits").sample(1700, 0)
    return (records[:1200] * 256, labels[:1200]), (records[1200:] * 256, labels[1200:])


def fitted(learned, epochs=12, seed=0):
    return fit_pictures(*learned, shape=(8, 8), span=256.0, spread=0.0, classes=10, epochs=epochs, seed=seed)


def test_it_learns_digits_and_so_does_its_last_layer(digits) -> None:
    learned, tested = digits
    model = fitted(learned)
    score = model.score(*tested)
    assert score.weighted > 0.85
    assert score.macro == pytest.approx(score.weighted, abs=0.02)
    inside = [model.features(pictures) for pictures, _ in digits]
    assert inside[0].shape == (1200, FEATURES)
    assert np.abs(inside[0]).max() <= 1.0
    last = fit_features(inside[0], learned[1], span=0.0, spread=1.0, classes=10, epochs=12, seed=0)
    assert last.score(inside[1], tested[1]).weighted > 0.85


def test_the_same_seed_gives_the_same_network_and_torch_is_left_alone(digits) -> None:
    learned, tested = digits
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, again, other = (fitted(learned, 1, seed).features(tested[0]) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), before)


def test_without_torch_one_sentence_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"pip install 'sfumato\[learn\]'\.$"):
        check_torch()
