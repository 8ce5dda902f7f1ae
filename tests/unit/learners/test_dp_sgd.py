"""Noisy gradient descent: its guarantee against dp-accounting's, its calibration, samples and gradients."""

import math

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from opacus import GradSampleModule
from scipy.stats import binom, chi2

from sfumato.errors import BadInput
from sfumato.learners import DPSGD, NoisySum
from sfumato.noise import Keyed, Seeded
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


@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"), [(1.0, 1.0, 10), (40.0, 1.0, 1), (3.0, 0.05, 60), (20.0, 0.2, 30)]
)
def test_calibrated_noise_proves_what_was_asked_and_hardly_more(epsilon, rate, steps):
    plan = DPSGD.calibrated(epsilon, 1e-5, rate=rate, steps=steps, clip=0.5)
    assert 0.99 * epsilon <= plan.guarantee(1e-5).epsilon() <= epsilon
    assert (plan.rate, plan.steps, plan.clip) == (rate, steps, 0.5)


def test_calibrated_noise_is_never_below_a_twentieth_of_the_clip():
    plan = DPSGD.calibrated(1e4, 1e-5, rate=1.0, steps=1)
    assert plan.multiplier == 0.05
    assert plan.guarantee(1e-5).epsilon() < 1e4


def test_an_epsilon_that_would_need_too_much_noise_is_refused():
    with pytest.raises(BadInput, match="take fewer steps"):
        DPSGD.calibrated(1e-4, 1e-9, rate=1.0, steps=1000)


def test_samples_have_the_right_rate_and_steps_are_independent():
    """Numbers of examples taken: all, in two neighbouring steps, and one example's; false-alarm rate 1e-6."""
    rate, steps, records = 0.05, 400, 1000
    plan = DPSGD(1.0, rate, steps)
    taken = np.zeros((steps, records), dtype=bool)
    for step, positions in enumerate(plan.samples(records, Seeded(5).stream(b"samples"))):
        taken[step, positions] = True
    assert step == steps - 1
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
    sizes = [len(positions) for positions in DPSGD(1.0, rate, 3).samples(50, Seeded(1).stream(b"s"))]
    assert sizes == [expected] * 3


def test_gradients_are_noisy_sums_over_the_expected_number():
    model, wrapped = linear()
    inputs = torch.tensor([[3.0, 4.0], [0.3, 0.0]], requires_grad=True)
    plan = DPSGD(1e-4, 0.1, 5, clip=1.0)
    wrapped(inputs).sum().backward()
    plan.set_gradients(list(model.parameters()), plan.noisy(Seeded(0)), 200, 2)
    # Of length √26 and √1.09 with the bias: both are clipped to 1, and 20 examples are expected.
    expected = (torch.tensor([3.0, 4.0, 1.0]) / 26.0**0.5 + torch.tensor([0.3, 0.0, 1.0]) / 1.09**0.5) / 20.0
    found = torch.cat([model.weight.grad[0], model.bias.grad])
    assert torch.allclose(found, expected, atol=1e-4)
    assert model.weight.grad_sample is None


def test_an_empty_step_is_noise_alone_of_the_same_size():
    """The sum of its squares is χ²; false-alarm rate 1e-6."""
    model = torch.nn.Linear(100, 200, bias=False)
    plan = DPSGD(2.0, 0.01, 1, clip=3.0)
    plan.set_gradients([model.weight], plan.noisy(Seeded(2)), 1000, 0)
    squares = float((model.weight.grad.double() * 10.0 / 6.0).square().sum())
    assert chi2.ppf(5e-7, 20_000) < squares < chi2.isf(5e-7, 20_000)


def test_fewer_than_one_example_expected_counts_as_one():
    model, wrapped = linear()
    plan = DPSGD(1e-4, 0.01, 1)
    wrapped(torch.tensor([[0.5, 0.0]], requires_grad=True)).sum().backward()
    plan.set_gradients(list(model.parameters()), plan.noisy(Seeded(0)), 3, 1)
    assert model.bias.grad.item() == pytest.approx(1.0 / 1.25**0.5, abs=1e-3)


def test_gradients_of_single_examples_are_asked_for():
    model, wrapped = linear()
    plan = DPSGD(1.0, 0.5, 1)
    with pytest.raises(BadInput, match="no gradients of single examples"):
        plan.set_gradients(list(model.parameters()), plan.noisy(Seeded(0)), 4, 2)
    wrapped(torch.ones(2, 2, requires_grad=True)).sum().backward()
    with pytest.raises(BadInput, match="not one for each example"):
        plan.set_gradients(list(model.parameters()), plan.noisy(Seeded(0)), 4, 3)
    wrapped(torch.ones(2, 2, requires_grad=True)).sum().backward()
    with pytest.raises(BadInput, match="from one backward pass"):
        plan.set_gradients(list(model.parameters()), plan.noisy(Seeded(0)), 4, 2)


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
    wrapped = GradSampleModule(model, loss_reduction="sum")
    inputs = torch.randn((examples, 300), generator=generator)
    null = inputs.clone()
    null[4] = math.nan
    sums = []
    for rows in (inputs, null):
        wrapped(rows.requires_grad_()).square().sum().backward()
        sums.append([parameter.grad_sample for parameter in model.parameters()])
        for parameter in model.parameters():
            parameter.grad_sample = None
    others = torch.arange(examples) != 4
    noisy = NoisySum(1.0, 1.0, Seeded(0).stream(b"unused"))
    for part, without in zip(*sums, strict=True):
        assert torch.equal(part[others], without[others])
    expected = noisy.exact([part[others] for part in sums[0]])
    assert all(torch.equal(a, b) for a, b in zip(noisy.exact(sums[1]), expected, strict=True))


def linear():
    model = torch.nn.Linear(2, 1)
    return model, GradSampleModule(model, loss_reduction="sum")


def test_keyed_noise_which_would_repeat_itself_is_refused():
    """Two runs under one noise: the difference of their gradients would lie open."""
    keyed = Keyed(bytes(32), dataset="d", version="1", release="r")
    with pytest.raises(BadInput, match="keyed noise belongs to the content of records"):
        DPSGD(1.0, 0.5, 1).noisy(keyed)
