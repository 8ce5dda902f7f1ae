"""Geodesics against great circles, helices and half circles, and on a network."""

from __future__ import annotations

import math

import pytest
import torch
from surfaces import Cylinder, Paraboloid, Pseudosphere, Sphere
from torch import nn

from sfumato.publishers.riemannian import geodesics
from sfumato.publishers.riemannian.geodesic_solver import Spline, curve_energy

DOUBLE = torch.float64


def curve_length(manifold, curves):
    """The sum of the chords of each curve ``(n, samples, d)`` in the data, ``(n,)``."""
    steps = [part.reshape(*curves.shape[:2], -1).diff(dim=1) for part in manifold.embed(curves.flatten(0, 1))]
    return torch.cat(steps, dim=2).norm(dim=2).sum(dim=1)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 60))
        self.deviation = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 60), nn.Softplus())
        nn.init.normal_(self.mean[0].weight)

    def embed(self, z):
        return self.mean(z), self.deviation(z)


@pytest.fixture(scope="module")
def decoder():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Decoder()


@pytest.fixture(scope="module")
def ends():
    return torch.randn(2, 70, 4, generator=torch.Generator().manual_seed(5))


def uniform(low, high, count=12, seed=0):
    draw = torch.Generator().manual_seed(seed)
    low, high = torch.tensor(low, dtype=DOUBLE), torch.tensor(high, dtype=DOUBLE)
    return low + (high - low) * torch.rand(count, len(low), dtype=DOUBLE, generator=draw)


def great_circle(a, b):
    cosine = a[:, 0].cos() * b[:, 0].cos() + a[:, 0].sin() * b[:, 0].sin() * (a - b)[:, 1].cos()
    return 2.0 * cosine.acos()


def helix(a, b):
    return (4.0 * (a - b)[:, 0].square() + (a - b)[:, 1].square()).sqrt()


def hyperbolic(a, b):
    return (1.0 + (a - b).square().sum(dim=1) / (2.0 * a[:, 1] * b[:, 1])).acosh()


SURFACES = {
    "sphere": (Sphere(2.0), ([0.5, 0.0], [2.6, 1.0]), ([0.5, 1.0], [2.6, 2.0]), great_circle),
    "cylinder": (Cylinder(2.0), ([-2.0, -3.0], [2.0, 3.0]), ([-2.0, -3.0], [2.0, 3.0]), helix),
    "hyperbolic": (Pseudosphere(), ([0.0, 1.1], [1.0, 3.0]), ([1.0, 1.1], [3.0, 3.0]), hyperbolic),
}


@pytest.mark.parametrize("name", SURFACES)
def test_lengths_are_distances(name):
    surface, first, second, distance = SURFACES[name]
    start, end = uniform(*first), uniform(*second, seed=1)
    found = geodesics(surface, start, end, knots=7, samples=40, tolerance=1e-9)
    assert found.converged.all()
    length = curve_length(surface, found.curves.samples(2000))
    torch.testing.assert_close(length, distance(start, end), rtol=1e-4, atol=0.0)
    straight = curve_length(surface, _lines(start, end, 2000))
    assert (name == "cylinder") == bool((straight < 1.001 * length).all())  # only a flat one has it for free


def test_a_great_circle_lies_in_the_plane_of_its_ends():
    surface, first, second, _ = SURFACES["sphere"]
    start, end = uniform(*first), uniform(*second, seed=1)
    curves = geodesics(surface, start, end, knots=7, samples=40, tolerance=1e-10).curves.samples(50)
    points = surface.embed(curves.reshape(-1, 2))[0].reshape(12, 50, 3)
    normal = torch.linalg.cross(points[:, 0], points[:, -1])
    normal /= normal.norm(dim=1, keepdim=True)
    assert (points @ normal[:, :, None]).abs().max() < 0.01 * surface.radius


def test_a_helix_is_a_straight_line_of_the_latent_space():
    surface, first, second, _ = SURFACES["cylinder"]
    found = geodesics(surface, uniform(*first), uniform(*second, seed=1), tolerance=1e-12)
    assert found.curves.offsets.abs().max() < 1e-6


def test_a_geodesic_of_the_hyperbolic_plane_is_a_half_circle_about_the_axis():
    surface, first, second, _ = SURFACES["hyperbolic"]
    start, end = uniform(*first), uniform(*second, seed=1)
    curves = geodesics(surface, start, end, knots=7, samples=40, tolerance=1e-10).curves.samples(50)
    centre = (end.square().sum(dim=1) - start.square().sum(dim=1)) / (2.0 * (end - start)[:, 0])
    radius = ((start[:, 0] - centre).square() + start[:, 1].square()).sqrt()
    ways = ((curves[:, :, 0] - centre[:, None]).square() + curves[:, :, 1].square()).sqrt()
    torch.testing.assert_close(ways, radius[:, None].expand_as(ways), rtol=2e-3, atol=0.0)


def test_a_meridian_of_a_paraboloid_goes_over_the_top():
    """Between opposite points the line over the top is a geodesic; its length is that of a parabola's arc."""
    start = torch.tensor([[1.0, 0.0]], dtype=DOUBLE)
    found = geodesics(Paraboloid(0.5), start, -start, knots=7, samples=60, tolerance=1e-10)
    arc = 2**0.5 + torch.asinh(torch.ones(1, dtype=DOUBLE))
    torch.testing.assert_close(
        curve_length(Paraboloid(0.5), found.curves.samples(4000)), arc, rtol=1e-4, atol=0.0
    )


def test_on_a_network_energy_falls_and_speed_is_even(decoder, ends):
    found = geodesics(decoder, *ends, tolerance=1e-5)
    straight = curve_energy(decoder, _lines(*ends, 20)).detach()
    assert found.converged.all()
    assert (found.energy <= straight).all()
    assert (found.energy < 0.95 * straight).float().mean() > 0.5
    curves = found.curves.samples(20)
    torch.testing.assert_close(curve_energy(decoder, curves).detach(), found.energy, rtol=1e-4, atol=1e-5)
    length = curve_length(decoder, curves).detach()
    assert (length.square() > 0.98 * 2 * 19 * found.energy).all()  # equality is constant speed
    assert not found.energy.requires_grad


def test_a_curve_does_not_depend_on_its_company_or_its_direction(decoder, ends):
    together = geodesics(decoder, *ends, tolerance=1e-6).energy
    alone = torch.cat(
        [
            geodesics(decoder, a[None], b[None], tolerance=1e-6).energy
            for a, b in zip(*ends[:, :3], strict=True)
        ]
    )
    torch.testing.assert_close(alone, together[:3], rtol=1e-3, atol=0.0)
    back = geodesics(decoder, *ends.flip(0), tolerance=1e-6).energy
    torch.testing.assert_close(back, together, rtol=1e-2, atol=0.0)


def test_few_iterations_still_never_lengthen_anything(decoder, ends):
    found = geodesics(decoder, *ends, iterations=1, tolerance=0.0)
    assert (found.energy <= curve_energy(decoder, _lines(*ends, 20)) * (1 + 1e-6)).all()
    assert not found.converged.all()


def test_ends_that_coincide_give_a_point(decoder, ends):
    found = geodesics(decoder, ends[0], ends[0])
    assert found.converged.all()
    assert found.energy.max() == 0.0
    assert found.curves.offsets.abs().max() == 0.0


def test_a_direction_the_manifold_ignores_is_left_alone():
    class Flat:
        def embed(self, z):
            return z[:, :1], torch.zeros_like(z)

    start, end = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    found = geodesics(Flat(), start, end)
    assert found.converged.all()
    assert found.curves.samples(20).isfinite().all()


def test_the_ends_are_untouched(decoder, ends):
    before = ends.clone()
    geodesics(decoder, *ends)
    assert torch.equal(ends, before)


def _lines(start, end, samples):
    times = torch.linspace(0, 1, samples, dtype=start.dtype)[None, :, None]
    return torch.lerp(start[:, None], end[:, None], times)


def spline(knots=5, count=3, dimension=2):
    draw = torch.Generator().manual_seed(0)
    start, end = torch.randn(2, count, dimension, dtype=DOUBLE, generator=draw)
    return Spline(start, end, torch.randn(count, knots, dimension, dtype=DOUBLE, generator=draw))


@pytest.mark.parametrize("knots", [1, 2, 5])
def test_a_spline_passes_through_its_ends_and_knots(knots):
    curve = spline(knots)
    points = curve.samples(knots + 2)
    lines = curve.start[:, None] + torch.linspace(0, 1, knots + 2, dtype=DOUBLE)[:, None] * (
        curve.end - curve.start
    ).unsqueeze(1)
    torch.testing.assert_close(points[:, 1:-1], lines[:, 1:-1] + curve.offsets)
    torch.testing.assert_close(points[:, 0], curve.start)
    torch.testing.assert_close(points[:, -1], curve.end)


def test_a_spline_reproduces_any_cubic():
    """A cubic has no kink in its third derivative anywhere, so the spline through its points is it."""
    times = torch.linspace(0, 1, 50, dtype=DOUBLE)
    inner = torch.arange(1, 4, dtype=DOUBLE) / 4
    curve = Spline(
        torch.zeros(1, 1, dtype=DOUBLE), torch.ones(1, 1, dtype=DOUBLE), (inner**3 - inner).reshape(1, 3, 1)
    )
    torch.testing.assert_close(curve.samples(50).flatten(), times**3)


def test_length_and_energy_of_a_circle():
    """Chords of a circle of radius 2 and angle 3: each has length 4 sin(3/2n) for n of them."""
    angle = torch.linspace(0, 3, 31, dtype=DOUBLE)
    curve = torch.stack([angle, torch.zeros_like(angle)], dim=1)[None]
    chord = 4.0 * math.sin(3.0 / 60.0)
    assert float(curve_length(Cylinder(2.0), curve)) == pytest.approx(30 * chord)
    assert float(curve_energy(Cylinder(2.0), curve)) == pytest.approx(0.5 * 30 * chord**2)


def test_a_helix_has_the_length_of_its_unrolled_line():
    ends = torch.tensor([[0.0, 0.0], [2.0, 5.0]], dtype=DOUBLE)
    curve = Spline(ends[:1], ends[1:], torch.zeros(1, 3, 2, dtype=DOUBLE)).samples(2000)
    assert float(curve_length(Cylinder(3.0), curve)) == pytest.approx(math.hypot(6.0, 5.0), rel=1e-6)


def test_energy_bounds_the_square_of_the_length_and_is_reached_at_constant_speed():
    curves = spline().samples(20)
    length, energy = curve_length(Sphere(), curves), curve_energy(Sphere(), curves)
    assert (length.square() <= 2 * 19 * energy).all()
    even = torch.stack([torch.linspace(0, 1, 20), torch.zeros(20)], dim=1)[None].to(DOUBLE)
    torch.testing.assert_close(curve_length(Sphere(), even).square(), 2 * 19 * curve_energy(Sphere(), even))


def test_the_energy_can_be_trained_through():
    curves = spline().samples(6).requires_grad_()
    (slope,) = torch.autograd.grad(curve_energy(Paraboloid(), curves).sum(), curves)
    torch.testing.assert_close(slope, _numerical(curves.detach()), rtol=1e-5, atol=1e-5)


def _numerical(curves, step=1e-6):
    slope = torch.empty_like(curves)
    for place in range(curves.numel()):
        moved = curves.flatten().repeat(2, 1)
        moved[0, place] += step
        moved[1, place] -= step
        up, down = (curve_energy(Paraboloid(), each.reshape(curves.shape)).sum() for each in moved)
        slope.view(-1)[place] = (up - down) / (2 * step)
    return slope
