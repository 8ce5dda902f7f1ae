"""Shadow models and the attack network."""

import sys

import numpy as np
import pytest
from model_targets import CERTAIN, CLASSES, Network, forest, records, split
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from sfumato.audits.predictions import Predictions
from sfumato.audits.shadow_models import _network, shadow_attack, train_attack_network, train_shadows
from sfumato.errors import BadInput

torch = pytest.importorskip("torch")


def small_forest(seed):
    return RandomForestClassifier(20, random_state=seed)


def small_tree(seed):
    return DecisionTreeClassifier(random_state=seed)


def pool(count=800):
    X, y = records(1200 + count)
    return X[1200:], y[1200:]


def attacked(factory, count=4):
    """A target trained on the first 400 of 1200 records, and shadow models on others."""
    X, y = records(2000)
    members, nonmembers = split(factory(99), X[:1200], y[:1200], 400)
    shadows = train_shadows(factory, X[1200:], y[1200:], count)
    return (
        members,
        nonmembers,
        shadows,
        shadow_attack(members, nonmembers, shadows.pairs(), confidence=CERTAIN),
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
    low, high = shadow_attack(*halves, shadows.pairs(), confidence=CERTAIN).interval
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
    score, asked = train_attack_network(shadows), shadows[0][0]
    assert np.array_equal(score(asked), score(asked))
    assert score(asked.rows(np.array([3]))) == pytest.approx(score(asked)[3], abs=1e-5)


def test_the_same_seed_gives_the_same_scores_and_torch_keeps_its_generator():
    X, y = pool(200)
    shadows = train_shadows(small_tree, X, y, 2, seed=5).pairs()
    asked = shadows[0][0]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    once, twice, other = (train_attack_network(shadows, seed=s)(asked) for s in (7, 7, 8))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(once, twice)
    assert not np.array_equal(once, other)
    with torch.no_grad():
        assert np.array_equal(train_attack_network(shadows, seed=7)(asked), once)


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
    for item, other in zip(shadows.predictions, again.predictions, strict=True):
        assert np.array_equal(item.probabilities, other.probabilities)
    inside, outside = shadows.pairs()[0]
    assert (len(inside), len(outside)) == (101, 100)


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
    train_attack_network(shadows.pairs(), report=lambda *said: told.append(said))
    assert told[-2:] == [("attack network", 0.95), ("attack network", 1.0)]


def test_without_torch_one_sentence_says_what_to_install(monkeypatch):
    X, y = pool(60)
    shadows = train_shadows(small_tree, X, y, 2).pairs()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"needs torch: pip install 'sfumato\[learn\]'\."):
        train_attack_network(shadows)


SOME = Predictions(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 1]))


def test_records_of_a_single_class_train_no_shadow_models():
    with pytest.raises(BadInput, match="trained on a single class"):
        train_shadows(small_tree, np.zeros((3, 1)), np.array([0, 0, 1]), 2)


def test_attack_networks_that_cannot_be_trained_are_refused():
    with pytest.raises(BadInput, match="no shadow models were given"):
        train_attack_network([])
    one = SOME.rows(np.array([0]))
    with pytest.raises(BadInput, match="same for every record: there is nothing to learn"):
        train_attack_network([(one, one)])
    with pytest.raises(BadInput, match="2 classes in one group and 4 in another"):
        train_attack_network([(SOME, SOME)])(forest()[0])
