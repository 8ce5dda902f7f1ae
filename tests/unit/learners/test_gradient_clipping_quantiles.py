"""A clip that follows a quantile: what it releases, what that costs, and where it goes."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, Quantiles
from sfumato.noise import Seeded


class Tracked(ClippedSum):
    """Draws its counts from one seeded stream."""

    def __init__(self, *given, expected=100.0, seed=0, **options):
        super().__init__(*given, quantiles=Quantiles(expected, **options))
        self.stream = Seeded(seed).stream(b"bits")

    def released(self, multiplier):
        return self.advance(multiplier, self.stream)


def sums(clip=1.0, expected=100.0, **options):
    return Tracked(clip, expected=expected, **options)


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.5, 0.999])
def test_gradient_and_bit_together_cost_what_the_step_may(share):
    """1/z_Δ² + 1/(2σ_b)² = 1/z², with σ_b read off the noise that is drawn (see the next test)."""
    z = 1.7
    gradient, bit = z * Quantiles(1.0, share=share).stretch, z / (2.0 * math.sqrt(share))
    together = gradient**-2 + (2.0 * bit) ** -2
    assert together <= z**-2
    assert together == pytest.approx(z**-2, rel=1e-12)


def test_the_noise_of_bits_has_its_deviation():
    """4000 steps without examples: χ²; false-alarm rate 1e-6."""
    z, share, expected = 1.7, 0.04, 50.0
    tracked = sums(expected=expected, share=share)
    drawn = np.array([(tracked.released(z)[0] - 0.5) * expected for _ in range(4000)])
    squares = float((drawn**2).sum()) / (z / (2.0 * math.sqrt(share))) ** 2
    assert chi2.ppf(5e-7, 4000) < squares < chi2.isf(5e-7, 4000)


def test_the_released_share_counts_gradients_up_to_the_clip():
    tracked = sums(expected=4.0, share=0.999)
    tracked.exact([torch.tensor([[0.5], [1.0], [1.1], [30.0]])])
    tracked.exact([torch.tensor([[0.2]])])  # blocks of one step add up
    # Two of five lie above: 3 ones less a half and 2 zeros less a half, over 4, plus a half.
    assert tracked.released(1e-4) == pytest.approx([0.5 + (3 - 2.5) / 4.0], abs=1e-3)
    assert tracked.released(1e-4) == pytest.approx([0.5], abs=1e-3)


def test_sums_are_those_of_the_present_clip():
    gradients = torch.randn((20, 6), generator=torch.Generator().manual_seed(0))
    tracked = sums(0.7)
    assert torch.equal(tracked.exact([gradients])[0], ClippedSum(0.7).exact([gradients])[0])
    tracked.released(1.0)
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
        tracked.released(1.0)
    assert np.mean(lengths <= tracked.clip) == pytest.approx(quantile, abs=0.06)


def test_the_update_is_geometric_and_reads_what_was_released_alone():
    tracked = sums(2.0, 10.0, pace=0.3, quantile=0.4)
    tracked.exact([torch.full((7, 1), 0.1)])
    (inside,) = tracked.released(1.0)
    assert tracked.clip == pytest.approx(2.0 * math.exp(-0.3 * (inside - 0.4)), rel=1e-12)


@pytest.mark.parametrize(("length", "end"), [(0.0, 2.0**-20), (1e9, 2.0**20)])
def test_the_clip_stays_in_its_range(length, end):
    tracked = sums(1.0, 1.0, pace=50.0)
    for _ in range(10):
        tracked.exact([torch.full((40, 1), length)])
        tracked.released(1e-3)
    assert tracked.clip == end


def test_a_null_record_adds_to_neither_sum():
    """Its gradient is not finite, as where its row holds no numbers."""
    gradients = torch.tensor([[0.3, 0.1], [math.nan, 0.0], [2.0, 5.0]])
    with_null, without = sums(), sums()
    assert torch.equal(with_null.exact([gradients])[0], without.exact([gradients[[0, 2]]])[0])
    assert with_null.released(1.0) == without.released(1.0)


def test_one_record_moves_both_sums_by_its_bounds_at_most():
    for size in (0.1, 1.0, 1e5):
        with_record, without = sums(expected=1.0), sums(expected=1.0)
        moved = with_record.exact([torch.full((1, 9), size)])[0]
        assert int(moved.square().sum()) <= RADIUS**2
        assert abs(with_record.released(1.0)[0] - without.released(1.0)[0]) == pytest.approx(0.5, abs=1e-9)


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


LAYERS = [[0, 1], [2]]


def layer_sums(clips=(1.0, 2.0), layers=LAYERS, expected=100.0, **options):
    return Tracked(clips, layers, expected=expected, **options)


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
    tracked = layer_sums(expected=expected, share=share)
    drawn = np.array([tracked.released(z) for _ in range(2000)]) - 0.5
    squares = float((drawn**2).sum()) * expected**2 / (z * math.sqrt(2.0 / share) / 2.0) ** 2
    assert chi2.ppf(5e-7, 4000) < squares < chi2.isf(5e-7, 4000)


def test_each_layer_counts_its_own_gradients():
    tracked = layer_sums(expected=4.0, share=0.999)
    tracked.exact(gradients([0.5, 0.9, 1.1, 30.0], [1.9, 2.1, 2.2, 2.3]))
    tracked.exact(gradients([0.2], [0.1]))  # blocks of one step add up
    assert tracked.released(1e-4) == pytest.approx([0.5 + 0.5 / 4.0, 0.5 - 0.5 / 4.0], abs=1e-3)
    assert tracked.released(1e-4) == pytest.approx([0.5, 0.5], abs=1e-3)


def test_layer_sums_are_those_of_the_present_lengths():
    rows = [torch.randn((20, 3), generator=torch.Generator().manual_seed(place)) for place in range(3)]
    tracked = layer_sums()
    for _ in range(3):
        fixed = ClippedSum(tracked.clips, LAYERS)
        assert fixed.clip == tracked.clip
        found = zip(tracked.exact(rows), fixed.exact(rows), strict=True)
        assert all(torch.equal(a, b) for a, b in found)
        before = tracked.clips
        tracked.released(1.0)
        assert all(a != b for a, b in zip(before, tracked.clips, strict=True))


@pytest.mark.parametrize("quantile", [0.3, 0.8])
def test_every_clip_finds_the_quantile_of_its_layer(quantile):
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(size=400), 20.0 * rng.lognormal(size=400)
    rows, tracked = gradients(*lengths), layer_sums(expected=400.0, quantile=quantile)
    for _ in range(300):
        tracked.exact(rows)
        tracked.released(1.0)
    for clip, of_layer in zip(tracked.clips, lengths, strict=True):
        assert np.mean(of_layer <= clip) == pytest.approx(quantile, abs=0.08)


@pytest.mark.parametrize("sizes", [(0.1, 0.1), (1e5, 0.1), (1e5, 1e5), (math.nan, 1.0), (1e38, 1.0)])
def test_one_record_moves_all_sums_by_their_bounds_at_most(sizes):
    with_record, without = layer_sums(expected=1.0), layer_sums(expected=1.0)
    moved = with_record.exact(gradients([sizes[0]], [sizes[1]]))
    assert sum(int(part.square().sum()) for part in moved) <= RADIUS**2
    counts = np.array(with_record.released(1.0)) - np.array(without.released(1.0))
    assert np.linalg.norm(counts) <= math.sqrt(2.0) / 2.0 + 1e-9
    if all(size < 1e30 for size in sizes):
        assert np.linalg.norm(counts) == pytest.approx(math.sqrt(2.0) / 2.0, abs=1e-9)


def test_one_layer_is_quantile_clipping():
    flat, layered = sums(0.7, 9.0, seed=3), layer_sums((0.7,), [[0]], expected=9.0, seed=3)
    for _ in range(4):
        for one in (flat, layered):
            one.exact([torch.full((5, 2), 0.3)])
        assert layered.released(0.8) == flat.released(0.8)
        assert layered.clips == flat.clips


def test_no_clip_is_far_below_the_largest():
    tracked = layer_sums(expected=1.0, pace=50.0)
    for _ in range(5):
        tracked.exact(gradients([0.0] * 40, [1e9] * 40))
        tracked.released(1e-3)
    assert tracked.clips == [2.0**11, 2.0**21]
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
def test_parameters_of_layers_that_cannot_be_used_are_refused(options, word):
    with pytest.raises(BadInput, match=word):
        layer_sums(**options)
