"""Noisy gradient descent: its guarantee against dp-accounting's, its samples, gradients and noise."""

import math

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import binom, chi2

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum
from sfumato.learners.record_gradients import RecordGradients
from sfumato.noise import NoisedSums, Seeded
from sfumato.privacy import Guarantee, Neighbours


@pytest.mark.parametrize(
    ("multiplier", "rate", "steps"), [(1.1, 0.01, 300), (0.7, 0.05, 100), (4.0, 0.5, 40)]
)
def test_guarantee_is_the_answer_of_dp_accounting(multiplier, rate, steps):
    """dp-accounting's own PLD accountant for add/remove; ours is never below it by more than its grid."""
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier))
    theirs = PLDAccountant().compose(event, steps).get_epsilon(1e-5)
    guarantee = DPSGD(multiplier, rate, steps).guarantee(1e-5)
    assert guarantee.epsilon() == pytest.approx(theirs, rel=0.01)
    assert (str(guarantee.unit), guarantee.neighbours) == ("record", Neighbours.ZERO_OUT)


def test_with_all_examples_in_each_step_it_is_one_gaussian():
    once = Guarantee.gaussian(1.5, at_delta=1e-6).epsilon()
    assert DPSGD(3.0, 1.0, 4).guarantee(1e-6).epsilon() == pytest.approx(once, rel=1e-9)


def test_samples_have_the_right_rate_and_steps_are_independent():
    """Numbers of examples taken: all, in two neighbouring steps, and one example's; false-alarm rate 1e-6."""
    rate, steps, records = 0.05, 400, 1000
    plan = DPSGD(1.0, rate, steps)
    taken = np.zeros((steps, records), dtype=bool)
    stream = Seeded(5).stream(b"samples")
    for step in range(steps):
        taken[step, plan.sample(records, stream)] = True
    both = taken[1:] & taken[:-1]
    chance = 1e-6 / (2 * 3)
    for count, trials, probability in (
        (taken.sum(), taken.size, rate),
        (taken[:, 0].sum(), steps, rate),
        # Pairs that do not overlap are independent.
        (both[::2].sum(), both[::2].size, rate**2),
    ):
        low, high = binom.ppf(chance, trials, probability), binom.isf(chance, trials, probability)
        assert low <= count <= high


@pytest.mark.parametrize(("rate", "expected"), [(1.0, 50), (1e-30, 0)])
def test_samples_at_the_ends_of_the_rate(rate, expected):
    """A rate of 1 misses an example with chance 2⁻⁶⁴, one below 2⁻⁶⁴ takes none: accounted upward."""
    stream = Seeded(1).stream(b"s")
    assert [len(DPSGD(1.0, rate, 3).sample(50, stream)) for _ in range(3)] == [expected] * 3


class AllTaken(DPSGD):
    """Takes every example, whatever its rate."""

    def sample(self, records, stream):
        return np.arange(records)


def trained(plan, records, gradients, shape, sums=None, **options):
    """The mean gradient of each step, and what the variance of its noise is said to be."""
    parameter, found = torch.nn.Parameter(torch.zeros(shape)), []

    def of_examples(taken, randomness):
        return [[part] for part in gradients(taken)]

    plan.train(
        [parameter],
        records,
        of_examples,
        lambda variance: found.append((parameter.grad.double(), variance)),
        sums or NoisedSums(Seeded(0)),
        **options,
    )
    return found


def test_gradients_are_noisy_sums_over_the_expected_number():
    rows = torch.tensor([[3.0, 4.0, 1.0], [0.3, 0.0, 1.0]])
    plan = AllTaken(1e-4, 0.1, 1, clip=1.0)
    ((found, variance),) = trained(plan, 200, lambda taken: [rows], 3)
    # Of length √26 and √1.09: both are clipped to 1, and 20 examples are expected.
    expected = (rows[0] / 26.0**0.5 + rows[1] / 1.09**0.5) / 20.0
    assert torch.allclose(found, expected.double(), atol=1e-4)
    assert variance == pytest.approx((1e-4 / 20.0) ** 2)


def test_blocks_of_a_step_add_up_and_get_noise_once():
    rows = torch.randn((40, 6), generator=torch.Generator().manual_seed(0))
    plan = AllTaken(0.5, 0.5, 2, clip=0.7)
    whole = trained(plan, 40, lambda taken: [rows], 6)
    blocks = trained(plan, 40, lambda taken: [rows[:7], rows[7:]], 6)
    alone = trained(plan, 40, lambda taken: [], 6)
    (total,) = ClippedSum(0.7).exact([rows])
    for (found, _), (same, _), (noise, _) in zip(whole, blocks, alone, strict=True):
        assert torch.equal(found, same)
        assert torch.allclose(found - noise, total * 0.7 / RADIUS / 20.0, atol=1e-6)


def test_an_empty_step_is_noise_alone_of_the_same_size():
    """The sum of its squares is χ²; false-alarm rate 1e-6."""
    ((found, variance),) = trained(DPSGD(2.0, 0.01, 1, clip=3.0), 1000, lambda taken: [], 20_000)
    assert variance == pytest.approx(0.6**2)
    squares = float((found / 0.6).square().sum())
    assert chi2.ppf(5e-7, 20_000) < squares < chi2.isf(5e-7, 20_000)


def test_fewer_than_one_example_expected_counts_as_one():
    ((found, _),) = trained(AllTaken(1e-4, 0.01, 1), 3, lambda taken: [torch.tensor([[2.0]])], 1)
    assert found.item() == pytest.approx(1.0, abs=1e-3)


def test_steps_draw_from_streams_of_their_own_and_share_is_reported_twenty_times():
    shares = []
    found = trained(DPSGD(1.0, 0.5, 50), 10, lambda taken: [], 4, report=shares.append)
    assert len({tuple(gradient.tolist()) for gradient, _ in found}) == 50
    assert len(shares) == 20
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"multiplier": 0.0}, "multiplier"),
        ({"multiplier": math.inf}, "multiplier"),
        ({"clip": -1.0}, "clip"),
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"rate": True}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"steps": 0}, "steps"),
        ({"steps": 2.5}, "steps"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(parameters, word):
    with pytest.raises(BadInput, match=word):
        DPSGD(**{"multiplier": 1.0, "rate": 0.1, "steps": 3, **parameters})


@pytest.mark.parametrize("examples", [7, 97])
def test_a_null_record_leaves_the_gradients_of_others_as_they_are_to_the_last_bit(examples):
    """It keeps its row and adds nothing; here its picture is no number, so that its gradient is none."""
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(300, 40), torch.nn.Tanh(), torch.nn.Linear(40, 9))
    gradients = RecordGradients(model, (300,), 9)
    inputs, labels = torch.randn((examples, 300), generator=generator), torch.arange(examples) % 9
    null = inputs.clone()
    null[4] = math.nan
    sums = [gradients(rows, labels) for rows in (inputs, null)]
    others = torch.arange(examples) != 4
    for part, without in zip(*sums, strict=True):
        assert torch.equal(part[others], without[others])
    expected = ClippedSum().exact([part[others] for part in sums[0]])
    assert all(torch.equal(a, b) for a, b in zip(ClippedSum().exact(sums[1]), expected, strict=True))
