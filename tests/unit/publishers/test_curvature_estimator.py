"""The curvature estimator learns curvatures that are known in closed form."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.publishers.riemannian import curvature
from sfumato.publishers.riemannian.curvature_estimator import CurvatureEstimator, fit_estimator
from sfumato.publishers.riemannian.manifold import Paraboloid, Sphere

DOUBLE = torch.float64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def spread(low, high, count, seed=0):
    low, high = torch.tensor(low), torch.tensor(high)
    return low + (high - low) * torch.rand(count, len(low), generator=seeded(seed))


def fitted(surface, points, *, steps=600, **options):
    estimator = CurvatureEstimator(points.shape[1], 64, generator=seeded(1))
    return estimator, fit_estimator(estimator, surface, points, steps=steps, generator=seeded(2), **options)


@pytest.mark.parametrize("method", ["exact", "differences"])
def test_the_curvature_of_a_sphere_is_learned(method) -> None:
    """G = R² diag(1, sin² θ), so K = R² |sin 2θ|, here where it is smooth."""
    estimator, fit = fitted(Sphere(2.0), spread([0.2, -3.0], [1.3, 3.0], 800), method=method)
    points = spread([0.25, -2.9], [1.25, 2.9], 300, seed=9)
    true = 4.0 * (2.0 * points[:, 0]).sin()
    assert ((estimator(points) / true).log().abs() < 0.1).all()
    assert fit.held_out == 80
    assert fit.explained > 0.98
    assert fit.loss < 0.02


def test_the_curvature_of_a_paraboloid_is_learned_in_five_dimensions() -> None:
    """G has the eigenvalue 1 + 4a²‖z‖² and ones, so K = 8a²‖z‖."""
    estimator, fit = fitted(Paraboloid(0.5), torch.randn(1500, 5, generator=seeded(3)))
    points = torch.randn(200, 5, generator=seeded(4))
    assert (estimator(points) / (2.0 * points.norm(dim=1))).log().abs().median() < 0.05
    assert fit.explained > 0.9


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
def test_scale_does_not_matter(scale) -> None:
    """A surface ``scale`` as large has scale² the curvature; the network learns the same."""
    points = spread([0.2, -1.0], [1.3, 1.0], 200)
    reference = fitted(Sphere(1.0), points, steps=100)[0](points)
    estimator, _ = fitted(Sphere(scale), points, steps=100)
    torch.testing.assert_close(estimator(points) / scale**2, reference, rtol=2e-2, atol=0.0)


def test_flat_manifolds_and_flat_points_are_no_trouble() -> None:
    """Where K is 0 the estimate is tiny; a single point of curvature 0 does not spoil the rest."""
    flat, fit = fitted(Paraboloid(0.0), spread([-1.0, -1.0], [1.0, 1.0], 50), steps=20)
    assert (flat(torch.zeros(3, 2)) < 1e-30).all()
    assert (flat(torch.zeros(3, 2)) > 0.0).all()
    assert math.isnan(fit.explained)
    points = torch.cat([torch.zeros(1, 2), torch.randn(400, 2, generator=seeded(5))])
    assert float(curvature(Paraboloid(), points)[0]) == 0.0
    bowl, _ = fitted(Paraboloid(), points)
    assert (bowl(points[1:]) / (8.0 * points[1:].norm(dim=1))).log().abs().median() < 0.1


def test_double_precision_and_save_and_load(tmp_path) -> None:
    estimator = CurvatureEstimator(2, 16).double()
    points = spread([0.2, -1.0], [1.3, 1.0], 60).double()
    fit_estimator(estimator, Sphere(), points, steps=30, generator=seeded())
    assert estimator(points).dtype == DOUBLE
    torch.save(estimator.state_dict(), tmp_path / "estimator.pt")
    other = CurvatureEstimator(2, 16).double()
    other.load_state_dict(torch.load(tmp_path / "estimator.pt", weights_only=True))
    assert torch.equal(other(points), estimator(points))


def test_a_second_fit_goes_on_where_the_first_ended() -> None:
    points = spread([0.2, -1.0], [1.3, 1.0], 300)
    estimator, first = fitted(Sphere(), points)
    level = estimator.level.clone()
    again = fit_estimator(estimator, Sphere(1.02), points, steps=5, generator=seeded(7), rate=1e-4)
    assert torch.equal(estimator.level, level)
    assert again.loss < 0.1
    fresh = CurvatureEstimator(2, 64, generator=seeded(1))
    assert (
        fit_estimator(fresh, Sphere(1.02), points, steps=5, generator=seeded(7), rate=1e-4).loss
        > 5 * again.loss
    )
    assert first.explained > 0.95


def test_seeds_decide_everything_and_torchs_own_generator_is_left_alone() -> None:
    points = spread([0.2, -1.0], [1.3, 1.0], 100)
    before = torch.random.get_rng_state()
    first, _ = fitted(Sphere(), points, steps=30)
    second, _ = fitted(Sphere(), points, steps=30)
    assert torch.equal(first(points), second(points))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_losses_are_reported_and_few_points_are_all_learned_from() -> None:
    heard = []
    points = spread([0.2, -1.0], [1.3, 1.0], 12)
    _, fit = fitted(Sphere(), points, steps=60, report=lambda *told: heard.append(told))
    assert [stage for stage, _, _ in heard] == ["curvature estimator"] * 3
    assert [share for _, share, _ in heard] == pytest.approx([25 / 60, 50 / 60, 1.0])
    assert heard[-1][2]["loss"] == fit.loss < heard[0][2]["loss"]
    assert fit.held_out == 0
    assert math.isnan(fit.explained)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "`steps` was 0: a whole number, 1 or more"),
        ({"batch": 0}, "`batch` was 0"),
        ({"held_out": 1.0}, "the share held out must be from 0 to below 1"),
        ({"rate": 0.0}, "learning rate above 0"),
        ({"method": "guess"}, "'exact' or 'differences', not 'guess'"),
    ],
)
def test_refusals(options, said) -> None:
    with pytest.raises(BadInput, match=said):
        fitted(Sphere(), torch.rand(5, 2), **options)


def test_points_of_another_dimension_are_refused() -> None:
    with pytest.raises(BadInput, match="takes 3 latent coordinates, not 2"):
        CurvatureEstimator(3)(torch.rand(5, 2))
    with pytest.raises(BadInput, match="takes 3 latent coordinates, not 2"):
        fit_estimator(CurvatureEstimator(3), Sphere(), torch.rand(5, 2), steps=1, generator=seeded())
    with pytest.raises(BadInput, match="`hidden` was 0"):
        CurvatureEstimator(3, 0)
