"""Gradients of single examples with several draws each, and the network they are taken of."""

import pytest
import torch
from torch import nn

from sfumato.errors import BadInput
from sfumato.publishers.diffusion.diffusion_model import Denoiser, UNet
from sfumato.publishers.diffusion.diffusion_training import ExampleGradients


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


def loss_of_one(denoiser, picture, label, levels, noises):
    """The mean over draws, one by one, of the squared error of the denoised picture over c_out²."""
    total = torch.zeros(())
    for level, noise in zip(levels, noises, strict=True):
        denoised = denoiser((picture + level * noise)[None], level[None], label[None])[0]
        total = total + (denoised - picture).square().sum() * (level**2 + 0.25) / (0.5 * level) ** 2
    return total / len(levels)


@pytest.mark.parametrize("multiplicity", [1, 3])
@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 9, 14)])
def test_gradients_with_multiplicity_are_those_of_one_example_and_one_draw_at_a_time(
    multiplicity, channels, height, width
):
    xs, ys = pictures(3, channels, height, width)
    single, together = network(xs.shape[1:]), network(xs.shape[1:])
    generator = torch.Generator().manual_seed(7)
    levels = (
        torch.randn(3 * multiplicity, generator=generator).mul(1.2).add(0.3).exp().reshape(3, multiplicity)
    )
    noises = torch.randn(3 * multiplicity, *xs.shape[1:], generator=generator)
    noises = noises.reshape(3, multiplicity, *xs.shape[1:])
    gradients = ExampleGradients(together)
    again = torch.Generator().manual_seed(7)
    found = gradients(lambda: Denoiser(together).losses(xs, ys, multiplicity, again), 3)
    names = {id(parameter): name for name, parameter in together.named_parameters()}
    named = {names[id(p)]: g for p, g in zip(gradients.parameters, found, strict=True)}
    for i in range(3):
        loss = loss_of_one(Denoiser(single), xs[i], ys[i], levels[i], noises[i])
        wanted = torch.autograd.grad(loss, list(single.parameters()))
        length = torch.sqrt(sum(part.square().sum() for part in wanted))
        for (name, _), part in zip(single.named_parameters(), wanted, strict=True):
            assert (named[name][i] - part).abs().max() <= 1e-5 * length


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
    fresh = Denoiser(UNet((1, 8, 8), 4, 8, torch.Generator().manual_seed(0)))
    assert torch.allclose(
        fresh(xs, torch.tensor([0.5, 1.0]), ys), xs * torch.tensor([0.5, 0.2])[:, None, None, None]
    )


@pytest.mark.parametrize(
    "layers",
    [
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)),
        nn.Sequential(nn.Linear(4, 4, bias=False)),
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=2)),
        nn.Sequential(nn.Conv2d(4, 4, 3, dilation=2)),
    ],
)
def test_layers_without_known_gradients_of_examples_are_refused(layers):
    with pytest.raises(BadInput, match="layer"):
        ExampleGradients(layers)


def test_a_layer_that_is_used_twice_or_never_is_refused():
    layer = nn.Linear(3, 3)
    gradients = ExampleGradients(layer)
    rows = torch.ones(2, 3)
    with pytest.raises(BadInput, match="exactly once"):
        gradients(lambda: layer(layer(rows)), 2)
    with pytest.raises(BadInput, match="exactly once"):
        gradients(lambda: rows, 2)


def test_pictures_that_are_too_small_and_odd_widths_are_refused():
    with pytest.raises(BadInput, match="8 × 8 are the least"):
        network((1, 7, 8))
    with pytest.raises(BadInput, match="multiple of 8"):
        UNet((1, 8, 8), 4, 12, torch.Generator())
