"""The sampler, on data whose best denoiser is known in closed form."""

import pytest
import torch

from sfumato.publishers.diffusion.diffusion_model import Sampler


def gaussian(spread):
    """The best denoiser of pictures whose pixels are independent, of mean 0.2 and deviation ``spread``."""

    def denoise(noisy, levels, labels):
        sigma = levels.reshape(-1, 1, 1, 1)
        return 0.2 + (noisy - 0.2) * spread**2 / (spread**2 + sigma**2)

    return denoise


@pytest.mark.parametrize("renewal", [0.0, 0.5, 1.0])
def test_a_gaussian_is_drawn_with_its_own_mean_and_deviation(renewal):
    """128,000 pixels: five deviations of their mean (false alarms 6e-7) and 3 % for the finite steps."""
    drawn = Sampler(300, renewal, lowest=0.003).draw(
        gaussian(0.15), torch.zeros(2000, dtype=torch.int64), (1, 8, 8), torch.Generator().manual_seed(0)
    )
    assert drawn.shape == (2000, 1, 8, 8)
    assert abs(drawn.mean().item() - 0.2) < 5.0 * 0.15 / 128000**0.5 + 0.003
    assert drawn.std().item() == pytest.approx(0.15, rel=0.03)


@pytest.mark.parametrize("renewal", [0.0, 1.0])
def test_what_the_denoiser_is_sure_of_is_drawn_exactly_and_cut_to_the_range(renewal):
    wanted = torch.linspace(-1.5, 1.5, 64).reshape(1, 8, 8)
    drawn = Sampler(5, renewal).draw(
        lambda noisy, levels, labels: wanted.expand_as(noisy),
        torch.zeros(3, dtype=torch.int64),
        (1, 8, 8),
        torch.Generator().manual_seed(0),
    )
    assert torch.equal(drawn, wanted.clamp(-1.0, 1.0).expand(3, 1, 8, 8))


def test_levels_fall_from_the_highest_to_none_and_shares_rise_to_the_whole():
    levels = list(Sampler(14).levels())
    assert levels[0][0] == pytest.approx(20.0)
    assert levels[-1] == pytest.approx((0.03, 0.0))
    assert all(above > below for above, below in levels)
    shares = []
    Sampler(2).draw(
        gaussian(0.1), torch.zeros(600, dtype=torch.int64), (3, 8, 9), torch.Generator(), shares.append
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
