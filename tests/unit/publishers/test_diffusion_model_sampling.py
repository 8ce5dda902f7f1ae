"""The sampler, on data whose best denoiser is known in closed form."""

import pytest
import torch

from sfumato.publishers import diffusion_model
from sfumato.publishers.diffusion_model import draw_pictures


@pytest.fixture
def known(monkeypatch):
    """Puts a denoiser in the place of networks."""
    monkeypatch.setattr(diffusion_model, "denoise", lambda network, *given: network(*given))


def gaussian(spread):
    """The best denoiser of pictures whose pixels are independent, of mean 0.2 and deviation ``spread``."""

    def denoise(noisy, levels, labels):
        sigma = levels.reshape(-1, 1, 1, 1)
        return 0.2 + (noisy - 0.2) * spread**2 / (spread**2 + sigma**2)

    return denoise


def test_a_gaussian_is_drawn_with_its_own_mean_and_deviation(known):
    """128,000 pixels: five deviations of their mean (false alarms 6e-7) and 3 % for the finite steps."""
    labels = torch.zeros(2000, dtype=torch.int64)
    drawn = draw_pictures(gaussian(0.25), labels, (1, 8, 8), 300, torch.Generator().manual_seed(0))
    assert drawn.shape == (2000, 1, 8, 8)
    assert abs(drawn.mean().item() - 0.2) < 5.0 * 0.25 / 128000**0.5 + 0.003
    assert drawn.std().item() == pytest.approx(0.25, rel=0.03)


def test_what_the_denoiser_is_sure_of_is_drawn_exactly_and_cut_to_the_range(known):
    wanted, labels = torch.linspace(-1.5, 1.5, 64).reshape(1, 8, 8), torch.zeros(3, dtype=torch.int64)
    drawn = draw_pictures(
        lambda noisy, *given: wanted.expand_as(noisy), labels, (1, 8, 8), 5, torch.Generator().manual_seed(0)
    )
    assert torch.equal(drawn, wanted.clamp(-1.0, 1.0).expand(3, 1, 8, 8))


def test_levels_fall_from_the_highest_to_the_lowest_and_shares_rise_to_the_whole(known):
    levels, shares = [], []

    def denoise(noisy, level, labels):
        levels.append(level[0].item())
        return torch.zeros_like(noisy)

    draw_pictures(denoise, torch.zeros(600), (3, 8, 9), 14, torch.Generator(), shares.append)
    assert levels[0] == pytest.approx(20.0)
    assert levels[13] == pytest.approx(0.03)
    assert levels[:14] == sorted(levels[:14], reverse=True)
    assert levels == levels[:14] * 3
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
