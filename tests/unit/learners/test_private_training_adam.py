"""Adam on noisy gradients: torch's own where nothing is taken out, and without the noise's part otherwise."""

import math

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learners.private_training import PrivateAdam


def test_without_correction_it_is_torchs_adam():
    generator = torch.Generator().manual_seed(0)
    ours, theirs = torch.nn.Parameter(torch.ones(5, 3)), torch.nn.Parameter(torch.ones(5, 3))
    private, other = PrivateAdam([ours], pace=0.05), torch.optim.Adam([theirs], lr=0.05)
    for _ in range(30):
        gradient = torch.randn((5, 3), generator=generator)
        private.step([gradient], 7.0)
        theirs.grad = gradient
        other.step()
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_noise_is_taken_out_of_the_second_moment():
    """Gradients of 1 and of 4 in noise of deviation 3: where it is left in, the small ones move less."""
    generator = torch.Generator().manual_seed(1)
    signal = torch.tensor([1.0, 4.0]).repeat_interleave(500)
    moved = {}
    for unbiased in (False, True):
        part = torch.nn.Parameter(torch.zeros(1000))
        adam = PrivateAdam([part], pace=1e-3, betas=(0.9, 0.9999), unbiased=unbiased, floor=0.1)
        for _ in range(3000):
            before = part.detach().clone()
            adam.step([signal + 3.0 * torch.randn(1000, generator=generator)], 9.0)
        moved[unbiased] = [float(half.mean()) for half in (before - part.detach()).split(500)]
    # By 1/√(1 + 9) and 4/√(16 + 9) with the noise, and by 1 and 1 without it.
    assert moved[False] == pytest.approx([1e-3 / math.sqrt(10.0), 4e-3 / 5.0], rel=0.15)
    assert moved[True] == pytest.approx([1e-3, 1e-3], rel=0.25)


def test_noise_that_changes_from_step_to_step_is_taken_out_as_it_was():
    part = torch.nn.Parameter(torch.zeros(1))
    adam = PrivateAdam([part], pace=1.0, betas=(0.0, 0.5), unbiased=True, floor=1e-3)
    adam.step([torch.tensor([3.0])], 5.0)  # (9 − 5) → 3/2
    assert part.item() == pytest.approx(-1.5)
    adam.step([torch.tensor([4.0])], 1.0)  # ((9·½ + 16)·… − (5·½ + 1)·…)/(1 − ¼) = (10.25 − 1.75)/0.75
    assert part.item() == pytest.approx(-1.5 - 4.0 / math.sqrt((10.25 - 1.75) / 0.75))


def test_what_is_left_is_at_least_the_floor():
    part = torch.nn.Parameter(torch.zeros(1))
    PrivateAdam([part], pace=1.0, unbiased=True, floor=0.5).step([torch.tensor([1.0])], 16.0)
    assert part.item() == pytest.approx(-0.5)


@pytest.mark.parametrize(
    "options", [{"pace": 0.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"floor": 0.0}]
)
def test_parameters_that_cannot_be_used_are_refused(options):
    with pytest.raises(BadInput):
        PrivateAdam([torch.nn.Parameter(torch.zeros(1))], **options)
