"""Brownian motion on manifolds whose distances and volumes are known."""

import math

import pytest
import torch
from surfaces import Cylinder, Paraboloid, Sphere

from sfumato.publishers.riemannian import geodesics
from sfumato.publishers.riemannian.manifold import log_determinant, pullback_metric
from sfumato.publishers.riemannian.riemannian_vae import (
    damped_metric,
    divergence,
    squared_distance,
    walk,
)


def log_transition(manifold, z, centre, variance):
    """The log density (n,) at ``z`` of a motion from ``centre`` for times ``variance``: equation 8."""
    here, there = (log_determinant(damped_metric(manifold, points)) for points in (z, centre))
    density = -0.5 * z.shape[1] * (2.0 * math.pi * variance).log() + 0.5 * (here - there)
    return density - squared_distance(manifold, z, centre) / (2.0 * variance)


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_squared_distance_is_exact_where_coordinates_are_flat():
    start, end = doubles([0.3, -0.5, 1.0], [0.0, 0.0, 0.0]), doubles([0.1, 2.0, 0.0], [3.0, 4.0, 0.0])
    expected = (start - end).square().sum(dim=1)
    assert squared_distance(Paraboloid(0.0), start, end) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("samples", [5, 40])
def test_squared_distance_along_a_meridian_is_that_of_its_chords(samples):
    start, end = doubles([0.4, 1.0]), doubles([1.6, 1.0])
    chords = 2.0 * 2.0 * math.sin(1.2 / (samples - 1) / 2.0) * (samples - 1)
    found = float(squared_distance(Sphere(2.0), start, end, samples=samples))
    assert found == pytest.approx(chords**2, rel=1e-12)
    assert found == pytest.approx((2.0 * 1.2) ** 2, rel=0.2 / samples**1.5)


def test_squared_distance_on_a_cylinder_with_a_helix_tends_to_the_closed_form():
    start, end = doubles([0.0, 0.0]), doubles([1.0, 2.0])
    found = float(squared_distance(Cylinder(3.0), start, end, samples=200))
    assert found == pytest.approx(3.0**2 + 2.0**2, rel=1e-5)


def test_squared_distance_is_no_less_than_that_of_the_geodesic():
    generator = torch.Generator().manual_seed(0)
    ends = torch.rand((2, 30, 2), generator=generator, dtype=torch.float64) + 0.5
    found = squared_distance(Sphere(), ends[0], ends[1], samples=20)
    least = 2.0 * 19 * geodesics(Sphere(), ends[0], ends[1], samples=20).energy
    assert (found >= least * (1.0 - 1e-9)).all()
    assert (found > 1.001 * least).any()


def test_log_transition_on_flat_coordinates_is_the_normal_density():
    generator = torch.Generator().manual_seed(1)
    z, centre = torch.randn((2, 8, 3), generator=generator, dtype=torch.float64)
    variance = torch.linspace(0.2, 3.0, 8, dtype=torch.float64)
    normal = torch.distributions.Normal(centre, variance.sqrt().unsqueeze(1))
    expected = normal.log_prob(z).sum(dim=1)
    assert log_transition(Paraboloid(0.0), z, centre, variance) == pytest.approx(expected, abs=1e-9)


def test_log_transition_on_a_sphere_has_both_volumes():
    z, centre, variance = doubles([1.3, 0.2]), doubles([0.5, 0.2]), doubles(0.7)
    squared = float(squared_distance(Sphere(2.0), z, centre))
    volumes = math.log(4.0 * math.sin(1.3)) - math.log(4.0 * math.sin(0.5))
    expected = -math.log(2.0 * math.pi * 0.7) + volumes - squared / 1.4
    assert float(log_transition(Sphere(2.0), z, centre, variance)) == pytest.approx(expected, abs=1e-4)


def test_divergence_is_the_difference_of_two_transitions():
    generator = torch.Generator().manual_seed(2)
    z, mean = torch.rand((2, 6, 2), generator=generator, dtype=torch.float64) + 0.5
    variance, prior = torch.linspace(0.1, 2.0, 6, dtype=torch.float64), doubles(1.2, 0.8)
    sphere = Sphere(1.5)
    expected = log_transition(sphere, z, mean, variance) - log_transition(
        sphere, z, prior.expand_as(z), torch.ones(6, dtype=torch.float64)
    )
    found = divergence(sphere, z, mean, variance, prior, metric=damped_metric(sphere, mean))
    assert found == pytest.approx(expected, abs=1e-9)


def test_divergence_from_drawn_points_is_that_of_two_normals_where_it_is_flat():
    """20,000 draws; a mean further than 6 standard errors from the truth has probability below 1e-8."""
    count, variance, prior = 20_000, 0.3, torch.tensor([1.0, -0.5, 0.0])
    mean, times = torch.zeros((count, 3)), torch.full((count,), 0.3)
    flat = Paraboloid(0.0)
    metric = damped_metric(flat, mean)
    z = walk(mean, times, metric, torch.Generator().manual_seed(3))
    found = divergence(flat, z, mean, times, prior, metric=metric)
    truth = 0.5 * (3 * variance + float(prior.square().sum()) - 3 - 3 * math.log(variance))
    assert float(found.mean()) == pytest.approx(truth, abs=6.0 * float(found.std()) / math.sqrt(count))


def test_steps_of_the_walk_have_the_length_of_the_metric():
    """Squared lengths in the metric over the time are χ² with 2 degrees; 6 standard errors, below 1e-8."""
    count = 20_000
    centre = torch.tensor([[0.4, 2.0]]).expand(count, 2)
    metric = pullback_metric(Sphere(3.0), centre)
    moved = walk(centre, torch.full((count,), 0.01), metric, torch.Generator().manual_seed(4)) - centre
    squared = torch.einsum("ni,nij,nj->n", moved, metric, moved) / 0.01
    assert float(squared.mean()) == pytest.approx(2.0, abs=6.0 * 2.0 / math.sqrt(count))


def test_a_latent_axis_that_the_manifold_ignores_leaves_everything_finite():
    class Ignoring:
        def embed(self, z):
            return z[:, :1].expand(-1, 3), torch.zeros((len(z), 3), dtype=z.dtype)

    z = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    assert log_transition(Ignoring(), z, torch.zeros_like(z), torch.ones(2)).isfinite().all()


def test_a_step_along_an_axis_that_is_hardly_seen_stays_within_the_data():
    metric = torch.diag(torch.tensor([1.0, 1e-10])).expand(50, 2, 2)
    centre = torch.zeros((50, 2))
    moved = walk(centre, torch.ones(50), metric, torch.Generator().manual_seed(5))
    assert float(moved.norm(dim=1).max()) <= 3.0 + 1e-5
