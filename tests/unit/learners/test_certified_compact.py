"""Contraction and head with one guarantee: what it proves, what it contracts, what it learns."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sfumato.errors import BadInput
from sfumato.learners.certified_compact import MOST_FEATURES, CertifiedCompact, ClosedContraction
from sfumato.mechanisms import CellSums
from sfumato.noise import NoisedSums, Seeded
from sfumato.privacy import Guarantee, Neighbours


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X - 8.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return train_test_split(X, y, test_size=0.3, random_state=0)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("epsilon", [0.3, 3.0, 30.0])
def test_the_parts_compose_to_the_whole(epsilon, neighbours) -> None:
    made = CertifiedCompact(epsilon, 1e-6, neighbours=neighbours)
    together = Guarantee.compose(made.parts())
    assert together.neighbours is made.guarantee().neighbours is Neighbours(neighbours)
    assert 0.9999 * epsilon < together.epsilon(1e-6) <= epsilon * (1.0 + 1e-9)
    assert made.guarantee().epsilon() <= epsilon * (1.0 + 1e-9)


def test_digits_are_learned_and_contraction_helps(digits) -> None:
    X, T, y, t = digits
    made = CertifiedCompact(20.0, neighbours="zero-out", randomness=Seeded(1)).fit(X, y)
    assert (made.predict(T) == t).mean() > 0.9
    assert np.linalg.norm(made.contract(T), axis=1) == pytest.approx(1.0)
    before, after = _inside(T, t), _inside(made.contract(T), t)
    assert after < 0.9 * before
    assert made.predict_proba(T).sum(axis=1) == pytest.approx(1.0)


def _inside(X, y) -> float:
    """The mean square distance from class centres, along what separates them, over that between them."""
    centres = np.stack([X[y == label].mean(axis=0) for label in range(10)])
    away = centres - X.mean(axis=0)
    span = np.linalg.svd(away, full_matrices=False)[2][:9]
    return float((((X - centres[y]) @ span.T) ** 2).sum(axis=1).mean() / (away**2).sum(axis=1).mean())


def test_without_noise_the_contraction_whitens_what_varies_inside_classes() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 2
    X = rng.normal(size=(4000, 3)) * [0.2, 0.05, 0.01] + np.outer(y, [0.1, 0.1, 0.1])
    sums = [
        CellSums(cells, 1.0, moments, Neighbours.ZERO_OUT).release(X, which, 1e-6, Seeded(0).stream(b"x"))
        for cells, moments, which in ((2, False, y), (1, True, np.zeros_like(y)))
    ]
    made = ClosedContraction.of(*sums, len(X))
    centred = X - np.stack([X[y == label].mean(axis=0) for label in (0, 1)])[y]
    inside = (centred @ made.matrix).T @ (centred @ made.matrix) / len(X)
    assert inside == pytest.approx(np.eye(3), abs=0.02)
    assert made.mean == pytest.approx(X.mean(axis=0), abs=1e-3)


def test_what_noise_hides_is_contracted_alike() -> None:
    """Eigenvalues below the edge of the noise get one value, so the map turns nothing there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30)) * 0.01
    X[:, 0] *= 50.0
    y = np.arange(400) % 2
    sums = [
        CellSums(cells, 1.0, moments, Neighbours.ZERO_OUT).release(X, which, 0.5, Seeded(0).stream(b"x"))
        for cells, moments, which in ((2, False, y), (1, True, np.zeros_like(y)))
    ]
    strengths = np.linalg.eigvalsh(ClosedContraction.of(*sums, len(X)).matrix)
    assert strengths[1:] == pytest.approx(strengths[-1], rel=1e-6)
    assert strengths[0] < 0.5 * strengths[-1]


def test_it_is_reproducible_with_a_seed_can_be_kept_and_says_its_parameters(digits) -> None:
    X, T, y, _ = digits
    made = CertifiedCompact(3.0, randomness=Seeded(5), steps=10).fit(X, y)
    again = clone(made).fit(X, y)
    assert (made.predict_proba(T) == again.predict_proba(T)).all()
    kept = CertifiedCompact.restored(made.public(), made.tensors())
    assert (kept.predict_proba(T) == made.predict_proba(T)).all()
    stated = made.statement()
    assert stated.parameters["moments"] == 0.2
    assert "reproducible run: not for release" in stated.notes
    with pytest.raises(BadInput, match="has no weights"):
        CertifiedCompact.restored(made.public(), {"mean": np.zeros(2), "contraction": np.eye(2)})


def test_features_are_in_units_of_their_reach(digits) -> None:
    X, T, y, _ = digits
    plain = CertifiedCompact(3.0, randomness=Seeded(5), steps=10).fit(X, y)
    small = CertifiedCompact(3.0, randomness=Seeded(5), steps=10, reach=0.25).fit(0.25 * X, y)
    assert small.predict_proba(0.25 * T) == pytest.approx(plain.predict_proba(T), abs=1e-4)
    assert small.guarantee() == plain.guarantee()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"anchors": 0.5, "moments": 0.5}, "leave some of the budget"),
        ({"moments": 0.0}, "moments"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"neighbours": "none"}, "neighbours"),
        ({"reach": "far"}, "`reach` must be a positive number"),
        ({"reach": float("nan")}, "`reach` must be a positive number"),
    ],
)
def test_parameters_are_checked_before_anything_is_drawn(digits, change, sentence) -> None:
    X, _, y, _ = digits
    with pytest.raises(BadInput, match=sentence):
        CertifiedCompact(**({"epsilon": 1.0} | change)).fit(X, y)


def test_more_features_than_a_second_moment_holds_are_refused_before_it_is_made() -> None:
    """Were one made, 20,000 features would take three gigabytes for it alone."""
    X, y = np.zeros((4, 20_000)), np.arange(4) % 2
    with pytest.raises(BadInput, match=r"of 20,000 features .* and 4,000 are the most: take an extractor"):
        CertifiedCompact(classes=2, epsilon=1.0).fit(X, y)
    assert CertifiedCompact(classes=2, epsilon=1.0).releases(100, MOST_FEATURES)
    with pytest.raises(BadInput, match="of 4,001 features"):
        CertifiedCompact(classes=2, epsilon=1.0).releases(100, MOST_FEATURES + 1)


def test_nothing_fitted_is_said() -> None:
    with pytest.raises(BadInput, match="nothing has been fitted"):
        CertifiedCompact(epsilon=1.0).predict(np.zeros((1, 3)))


def test_a_huge_feature_changes_no_more_than_another() -> None:
    X, y = np.zeros((50, 4)), np.arange(50) % 2
    X[3, 1] = 1e305
    made = CertifiedCompact(5.0, classes=2, steps=5).fit(X, y)
    assert np.isfinite(made.predict_proba(X)).all()


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_contraction_has_the_noise_of_its_parts(digits, neighbours) -> None:
    """The same streams, with the multipliers that the guarantee counts, give the same contraction."""
    X, _, y, _ = digits
    made = CertifiedCompact(3.0, neighbours=neighbours, randomness=Seeded(3), steps=1).fit(X, y)
    rows, sums, noised = made._cut(X), [], NoisedSums(Seeded(3))
    for part, cells, moments in zip(made.parts(), (10, 1), (False, True), strict=False):
        release = CellSums(cells, 1.0, moments, Neighbours(neighbours)).release
        which = np.zeros_like(y) if moments else y
        sums.append(release(rows, which, part.event.noise_multiplier, noised))
    again = ClosedContraction.of(*sums, len(X))
    assert (again.mean == made.tensors()["mean"]).all()
    assert (again.matrix == made.tensors()["contraction"]).all()
