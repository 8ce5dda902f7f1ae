"""Clips of layers that follow quantiles: what is released, what one record moves, and where clips go."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, LayerQuantileSum, LayerSum, QuantileSum
from sfumato.noise import Seeded

LAYERS = [[0, 1], [2]]


def sums(clips=(1.0, 2.0), layers=LAYERS, expected=100.0, seed=0, **options):
    return LayerQuantileSum(clips, layers, expected=expected, stream=Seeded(seed).stream(b"bits"), **options)


def gradients(first, second):
    """Rows whose layers have the given lengths."""
    return [
        torch.tensor([[0.6 * length] for length in first]),
        torch.tensor([[0.8 * length] for length in first]),
        torch.tensor([[length] for length in second]),
    ]


def test_the_noise_of_each_count_has_its_deviation():
    """2000 steps without examples, two layers: χ²; false-alarm rate 1e-6."""
    z, share, expected = 1.7, 0.04, 50.0
    tracked = sums(expected=expected, share=share)
    drawn = np.array([tracked.advance(z) for _ in range(2000)]) - 0.5
    squares = float((drawn**2).sum()) * expected**2 / (z * math.sqrt(2.0 / share) / 2.0) ** 2
    assert chi2.ppf(5e-7, 4000) < squares < chi2.isf(5e-7, 4000)


def test_each_layer_counts_its_own_gradients():
    tracked = sums(expected=4.0, share=0.999)
    tracked.exact(gradients([0.5, 0.9, 1.1, 30.0], [1.9, 2.1, 2.2, 2.3]))
    tracked.exact(gradients([0.2], [0.1]))  # blocks of one step add up
    assert tracked.advance(1e-4) == pytest.approx((0.5 + 0.5 / 4.0, 0.5 - 0.5 / 4.0), abs=1e-3)
    assert tracked.advance(1e-4) == pytest.approx((0.5, 0.5), abs=1e-3)


def test_sums_are_those_of_the_present_lengths():
    rows = [torch.randn((20, 3), generator=torch.Generator().manual_seed(place)) for place in range(3)]
    tracked = sums()
    for _ in range(3):
        fixed = LayerSum(tracked.clips, LAYERS)
        assert fixed.clip == tracked.clip
        found = zip(tracked.exact(rows), fixed.exact(rows), strict=True)
        assert all(torch.equal(a, b) for a, b in found)
        before = tracked.clips
        tracked.advance(1.0)
        assert all(a != b for a, b in zip(before, tracked.clips, strict=True))


@pytest.mark.parametrize("quantile", [0.3, 0.8])
def test_every_clip_finds_the_quantile_of_its_layer(quantile):
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(size=400), 20.0 * rng.lognormal(size=400)
    rows, tracked = gradients(*lengths), sums(expected=400.0, quantile=quantile)
    for _ in range(300):
        tracked.exact(rows)
        tracked.advance(1.0)
    for clip, of_layer in zip(tracked.clips, lengths, strict=True):
        assert np.mean(of_layer <= clip) == pytest.approx(quantile, abs=0.08)


@pytest.mark.parametrize("sizes", [(0.1, 0.1), (1e5, 0.1), (1e5, 1e5), (math.nan, 1.0), (1e38, 1.0)])
def test_one_record_moves_all_sums_by_their_bounds_at_most(sizes):
    with_record, without = sums(expected=1.0), sums(expected=1.0)
    moved = with_record.exact(gradients([sizes[0]], [sizes[1]]))
    assert sum(int(part.square().sum()) for part in moved) <= RADIUS**2
    counts = np.array(with_record.advance(1.0)) - np.array(without.advance(1.0))
    assert np.linalg.norm(counts) <= math.sqrt(2.0) / 2.0 + 1e-9
    if all(size < 1e30 for size in sizes):
        assert np.linalg.norm(counts) == pytest.approx(math.sqrt(2.0) / 2.0, abs=1e-9)


def test_one_layer_is_quantile_clipping():
    stream = Seeded(3).stream(b"bits")
    flat = QuantileSum(0.7, expected=9.0, stream=stream)
    layered = sums((0.7,), [[0]], expected=9.0, seed=3)
    for _ in range(4):
        for one in (flat, layered):
            one.exact([torch.full((5, 2), 0.3)])
        assert layered.advance(0.8) == (pytest.approx(flat.advance(0.8)),)
        assert layered.clips == (pytest.approx(flat.clip),)


def test_no_clip_is_far_below_the_largest():
    tracked = sums(expected=1.0, pace=50.0)
    for _ in range(5):
        tracked.exact(gradients([0.0] * 40, [1e9] * 40))
        tracked.advance(1e-3)
    assert tracked.clips == (2.0**11, 2.0**21)
    found = tracked.exact(gradients([1e9], [1e9]))
    assert sum(int(part.square().sum()) for part in found) <= RADIUS**2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"share": 1.0}, "share"),
        ({"quantile": 0.0}, "quantile"),
        ({"pace": 0.0}, "pace"),
        ({"expected": 0.0}, "expected"),
        ({"clips": (1.0,)}, "each of 2"),
        ({"clips": (1e29, 1e29)}, "clip"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(options, word):
    with pytest.raises(BadInput, match=word):
        sums(**options)
