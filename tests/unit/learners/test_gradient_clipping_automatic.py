"""Normalised gradients: their sum is what the formula says, and no example is longer than the bound."""

import math

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum


def test_the_sum_is_that_of_normalised_gradients():
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn((50, 4, 3), generator=generator), 5.0 * torch.randn((50, 7), generator=generator)]
    lengths = torch.cat([part.reshape(50, -1) for part in parts], dim=1).double().norm(dim=1)
    sums = ClippedSum(gamma=0.5).exact(parts)
    for part, total in zip(parts, sums, strict=True):
        weights = (1.0 / (lengths + 0.5)).reshape(-1, *[1] * (part.ndim - 1))
        assert torch.allclose(total / RADIUS, (part.double() * weights).sum(dim=0), atol=2e-4)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-3, 1.0, 1e10, 3e38])
@pytest.mark.parametrize("gamma", [1e-30, 0.01, 1e30])
def test_no_example_is_longer_than_one(size, gamma):
    generator = torch.Generator().manual_seed(1)
    gradients = (size * torch.rand((40, 300), generator=generator, dtype=torch.float64)).float()
    for row in gradients:
        assert int(ClippedSum(gamma=gamma).exact([row[None]])[0].square().sum()) <= RADIUS**2


def test_small_gradients_count_in_proportion_and_large_ones_alike():
    found = [
        ClippedSum(gamma=0.01).exact([torch.tensor([[x]])])[0].item() / RADIUS for x in (1e-4, 2e-4, 10, 99)
    ]
    assert found[1] / found[0] == pytest.approx(2.0, rel=0.02)
    assert found[2:] == pytest.approx([1.0, 1.0], abs=2e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_counts_as_zero(value):
    gradients = torch.tensor([[value, 1.0], [3.0, 4.0]])
    assert torch.equal(
        ClippedSum(gamma=0.01).exact([gradients])[0], ClippedSum(gamma=0.01).exact([gradients[1:]])[0]
    )


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan, 1e-31, 1e31])
def test_gammas_that_cannot_be_used_are_refused(gamma):
    with pytest.raises(BadInput, match="gamma"):
        ClippedSum(gamma=gamma)
