"""Curvature K(z): closed forms, ties, and the two ways to compute it."""

from __future__ import annotations

import pytest
import torch
from surfaces import Cylinder, Paraboloid, Pseudosphere, Sphere, by_differences, eigenvalue_differences
from torch import nn

from sfumato.publishers.riemannian import curvature
from sfumato.publishers.riemannian.manifold import eigenvalue_slopes

DOUBLE = torch.float64


class Quadratic:
    """z ↦ s·z + ½ Q(z, z): at 0 the metric is diag(s²), and its derivative along j is D Q_j + Q_jᵀ D."""

    def __init__(self, scales, seed=0):
        self.scales = torch.tensor(scales, dtype=DOUBLE)
        size = len(scales)
        raw = torch.randn(size, size, size, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))
        self.bend = raw + raw.mT  # output, and two inputs in either order

    def embed(self, z):
        bent = 0.5 * torch.einsum("oij,ni,nj->no", self.bend, z, z)
        return z * self.scales + bent, torch.zeros_like(z)

    def derivative(self, axis):
        half = self.scales[:, None] * self.bend[:, axis]
        return half + half.mT


class Turned:
    """A manifold whose latent axes are turned."""

    def __init__(self, manifold, turn):
        self.manifold, self.turn = manifold, turn

    def embed(self, z):
        return self.manifold.embed(z @ self.turn)


def points(count=9, dimension=2, seed=0):
    return torch.randn(count, dimension, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def both(manifold, z):
    """K the exact way, after the finite differences have been seen to agree."""
    exact = curvature(manifold, z)
    torch.testing.assert_close(by_differences(manifold, z, 1e-6), exact, rtol=1e-4, atol=1e-4)
    return exact


def test_sphere():
    z = points()
    torch.testing.assert_close(both(Sphere(2.0), z), 4.0 * (2.0 * z[:, 0]).sin().abs())
    slopes = eigenvalue_slopes(Sphere(2.0), z)  # sin² is the smaller eigenvalue and moves with θ alone
    expected = torch.zeros_like(slopes)
    expected[:, 0, 0] = 4.0 * (2.0 * z[:, 0]).sin()
    torch.testing.assert_close(slopes, expected)


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_a_cylinder_has_no_curvature_tied_or_not(radius):
    assert both(Cylinder(radius), points()).max() < 1e-12


def test_the_equator_is_a_tie_without_curvature():
    z = torch.tensor([[torch.pi / 2, 0.3]], dtype=DOUBLE)
    assert both(Sphere(), z).max() < 1e-12


def test_hyperbolic_plane_is_tied_everywhere():
    """Both eigenvalues are 1/y², so both have slope −2/y³ along y."""
    z = points()
    z[:, 1] = 1.2 + z[:, 1].abs()
    torch.testing.assert_close(both(Pseudosphere(), z), 8.0**0.5 * z[:, 1] ** -3)
    expected = torch.zeros(9, 2, 2, dtype=DOUBLE)
    expected[:, :, 1] = -2.0 * z[:, 1:] ** -3
    torch.testing.assert_close(eigenvalue_slopes(Pseudosphere(), z), expected)


@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_paraboloid(dimension):
    """Eigenvalue 1 stays, d − 1 times over; 1 + ‖z‖² has the gradient 2z."""
    z = points(dimension=dimension)
    z[0] = 0.0
    torch.testing.assert_close(both(Paraboloid(0.5), z), 2.0 * z.norm(dim=1), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(eigenvalue_slopes(Paraboloid(0.5), z)[:, -1], 2.0 * z, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize(
    ("scales", "groups"),
    [
        ([1.0, 1.0, 1.0], [(0, 3)]),
        ([1.0, 1.0, 2.0, 3.0, 3.0, 3.0], [(0, 2), (2, 3), (3, 6)]),
        ([1.0, 2.0, 2.0], [(0, 1), (1, 3)]),
        ([1.0, 2.0, 3.0], [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_tied_eigenvalues_part_along_each_axis_as_perturbation_theory_says(scales, groups):
    manifold, size = Quadratic(scales), len(scales)
    origin = torch.zeros(1, size, dtype=DOUBLE)
    expected = torch.zeros(size, size, dtype=DOUBLE)
    norm = 0.0
    for axis in range(size):
        change = manifold.derivative(axis)
        for first, last in groups:
            block = change[first:last, first:last]
            expected[first:last, axis] = torch.linalg.eigvalsh(block)
            norm += float(block.square().sum())
    torch.testing.assert_close(eigenvalue_slopes(manifold, origin)[0], expected)
    assert float(curvature(manifold, origin)) == pytest.approx(norm**0.5)
    torch.testing.assert_close(
        eigenvalue_differences(manifold, origin, 1e-7)[0], expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("scales", [[1.0, 1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_turning_the_latent_axes_changes_nothing(scales):
    turn = torch.linalg.qr(points(4, 4, seed=3)).Q
    manifold, origin = Quadratic(scales), torch.zeros(1, 4, dtype=DOUBLE)
    torch.testing.assert_close(curvature(Turned(manifold, turn), origin), curvature(manifold, origin))


def test_rows_with_and_without_ties_stand_side_by_side():
    manifold = Quadratic([1.0, 1.0, 2.0])
    z = torch.cat([torch.zeros(1, 3, dtype=DOUBLE), points(300, 3), torch.zeros(1, 3, dtype=DOUBLE)])
    together = curvature(manifold, z)
    for row in (0, 1, 150, 256, 301):
        torch.testing.assert_close(curvature(manifold, z[row : row + 1])[0], together[row])
    assert together[0] == together[-1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_agree_with_differences(dtype):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 60), nn.Sigmoid())
            self.deviation = nn.Sequential(nn.Linear(5, 40), nn.SiLU(), nn.Linear(40, 60), nn.Softplus())

        def embed(self, z):
            return self.mean(z), self.deviation(z)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        decoder = Decoder().to(dtype)
    z = points(40, 5).to(dtype)
    step = 1e-6 if dtype is DOUBLE else 1e-2
    exact, differences = curvature(decoder, z), by_differences(decoder, z, step)
    torch.testing.assert_close(exact, differences, rtol=1e-4 if dtype is DOUBLE else 0.1, atol=0.0)
    assert exact.dtype == dtype
    assert not exact.requires_grad
    assert torch.equal(exact, curvature(decoder, z))


def test_a_linear_map_has_no_curvature():
    class Linear:
        def embed(self, z):
            return 2.0 * z, z[:, :1]

    assert curvature(Linear(), points()).max() == 0.0
