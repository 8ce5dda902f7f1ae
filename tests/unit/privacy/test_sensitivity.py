"""Joint sensitivities against brute-force maximisation over pairs of vectors in a ball."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import linear_sensitivity
from sfumato.privacy.sensitivity import augmented_second_moment_sensitivity, joint_sum_sensitivity

RADII = np.linspace(0.0, 1.0, 41)
COSINES = np.linspace(-1.0, 1.0, 401)


def brute_force_replace(clip, first, second):
    """Largest ‖(w₁(z−z′), w₂(zzᵀ−z′z′ᵀ))‖ over norms r, s ≤ C and the angle between them."""
    r, s, c = np.meshgrid(clip * RADII, clip * RADII, COSINES, indexing="ij")
    sums = r**2 + s**2 - 2 * r * s * c
    products = r**4 + s**4 - 2 * (r * s * c) ** 2
    return math.sqrt(float(np.max(first**2 * sums + second**2 * products)))


@settings(deadline=None, max_examples=40)
@given(clip=st.floats(0.1, 5), first=st.floats(0, 5), second=st.floats(0, 5))
def test_replace_is_the_brute_force_maximum(clip, first, second):
    claimed = joint_sum_sensitivity(clip, (3.0, first, second), "replace")
    found = brute_force_replace(clip, first, second)
    assert found <= claimed * (1 + 1e-9) + 1e-12
    assert found >= claimed * (1 - 1e-4)


def explicit(z, weights):
    return np.concatenate([[weights[0]], weights[1] * z, (weights[2] * np.outer(z, z)).ravel()])


@pytest.mark.parametrize("neighbours", ["add/remove", "zero-out", "replace"])
def test_explicit_vectors_never_exceed_it(neighbours):
    rng = np.random.default_rng(7)
    for _ in range(500):
        weights, clip = rng.uniform(0.1, 3, 3), rng.uniform(0.2, 3)
        z, other = (clip * v / max(1.0, np.linalg.norm(v)) for v in rng.normal(size=(2, 4)))
        change = explicit(z, weights)
        if neighbours == "replace":
            change = change - explicit(other, weights)
        assert np.linalg.norm(change) <= joint_sum_sensitivity(clip, weights, neighbours) * (1 + 1e-12)


def test_add_remove_is_attained_on_the_sphere():
    weights, clip = (0.5, 2.0, 0.7), 1.3
    z = np.array([clip, 0.0, 0.0])
    expected = math.sqrt(0.5**2 + (2.0 * clip) ** 2 + (0.7 * clip**2) ** 2)
    assert joint_sum_sensitivity(clip, weights, "add/remove") == pytest.approx(expected, rel=1e-14)
    assert np.linalg.norm(explicit(z, weights)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("kappa", "clip"), [(0.5, 1.0), (1.0, 1.0), (1.0, 2.0), (3.0, 1.0)])
def test_the_augmented_second_moment(kappa, clip):
    """Add/remove κ²+C²; replace √2(κ²+C²) while two augmented vectors can be orthogonal, less beyond."""
    assert augmented_second_moment_sensitivity(kappa, clip, "add/remove") == pytest.approx(kappa**2 + clip**2)
    replaced = augmented_second_moment_sensitivity(kappa, clip, "replace")
    simple = math.sqrt(2.0) * (kappa**2 + clip**2)
    if kappa <= clip:
        assert replaced == pytest.approx(simple, rel=1e-12)
    else:
        assert replaced == pytest.approx(2 * math.sqrt(2.0) * kappa * clip, rel=1e-12)
        assert replaced < simple
    angles = np.linspace(0, 2 * math.pi, 2001)
    base = np.array([kappa, clip, 0.0])
    found = max(
        np.linalg.norm(np.outer(base, base) - np.outer(v, v))
        for v in np.stack([np.full_like(angles, kappa), clip * np.cos(angles), clip * np.sin(angles)], axis=1)
    )
    assert found <= replaced * (1 + 1e-9)
    assert found == pytest.approx(replaced, rel=1e-4)


def test_bad_parameters_are_refused():
    with pytest.raises(BadInput, match="`clip` was"):
        joint_sum_sensitivity(0.0, (1, 1, 1))
    with pytest.raises(BadInput, match="three finite numbers"):
        joint_sum_sensitivity(1.0, (1, 1))
    with pytest.raises(BadInput, match="neighbours"):
        joint_sum_sensitivity(1.0, (1, 1, 1), "swap")
    with pytest.raises(BadInput, match="`kappa` was"):
        augmented_second_moment_sensitivity(math.nan, 1.0)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_linear_sensitivity_bounds_every_corner_of_the_box_at_every_placement(norm: str) -> None:
    rng = np.random.default_rng(0)
    placements = [rng.normal(size=(5, 4)) for _ in range(6)]
    corners = np.array(list(itertools.product((-2.0, 2.0), repeat=4))).T
    order = 1 if norm == "l1" else 2
    worst = max(np.linalg.norm(matrix @ corners, order, axis=0).max() for matrix in placements)
    bound = linear_sensitivity(placements, 2.0, norm)
    assert worst <= bound <= 4 * worst


def test_linear_sensitivity_is_exact_for_one_value_and_for_block_means() -> None:
    one = np.array([[3.0], [4.0]])
    assert linear_sensitivity([one], 2.0) == pytest.approx(10.0, rel=1e-9)
    assert linear_sensitivity([one], 2.0, "l1") == pytest.approx(14.0, rel=1e-9)
    # Four values in two blocks of two, each mean halving what changes: all may move by the reach.
    means = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    assert linear_sensitivity([means], 1.0) == pytest.approx(np.sqrt(2.0), rel=1e-9)
    assert linear_sensitivity([means], 1.0, "l1") == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("matrix", [np.zeros(3), np.zeros((2, 0)), np.full((2, 2), np.nan)])
def test_linear_sensitivity_refuses_what_is_no_matrix(matrix: np.ndarray) -> None:
    with pytest.raises(BadInput, match="finite matrix"):
        linear_sensitivity([matrix], 1.0)
