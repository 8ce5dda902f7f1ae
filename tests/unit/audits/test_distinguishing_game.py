"""Games: worst pairs, scores against the densities written out, independent plays, what a bound says."""

import math

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato.audits.distinguishing_game import (
    classifier_scores,
    distinguish,
    likelihood_scores,
    play,
    worst_pair,
)
from sfumato.errors import BadInput
from sfumato.mechanisms import AdditiveNoise, Mechanism, Personalised, RandomisedResponse
from sfumato.privacy import Guarantee

RECORD, NEIGHBOUR = np.array([0.25, -0.5, 0.0]), np.array([-0.5, 0.25, 0.25])
OUTPUTS = np.random.default_rng(0).normal(size=(50, 3))


def _ratio(law, scale):
    """The log-likelihood ratio of independent noise of ``law``, added to records on the grid."""
    near, far = law.logpdf(OUTPUTS - NEIGHBOUR, scale=scale), law.logpdf(OUTPUTS - RECORD, scale=scale)
    return (near - far).sum(axis=1)


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (sf.Gaussian(2.0, 1e-5, clip=1.0), stats.norm),
        (sf.Gaussian(2.0, 1e-5, bounds=(-1.0, 1.0)), stats.norm),
        (Personalised(2.0, 1e-5, clip=1.0), stats.norm),
        (sf.TrustAdaptive(0.4, (1.0, 8.0), 1e-6, clip=1.0), stats.norm),
        (sf.TrustAdaptive(0.4, (1.0, 8.0), 1e-6, clip=1.0, calibration="paper"), stats.norm),
        (sf.Laplace(2.0, clip=1.0), stats.laplace),
        (sf.Laplace(2.0, bounds=(-1.0, 1.0)), stats.laplace),
    ],
)
def test_scores_are_log_likelihood_ratios(mechanism, law):
    scores = likelihood_scores(mechanism, RECORD, NEIGHBOUR, OUTPUTS)
    assert scores == pytest.approx(_ratio(law, mechanism._scale(3)), abs=1e-9)


def test_scores_of_plain_noise():
    scores = likelihood_scores(AdditiveNoise(0.5), RECORD, NEIGHBOUR, OUTPUTS)
    assert scores == pytest.approx(_ratio(stats.norm, 0.5), abs=1e-9)


def test_records_are_clipped_as_the_mechanism_clips_them():
    mechanism = sf.Gaussian(2.0, 1e-5, clip=1.0)
    outside = likelihood_scores(
        mechanism, np.array([-5.0, 0.0, 0.0], float), np.array([7.0, 0.0, 0.0], float), OUTPUTS
    )
    assert outside == pytest.approx(
        likelihood_scores(mechanism, np.array([-1.0, 0, 0], float), np.array([1.0, 0, 0], float), OUTPUTS)
    )
    released, _ = play(mechanism, [-5.0, 0.0, 0.0], [7.0, 0.0, 0.0], games=4000)
    # Six deviations of the mean: fresh noise fails this twice in 10⁹.
    assert abs(released[:, 0].mean() + 1.0) < 6.0 * mechanism.sigma(3) / math.sqrt(4000)


@pytest.mark.parametrize("categories", [2, 5, [2, 3, 7]])
def test_scores_of_randomised_response(categories):
    mechanism = RandomisedResponse(3.0, categories, weights=[1.0, 2.0, 3.0])
    one, other = np.array([0, 1, 1]), np.array([0, 0, 0])
    outputs = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    expected = np.zeros(len(outputs))
    for column, epsilon in enumerate((0.5, 1.0, 1.5)):
        k = np.broadcast_to(categories, 3)[column]
        keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        for row, answer in enumerate(outputs[:, column]):
            under = [keep if answer == record[column] else (1.0 - keep) / (k - 1) for record in (one, other)]
            expected[row] += math.log(under[1] / under[0])
    assert likelihood_scores(mechanism, one, other, outputs) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_response_that_is_always_true_has_a_finite_score():
    scores = likelihood_scores(
        RandomisedResponse(200.0), np.array([0], float), np.array([1], float), np.array([[0.0], [1.0]])
    )
    assert np.isfinite(scores).all()
    assert scores[0] == -scores[1] < -30.0


def test_without_noise_the_score_is_certain():
    mechanism = sf.TrustAdaptive(0.0, (1.0, 8.0), 1e-6, clip=1.0, calibration="paper-tables")
    outputs = play(mechanism, [3.0, 0.0], [0.0, 3.0], games=2)
    scores = [
        likelihood_scores(mechanism, np.array([3.0, 0.0], float), np.array([0.0, 3.0], float), released)
        for released in outputs
    ]
    assert [score.tolist() for score in scores] == [[-np.inf, -np.inf], [np.inf, np.inf]]
    assert likelihood_scores(
        mechanism, np.array([3.0, 0.0], float), np.array([3.0, 0.0], float), outputs[0]
    ).tolist() == [0.0, 0.0]
    bound = distinguish(mechanism, delta=1e-6, games=2000)
    assert bound.epsilon > 4.0


@pytest.mark.parametrize(
    ("mechanism", "columns", "first", "second"),
    [
        (sf.Gaussian(1.0, 1e-5, clip=2.0), None, [-2.0], [2.0]),
        (sf.Gaussian(1.0, 1e-5, clip=2.0), 3, [-2.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
        (sf.Gaussian(1.0, 1e-5, clip=2.0, neighbours="zero-out"), 2, [0.0, 0.0], [2.0, 0.0]),
        (sf.Laplace(1.0, bounds=(0.0, 10.0)), 2, [0.0, 0.0], [10.0, 10.0]),
        (sf.Laplace(1.0, bounds=(0.0, 10.0), neighbours="zero-out"), 2, [5.0, 5.0], [10.0, 10.0]),
        (sf.Laplace(1.0, bounds=([0.0, -1.0], [10.0, 1.0])), None, [0.0, -1.0], [10.0, 1.0]),
        (RandomisedResponse(1.0, 4), 3, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (RandomisedResponse(1.0, [2, 3]), None, [0.0, 0.0], [1.0, 1.0]),
    ],
)
def test_the_worst_pair_is_as_far_apart_as_the_sensitivity(mechanism, columns, first, second):
    one, other = worst_pair(mechanism, columns)
    assert (one.tolist(), other.tolist()) == (first, second)
    if not isinstance(mechanism, RandomisedResponse):
        norm = "l2" if isinstance(mechanism, sf.Gaussian) else "l1"
        sensitivity = mechanism._domain().sensitivity(norm, one.size, mechanism.guarantee().neighbours)
        distance = np.linalg.norm(other - one, ord=2 if norm == "l2" else 1)
        assert distance == pytest.approx(sensitivity, rel=1e-9)


def test_games_do_not_share_noise_even_with_a_seed():
    mechanism = sf.Gaussian(1.0, 1e-5, clip=1.0, randomness=sf.Seeded(7))
    first, second = play(mechanism, [0.0, 0.0], [0.0, 0.0], games=1000)
    assert first.shape == second.shape == (1000, 2)
    assert len(np.unique(np.concatenate([first, second]).round(9), axis=0)) > 1990
    again, _ = play(mechanism, [0.0, 0.0], [0.0, 0.0], games=1000)
    assert np.array_equal(first, again)


def test_a_bound_says_which_pair_was_played_and_how():
    bound = distinguish(sf.Laplace(1.0, clip=1.0), delta=0.0, games=1000)
    assert "likelihood scores; the neighbours at the largest distance, (-1) and (1)" in bound.method
    given = distinguish(sf.Laplace(1.0, clip=1.0), [0.0] * 5, [0.5] * 5, delta=0.0, games=1000)
    assert given.method.endswith("likelihood scores; a given pair of records of 5 columns")
    assert given.assumption == ""
    assert distinguish(sf.Gaussian(1.0, clip=1.0), delta=1e-5, games=1000, method="gaussian").assumption


def test_the_given_pair_is_the_one_that_is_played():
    mechanism = sf.Gaussian(8.0, 1e-5, clip=1.0, randomness=sf.Seeded(0))
    near = distinguish(mechanism, [0.0], [0.1], delta=1e-5, games=20_000, method="gaussian")
    far = distinguish(mechanism, [-1.0], [1.0], delta=1e-5, games=20_000, method="gaussian")
    assert near.numbers["mu"] == pytest.approx(far.numbers["mu"] / 20.0, abs=0.05)


def test_a_classifier_scores_only_what_it_did_not_learn():
    rng = np.random.default_rng(1)
    # Rows are a number of their own and nothing else: whoever scored rows that trained would know them all.
    first, second = rng.normal(size=(801, 4)), rng.normal(size=(400, 4))
    scores = classifier_scores(first, second, seed=3)
    assert [score.shape for score in scores] == [(401,), (200,)]
    above = (scores[1][:, None] > scores[0][None, :]).mean()
    assert 0.35 < above < 0.65
    again = classifier_scores(first, second, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(scores, again, strict=True))


@pytest.mark.parametrize("kind", ["shift", "spread", "hole"])
def test_a_classifier_finds_what_is_different(kind):
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(4000, 2)), rng.normal(size=(4000, 2))
    if kind == "shift":
        second[:, 1] += 2.0
    elif kind == "spread":
        second *= 3.0
    else:
        second[:, 0] = np.where(np.abs(second[:, 0]) < 0.5, second[:, 0] + 1.0, second[:, 0])
    scores = classifier_scores(first, second, seed=0)
    assert (scores[1][:, None] > scores[0][None, :]).mean() > 0.6


def test_a_classifier_bounds_a_mechanism_without_knowing_it():
    mechanism = sf.Laplace(2.0, clip=1.0, randomness=sf.Seeded(3))
    bound = distinguish(mechanism, delta=0.0, games=20_000, method="classifier")
    assert 1.0 < bound.epsilon < 2.2
    assert "classifier scores" in bound.method


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda m: distinguish(m, [0.0], delta=0.0), "one of record and neighbour is missing"),
        (lambda m: distinguish(m, delta=0.0, games=10), "`games` must be"),
        (lambda m: distinguish(m, delta=0.0, games=True), "`games` must be"),
        (lambda m: distinguish(m, delta=0.0, method="guess"), "`method` was 'guess'"),
        (lambda m: distinguish(m, delta=1.0, games=100), "`delta` was 1.0"),
        (lambda m: distinguish(m, delta=0.0, games=100, method="gaussian"), "`delta` was 0"),
        (lambda m: distinguish(m, [0.0], [0.0, 1.0], delta=0.0), "the record has shape"),
        (lambda m: distinguish(m, [math.nan], [0.0], delta=0.0), "row 1 of the record is not"),
        (lambda m: distinguish(m, [0.0], [[1.0]], delta=0.0), r"the neighbour \(1, 1\)"),
        (lambda m: distinguish(m, ["a"], [1.0], delta=0.0), "the record must be real numbers"),
        (lambda m: worst_pair(AdditiveNoise(1.0)), "the worst pair of AdditiveNoise"),
        (lambda m: worst_pair(sf.Laplace(1.0, bounds=([0, 0], [1, 1])), 3), "declared for 2 columns"),
    ],
)
def test_what_is_no_game_is_refused(ask, said):
    with pytest.raises(BadInput, match=said):
        ask(sf.Laplace(1.0, clip=1.0))


def test_rows_with_an_epsilon_of_their_own_are_refused():
    mechanism = Personalised(np.linspace(1.0, 2.0, 100), 1e-5, clip=1.0)
    for ask in (
        lambda: play(mechanism, [0.0], [1.0], games=100),
        lambda: likelihood_scores(
            mechanism, np.array([0.0], float), np.array([1.0], float), np.array([[0.0]])
        ),
    ):
        with pytest.raises(BadInput, match="has an ε for each row"):
            ask()


class Still(Mechanism):
    """A mechanism of somebody else that adds nothing."""

    def guarantee(self, columns=None):
        return Guarantee.nothing("no noise is added")

    def claim(self):
        return None

    def expected_error(self, columns):
        return ()

    def perturb(self, X, first=0):
        return np.array(X)


def test_a_mechanism_that_is_not_known_can_be_played_but_not_scored():
    outputs = play(Still(), [0.0], [1.0], games=20)
    assert [released.mean() for released in outputs] == [0.0, 1.0]
    with pytest.raises(BadInput, match="densities of Still are not known"):
        likelihood_scores(Still(), np.array([0.0], float), np.array([1.0], float), outputs[0])
    with pytest.raises(BadInput, match="the worst pair of Still"):
        distinguish(Still(), delta=0.0)
    bound = distinguish(Still(), [0.0], [1.0], delta=0.0, games=4000, method="classifier")
    assert bound.epsilon > 4.0


def test_zero_out_neighbours_must_hold_the_null_value():
    mechanism = sf.Gaussian(1.0, 1e-5, clip=1.0, neighbours="zero-out")
    with pytest.raises(BadInput, match="null value"):
        distinguish(mechanism, [-1.0], [1.0], delta=1e-5, games=1000)
    assert distinguish(mechanism, [1.0], [0.0], delta=1e-5, games=1000).epsilon >= 0.0
