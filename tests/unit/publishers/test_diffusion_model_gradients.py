"""The network of the diffusion model: gradients of single examples, with several draws each, and its rows."""

import pytest
import torch

from sfumato.publishers.diffusion_model import UNet, denoise, denoising_loss, draw_noise
from sfumato.publishers.trained_publisher import example_gradients


def network(shape=(1, 8, 8)):
    """A network none of whose layers is still at zero."""
    generator = torch.Generator().manual_seed(0)
    made = UNet(shape, 4, 8, generator)
    for parameter in made.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return made


def pictures(count, channels, height, width):
    generator = torch.Generator().manual_seed(1)
    drawn = 2.0 * torch.rand(count, channels, height, width, generator=generator) - 1.0
    return drawn, torch.arange(count) % 4


def loss_of_one(network, picture, label, levels, noises):
    """The mean over draws, one by one, of the squared error of the denoised picture over c_out²."""
    total = torch.zeros(())
    for level, noise in zip(levels, noises, strict=True):
        denoised = denoise(network, (picture + level * noise)[None], level[None], label[None])[0]
        total = total + (denoised - picture).square().sum() * (level**2 + 0.25) / (0.5 * level) ** 2
    return total / len(levels)


@pytest.mark.parametrize("multiplicity", [1, 3])
@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 9, 14)])
def test_gradients_with_multiplicity_are_those_of_one_example_and_one_draw_at_a_time(
    multiplicity, channels, height, width
):
    xs, ys = pictures(3, channels, height, width)
    made = network(xs.shape[1:])
    levels, noises = draw_noise(3, multiplicity, xs.shape[1:], torch.Generator().manual_seed(7))
    blocks = list(example_gradients(made, denoising_loss, at_once=2)(xs, ys, levels, noises))
    assert [len(block[0]) for block in blocks] == [2, 1]
    found = [torch.cat(parts) for parts in zip(*blocks, strict=True)]
    for i in range(3):
        loss = loss_of_one(made, xs[i], ys[i], levels[i], noises[i])
        wanted = torch.autograd.grad(loss, list(made.parameters()))
        length = torch.sqrt(sum(part.square().sum() for part in wanted))
        for part, own in zip(wanted, found, strict=True):
            assert (own[i] - part).abs().max() <= 1e-5 * length


def test_a_null_record_leaves_the_gradients_of_others_as_they_are_to_the_last_bit():
    """What the guarantee needs: a row whose picture is no number touches no other row."""
    xs, ys = pictures(5, 1, 8, 8)
    draws = draw_noise(5, 2, (1, 8, 8), torch.Generator().manual_seed(7))
    null = xs.clone()
    null[3] = torch.nan
    of_examples, others = example_gradients(network(), denoising_loss), torch.arange(5) != 3
    ((*whole,), (*without,)) = (next(of_examples(rows, ys, *draws)) for rows in (xs, null))
    for part, same in zip(whole, without, strict=True):
        assert torch.equal(part[others], same[others])
        assert part.isfinite().all()


def test_no_row_of_the_network_meets_another():
    xs, ys = pictures(4, 1, 12, 8)
    made, levels = network((1, 12, 8)), torch.linspace(-1.0, 1.0, 4)
    together = made(xs, levels, ys)
    others = xs.clone()
    others[1:] = torch.nan
    assert together.shape == xs.shape
    assert torch.allclose(made(others, levels, ys)[0], together[0], atol=1e-5)
    assert made(others, levels, ys)[1:].isnan().all()


def test_label_and_level_change_what_the_network_predicts():
    xs, ys = pictures(4, 1, 8, 8)
    made, levels = network(), torch.zeros(4)
    first = made(xs, levels, ys)
    assert not torch.allclose(made(xs, levels, (ys + 1) % 4), first, atol=1e-3)
    assert not torch.allclose(made(xs, levels + 0.5, ys), first, atol=1e-3)


def test_an_untrained_network_denoises_by_its_public_constants_alone():
    xs, ys = pictures(2, 1, 8, 8)
    fresh = UNet((1, 8, 8), 4, 8, torch.Generator().manual_seed(0))
    shrunk = xs * torch.tensor([0.5, 0.2])[:, None, None, None]
    assert torch.allclose(denoise(fresh, xs, torch.tensor([0.5, 1.0]), ys), shrunk)
