"""Shadow models and the attack network."""

import sys

import numpy as np
import pytest
from model_targets import CERTAIN, CLASSES, Network, forest, records, split
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from sfumato.audits.predictions import Predictions
from sfumato.audits.shadow_models import Shadows, _network, shadow_attack, train_attack_network, train_shadows
from sfumato.errors import BadInput

torch = pytest.importorskip("torch")


def small_forest(seed):
    return RandomForestClassifier(20, random_state=seed)


def small_tree(seed):
    return DecisionTreeClassifier(random_state=seed)


def pool(count=800):
    X, y = records(1200 + count)
    return X[1200:], y[1200:]


def attacked(factory, count=4, epochs=8):
    """A target trained on the first 400 of 1200 records, and shadow models on others."""
    X, y = records(2000)
    members, nonmembers = split(factory(99), X[:1200], y[:1200], 400)
    shadows = train_shadows(factory, X[1200:], y[1200:], count)
    return (
        members,
        nonmembers,
        shadows,
        shadow_attack(members, nonmembers, shadows.pairs(), epochs=epochs, confidence=CERTAIN),
    )


@pytest.mark.parametrize(("factory", "floor"), [(small_forest, 0.8), (small_tree, 0.64), (Network, 0.6)])
def test_a_model_that_remembers_is_found_out(factory, floor):
    """Better than chance at 1 − 1e-6 on 400 members and 800 others."""
    found = attacked(factory)[-1]
    assert found.value > floor
    assert found.beats_chance
    assert "trained 4 models like it" in found.threat


def test_nothing_is_found_where_the_target_saw_neither_group():
    """False-alarm rate 1e-6; the attack network is the one that finds out a forest."""
    _, nonmembers, shadows, _ = attacked(small_forest)
    halves = nonmembers.rows(np.arange(400)), nonmembers.rows(np.arange(400, 800))
    low, high = shadow_attack(*halves, shadows.pairs(), epochs=8, confidence=CERTAIN).interval
    assert low <= 0.5 <= high < 0.65


def test_the_network_is_that_of_the_paper():
    layers = list(_network(torch, 9))
    assert [type(layer).__name__ for layer in layers] == ["Linear", "ReLU", "Dropout"] * 3 + ["Linear"]
    sizes = [(layer.in_features, layer.out_features) for layer in layers[::3]]
    assert sizes == [(9, 256), (256, 128), (128, 64), (64, 1)]
    assert [layer.p for layer in layers[2::3]] == [0.3] * 3


def test_the_trained_network_answers_alike_each_time():
    """Dropout rests when the network is asked, also about one record alone."""
    X, y = pool(60)
    shadows = train_shadows(small_tree, X, y, 2).pairs()
    score, asked = train_attack_network(shadows, epochs=1), shadows[0][0]
    assert np.array_equal(score(asked), score(asked))
    assert score(asked.rows(np.array([3]))) == pytest.approx(score(asked)[3], abs=1e-5)


def test_the_same_seed_gives_the_same_scores_and_torch_keeps_its_generator():
    X, y = pool(200)
    shadows = train_shadows(small_tree, X, y, 2, seed=5).pairs()
    asked = shadows[0][0]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    once, twice, other = (train_attack_network(shadows, epochs=2, seed=s)(asked) for s in (7, 7, 8))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(once, twice)
    assert not np.array_equal(once, other)
    with torch.no_grad():
        assert np.array_equal(train_attack_network(shadows, epochs=2, seed=7)(asked), once)


def test_shadow_models_come_in_complementary_halves_and_are_reproducible():
    X, y = pool(201)
    shadows = train_shadows(small_tree, X, y, 5, seed=3)
    assert shadows.inside.shape == (5, 201)
    assert np.array_equal(shadows.inside[0], ~shadows.inside[1])
    assert set(shadows.inside.sum(axis=0)) <= {2, 3}
    assert not np.array_equal(shadows.inside[0], shadows.inside[2])
    for item, inside in zip(shadows.predictions, shadows.inside, strict=True):
        assert item.correct[inside].all()  # an unpruned tree remembers exactly the records it was given
        assert item.correct[~inside].mean() < 0.9
    again = train_shadows(small_tree, X, y, 5, seed=3)
    assert np.array_equal(shadows.scaled_logits(), again.scaled_logits())
    assert np.array_equal(shadows.true_probabilities()[2], shadows.predictions[2].true_probability)
    inside, outside = shadows.pairs()[0]
    assert (len(inside), len(outside)) == (101, 100)


def test_shadow_models_answer_about_other_records():
    X, y = pool(100)
    shadows = train_shadows(small_tree, X[:80], y[:80], 3, floor=0.01)
    asked = shadows.ask(X[80:], y[80:])
    assert [len(item) for item in asked] == [20, 20, 20]
    assert asked[0].floor == 0.01
    assert np.array_equal(asked[1].probabilities, shadows.models[1].predict_proba(X[80:]))
    with pytest.raises(BadInput, match="known by their answers only"):
        Shadows(shadows.predictions, shadows.inside).ask(X, y)


def test_a_class_that_a_shadow_model_never_saw_has_probability_zero():
    X, y = np.arange(12.0).reshape(12, 1), np.array([0, 1] * 5 + [2, 3])
    shadows = train_shadows(small_tree, X, y, 2)
    for item, inside in zip(shadows.predictions, shadows.inside, strict=True):
        assert item.classes == CLASSES
        unseen = [label for label in range(CLASSES) if label not in y[inside]]
        assert not item.probabilities[:, unseen].any()
    assert any(set(y[inside]) != set(y) for inside in shadows.inside)


def test_progress_is_told():
    told = []
    X, y = pool(60)
    shadows = train_shadows(small_tree, X, y, 3, report=lambda *said: told.append(said))
    assert told[-1] == ("shadow models", 1.0)
    train_attack_network(shadows.pairs(), epochs=2, report=lambda *said: told.append(said))
    assert told[-2:] == [("attack network", 0.5), ("attack network", 1.0)]
    assert len(told) == 5


def test_without_torch_one_sentence_says_what_to_install(monkeypatch):
    X, y = pool(60)
    shadows = train_shadows(small_tree, X, y, 2).pairs()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"needs torch: pip install 'sfumato\[learn\]'\."):
        train_attack_network(shadows)


SOME = Predictions(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 1]))
HALF = np.array([[True, False]])


@pytest.mark.parametrize(
    ("predictions", "inside", "sentence"),
    [
        ((), np.empty((0, 0), dtype=bool), "got 0 sets"),
        ((SOME,), np.array([True, False]), "a mask of shape (2,)"),
        ((SOME, SOME.rows(np.array([0]))), np.array([[True, False]] * 2), "all on the same records"),
        ((SOME,), np.array([[1, 0]]), "True and False"),
        ((SOME,), np.array([[True, True]]), "shadow model 0 has records of one kind only"),
        ((SOME,), np.array([[False, False]]), "records of one kind only"),
    ],
)
def test_shadows_that_are_none_are_refused(predictions, inside, sentence):
    with pytest.raises(BadInput) as refused:
        Shadows(predictions, inside)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("X", "y", "count", "sentence"),
    [
        (np.zeros((4, 1)), [0, 1, 0, 1], 0, "`count` was 0"),
        (np.zeros((4, 1)), [0, 1, 0], 2, "at least two records with one label each"),
        (np.zeros((4, 1)), [0, 0, 0, 0], 2, "two classes or more"),
        (np.zeros((4, 1)), [0.5, 1, 0, 1], 2, "whole numbers from 0"),
        (np.zeros((3, 1)), [0, 0, 1], 2, "trained on a single class"),
    ],
)
def test_records_that_cannot_train_shadow_models_are_refused(X, y, count, sentence):
    with pytest.raises(BadInput) as refused:
        train_shadows(small_tree, X, y, count)
    assert sentence in str(refused.value)


def test_attack_networks_that_cannot_be_trained_are_refused():
    with pytest.raises(BadInput, match="no shadow models were given"):
        train_attack_network([])
    with pytest.raises(BadInput, match="`epochs` was 0"):
        train_attack_network([(SOME, SOME)], epochs=0)
    one = SOME.rows(np.array([0]))
    with pytest.raises(BadInput, match="same for every record: there is nothing to learn"):
        train_attack_network([(one, one)])
    with pytest.raises(BadInput, match="2 classes in one group and 4 in another"):
        train_attack_network([(SOME, SOME)], epochs=1)(forest()[0])
