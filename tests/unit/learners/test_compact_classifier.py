"""CompactDP as published: that it contracts and classifies, is kept, scales along, and promises nothing."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.learners.compact import CompactClassifier

X, XT, Y, YT = train_test_split(*load_digits(return_X_y=True), test_size=0.25, random_state=0)


@pytest.fixture(scope="module")
def model():
    return CompactClassifier(randomness=sf.Seeded(1)).fit(X, Y)


def test_it_contracts_every_class_and_classifies_held_out_digits(model) -> None:
    assert model.score(XT, YT) >= 0.95
    assert (model.profile_.eta < 0.8).all()
    assert model.losses_[-1] < 0.6 * model.losses_[0]
    probabilities = model.predict_proba(XT)
    assert probabilities.shape == (len(XT), 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (model.predict(XT) == probabilities.argmax(axis=1)).mean() > 0.99
    assert model.contract(XT).shape == XT.shape


def test_contraction_beats_the_density_of_plain_features(model) -> None:
    """The same anchors' rule without contraction: the least rate leaves the network an identity."""
    plain = clone(model).set_params(epochs=1, rate=1e-12).fit(X, Y)
    np.testing.assert_allclose(plain.profile_.eta, 1.0, rtol=1e-4)
    assert plain.score(XT, YT) < model.score(XT, YT)


def test_nothing_is_proven_and_the_statement_says_why(model) -> None:
    guarantee = model.guarantee()
    assert guarantee.proves_nothing
    assert "trained on private features without noise" in guarantee.theorem
    statement = model.statement()
    assert "equation 15" in statement.claimed.source
    held = len(model.tensors()["anchors"])
    assert f"contracted features of {held} training records" in " ".join(statement.notes)
    assert "change of ruler" in " ".join(CompactClassifier().notes())


def test_kept_anchors_are_contracted_training_records(model) -> None:
    """Whoever has the model finds training records in it: what the statement admits."""
    kept = model.network_.scale * model.tensors()["anchors"] + model.network_.centre
    ours = model.contract(X)
    for anchor in kept[::50]:
        assert np.abs(ours - anchor).max(axis=1).min() < 1e-5
    assert 450 <= len(kept) <= 550  # about half of 100 references of each class


@pytest.mark.parametrize("factor", [0.05, 1e6])
def test_rescaled_features_change_no_answer(model, factor) -> None:
    """Training follows the same path up to rounding, so probabilities agree but for nearly tied rows."""
    again = clone(model).fit(factor * X, Y)
    np.testing.assert_array_equal(again.predict(factor * XT), model.predict(XT))
    np.testing.assert_allclose(again.predict_proba(factor * XT), model.predict_proba(XT), atol=1e-3)
    np.testing.assert_allclose(again.profile_.eta, model.profile_.eta, rtol=1e-4)
    np.testing.assert_allclose(again.profile_.diameter, factor * model.profile_.diameter)
    assert again.bandwidth_ == pytest.approx(factor * model.bandwidth_, rel=1e-6)


def test_seeded_runs_repeat_and_say_so(model) -> None:
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(XT), model.predict_proba(XT))
    assert "reproducible run: not for release" in again.statement().notes
    other = clone(model).set_params(randomness=sf.Seeded(2), epochs=2).fit(X, Y)
    assert not np.array_equal(other.contract(XT), clone(model).set_params(epochs=2).fit(X, Y).contract(XT))


@pytest.mark.parametrize(
    "options", [{}, {"dimension": 8, "whiten": True, "bandwidth": 0.5, "references": None}]
)
def test_a_kept_model_gives_the_same_answers(options) -> None:
    fitted = CompactClassifier(epochs=3, **options).fit(X[:400], Y[:400])
    public = json.loads(json.dumps(fitted.public()))
    again = CompactClassifier.restored(public, fitted.tensors())
    np.testing.assert_array_equal(again.predict_proba(XT), fitted.predict_proba(XT))
    np.testing.assert_array_equal(again.contract(XT), fitted.contract(XT))
    assert again.profile_.rows() == fitted.profile_.rows()
    assert again.notes() == fitted.notes()
    assert again.bandwidth_ == pytest.approx(fitted.bandwidth_)
    with pytest.raises(BadInput, match="the kept model has no anchors"):
        CompactClassifier.restored(public, {k: v for k, v in fitted.tensors().items() if k != "anchors"})


def test_a_fixed_bandwidth_is_in_units_of_the_features() -> None:
    fitted = CompactClassifier(bandwidth=0.4, epochs=2).fit(X, Y)
    scale = np.sqrt(np.square(X - X.mean(axis=0)).sum(axis=1).mean())
    assert fitted.bandwidth_ == pytest.approx(0.4 * scale)
    assert fitted.contracted_bandwidth_ == pytest.approx(0.4 * scale)


def test_other_data_needs_no_more_than_features_and_labels() -> None:
    features, labels = load_iris(return_X_y=True)
    told = []
    fitted = CompactClassifier().fit(
        features, labels, report=lambda stage, share: told.append((stage, share))
    )
    assert fitted.predict_proba(features).shape == (150, 3)
    assert fitted.score(features, labels) > 0.9
    assert told[-1] == ("contraction", 1.0)
    assert "randomness" in fitted.get_params()
    assert clone(fitted).get_params() == fitted.get_params()


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        (X, np.where(np.arange(len(Y)) == 5, 10, Y), {}, "class 10 has one record: a class density needs 2"),
        (X, np.where(Y == 4, 5, Y), {}, "class 4 has no record"),
        (np.where(np.arange(64) == 3, np.nan, X), Y, {}, "record 0 are not all finite"),
        (X, Y - 1, {}, "is not one of 0 to 8"),
        (X, Y, {"classes": 9}, "is not one of 0 to 8"),
        (X, Y * 10**12, {}, "is not one of 0 to"),
        (X, Y.astype(float), {}, "one whole number"),
        (X, np.zeros(len(X), dtype=int), {}, "one class was given"),
        (np.ones_like(X), Y, {}, "all records have the same features"),
        (X, Y, {"classes": 0}, "`classes` was 0"),
        (X, Y, {"share": 2.0}, "`share` was 2"),
        (X, Y, {"epochs": 0}, "`epochs` was 0"),
        (X, Y, {"rate": -1.0}, "`rate` must be a positive number"),
        (X, Y, {"bandwidth": "wide"}, "`bandwidth` was 'wide'"),
        (X, Y, {"width": 1.5}, "`width` was 1.5"),
    ],
)
def test_bad_input_is_refused_in_words(features, labels, options, message) -> None:
    with pytest.raises(BadInput, match=message):
        CompactClassifier(**options).fit(features, labels)


def test_an_unfitted_model_is_refused(model) -> None:
    with pytest.raises(BadInput, match="nothing has been fitted"):
        CompactClassifier().predict(X)
    with pytest.raises(BadInput, match="3 features were given, and 64 were fitted"):
        model.predict(X[:, :3])
