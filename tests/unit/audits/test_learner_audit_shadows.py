"""LiRA, RMIA and the attack network on a learner, by shadow models that the audit trains itself."""

import itertools

import numpy as np
import pytest
from audited_learners import FEATURES, LABELS, Nearest
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier

from sfumato.audits.learner_audit import audit_learner
from sfumato.errors import BadInput

pytest.importorskip("torch")
# The attacks on one model that are run beside those by shadow models may be weak.
pytestmark = pytest.mark.usefixtures("quick_classifiers")

X, Y = FEATURES[:600], LABELS[:600]
SHADOWED = ("LiRA online", "RMIA online", "shadow models")
# Three findings are wrong together with a chance of at most 3e-6.
SURE = 1.0 - 1e-6


class Guessing:
    """Answers by weights that no record was asked about."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, X, y):
        self.weights = np.random.default_rng(self.seed).standard_normal((X.shape[1], 10))
        return self

    def predict_proba(self, X):
        return softmax(X @ self.weights, axis=1)


def forests():
    """Makes forests that remember their records, each drawn anew."""
    seeds = itertools.count(1)
    return lambda: RandomForestClassifier(20, random_state=next(seeds))


def shadowed(found):
    return [item for item in found.findings if item.attack in SHADOWED]


def test_attacks_by_shadow_models_find_out_a_learner_that_remembers():
    """Better than chance at 1 − 1e-6 each."""
    told = []
    found = audit_learner(
        forests(),
        X,
        Y,
        shadows=6,
        confidence=SURE,
        report=lambda stage, share: told.append((stage, share)),
    )
    items = shadowed(found)
    assert tuple(item.attack for item in items) == SHADOWED
    for item in items:
        assert item.beats_chance
        assert item.value > 0.65
        assert "trained 6 models like it" in item.threat
        assert "these rates bound no ε" in item.note
        assert item.epsilon_lower is None
    assert "on halves of the same records" in items[2].threat
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert {"shadow models", "attack network"} <= {stage for stage, _ in told}


def test_attacks_by_shadow_models_find_nothing_where_nothing_was_learned():
    """False-alarm rate 9e-7."""
    seeds = itertools.count(1)
    found = audit_learner(lambda: Guessing(next(seeds)), X, Y, shadows=6, confidence=1.0 - 3e-7)
    items = shadowed(found)
    assert len(items) == 3
    for item in items:
        low, high = item.interval
        assert low <= 0.5 <= high < 0.7


def test_without_shadow_models_these_attacks_are_not_run():
    plain = audit_learner(forests(), X, Y)
    assert not shadowed(plain)
    assert sum(item.measure == "AUC" for item in plain.findings) == 9
    assert len(plain.findings) == 14
    assert not any("shadow" in note for note in plain.notes)


def test_shadow_models_that_cannot_be_trained_are_noted_and_the_rest_is_done():
    found = audit_learner(Nearest, X[:200], Y[:200], shadows=4)
    assert not shadowed(found)
    assert len(found.findings) == 14
    assert "not attacked by shadow models: the shadow models inside show no spread" in found.notes[-1]


@pytest.mark.parametrize("shadows", [-1, 1, 3, 2.5, True, "8"])
def test_too_few_shadow_models_are_refused(shadows):
    with pytest.raises(BadInput, match=r"^`shadows` was .*: give 0 for no shadow models, or 4 or more"):
        audit_learner(Nearest, X, Y, shadows=shadows)
