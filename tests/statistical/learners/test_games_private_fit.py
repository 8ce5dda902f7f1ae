"""Variants of noisy training: inside the proven curve, and outside it with 20% less noise.

A dataset of a game is one record, with a gradient far beyond every clip, or a null record. Where sums are
alike for all, many are played at once along axes of their own. The reader sees all that is released and uses
the likelihood ratio under the stated noise.
"""

import math

import numpy as np
import pytest
import torch
from games import LESS, violations
from scipy.linalg import toeplitz

from sfumato.learners import DPSGD, Factor, Momentum, fit_private
from sfumato.learners.correlated_noise import UNIT, CorrelatedSteps, FactoredSteps
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, Quantiles
from sfumato.noise import Secure
from sfumato.privacy import Guarantee

TOGETHER, ROUNDS = 400, 50  # 20 000 samples a side
GAMES = 3000  # where each has clips of its own
THRESHOLDS = np.linspace(-1.5, 1.5, 9)
HUGE = 1e6 * torch.eye(TOGETHER)


def scheduled(multipliers, rate, stretch=1.0):
    return DPSGD(stretch, rate, len(multipliers), factors=tuple(multipliers))


def seen_of(noise, step, sums):
    """Noisy sums of each parameter, in clipping norms."""
    flat = np.concatenate([total.double().numpy().ravel() for total in sums])
    return np.split(noise(step, flat, Secure()) / RADIUS, np.cumsum([len(total) for total in sums])[:-1])


@pytest.mark.parametrize(
    ("multipliers", "rate"),
    [((0.9, 1.4), 1.0), ((0.8, 0.8, 0.5), 0.5)],
    ids=["all records", "samples"],
)
def test_a_schedule(multipliers, rate):
    """False-alarm rate 1e-6; 20 000 samples a side; miss rate below 1e-6."""
    plan = scheduled(multipliers, rate)

    def scores(present, stretch):
        return np.concatenate([ratio(present, stretch) for _ in range(ROUNDS)])

    def ratio(present, stretch):
        found, clipped = np.zeros(TOGETHER), ClippedSum(0.3)
        noise = scheduled(multipliers, rate, stretch).noise(clipped)
        for step, multiplier in enumerate(plan.multipliers):
            taken = plan.sample(TOGETHER, Secure().stream(b"samples"))
            empty = [torch.zeros(TOGETHER)]
            sums = clipped.exact([HUGE[taken]]) if present and len(taken) else empty
            (seen,) = seen_of(noise, step, sums)
            found += np.log1p(rate * np.expm1((seen - 0.5) / multiplier**2))
        return found

    guarantee = plan.guarantee(1e-5)
    assert not violations(guarantee, scores(False, 1.0), scores(True, 1.0), THRESHOLDS)
    assert violations(guarantee, scores(False, LESS), scores(True, LESS), THRESHOLDS)


@pytest.mark.parametrize(
    ("clipped", "lengths"),
    [
        (ClippedSum(gamma=0.01), [1.0]),
        (ClippedSum((0.6, 3.0, 1.5), [[0], [1], [2]]), [0.6, 3.0, 1.5]),
    ],
    ids=["automatic", "layers"],
)
def test_a_bound_on_each_record(clipped, lengths):
    """False-alarm rate 1e-6; 20 000 samples a side; miss rate below 1e-6."""
    multiplier = 0.65
    plan = scheduled((multiplier,), 1.0)
    total = math.sqrt(sum(length**2 for length in lengths))
    sums = clipped.exact([HUGE] * len(lengths))
    nothing = [torch.zeros(TOGETHER)] * len(lengths)

    def scores(present, stretch):
        found = []
        for _ in range(ROUNDS):
            noise = scheduled((multiplier,), 1.0, stretch).noise(clipped)
            seen = seen_of(noise, 0, sums if present else nothing)
            along = sum(part * length for part, length in zip(seen, lengths, strict=True))
            found.append((along / total - 0.5) / multiplier**2)
        return np.concatenate(found)

    guarantee = plan.guarantee(1e-5)
    assert not violations(guarantee, scores(False, 1.0), scores(True, 1.0), THRESHOLDS)
    assert violations(guarantee, scores(False, LESS), scores(True, LESS), THRESHOLDS)


@pytest.mark.parametrize(
    ("steps", "period", "bands"), [(5, 5, 5), (6, 2, 2), (6, 2, 6), (4, 1, 4)], ids=lambda value: str(value)
)
def test_correlated_noise(steps, period, bands):
    """For a record in the first batch. False-alarm rate 1e-6; 20 000 samples a side; miss rate below 1e-6."""
    multiplier = 0.65
    plan = CorrelatedSteps(multiplier, steps, period, bands)
    weak = CorrelatedSteps(LESS * multiplier, steps, period, bands)
    moved = (np.arange(steps) % period == 0).astype(np.float64)
    column = np.pad(plan.numerators / UNIT, (0, steps - bands))
    matrix = toeplitz(column, np.zeros(steps))
    way = matrix @ moved
    sums = ClippedSum(2.0).exact([HUGE])

    def scores(drawn, present):
        found = []
        for _ in range(ROUNDS):
            noise = drawn.noise(ClippedSum(2.0))
            seen = np.concatenate(
                [
                    seen_of(noise, step, sums if present and takes else [torch.zeros(TOGETHER)])
                    for step, takes in enumerate(moved)
                ]
            )
            found.append((way @ (matrix @ seen) - 0.5 * way @ way) / plan.deviation**2)
        return np.concatenate(found)

    guarantee = plan.guarantee(1e-5)
    assert not violations(guarantee, scores(plan, False), scores(plan, True), THRESHOLDS)
    assert violations(guarantee, scores(weak, False), scores(weak, True), THRESHOLDS)


@pytest.mark.parametrize(
    ("factor", "period", "signs"),
    [
        (Momentum(0.8), 1, [1, -1, 1, -1, 1]),
        (Momentum(0.6), 5, [0, 1, 0, 0, 0]),
        (
            Factor([[2, 0, 0, 0], [0.7, 1, 0, 0], [0.1, 0.4, 0.5, 0], [1, 0, 0.3, 0.2]]),
            2,
            [1, 0, 1, 0],
        ),
        (Factor([[1.0, 0, 0], [-0.8, 1.5, 0], [0.0, -2.0, 1.0]]), 1, [1, -1, 1]),
    ],
    ids=["momentum in all steps", "momentum in one step", "a matrix", "a matrix with signs"],
)
def test_noise_of_a_factor(factor, period, signs):
    """For gradients that move most. False-alarm rate 1e-6; 20 000 samples a side; miss rate below 1e-6."""
    multiplier, steps = 0.65, len(signs)
    plan = FactoredSteps(multiplier, steps, period, factor)
    weak = FactoredSteps(LESS * multiplier, steps, period, factor)
    matrix = plan.numerators / UNIT
    way = matrix @ np.array(signs, dtype=np.float64)
    (whole,) = ClippedSum(2.0).exact([HUGE])

    def scores(drawn, present):
        found = []
        for _ in range(ROUNDS):
            noise = drawn.noise(ClippedSum(2.0))
            seen = np.concatenate(
                [seen_of(noise, step, [present * sign * whole]) for step, sign in enumerate(signs)]
            )
            found.append((way @ (matrix @ seen) - 0.5 * way @ way) / plan.deviation**2)
        return np.concatenate(found)

    guarantee = plan.guarantee(1e-5)
    assert np.linalg.norm(way) == pytest.approx(plan.sensitivity, rel=1e-6)
    assert not violations(guarantee, scores(plan, 0), scores(plan, 1), THRESHOLDS)
    assert violations(guarantee, scores(weak, 0), scores(weak, 1), THRESHOLDS)


class Watched(ClippedSum):
    """Keeps what was released of its counts, with ``less`` times the noise."""

    def __init__(self, less, *given, **options):
        super().__init__(*given, **options)
        self.less = less

    def advance(self, multiplier, stream):
        self.inside = super().advance(self.less * multiplier, stream)
        return self.inside


@pytest.mark.parametrize(
    ("share", "gradient", "bit"),
    [(0.95, 1.0, LESS), (0.05, LESS, 1.0)],
    ids=["less for the bit", "less for the gradient"],
)
def test_quantile_clipping(share, gradient, bit):
    """Two steps, the second with a clip made by the first; the reader sees gradients and bits.

    False-alarm rate 1e-6; 3000 samples a side; with a fifth less noise of the named kind, which has most of
    the budget here, μ grows from 3 to 3.7; miss rate 5e-8.
    """
    z, plan = math.sqrt(2.0) / 3.0, scheduled((math.sqrt(2.0) / 3.0,) * 2, 1.0)
    stretch = Quantiles(1.0, share=share).stretch
    record = torch.tensor([[1e9]])

    def scores(present, gradient=1.0, bit=1.0):
        found = np.zeros(GAMES)
        for game in range(GAMES):
            clipped = Watched(bit, 1.0, quantiles=Quantiles(1.0, share=share))
            noise = scheduled((z, z), 1.0, gradient).noise(clipped)
            for step in range(2):
                sums = clipped.exact([record]) if present else [torch.zeros(1)]
                ((seen,),) = seen_of(noise, step, sums)
                inside = 2.0 * (clipped.inside[0] - 0.5)
                found[game] += (seen - 0.5) / (z * stretch) ** 2 + (-inside - 0.5) / (z**2 / share)
        return found

    guarantee = plan.guarantee(1e-5)
    thresholds = np.linspace(-2.0, 2.0, 5)
    assert not violations(guarantee, scores(False), scores(True), thresholds)
    assert violations(guarantee, scores(False, gradient, bit), scores(True, gradient, bit), thresholds)


@pytest.mark.parametrize(
    ("share", "gradient", "bit"),
    [(0.95, 1.0, LESS), (0.05, LESS, 1.0)],
    ids=["less for the bits", "less for the gradient"],
)
def test_layer_quantiles(share, gradient, bit):
    """Two steps of three layers, the second with clips made by the first; the reader sees all releases.

    False-alarm rate 1e-6; 3000 samples a side; with a fifth less noise of the named kind, which has most of
    the budget here, μ grows from 3 to 3.7; miss rate 5e-8.
    """
    z, plan = math.sqrt(2.0) / 3.0, scheduled((math.sqrt(2.0) / 3.0,) * 2, 1.0)
    stretch = Quantiles(1.0, share=share).stretch
    record = [torch.full((1, 1), 1e9)] * 3
    nothing = [torch.zeros(1)] * 3

    def scores(present, gradient=1.0, bit=1.0):
        found = np.zeros(GAMES)
        for game in range(GAMES):
            clipped = Watched(bit, [0.6, 3.0, 1.5], [[0], [1], [2]], quantiles=Quantiles(1.0, share=share))
            noise = scheduled((z, z), 1.0, gradient).noise(clipped)
            for step in range(2):
                way = np.array(clipped.clips) / clipped.clip
                seen = seen_of(noise, step, clipped.exact(record) if present else nothing)
                along = np.concatenate(seen) @ way
                inside = 2.0 * (np.array(clipped.inside) - 0.5)
                found[game] += (along - 0.5) / (z * stretch) ** 2
                found[game] += (-inside.sum() - 1.5) / (3.0 * z**2 / share)
        return found

    guarantee = plan.guarantee(1e-5)
    thresholds = np.linspace(-2.0, 2.0, 5)
    assert not violations(guarantee, scores(False), scores(True), thresholds)
    assert violations(guarantee, scores(False, gradient, bit), scores(True, gradient, bit), thresholds)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clipping": "automatic", "gamma": 1e-6},
        {"clipping": "layers"},
        {"noise": "correlated"},
        {"noise": "correlated", "factor": Momentum(0.9)},
    ],
    ids=["flat", "automatic", "layers", "correlated", "momentum"],
)
def test_a_whole_run(options):
    """One step of :func:`fit_private`, read off the weights. False-alarm rate 1e-6; 3200 samples a side.

    Each record has a column of the weights to itself; a record of zeros is the null record. Less noise is
    what a run draws for the larger ε that LESS of the noise would prove; miss rate 3e-9.
    """
    epsilon, delta = 12.0, 1e-5
    model = torch.nn.Linear(TOGETHER, 2, bias=False)
    torch.nn.init.zeros_(model.weight)
    labels = np.zeros(TOGETHER, dtype=np.int64)

    def run(records, asked):
        return fit_private(
            model, records, labels, epsilon=asked, delta=delta, steps=1, pace=1.0, momentum=0.0, **options
        )

    first = run(HUGE.numpy(), epsilon)
    stated = first.statement.parameters
    multiplier = stated["multiplier"] if "multiplier" in stated else stated["multipliers"][0][0]
    more = Guarantee.gaussian(LESS * multiplier).epsilon(delta)

    def scores(present, asked):
        records = HUGE.numpy() if present else np.zeros((TOGETHER, TOGETHER), dtype=np.float32)
        found = []
        for _ in range(8):
            weights = run(records, asked).model.weight.double().numpy()
            along = (weights[0] - weights[1]) / math.sqrt(2.0) * TOGETHER
            found.append((along - 0.5) / multiplier**2)
        return np.concatenate(found)

    thresholds = np.linspace(-2.0, 2.0, 9)
    assert not violations(first.guarantee, scores(False, epsilon), scores(True, epsilon), thresholds)
    assert violations(first.guarantee, scores(False, more), scores(True, more), thresholds)
