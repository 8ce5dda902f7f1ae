"""Reading a model: which learners hold records, what that proves, and that nobody else is accused."""

import types

import numpy as np
import pytest
from audited_learners import FEATURES, LABELS, Nearest, NoisySums
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sfumato.audits.learner_audit import audit_learner
from sfumato.audits.memorised_records import model_arrays, stored_records
from sfumato.errors import BadInput
from sfumato.privacy import DELTA, Guarantee, Neighbours

MEMBERS, NONMEMBERS = np.split(np.random.default_rng(5).permutation(900), [630])
INSIDE, OUTSIDE = FEATURES[MEMBERS], FEATURES[NONMEMBERS]


def holding(**arrays):
    return types.SimpleNamespace(tensors=lambda: arrays)


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (Nearest(), 1.0),
        (KNeighborsClassifier(), 1.0),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), 1.0),
        (SVC(), 0.3),
    ],
    ids=["nearest", "neighbours", "behind a scaler", "support vectors"],
)
def test_learners_that_keep_records_are_found_out(model, least):
    found = stored_records(model.fit(INSIDE, LABELS[MEMBERS]), INSIDE, OUTSIDE)
    assert found.value >= least
    assert found.chance == 0.0
    assert found.beats_chance
    assert found.epsilon_lower > 2.0
    assert (found.unit, found.neighbours, found.delta) == ("record", "replace", DELTA)
    assert found.numbers["members"] == 630.0


def test_anchors_of_a_compact_model_name_members():
    learn = pytest.importorskip("sfumato.learners.compact")
    model = learn.CompactClassifier(epochs=1, width=32).fit(INSIDE, LABELS[MEMBERS])
    found = stored_records(model, INSIDE, OUTSIDE)
    assert found.numbers["members_found"] == len(model.densities_.points) > 200
    assert found.numbers["nonmembers_found"] == 0
    assert found.epsilon_lower > 1.5


@pytest.mark.parametrize("form", ["as they are", "single precision", "flat", "columns", "pictures", "longer"])
def test_records_are_found_in_any_form_of_array(form):
    kept = {
        "as they are": INSIDE,
        "single precision": INSIDE.astype(np.float32),
        "flat": INSIDE.ravel(),
        "columns": INSIDE.T,
        "pictures": INSIDE.reshape(-1, 8, 8),
        "longer": 3.0 * INSIDE,
    }[form]
    assert stored_records(holding(kept=kept), INSIDE, OUTSIDE).value == 1.0


def test_what_a_model_holds_is_found_wherever_it_is():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(64, 10)
    model.register_buffer("seen", torch.from_numpy(INSIDE[:100]))
    model.kept = [{"rows": [torch.from_numpy(row) for row in INSIDE[100:200]]}]
    model.frozen = torch.nn.Parameter(torch.from_numpy(INSIDE[200:300]), requires_grad=False)
    model.itself = model
    assert len(model_arrays(model)) == 104
    found = stored_records(model, INSIDE, OUTSIDE)
    assert (found.numbers["members_found"], found.numbers["nonmembers_found"]) == (300.0, 0.0)


def test_nobody_is_accused_who_holds_no_records():
    """Random weights, sums and noisy records: none is equal to a record."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(64, 300))
    sums = np.stack([INSIDE[LABELS[MEMBERS] == kind].mean(axis=0) for kind in range(10)])
    noisy = INSIDE + 0.05 * rng.normal(size=INSIDE.shape)
    found = stored_records(holding(weights=weights, sums=sums, noisy=noisy), INSIDE, OUTSIDE)
    assert (found.value, found.chance, found.epsilon_lower) == (0.0, 0.0, 0.0)
    assert not found.beats_chance


def test_records_that_both_sides_have_bound_nothing():
    """Copies stand on both sides: they are found, and say nothing. False-alarm rate 1e-6."""
    rows = np.random.default_rng(1).integers(0, 2, (600, 3)).astype(float)
    found = stored_records(holding(kept=rows[:300]), rows[:300], rows[300:], confidence=1.0 - 1e-6)
    assert found.value == found.chance == 1.0
    assert found.epsilon_lower == 0.0


@pytest.mark.parametrize(("neighbours", "epsilon"), [("replace", 1.0), ("add/remove", 0.5)])
def test_a_bound_stays_below_a_known_epsilon_and_comes_near(neighbours, epsilon):
    """Membership by randomised response at ε = 0.5: 1 where one record replaces another.

    False-alarm rate 1e-6: eight bounds at a confidence of 1 − 6e-8, for both neighbours.
    """
    rng = np.random.default_rng()
    keep = np.exp(0.5) / (1.0 + np.exp(0.5))
    found = []
    for _ in range(8):
        rows = rng.normal(size=(6000, 3))
        stored = rng.random(6000) < np.where(np.arange(6000) < 3000, keep, 1.0 - keep)
        game = stored_records(
            holding(kept=rows[stored]),
            rows[:3000],
            rows[3000:],
            neighbours=neighbours,
            delta=1e-15,
            confidence=1.0 - 6e-8,
        )
        found.append(game.epsilon_lower)
    assert max(found) <= epsilon
    assert np.median(found) > 0.4 * epsilon  # 0.6 to 0.8 of it is usual


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_bound_is_for_the_neighbours_that_are_asked_for(neighbours):
    found = stored_records(holding(kept=INSIDE), INSIDE, OUTSIDE, neighbours=neighbours)
    assert found.neighbours == str(neighbours)
    assert ("two steps" in found.note) == (neighbours is not Neighbours.REPLACE)
    assert (found.epsilon_lower > 2.5) == (neighbours is Neighbours.REPLACE)


class Storing(NoisySums):
    """Noisy sums of which ε = 0.5 is said, and the records beside them."""

    def fit(self, X, y):
        self.rows = X
        return super().fit(X, y)

    def tensors(self):
        return {"rows": self.rows, "weights": self.weights}

    def guarantee(self):
        return Guarantee.pure(0.5, neighbours=self.neighbours)


def test_a_learner_that_stores_records_contradicts_its_proof(quick_classifiers):
    found = audit_learner(lambda: Storing(1.0, "zero-out", 0), FEATURES[:200], LABELS[:200])
    stored = found.findings[-1]
    assert (stored.attack, str(stored.neighbours)) == ("stored records", "zero-out")
    assert stored.epsilon_lower > 0.5
    assert not found.consistent


def test_records_of_other_widths_are_refused():
    with pytest.raises(BadInput, match="members of shape"):
        stored_records(holding(), INSIDE, OUTSIDE[:, :5])
