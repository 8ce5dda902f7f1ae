"""The joint sensitivity of counts, sums and second moments of cells, by brute force on small cases."""

import itertools

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.mechanisms import CellSums
from sfumato.noise import Seeded
from sfumato.privacy import Neighbours

CLIP = 0.75
OTHERS = (np.array([[0.1, -0.3], [0.5, 0.2]]), np.array([0, 1]))


def records():
    """Cells and vectors in, on and far outside the ball, in many directions; the null vector too."""
    angles = np.arange(16) * np.pi / 8.0
    lengths = (0.3, CLIP, 1.0, 1e6)
    ways = [length * np.array([np.cos(a), np.sin(a)]) for a in angles for length in lengths]
    return [(vector, cell) for vector in [np.zeros(2), *ways] for cell in (0, 1)]


def blocks(plan, *more):
    vectors = np.concatenate([OTHERS[0], *(vector[None] for vector, _ in more)])
    cells = np.concatenate([OTHERS[1], [cell for _, cell in more]]).astype(np.intp)
    return plan.exact(vectors, cells)


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_sensitivity_is_never_exceeded_and_is_attained(neighbours, moments):
    plan = CellSums(2, CLIP, moments, neighbours)
    with_one = [blocks(plan, record) for record in records()]
    if neighbours is Neighbours.REPLACE:
        pairs = itertools.combinations(with_one, 2)
    else:
        pairs = ((one, blocks(plan)) for one in with_one)
    largest = max(float(np.linalg.norm(one - other)) for one, other in pairs)
    assert largest <= plan.bound()
    assert largest > 0.999 * plan.bound()


def test_a_record_that_changes_its_class_costs_more_than_one_that_does_not():
    plan = CellSums(2, CLIP, True, Neighbours.REPLACE)
    vector = np.array([CLIP, 0.0])
    same = np.linalg.norm(blocks(plan, (vector, 0)) - blocks(plan, (np.zeros(2), 0)))
    moved = np.linalg.norm(blocks(plan, (vector, 0)) - blocks(plan, (vector, 1)))
    assert moved > 1.01 * same
    assert moved > 1.01 * CellSums(2, CLIP, True, Neighbours.ADD_REMOVE).bound()


@pytest.mark.parametrize("moments", [False, True])
def test_sums_are_whole_steps_and_the_triangle_is_symmetric(moments):
    plan = CellSums(3, CLIP, moments, Neighbours.REPLACE)
    vectors = np.random.default_rng(0).normal(size=(200, 4))
    cells = np.random.default_rng(1).integers(0, 2, 200)
    exact = plan.exact(vectors, cells)
    assert np.array_equal(exact, np.rint(exact))
    assert not exact[2].any()
    if moments:
        released = plan.release(vectors, cells, 1.0, Seeded(0).stream(b"")).seconds
        assert np.array_equal(released, np.swapaxes(released, 1, 2))


@pytest.mark.parametrize("moments", [False, True])
def test_noise_has_the_stated_deviations(moments):
    """False-alarm rate below 1e-6: a deviation of 20 000 normals is within 3% (6 standard errors)."""
    plan = CellSums(20_000, CLIP, moments, Neighbours.REPLACE)
    multiplier = 2.0
    sums = plan.release(np.zeros((0, 2)), np.zeros(0, dtype=np.intp), multiplier, Seeded(3).stream(b""))
    assert sums.counts.std() == pytest.approx(sums.count_noise, rel=0.03)
    assert sums.firsts[:, 0].std() == pytest.approx(sums.first_noise, rel=0.03)
    if moments:
        assert sums.seconds[:, 0, 1].std() == pytest.approx(sums.second_noise, rel=0.03)
        assert sums.seconds[:, 1, 1].std() == pytest.approx(np.sqrt(2.0) * sums.second_noise, rel=0.03)
        # In steps of the grid, the diagonal of a moment block has σ = multiplier × sensitivity.
        step = CLIP / (1 << 12)
        sigma = sums.seconds[:, 0, 0].std() / step**2
        assert sigma == pytest.approx(multiplier * plan.bound(), rel=0.03)


def test_more_records_than_sums_hold_are_refused():
    many = np.broadcast_to(np.zeros(2), (300_000_000, 2))  # a view without memory of its own
    with pytest.raises(BadInput, match="sums are exact up to"):
        CellSums(1, CLIP, True, Neighbours.REPLACE).exact(many, np.zeros(1, dtype=np.intp))


@pytest.mark.parametrize("moments", [False, True])
def test_a_huge_number_is_cut_like_any_other(moments) -> None:
    vectors = np.zeros((3, 2))
    vectors[1] = [1e305, -1e308]
    blocks = CellSums(1, CLIP, moments, Neighbours.ZERO_OUT).exact(vectors, np.zeros(3, dtype=np.intp))
    assert np.isfinite(blocks).all()
    alone = CellSums(1, CLIP, moments, Neighbours.ZERO_OUT)
    assert np.linalg.norm(alone.exact(vectors[1:2], np.zeros(1, dtype=np.intp))) <= alone.bound()
