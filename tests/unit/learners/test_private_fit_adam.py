"""Adam on noisy gradients without the noise's part of its second moment."""

import math

import pytest
import torch

from sfumato.learners.private_fit import UnbiasedAdam


def moved(adam, part, gradient, variance):
    """Take a step and return the parameter before it."""
    before, part.grad = part.detach().clone(), gradient
    adam.step(variance)
    return before


def test_without_noise_it_is_torchs_adam():
    generator = torch.Generator().manual_seed(0)
    ours, theirs = torch.nn.Parameter(torch.ones(5, 3)), torch.nn.Parameter(torch.ones(5, 3))
    private, other = UnbiasedAdam([ours], 0.05), torch.optim.Adam([theirs], lr=0.05)
    for _ in range(30):
        theirs.grad = torch.randn((5, 3), generator=generator)
        moved(private, ours, theirs.grad, 0.0)
        other.step()
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_noise_is_taken_out_of_the_second_moment():
    """Gradients of 1 and of 4 in noise of deviation 3 move as far; with it small ones would move less."""
    generator = torch.Generator().manual_seed(1)
    signal = torch.tensor([1.0, 4.0]).repeat_interleave(500)
    part = torch.nn.Parameter(torch.zeros(1000))
    adam = UnbiasedAdam([part], 1e-3, betas=(0.9, 0.9999), floor=0.1)
    for _ in range(3000):
        before = moved(adam, part, signal + 3.0 * torch.randn(1000, generator=generator), 9.0)
    halves = [float(half.mean()) for half in (before - part.detach()).split(500)]
    assert halves == pytest.approx([1e-3, 1e-3], rel=0.25)  # with the noise, by 1/√(1 + 9) and 4/√(16 + 9)


def test_noise_that_changes_from_step_to_step_is_taken_out_as_it_was():
    part = torch.nn.Parameter(torch.zeros(1))
    adam = UnbiasedAdam([part], 1.0, betas=(0.0, 0.5), floor=1e-3)
    moved(adam, part, torch.tensor([3.0]), 5.0)  # (9 − 5) → 3/2
    assert part.item() == pytest.approx(-1.5)
    moved(adam, part, torch.tensor([4.0]), 1.0)  # ((9·½ + 16)·… − (5·½ + 1)·…)/(1 − ¼) = (10.25 − 1.75)/0.75
    assert part.item() == pytest.approx(-1.5 - 4.0 / math.sqrt((10.25 - 1.75) / 0.75))


def test_what_is_left_is_at_least_the_floor():
    part = torch.nn.Parameter(torch.zeros(1))
    moved(UnbiasedAdam([part], 1.0, floor=0.5), part, torch.tensor([1.0]), 16.0)
    assert part.item() == pytest.approx(-0.5)
