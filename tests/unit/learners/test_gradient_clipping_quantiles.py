"""A clip that follows a quantile: what it releases, what that costs, and where it goes."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, QuantileSum, gradient_stretch
from sfumato.noise import Seeded


def sums(clip=1.0, expected=100.0, seed=0, **options):
    return QuantileSum(clip, expected=expected, stream=Seeded(seed).stream(b"bits"), **options)


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.5, 0.999])
def test_gradient_and_bit_together_cost_what_the_step_may(share):
    """1/z_Δ² + 1/(2σ_b)² = 1/z², with σ_b read off the noise that is drawn (see the next test)."""
    z = 1.7
    gradient, bit = z * gradient_stretch(share), z / (2.0 * math.sqrt(share))
    together = gradient**-2 + (2.0 * bit) ** -2
    assert together <= z**-2
    assert together == pytest.approx(z**-2, rel=1e-12)


def test_the_noise_of_bits_has_its_deviation():
    """4000 steps without examples: χ²; false-alarm rate 1e-6."""
    z, share, expected = 1.7, 0.04, 50.0
    tracked = sums(expected=expected, share=share)
    drawn = np.array([(tracked.advance(z) - 0.5) * expected for _ in range(4000)])
    squares = float((drawn**2).sum()) / (z / (2.0 * math.sqrt(share))) ** 2
    assert chi2.ppf(5e-7, 4000) < squares < chi2.isf(5e-7, 4000)


def test_the_released_share_counts_gradients_up_to_the_clip():
    tracked = sums(expected=4.0, share=0.999)
    tracked.exact([torch.tensor([[0.5], [1.0], [1.1], [30.0]])])
    tracked.exact([torch.tensor([[0.2]])])  # blocks of one step add up
    # Two of five lie above: 3 ones less a half and 2 zeros less a half, over 4, plus a half.
    assert tracked.advance(1e-4) == pytest.approx(0.5 + (3 - 2.5) / 4.0 - 0.0, abs=1e-3)
    assert tracked.advance(1e-4) == pytest.approx(0.5, abs=1e-3)


def test_sums_are_those_of_the_present_clip():
    gradients = torch.randn((20, 6), generator=torch.Generator().manual_seed(0))
    tracked = sums(0.7)
    assert torch.equal(tracked.exact([gradients])[0], ClippedSum(0.7).exact([gradients])[0])
    tracked.advance(1.0)
    assert tracked.clip != 0.7
    assert torch.equal(tracked.exact([gradients])[0], ClippedSum(tracked.clip).exact([gradients])[0])


@pytest.mark.parametrize("first", [0.01, 100.0])
@pytest.mark.parametrize("quantile", [0.3, 0.5, 0.9])
def test_the_clip_finds_the_quantile(first, quantile):
    lengths = np.random.default_rng(0).lognormal(size=400)
    gradients = torch.from_numpy(lengths[:, None]).float()
    tracked = sums(first, 400.0, quantile=quantile)
    for _ in range(300):
        tracked.exact([gradients])
        tracked.advance(1.0)
    assert np.mean(lengths <= tracked.clip) == pytest.approx(quantile, abs=0.06)


def test_the_update_is_geometric_and_reads_what_was_released_alone():
    tracked = sums(2.0, 10.0, pace=0.3, quantile=0.4)
    tracked.exact([torch.full((7, 1), 0.1)])
    inside = tracked.advance(1.0)
    assert tracked.clip == pytest.approx(2.0 * math.exp(-0.3 * (inside - 0.4)), rel=1e-12)


@pytest.mark.parametrize(("length", "end"), [(0.0, 2.0**-20), (1e9, 2.0**20)])
def test_the_clip_stays_in_its_range(length, end):
    tracked = sums(1.0, 1.0, pace=50.0)
    for _ in range(10):
        tracked.exact([torch.full((40, 1), length)])
        tracked.advance(1e-3)
    assert tracked.clip == end


def test_a_null_record_adds_to_neither_sum():
    """Its gradient is not finite, as where its row holds no numbers."""
    gradients = torch.tensor([[0.3, 0.1], [math.nan, 0.0], [2.0, 5.0]])
    with_null, without = sums(), sums()
    assert torch.equal(with_null.exact([gradients])[0], without.exact([gradients[[0, 2]]])[0])
    assert with_null.advance(1.0) == without.advance(1.0)


def test_one_record_moves_both_sums_by_its_bounds_at_most():
    for size in (0.1, 1.0, 1e5):
        with_record, without = sums(expected=1.0), sums(expected=1.0)
        moved = with_record.exact([torch.full((1, 9), size)])[0]
        assert int(moved.square().sum()) <= RADIUS**2
        assert abs(with_record.advance(1.0) - without.advance(1.0)) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "share"),
        ({"quantile": 0.0}, "quantile"),
        ({"quantile": 1.0}, "quantile"),
        ({"quantile": math.nan}, "quantile"),
        ({"pace": 0.0}, "pace"),
        ({"expected": 0.0}, "expected"),
        ({"clip": 1e30}, "clip"),
        ({"clip": 1e-30}, "clip"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(options, word):
    with pytest.raises(BadInput, match=word):
        sums(**options)
