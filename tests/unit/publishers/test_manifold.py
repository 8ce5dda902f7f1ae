"""The pullback metric: closed forms, Jacobians by another way, and derivatives through it."""

from __future__ import annotations

import math

import pytest
import torch
from surfaces import Cylinder, Paraboloid, Pseudosphere, Sphere
from torch import nn
from torch.func import jacrev, vmap

from sfumato.publishers.riemannian.manifold import log_determinant, pullback_metric


class Decoder(nn.Module):
    """Two small networks; ``pixels`` gives the mean the shape of a picture."""

    def __init__(self, *, picture: bool = False) -> None:
        super().__init__()
        if picture:
            self.mean = nn.Sequential(
                *(nn.Linear(3, 32), nn.Unflatten(1, (2, 4, 4)), nn.ConvTranspose2d(2, 4, 2, stride=2)),
                *(nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 3, 3, padding=1), nn.Sigmoid()),
            )
        else:
            self.mean = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 30))
        self.deviation = nn.Sequential(nn.Linear(3, 20), nn.ELU(), nn.Linear(20, 30), nn.Softplus())

    def embed(self, z):
        return self.mean(z), self.deviation(z)


@pytest.fixture(params=[False, True], ids=["dense", "convolutional"])
def decoder(request):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Decoder(picture=request.param).double().eval()


def points(count=7, dimension=3, seed=0):
    return torch.randn(count, dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def diagonal(*entries):
    return torch.diag_embed(torch.stack(entries, dim=1))


def test_sphere():
    z = points(dimension=2)
    expected = 4.0 * diagonal(torch.ones(7, dtype=z.dtype), z[:, 0].sin() ** 2)
    metric = pullback_metric(Sphere(2.0), z)
    torch.testing.assert_close(metric, expected)
    torch.testing.assert_close(
        log_determinant(metric), math.log(16.0) + 2.0 * z[:, 0].sin().abs().log(), rtol=1e-9, atol=1e-9
    )


def test_cylinder_has_its_height_in_the_deviation():
    z = points(dimension=2)
    metric = pullback_metric(Cylinder(3.0), z)
    ones = torch.ones(7, dtype=z.dtype)
    torch.testing.assert_close(metric, diagonal(9.0 * ones, ones))
    torch.testing.assert_close(log_determinant(metric), math.log(9.0) * ones)


def test_hyperbolic_plane():
    z = points(dimension=2)
    z[:, 1] = 1.1 + z[:, 1].abs()
    metric = pullback_metric(Pseudosphere(), z)
    torch.testing.assert_close(metric, diagonal(z[:, 1] ** -2, z[:, 1] ** -2))
    torch.testing.assert_close(log_determinant(metric), -4.0 * z[:, 1].log())


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_paraboloid(dimension):
    z = points(dimension=dimension)
    metric = pullback_metric(Paraboloid(0.5), z)
    expected = torch.eye(dimension, dtype=z.dtype) + z[:, :, None] * z[:, None, :]
    torch.testing.assert_close(metric, expected)
    torch.testing.assert_close(log_determinant(metric), (1.0 + z.square().sum(dim=1)).log())


def test_networks_agree_with_reverse_mode(decoder):
    z = points()

    def joined(point):
        mean, deviation = decoder.embed(point[None])
        return torch.cat([mean.flatten(), deviation.flatten()])

    jacobians = vmap(jacrev(joined))(z)
    torch.testing.assert_close(pullback_metric(decoder, z), jacobians.mT @ jacobians)


def test_rows_do_not_depend_on_how_many_there_are(decoder):
    z = points(1100)  # more than are differentiated at once
    together = pullback_metric(decoder, z)
    for row in (0, 511, 512, 1099):
        torch.testing.assert_close(pullback_metric(decoder, z[row : row + 1])[0], together[row])


def test_the_log_determinant_can_be_trained_through(decoder):
    """A step of 1e-6 along the gradient by the parameters, and by z, changes it as the gradient says."""
    z = points().requires_grad_()
    parameters = [z, *decoder.parameters()]
    value = log_determinant(pullback_metric(decoder, z)).sum()
    # A bias of the last layer moves the whole manifold and changes nothing.
    slopes = torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)
    size = torch.stack([slope.square().sum() for slope in slopes]).sum().sqrt()
    step = 1e-6
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter += step * slope / size
        moved = log_determinant(pullback_metric(decoder, z)).sum()
    assert size > 0.1
    assert float((moved - value.detach()) / step) == pytest.approx(float(size), rel=1e-3)


def test_all_axes_share_one_pass():
    class Counted(Paraboloid):
        calls = 0

        def embed(self, z):
            Counted.calls += 1
            assert z.shape == (7, 5)
            return super().embed(z)

    pullback_metric(Counted(), points(dimension=5))
    assert Counted.calls == 1


def test_a_layer_that_draws_draws_once_for_all_axes():
    """An output is kept or dropped for all axes together, so all entries of a metric are equal."""

    class Thinned:
        def embed(self, z):
            total = z.sum(dim=1, keepdim=True)
            return nn.functional.dropout(total, 0.5), torch.zeros_like(z)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        metric = pullback_metric(Thinned(), points(200, 4))
    assert set(metric.flatten().tolist()) == {0.0, 4.0}
    assert (metric.flatten(1).max(dim=1).values == metric.flatten(1).min(dim=1).values).all()


def test_a_direction_the_manifold_ignores_makes_the_metric_singular():
    class Sum:
        def embed(self, z):
            return z.sum(dim=1, keepdim=True), torch.zeros_like(z)

    metric = pullback_metric(Sum(), points(dimension=2))
    torch.testing.assert_close(metric, torch.ones(7, 2, 2, dtype=torch.float64))
    assert (log_determinant(metric) == -math.inf).all()


def test_inputs_stay_as_they_were():
    z = points()
    before = z.clone()
    pullback_metric(Paraboloid(), z)
    assert torch.equal(z, before)
