"""The private linear classifier: its promise, the noise that keeps it, and that it learns."""

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.learners import DPSGD, PrivateSoftmax

DIGITS = load_digits()
X, Y = DIGITS.data / np.linalg.norm(DIGITS.data, axis=1, keepdims=True), DIGITS.target


def test_the_promise_is_known_before_fitting_and_stands_in_the_statement() -> None:
    model = PrivateSoftmax(2.0, 1e-6, neighbours="replace")
    guarantee = model.guarantee()
    assert guarantee.epsilon() == pytest.approx(2.0, rel=1e-9)
    assert (str(guarantee.unit), str(guarantee.neighbours)) == ("record", "replace")
    statement = model.statement()
    assert statement.proven == guarantee
    assert "not for release" not in " ".join(statement.notes)
    assert statement.parameters["steps"] == model.steps


@pytest.mark.parametrize(("neighbours", "twice"), [("zero-out", 1.0), ("replace", 2.0)])
@pytest.mark.parametrize("steps", [1, 4])
def test_each_step_has_the_noise_that_the_promise_needs(neighbours, twice, steps) -> None:
    """The weights of features that are always 0 are noise alone; false-alarm rate 1e-7 each."""
    width, count = 3000, 2
    features = np.zeros((count, width))
    features[:, 0] = 1.0
    model = PrivateSoftmax(
        1.0,
        1e-5,
        classes=2,
        neighbours=neighbours,
        steps=steps,
        pace=1.0,
        momentum=0.0,
        clip=1.0,
        randomness=sf.Seeded(4),
    ).fit(features, np.array([0, 1]))
    alone = twice * model.guarantee().event.noise_multiplier * np.sqrt(steps) / count
    # Weights are sums of steps; the mean of the last third of them is what is kept.
    last = [end for end in range(1, steps + 1) if 3 * end > 2 * steps]
    kept = np.mean([[float(step <= end) for step in range(1, steps + 1)] for end in last], axis=0)
    expected = alone**2 * np.square(kept).sum()
    noise = model.coef_[2:].ravel()
    low, high = chi2.ppf([5e-8, 1 - 5e-8], noise.size) * expected
    assert low < np.square(noise).sum() < high
    assert not low < np.square(0.8 * noise).sum() < high  # 20% less noise would be noticed


def test_it_learns_digits() -> None:
    """Ten per cent is a guess; without noise this classifier reaches 95%."""
    model = PrivateSoftmax(8.0, 1e-5, steps=40, pace=20.0, randomness=sf.Seeded(1)).fit(X[:1500], Y[:1500])
    assert model.score(X[1500:], Y[1500:]) > 0.75
    probabilities = model.predict_proba(X[1500:])
    assert probabilities.shape == (297, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_a_seed_repeats_a_fit_and_says_so() -> None:
    first = PrivateSoftmax(1.0, steps=3, randomness=sf.Seeded(2))
    again = clone(first).fit(X, Y)
    np.testing.assert_array_equal(first.fit(X, Y).coef_, again.coef_)
    assert "reproducible run: not for release" in first.statement().notes
    fresh = PrivateSoftmax(1.0, steps=3)
    assert not np.array_equal(fresh.fit(X, Y).coef_, PrivateSoftmax(1.0, steps=3).fit(X, Y).coef_)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (X[0], Y[:1], r"numbers \(n, d\) are needed"),
        (np.where(np.arange(64) == 3, np.nan, X), Y, "record 0 are not all finite"),
        (X, Y[:-1], "one whole number for each of 1797 records"),
        (X, Y.astype(float), "one whole number"),
        (X, Y - 1, "is not one of 0 to 9"),
        (X, Y + 1, "is not one of 0 to 9"),
    ],
)
def test_bad_input_is_refused_before_anything_is_drawn(features, labels, message) -> None:
    with pytest.raises(BadInput, match=message):
        PrivateSoftmax(epsilon=1.0).fit(features, labels)


def test_bad_parameters_and_unfitted_models_are_refused() -> None:
    with pytest.raises(BadInput, match="`epsilon` must be a positive number"):
        PrivateSoftmax(-1.0).guarantee()
    with pytest.raises(BadInput, match="'replace' or 'zero-out'"):
        PrivateSoftmax(neighbours="add/remove", epsilon=1.0).guarantee()
    with pytest.raises(BadInput, match="nothing has been fitted"):
        PrivateSoftmax(epsilon=1.0).predict(X)
    with pytest.raises(BadInput, match="keyed noise belongs to records"):
        PrivateSoftmax(
            randomness=sf.Keyed(b"0" * 32, dataset="d", version="1", release="r"), epsilon=1.0
        ).statement()
    model = PrivateSoftmax(steps=1, epsilon=1.0).fit(X, Y)
    with pytest.raises(BadInput, match="3 features were given, and 64 were fitted"):
        model.predict(X[:, :3])


def test_steps_on_samples_are_dp_sgd() -> None:
    made = PrivateSoftmax(8.0, 1e-5, sampling=0.2, steps=150, randomness=sf.Seeded(1))
    proven = made.guarantee()
    assert proven.theorem.startswith("DP-SGD")
    assert 0.95 * 8.0 < proven.epsilon() <= 8.0
    assert (made.fit(X[:1200], Y[:1200]).predict(X[1200:]) == Y[1200:]).mean() > 0.75
    with pytest.raises(BadInput, match="zero-out neighbours only"):
        PrivateSoftmax(1.0, sampling=0.2, neighbours="replace").guarantee()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"steps": 0}, "`steps` was 0"),
        ({"momentum": 1.0}, "`momentum` was 1.0"),
        ({"pace": 0.0}, "pace"),
        ({"spread": 0.0}, "spread"),
        ({"sampling": 1.5}, "`sampling` was 1.5"),
        ({"epsilon": 1e-4}, "take a larger epsilon, or fewer steps"),
    ],
)
def test_parameters_are_refused_before_anything_is_drawn(change, sentence) -> None:
    with pytest.raises(BadInput, match=sentence):
        PrivateSoftmax(**{"epsilon": 1.0, **change}).guarantee()


def test_a_logit_has_noise_of_the_spread() -> None:
    """Weights of features that are always 0 are a walk of noise, averaged over its last third.

    A logit of a feature of length 1 has the noise of its weight. False-alarm rate 1e-7.
    """
    features, steps = np.zeros((2, 4000)), 60
    last = np.arange(41, 61)
    for spread in (1.15, 2.3):
        model = PrivateSoftmax(1.0, classes=2, steps=steps, momentum=0.0, spread=spread)
        noise = model.fit(features, np.array([0, 1])).coef_[1:].ravel()
        expected = spread**2 * np.minimum.outer(last, last).mean() / steps
        low, high = chi2.ppf([5e-8, 1 - 5e-8], noise.size) * expected
        assert low < np.square(noise).sum() < high


def test_steps_on_samples_have_their_noise_and_take_their_share() -> None:
    """Weights of features that are always 0 are noise alone; false-alarm rate 1e-7 for it and for the share.

    The constant of one class moves by what was taken: with one example of each class, alike but for the
    label, the first step's gradient of feature 0 is that of the examples taken.
    """
    width, rate = 4000, 0.5
    features = np.zeros((2, width))
    model = PrivateSoftmax(4.0, 1e-5, classes=2, sampling=rate, steps=1, pace=1.0, momentum=0.0, clip=1.0)
    model.fit(features, np.array([0, 1]))
    step = model.guarantee().event.event.event.noise_multiplier
    expected = (step / (rate * 2)) ** 2
    noise = model.coef_[1:].ravel()
    low, high = chi2.ppf([5e-8, 1 - 5e-8], noise.size) * expected
    assert low < np.square(noise).sum() < high
    assert 0.64 * np.square(noise).sum() < low
    stream = sf.Seeded(1).stream(b"s")
    taken = sum(len(DPSGD(step, rate, 4000).sample(10, stream)) for _ in range(4000))
    assert abs(taken - 20_000) < 5.4 * np.sqrt(40_000 * 0.25)
