"""Points move along geodesics to the sample that a loop over equation 15 would choose."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from surfaces import Paraboloid, Sphere

from sfumato.errors import BadInput
from sfumato.publishers.riemannian import curvature
from sfumato.publishers.riemannian.obfuscator import (
    STRATEGIES,
    Obfuscator,
    Paths,
    anywhere,
    halfway,
    lowest,
    peaks,
)

DOUBLE = torch.float64


@dataclass
class Centred:
    """A surface with centres, each contributing by its distance in the latent space."""

    surface: object
    centres: torch.Tensor = field(repr=False)

    def embed(self, z):
        return self.surface.embed(z)

    def contributions(self, z):
        return (-(z[:, None] - self.centres).square().sum(dim=2)).exp()


@pytest.fixture(scope="module")
def globe():
    """A sphere with four centres on one side of it."""
    return Centred(Sphere(), torch.tensor([[0.6, 0.2], [1.2, 0.4], [0.9, 1.0], [1.4, 1.4]], dtype=DOUBLE))


@pytest.fixture(scope="module")
def points():
    draw = torch.Generator().manual_seed(0)
    low, high = torch.tensor([0.3, 0.0], dtype=DOUBLE), torch.tensor([1.5, 1.6], dtype=DOUBLE)
    return low + (high - low) * torch.rand(40, 2, dtype=DOUBLE, generator=draw)


def exact(model):
    return lambda z: curvature(model, z)


# Few values, so that ties are the rule.
rows = st.lists(st.integers(0, 4), min_size=6, max_size=6)


def chosen_by_a_loop(values, least):
    """Equation 15 in words: walk to the first highest value, keep the lowest seen on the way."""
    peak = least
    for i in range(least, len(values)):
        if values[i] > values[peak]:
            peak = i
    best = least
    for i in range(least, peak + 1):
        if values[i] < values[best]:
            best = i
    return best, peak


@given(st.lists(rows, min_size=1, max_size=8), st.integers(0, 5))
def test_the_choice_is_that_of_a_loop(table, least) -> None:
    curvatures = torch.tensor(table, dtype=DOUBLE)
    expected = [chosen_by_a_loop(row, least) for row in table]
    assert lowest(curvatures, least).tolist() == [best for best, _ in expected]
    assert peaks(curvatures, least).tolist() == [peak for _, peak in expected]
    assert set(halfway(curvatures, least).tolist()) == {max(3, least)}
    assert anywhere(curvatures, least).tolist() == [
        least + min(range(len(row) - least), key=row[least:].__getitem__) for row in table
    ]


@pytest.mark.parametrize(
    ("values", "least", "index"),
    [
        ([1, 2, 3, 4], 0, 0),  # rises from the start: stays
        ([4, 3, 2, 1], 0, 0),  # the point itself is the peak: stays, however low it gets behind it
        ([2, 1, 3, 0], 0, 1),  # the lowest before the peak, not the one behind it
        ([2, 2, 2, 2], 0, 0),  # all alike: stays
        ([3, 1, 5, 5], 0, 1),  # the first of two peaks
        ([3, 1, 1, 5], 0, 1),  # the first of two lowest
        ([1, 2, 3, 4], 1, 1),
        ([4, 3, 2, 1], 1, 1),
        ([9, 3, 2, 5], 1, 2),  # what comes before `least` is no peak
        ([1, 2, 3, 4], 3, 3),
    ],
)
def test_the_choice_at_edges_and_ties(values, least, index) -> None:
    assert lowest(torch.tensor([values], dtype=DOUBLE), least).tolist() == [index]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_paths_run_from_the_point_to_the_centre_that_contributes_most(strategy, globe, points) -> None:
    paths = Obfuscator(globe, exact(globe), strategy=strategy).paths(points)
    nearest = (points[:, None] - globe.centres).norm(dim=2).argmin(dim=1)
    assert torch.equal(paths.centres, nearest)
    assert torch.equal(paths.curves[:, 0], points)
    assert torch.equal(paths.curves[:, -1], globe.centres[nearest])
    assert paths.curves.shape == (40, 20, 2)
    torch.testing.assert_close(paths.curvatures.flatten(), curvature(globe, paths.curves.flatten(0, 1)))
    taken = [curve[index] for curve, index in zip(paths.curves, paths.chosen, strict=True)]
    assert torch.equal(paths.points, torch.stack(taken))


def test_geodesics_of_a_sphere_are_great_circles_with_equidistant_samples(globe, points, monkeypatch) -> None:
    """All samples lie in the plane of the ends and the sphere's centre; steps are alike to a hundredth."""
    monkeypatch.setattr("sfumato.publishers.riemannian.obfuscator.ITERATIONS", 40)
    monkeypatch.setattr("sfumato.publishers.riemannian.obfuscator.TOLERANCE", 1e-6)
    paths = Obfuscator(globe, exact(globe)).paths(points)
    mean = globe.embed(paths.curves.flatten(0, 1))[0].reshape(40, 20, 3)
    normal = torch.linalg.cross(mean[:, 0], mean[:, -1])
    normal = normal / normal.norm(dim=1, keepdim=True)
    length = (mean[:, 0] * mean[:, -1]).sum(dim=1).acos()
    off = (mean @ normal[:, :, None]).squeeze(2).abs().amax(dim=1)
    assert (off < 2e-3 * length).all()
    steps = mean.diff(dim=1).norm(dim=2)
    assert ((steps / steps.mean(dim=1, keepdim=True) - 1.0).abs() < 0.02).all()


def test_linear_takes_the_middle_of_the_straight_line(globe, points) -> None:
    paths = Obfuscator(globe, exact(globe), strategy="linear").paths(points)
    torch.testing.assert_close(paths.points, torch.lerp(points, globe.centres[paths.centres], 10 / 19))
    times = torch.linspace(0.0, 1.0, 20, dtype=DOUBLE)[:, None]
    line = points[0] + times * (globe.centres[paths.centres[0]] - points[0])
    torch.testing.assert_close(paths.curves[0], line)


def test_on_a_bowl_points_go_down_only_if_they_begin_below_their_rim() -> None:
    """K = 8‖z‖: towards a centre farther out K rises, towards the bottom the point is the peak; both stay."""
    bowl = Centred(Paraboloid(), torch.tensor([[0.0, 0.0], [3.0, 0.0]], dtype=DOUBLE))
    points = torch.tensor([[0.5, 0.3], [2.0, 0.1]], dtype=DOUBLE)
    paths = Obfuscator(bowl, exact(bowl)).paths(points)
    assert paths.centres.tolist() == [0, 1]
    assert torch.equal(paths.points, points)
    assert (paths.unmoved, paths.unmoved_peaks) == (1.0, 0.5)
    moved = Obfuscator(bowl, exact(bowl), least=1).paths(points)
    assert moved.chosen.tolist() == [1, 1]
    assert (moved.unmoved, moved.unmoved_peaks) == (0.0, 0.0)
    assert Obfuscator(bowl, exact(bowl), least=19).perturb(points).tolist() == bowl.centres.tolist()


def test_ours_is_never_more_curved_than_the_point_and_the_highest_never_less(globe, points) -> None:
    def estimate(z):
        return (7.0 * z).sin().sum(dim=1) + 3.0

    own = estimate(points)
    ours = Obfuscator(globe, estimate).paths(points)
    control = Obfuscator(globe, estimate, strategy="highest").paths(points)
    assert (estimate(ours.points) <= own).all()
    assert (estimate(control.points) >= own).all()
    assert (ours.chosen <= control.chosen).all()
    assert 0.0 < ours.unmoved < 1.0
    assert ours.unmoved == pytest.approx(float((ours.points == points).all(dim=1).double().mean()))


def test_order_is_kept_batches_do_not_matter_and_two_runs_agree(globe, points, monkeypatch) -> None:
    obfuscator = Obfuscator(globe, exact(globe))
    whole = obfuscator.perturb(points)
    assert torch.equal(whole, obfuscator.perturb(points))
    backwards = obfuscator.perturb(points.flip(0)).flip(0)
    torch.testing.assert_close(backwards, whole, rtol=1e-9, atol=1e-12)
    heard = []
    monkeypatch.setattr("sfumato.publishers.riemannian.obfuscator.ROWS", 16)
    parts = obfuscator.perturb(points, report=lambda *told: heard.append(told))
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-12)
    assert [(stage, share) for stage, share, _ in heard] == [
        ("perturbation", share) for share in (0.4, 0.8, 1.0)
    ]
    assert heard[-1][2]["unmoved"] == pytest.approx(obfuscator.paths(points).unmoved)


def test_the_points_given_are_not_changed_and_nothing_is_differentiated(globe, points) -> None:
    given = points.clone().requires_grad_()
    moved = Obfuscator(globe, exact(globe), strategy="highest").perturb(given)
    assert torch.equal(given, points)
    assert not moved.requires_grad


def test_joined_paths_are_one_after_the_other(globe, points) -> None:
    obfuscator = Obfuscator(globe, exact(globe), strategy="linear")
    joined = Paths.joined([obfuscator.paths(points[:10]), obfuscator.paths(points[10:])])
    torch.testing.assert_close(joined.points, obfuscator.perturb(points))
    assert len(joined.chosen) == len(joined.centres) == len(joined.curvatures) == 40


def test_points_of_no_use_are_refused(globe) -> None:
    with pytest.raises(BadInput, match="row 0 is not"):
        Obfuscator(globe, exact(globe)).perturb(torch.tensor([[float("nan"), 1.0]]))
