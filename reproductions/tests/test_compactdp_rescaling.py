"""Contraction by a constant is a change of ruler, and a learner with an absolute one is found out."""

import json

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_digits

from sfumato.audits import model_differences
from sfumato.errors import BadInput
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee
from sfumato_reproductions.compactdp.feature_rescaling import scale_invariance

X, Y = load_digits().data[:500] / 16.0, load_digits().target[:500].astype(np.int64)


def few(members, nonmembers):
    """Attacks that take no time."""
    return model_differences(members, nonmembers)


class NoisySums:
    """Class sums of features with Gaussian noise that does not follow their scale; ``mu`` is claimed."""

    def __init__(self, mu, seed):
        self.mu, self.seed = mu, seed

    def guarantee(self):
        return Guarantee.gaussian(1.0 / self.mu, at_delta=1e-5)

    def fit(self, X, y):
        noise = np.random.default_rng([self.seed, 77]).standard_normal((X.shape[1], 10))
        self.weights = X.T @ np.eye(10)[y] + 2.0 / self.mu * noise
        return self

    def predict_proba(self, X):
        return softmax(X @ self.weights, axis=1)


class Density:
    """Class densities by Gaussian kernels of one bandwidth, in the units of the features."""

    def __init__(self, bandwidth):
        self.bandwidth = bandwidth

    def fit(self, X, y):
        self.rows, self.labels = X, y
        return self

    def predict_proba(self, X):
        apart = ((X[:, None] - self.rows[None]) ** 2).sum(axis=2) / (2.0 * self.bandwidth**2)
        logs = [logsumexp(-apart[:, self.labels == label], axis=1) for label in range(10)]
        return softmax(np.column_stack(logs), axis=1)


def test_a_private_classifier_answers_the_same_by_either_ruler():
    pytest.importorskip("torch")
    from sfumato.learners import PrivateSoftmax

    def make(scale):
        return PrivateSoftmax(8.0, 1e-5, reach=4.0 * scale, steps=10, randomness=Seeded(3))

    assert make(1.0).guarantee() == make(0.05).guarantee()
    told = []
    # The whole standard audit, and canaries.
    found = scale_invariance(
        make, X[:120], Y[:120], canaries=100, report=lambda stage, share: told.append(share)
    )
    assert found.unchanged
    assert found.proven[0] == found.proven[1] == pytest.approx(8.0)
    assert found.labels == 0
    assert found.predictions < 1e-9
    assert found.attack < 1e-9
    assert len(found.attacks) == 13 + 4
    assert found.eta == pytest.approx(0.05)
    assert found.sentence().startswith(
        "contraction by 0.05 gives η = 0.05 and changes no attack: it is a change of ruler"
    )
    assert "the proven ε stays 8" in found.sentence()
    assert json.loads(json.dumps(found.to_dict()))["unchanged"] is True
    assert (told[0], told[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("bandwidth", ["adaptive", 0.3])
def test_a_compact_classifier_answers_the_same_by_either_ruler(bandwidth):
    pytest.importorskip("torch")
    from sfumato.learners.compact import CompactClassifier

    found = scale_invariance(
        lambda scale: CompactClassifier(epochs=5, bandwidth=bandwidth, randomness=Seeded(3)),
        X,
        Y,
        attacks=few,
    )
    assert found.unchanged
    assert found.labels == 0
    assert "nothing is proven before or after" in found.sentence()
    assert found.to_dict()["proven"] == [None, None]


@pytest.mark.parametrize("scale", [0.05, 20.0])
def test_a_bandwidth_in_units_of_the_features_is_invariant_and_an_absolute_one_is_not(scale):
    moving = scale_invariance(lambda scale: Density(0.5 * scale), X, Y, scale=scale, attacks=few)
    assert moving.unchanged
    assert moving.predictions < 1e-9
    fixed = scale_invariance(lambda scale: Density(0.5), X, Y, scale=scale, attacks=few)
    assert not fixed.unchanged
    assert not fixed.attacks_unchanged
    assert fixed.proven_unchanged
    assert fixed.eta == pytest.approx(scale)
    assert max(abs(before - after) for before, after in fixed.attacks.values()) > 0.1
    assert f"contraction by {scale:g} gives η = {scale:g} and changes attacks (" in fixed.sentence()
    assert "measures something in absolute units" in fixed.sentence()
    assert fixed.to_dict()["unchanged"] is False


def test_an_epsilon_that_depends_on_the_ruler_is_named():
    found = scale_invariance(lambda scale: NoisySums(1.0 / scale, 0), X, Y, scale=0.5, attacks=few)
    assert not found.proven_unchanged
    assert "the proven ε from 4.37" in found.sentence()


def test_fresh_noise_is_no_change_of_ruler():
    """Two runs with different seeds differ, and the check says so rather than calling it invariance."""
    made = iter(range(9))
    found = scale_invariance(lambda scale: NoisySums(1.0, next(made)), X, Y, attacks=few)
    assert found.predictions > found.tolerance
    assert not found.unchanged


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"scale": 0.0}, "`scale` was 0.0: it must be above 0"),
        ({"scale": float("inf")}, "`scale` was inf"),
        ({"tolerance": -1.0}, "`tolerance` was -1.0"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, match):
    with pytest.raises(BadInput, match=match):
        scale_invariance(lambda scale: Density(0.5 * scale), X, Y, attacks=few, **change)


def test_classes_without_extent_cannot_contract():
    rows = np.eye(10)[np.arange(100) % 10]
    with pytest.raises(BadInput, match="a class without a diameter cannot contract"):
        scale_invariance(lambda scale: Density(0.5 * scale), rows, np.arange(100) % 10, attacks=few)
