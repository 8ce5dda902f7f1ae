"""Layers with lengths of their own: sums by layer, and one bound for all together."""

import math

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, group_layers

LAYERS = [[0, 1], [2]]


def gradients(count, sizes=(1.0, 1.0, 1.0)):
    generator = torch.Generator().manual_seed(0)
    shapes = ((count, 5, 4), (count, 5), (count, 9))
    return [
        (size * torch.randn(shape, generator=generator, dtype=torch.float64)).float()
        for size, shape in zip(sizes, shapes, strict=True)
    ]


def test_layers_are_modules_and_frozen_parameters_belong_to_none():
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2, bias=False)),
    )
    assert group_layers(model) == [[0, 1], [2, 3], [4]]
    model[2][0].requires_grad_(False)
    assert group_layers(model) == [[0, 1], [2]]


def test_each_layer_is_clipped_alone():
    clips = (0.5, 3.0)
    parts = gradients(60)
    sums = ClippedSum(clips, LAYERS)
    found = sums.exact(parts)
    for clip, layer in zip(clips, LAYERS, strict=True):
        flat = torch.cat([parts[place].reshape(60, -1) for place in layer], dim=1).double()
        scaled = flat * (clip / flat.norm(dim=1).clamp_min(clip))[:, None]
        seen = torch.cat([found[place].reshape(-1) for place in layer]) * (sums.clip / RADIUS)
        assert torch.allclose(seen, scaled.sum(dim=0), atol=1e-3)


@pytest.mark.parametrize(
    "sizes", [(1e-44, 1.0, 1e38), (1e20, 1e20, 1e-3), (1e29, 1e29, 1e29), (3e38, 1.0, 3e38)]
)
@pytest.mark.parametrize("clips", [(1.0, 1.0), (1e-30, 1e-29), (1e5, 0.2), (3.0, 1e29 / 1e29)])
def test_no_example_is_longer_than_the_bound(sizes, clips):
    parts = gradients(30, sizes)
    sums = ClippedSum(clips, LAYERS)
    assert sums.clip >= math.sqrt(sum(clip**2 for clip in clips))
    for row in range(30):
        found = sums.exact([part[row : row + 1] for part in parts])
        assert sum(int(part.square().sum()) for part in found) <= RADIUS**2


def test_the_bound_is_attained_by_long_gradients():
    sums = ClippedSum((0.6, 0.8), LAYERS)
    found = sums.exact(gradients(1, (1e6, 1e6, 1e6)))
    assert sum(float(part.square().sum()) for part in found) > 0.9999 * RADIUS**2


def test_one_layer_is_flat_clipping():
    parts = gradients(1)
    layered, flat = ClippedSum((0.7,), [[0, 1, 2]]).exact(parts), ClippedSum(0.7).exact(parts)
    assert all((a - b).abs().max() <= 1.0 for a, b in zip(layered, flat, strict=True))


def test_a_layer_that_is_not_finite_counts_as_zero_there_alone():
    parts = gradients(2)
    parts[0][0, 0, 0] = math.nan
    sums = ClippedSum((1.0, 1.0), LAYERS)
    found, without = sums.exact(parts), sums.exact([part[1:] for part in parts])
    assert torch.equal(found[0], without[0])
    assert torch.equal(found[1], without[1])
    assert not torch.equal(found[2], without[2])


@pytest.mark.parametrize(
    ("clips", "layers", "word"),
    [
        ((1.0,), LAYERS, "each of 2"),
        ((1.0, 0.0), LAYERS, "positive"),
        ((1.0, 1e-8), LAYERS, "millionth"),
        ((1e31, 1e31), LAYERS, "clip"),
        ((1.0, 1.0), [[0, 1], [1]], "each parameter once"),
    ],
)
def test_lengths_that_cannot_be_used_are_refused(clips, layers, word):
    with pytest.raises(BadInput, match=word):
        ClippedSum(clips, layers)
