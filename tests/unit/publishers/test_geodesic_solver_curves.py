"""Splines, and length and energy along them."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.publishers.riemannian import Spline, curve_length
from sfumato.publishers.riemannian.geodesic_solver import curve_energy
from sfumato.publishers.riemannian.manifold import Cylinder, Paraboloid, Sphere

DOUBLE = torch.float64


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
    torch.testing.assert_close(curve.at(times).flatten(), times**3)


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


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        (torch.tensor([0.0, 1.5]), "from 0 to 1"),
        (torch.zeros(2, 2), "shape"),
        (torch.tensor([math.nan]), "0 to 1"),
    ],
)
def test_times_outside_a_curve_are_refused(times, sentence):
    with pytest.raises(BadInput, match=sentence):
        spline().at(times)


def test_a_curve_of_one_sample_is_refused():
    with pytest.raises(BadInput, match="2 samples or more, its ends, not 1"):
        spline().samples(1)
    with pytest.raises(BadInput, match=r"2 samples or more, not \(3, 1, 2\)"):
        curve_length(Sphere(), spline().samples(2)[:, :1])
