"""Sums of clipped gradients: exact, inside the clip whatever the gradients are, and those of Opacus."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import ClippedSum

RADIUS = 2**20
LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)
# Values at the ends of float32, near the clips that are tried and near whole steps of them.
EXTREME = [0.0, -0.0, TINY, -3.0 * TINY, 1.17e-38, 1e-30, -1e-30, 2.0**-20, 1.0 - 2.0**-24, 1.0, -1.0, 3.0]
EXTREME += [1e18, -1e30, LARGEST, -LARGEST, math.inf, -math.inf, math.nan]
VALUES = st.one_of(st.sampled_from(EXTREME), st.floats(width=32), st.floats(-2.0, 2.0, width=32))
CLIPS = st.sampled_from([1e-30, 1e-12, 0.3, 1.0, 7.0, 1e30])


def brute_force(clip, rows):
    """Bounds (low, high) in steps of each entry of each row, clipped in exact arithmetic.

    The upper one is the true quotient, rounded toward zero, the lower one that of a part in 2¹⁹ less.
    """
    ends = []
    for row in rows:
        if not np.isfinite(row).all():
            ends.append([(0, 0)] * len(row))
            continue
        exact = [Fraction(float(value)) for value in row]
        square = sum(value * value for value in exact)
        shrink = Fraction(1)
        if square > Fraction(clip) ** 2:
            # A root to 200 bits; the margin is far wider.
            shrink = Fraction(clip) * (1 << 400) / math.isqrt(int(square * (1 << 800)))
        steps = [value * shrink / Fraction(clip) * RADIUS for value in exact]
        ends.append([(math.floor(abs(s) * (1 - Fraction(1, 2**19))), math.floor(abs(s))) for s in steps])
    return ends


@settings(max_examples=300, deadline=None)
@given(CLIPS, st.lists(VALUES, min_size=1, max_size=7))
def test_one_example_adds_whole_steps_inside_the_clip(clip, values):
    (total,) = ClippedSum(clip).exact([torch.tensor([values], dtype=torch.float32)])
    steps = [int(value) for value in total.tolist()]
    assert total.tolist() == steps
    assert sum(step * step for step in steps) <= RADIUS**2
    (ends,) = brute_force(clip, np.array([values], dtype=np.float32))
    for step, value, (low, high) in zip(steps, values, ends, strict=True):
        assert low <= abs(step) <= high
        assert step == 0 or (step > 0) == (value > 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-4, 1e4), st.integers(1, 40))
def test_sums_are_those_of_the_examples_one_by_one(seed, size, examples):
    """Over two tensors and a scalar, more rows than are added up at once, in whole numbers without error."""
    rng = np.random.default_rng(seed)
    parts = [
        torch.from_numpy((size * rng.standard_cauchy((examples, *shape))).astype(np.float32))
        for shape in ((3, 5), (4,), ())
    ]
    parts[0][0, 1, 2] = math.nan
    noisy = ClippedSum(0.7)
    alone = [noisy.exact([part[i : i + 1] for part in parts]) for i in range(examples)]
    for number, total in enumerate(noisy.exact(parts)):
        expected = np.sum([row[number].numpy().astype(object) for row in alone], axis=0)
        assert np.array_equal(total.numpy().astype(object), expected)
    assert all((total == 0.0).all() for total in alone[0])
    for row in alone:
        assert sum(int(value) ** 2 for total in row for value in total.reshape(-1).tolist()) <= RADIUS**2


def test_long_gradients_stay_inside_the_clip_and_close_to_it():
    """300 000 entries of very different sizes: the length is summed with an error far inside the margin."""
    rng = np.random.default_rng(0)
    rows = torch.from_numpy((10.0 ** rng.uniform(-6, 6, (4, 300_000))).astype(np.float32))
    for row in rows:
        (total,) = ClippedSum().exact([row[None]])
        length = math.isqrt(sum(int(step) ** 2 for step in total.tolist()))
        assert RADIUS * (1 - 2**-9) < length <= RADIUS


def test_many_examples_add_up_exactly():
    gradients = torch.ones((70_001, 1))
    (total,) = ClippedSum().exact([gradients])
    (one,) = ClippedSum().exact([gradients[:1]])
    assert one.item() == RADIUS - 1
    assert total.item() == 70_001 * one.item()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_kinds_of_numbers_are_taken_as_float32(kind):
    values = torch.tensor([[0.3, -4.0], [1e-3, 0.0]], dtype=kind)
    assert torch.equal(ClippedSum().exact([values])[0], ClippedSum().exact([values.float()])[0])


def test_numbers_beyond_float32_count_as_zero():
    """A gradient of 1e100 has a finite length in float64, but no float32 to be scaled."""
    values = torch.tensor([[1e100, 1.0], [0.5, 0.25]], dtype=torch.float64)
    assert torch.equal(ClippedSum().exact([values])[0], ClippedSum().exact([values[1:]])[0])


def test_gradients_are_those_of_opacus_but_for_the_grid():
    """Without noise, Opacus's own clipping of the same gradients gives the same mean to 1e-5 of the clip."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    wrapped = GradSampleModule(model, loss_reduction="sum")
    rng = np.random.default_rng(1)
    inputs = torch.from_numpy(rng.normal(size=(9, 6)).astype(np.float32)).requires_grad_()
    wrapped(inputs).square().sum().backward()
    gradients = [parameter.grad_sample.clone() for parameter in model.parameters()]
    clip = float(torch.cat([part.flatten(1) for part in gradients], dim=1).norm(dim=1).median())
    opacus = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=clip,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    opacus.pre_step()
    for parameter, total in zip(model.parameters(), ClippedSum(clip).exact(gradients), strict=True):
        assert torch.allclose(parameter.grad.double(), total * clip / RADIUS, rtol=0.0, atol=1e-5 * clip)


def test_gradients_are_not_modified():
    gradients = torch.tensor([[3.0, math.nan], [0.5, 2.0]])
    before = gradients.clone()
    ClippedSum().exact([gradients])
    assert torch.equal(gradients.nan_to_num(9.0), before.nan_to_num(9.0))


@pytest.mark.parametrize("clip", [0.0, 1e-31, 1e31, math.nan, "much"])
def test_clipping_norms_that_cannot_be_used_are_refused(clip):
    with pytest.raises(BadInput, match="clip"):
        ClippedSum(clip)
