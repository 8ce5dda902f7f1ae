"""CompactDP + DP-SGD: the noise of both modes, the ε that does not count, and that the head learns."""

import json

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.learners.compact import CompactClassifier, CompactPrivate
from sfumato.learners.compact.compact_private import noisy_head

X, XT, Y, YT = train_test_split(*load_digits(return_X_y=True), test_size=0.25, random_state=0)


@pytest.fixture(scope="module")
def model():
    return CompactPrivate(1.0, 1e-5, randomness=sf.Seeded(1)).fit(X, Y)


@pytest.fixture(scope="module")
def paper():
    return CompactPrivate(1.0, 1e-5, mode="paper", randomness=sf.Seeded(1)).fit(X, Y)


def test_the_accountants_head_learns_and_its_epsilon_does_not_count(model) -> None:
    assert model.score(XT, YT) > 0.9
    np.testing.assert_allclose(model.predict_proba(XT).sum(axis=1), 1.0)
    assert model.head_epsilon_ <= 1.0
    known = DPSGD(model.multiplier_, model.sampling, model.steps).guarantee(1e-5).epsilon()
    assert model.head_epsilon_ == pytest.approx(known)
    statement = model.statement()
    assert statement.proven.proves_nothing
    assert "every feature" in statement.proven.theorem
    assert (statement.claimed.epsilon, statement.claimed.delta) == (1.0, 1e-5)
    assert "ε = 1 at δ = 1e-05 would be the head's" in " ".join(statement.notes)
    assert "it does not count" in " ".join(statement.notes)


def test_paper_mode_has_less_noise_and_says_what_it_would_give_alone(model, paper) -> None:
    eta = paper.profile_.eta.max()
    assert paper.multiplier_ == pytest.approx(eta * model.multiplier_)
    assert paper.head_epsilon_ > 1.2
    assert paper.guarantee().proves_nothing
    notes = " ".join(paper.notes())
    assert "σ = ησ₁" in notes
    assert "not 1, would be the head's" in notes
    assert "equation 16" in paper.claim().source
    assert "known after fit" in " ".join(CompactPrivate(mode="paper", epsilon=1.0).notes())


def test_the_head_has_the_noise_of_its_training() -> None:
    """The weights of features that are always 0 are noise alone; false-alarm rate 1e-7."""
    features = np.zeros((4, 3000), dtype=np.float32)
    features[:, 0] = 1.0
    weights = noisy_head(
        features,
        np.array([0, 1, 0, 1]),
        2,
        DPSGD(3.0, 0.5, 1, clip=2.0),
        pace=0.5,
        momentum=0.0,
        randomness=sf.Seeded(3),
    )
    expected = (0.5 * 3.0 * 2.0 / (0.5 * 4)) ** 2
    noise = weights[2:].ravel()
    low, high = chi2.ppf([5e-8, 1 - 5e-8], noise.size) * expected
    assert low < np.square(noise).sum() < high
    assert not low < np.square(0.8 * noise).sum() < high  # 20% less noise would be noticed


def test_the_head_keeps_no_training_records(model) -> None:
    assert not {"anchors", "anchor_labels"} & set(model.tensors())


def test_rescaled_features_change_no_answer(paper) -> None:
    again = clone(paper).fit(0.05 * X, Y)
    np.testing.assert_array_equal(again.predict(0.05 * XT), paper.predict(XT))
    np.testing.assert_allclose(again.predict_proba(0.05 * XT), paper.predict_proba(XT), atol=1e-3)
    assert again.head_epsilon_ == pytest.approx(paper.head_epsilon_, rel=1e-3)


def test_a_kept_model_gives_the_same_answers_and_notes(paper) -> None:
    again = CompactPrivate.restored(json.loads(json.dumps(paper.public())), paper.tensors())
    np.testing.assert_array_equal(again.predict_proba(XT), paper.predict_proba(XT))
    np.testing.assert_array_equal(again.contract(XT), paper.contract(XT))
    assert again.notes() == paper.notes()


@pytest.mark.parametrize("mode", ["accountant", "paper"])
def test_a_head_behind_a_first_stage_is_that_of_the_whole(mode) -> None:
    options = {"classes": 10, "epochs": 5, "references": 20, "randomness": sf.Seeded(3)}
    head = {"mode": mode, "steps": 10, "sampling": 1.0}
    stage = CompactClassifier(**options).fit(X, Y)
    shared = CompactPrivate(2.0, **head, **options).fit_behind(stage, X, Y).tensors()
    whole = CompactPrivate(2.0, **head, **options).fit(X, Y).tensors()
    assert shared.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(shared[name], values, err_msg=name)


def test_a_first_stage_of_another_kind_is_refused() -> None:
    learner = CompactPrivate(classes=10, epochs=1, epsilon=1.0)
    stage = CompactClassifier(classes=10, epochs=1, share=0.4, randomness=sf.Seeded(3))
    with pytest.raises(BadInput, match="nothing has been fitted"):
        learner.fit_behind(stage, X, Y)
    with pytest.raises(BadInput, match=r"stage 1 has share = 0\.4: this learner needs one with 0\.5"):
        learner.fit_behind(stage.fit(X, Y), X, Y)


def test_seeded_runs_repeat() -> None:
    first = CompactPrivate(1.0, 1e-5, epochs=2, randomness=sf.Seeded(2)).fit(X, Y)
    np.testing.assert_array_equal(first.coef_, clone(first).fit(X, Y).coef_)
    fresh = clone(first).set_params(randomness=None).fit(X, Y)
    assert not np.array_equal(first.coef_, fresh.coef_)


def test_a_delta_of_one_over_n_is_warned_of_and_noted() -> None:
    loose = CompactPrivate(0.3, 1e-3, epochs=1, steps=20, sampling=0.5)
    with pytest.warns(UserWarning, match="not below 1/n for n = 1347 records"):
        loose.fit(X, Y)
    assert sum("not below 1/n" in note for note in loose.statement().notes) == 1


def test_noise_beyond_any_signal_is_said_before_training() -> None:
    told = []
    with pytest.warns(UserWarning, match="expect a head that knows next to nothing"):
        CompactPrivate(0.01, 1e-6, epochs=1, steps=1, sampling=0.1).fit(
            X[:200], Y[:200], report=lambda stage, share: told.append(stage)
        )
    assert told == ["contraction", "noisy head"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "both"}, "`mode` must be one of accountant, paper"),
        ({"epsilon": 0.0}, "`epsilon` must be a positive number"),
        ({"delta": 0.0}, "`delta` must lie strictly between 0 and 1"),
        ({"sampling": 1.5}, "`sampling` must lie between 0 and 1"),
        ({"classes": 8}, "is not one of 0 to 7"),
    ],
)
def test_bad_parameters_are_refused(options, message) -> None:
    with pytest.raises(BadInput, match=message):
        CompactPrivate(**({"epsilon": 1.0} | options)).fit(X, Y)
    with pytest.raises(BadInput, match="nothing has been fitted"):
        CompactPrivate(epsilon=1.0).predict(X)
