"""One-run bounds: the theorem against every mechanism there is, for a few canaries, and its known cases."""

import math
import time

import numpy as np
import pytest
from guessing import most_likely
from scipy.special import logit
from scipy.stats import binom, binomtest

from sfumato.audits.one_run import best_guesses, guess_counts, one_run_bound, one_run_chance
from sfumato.errors import BadInput


@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (2, 2), (3, 3), (3, 2), (3, 1)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.01), (0.3, 0.05), (2.0, 0.1)])
def test_the_bound_is_the_best_that_any_mechanism_can_do(canaries, guesses, epsilon, delta):
    for correct in range(guesses + 1):
        best = most_likely(canaries, guesses, correct, [(epsilon, delta)])
        assert one_run_chance(correct, guesses, canaries, epsilon, delta) == pytest.approx(best, abs=1e-6)


def extremal(correct, guesses, canaries, epsilon, delta):
    """The law of C of the mechanism in the theorem's last sentence."""
    counts = np.arange(guesses + 1)
    plain = binom.pmf(counts, guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    jump = canaries * delta / (correct * plain[correct])
    height = np.where(counts >= correct, 1.0 + jump, 1.0)
    return plain * (height - jump * plain[correct:].sum())


@pytest.mark.parametrize("correct", [70, 75, 80])
def test_the_extremal_mechanism_keeps_its_promise_and_attains_the_bound(correct):
    guesses, canaries, epsilon, delta = 100, 150, 0.8, 1e-4
    law = extremal(correct, guesses, canaries, epsilon, delta)
    assert law.min() >= 0.0
    assert law.sum() == pytest.approx(1.0)
    counts = np.arange(1, guesses + 1)
    # By symmetry over coins and canaries these two sums are its hockey-stick divergence, in both directions.
    ways = (
        counts * law[1:] - math.exp(epsilon) * (guesses - counts + 1) * law[:-1],
        (guesses - counts + 1) * law[:-1] - math.exp(epsilon) * counts * law[1:],
    )
    assert sum(np.maximum(way, 0.0).sum() for way in ways) == pytest.approx(canaries * delta)
    assert one_run_chance(correct, guesses, canaries, epsilon, delta) == pytest.approx(law[correct:].sum())


def published(correct, guesses, canaries, epsilon, delta):
    """The p-value of Steinke, Nasr & Jagielski (2023)."""
    share = 1.0 / (1.0 + math.exp(-epsilon))
    steps = np.arange(1, correct + 1)
    below = np.cumsum(binom.pmf(correct - steps, guesses, share))
    tail = binom.sf(correct - 1, guesses, share)
    return min(1.0, tail + 2.0 * canaries * delta * (below / steps).max())


@pytest.mark.parametrize("canaries", [1000, 10_000])
@pytest.mark.parametrize("guesses", [50, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_never_above_the_published_value_where_that_is_a_small_chance(canaries, guesses, epsilon, delta):
    compared = 0
    for correct in range(1, guesses + 1, max(guesses // 50, 1)):
        ours = one_run_chance(correct, guesses, canaries, epsilon, delta)
        theirs = published(correct, guesses, canaries, epsilon, delta)
        if delta == 0.0:
            assert ours == pytest.approx(theirs, rel=1e-6)
        elif binom.sf(correct - 1, guesses, 1.0 / (1.0 + math.exp(-epsilon))) <= 0.5:
            assert ours <= theirs * (1.0 + 1e-9)
            compared += 1
    assert compared > 0 or delta == 0.0


@pytest.mark.parametrize(("correct", "guesses"), [(60, 100), (999, 1000), (1000, 1000), (5500, 10_000)])
@pytest.mark.parametrize("confidence", [0.5, 0.99, 1 - 1e-8])
def test_without_delta_it_is_the_clopper_pearson_bound_on_the_accuracy(correct, guesses, confidence):
    accuracy = binomtest(correct, guesses, alternative="greater").proportion_ci(confidence).low
    bound = one_run_bound(correct, guesses, guesses, delta=0.0, confidence=confidence)
    assert bound.epsilon == pytest.approx(max(logit(accuracy), 0.0), rel=1e-9, abs=1e-11)


def test_the_bound_is_where_the_chance_is_spent():
    bound = one_run_bound(420, 500, 10_000, delta=1e-5)
    assert one_run_chance(420, 500, 10_000, bound.epsilon, 1e-5) == pytest.approx(0.01, rel=1e-6)
    assert one_run_chance(420, 500, 10_000, bound.epsilon, 1e-5) <= 0.01
    assert dict(bound.numbers) == {"correct": 420, "guesses": 500, "canaries": 10_000}


def test_more_correct_guesses_more_and_more_delta_or_canaries_less():
    hits = [one_run_bound(correct, 100, 100, delta=1e-4).epsilon for correct in range(101)]
    assert hits[0] == hits[50] == 0.0
    assert (np.diff(hits) >= 0.0).all()
    assert (np.diff(hits[70:]) > 0.0).all()
    deltas = [one_run_bound(90, 100, 100, delta=delta).epsilon for delta in (0.0, 1e-5, 1e-3, 1e-2, 0.5)]
    assert (np.diff(deltas) < 0.0).all() or deltas[-1] == 0.0
    assert deltas[0] > deltas[1] > deltas[2] > deltas[3] >= deltas[4] == 0.0
    canaries = [one_run_bound(90, 100, m, delta=1e-4).epsilon for m in (100, 1000, 10_000)]
    assert canaries[0] > canaries[1] > canaries[2]


@pytest.mark.parametrize(("correct", "guesses", "canaries"), [(10**6, 10**6, 10**6), (10**5, 10**6, 10**7)])
def test_a_million_guesses_are_quick_and_finite(correct, guesses, canaries):
    start = time.process_time()
    bound = one_run_bound(correct, guesses, canaries, delta=1e-5)
    assert time.process_time() - start < 1.0
    assert math.isfinite(bound.epsilon)


def test_the_most_certain_canaries_are_guessed():
    scores = [0.1, -3.0, 2.0, -np.inf, 0.0]
    bits = [1, 0, 0, 0, 1]
    assert best_guesses(scores, bits, guesses=1) == (1, 1, 5)
    assert best_guesses(scores, bits, guesses=2) == (2, 2, 5)
    assert best_guesses(scores, bits, guesses=3) == (2, 3, 5)
    assert best_guesses(scores, bits, guesses=5) == (3, 5, 5)


@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (3, 3), (1000, 150), (10_000, 696)])
def test_how_many_are_guessed_depends_on_their_number_alone(canaries, guesses):
    fixed = {max(1, canaries // 10), guesses, max(1, canaries // 2), canaries}
    assert guess_counts(canaries) == sorted(fixed)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((5, 4, 10), "cannot be"),
        ((1, 11, 10), "cannot be"),
        ((0, 0, 10), "`guesses` must be"),
        ((-1, 4, 10), "`correct` must be"),
        ((1.0, 4, 10), "`correct` must be"),
        ((1, True, 10), "`guesses` must be"),
        ((1, 4, "10"), "`canaries` must be"),
    ],
)
def test_counts_that_cannot_be_are_refused(numbers, said):
    with pytest.raises(BadInput, match=said):
        one_run_bound(*numbers, delta=0.0)


@pytest.mark.parametrize(
    ("scores", "bits", "options", "said"),
    [
        ([0.0, 1.0], [1], {}, r"`bits` have shape \(1,\): each of 2 canaries"),
        ([], [], {}, r"scores of canaries have shape \(0,\)"),
        ([0.0, math.nan], [0, 1], {}, "scores of canaries are NaN in 1 of 2 rows, first in row 1"),
        ([0.0, 1.0], [0, 2], {}, r"needs 0 \(out\) or 1 \(in\)"),
        ([0.0, 1.0], [0, 1], {"guesses": 3}, "cannot be"),
    ],
)
def test_scores_that_are_none_are_refused(scores, bits, options, said):
    with pytest.raises(BadInput, match=said):
        best_guesses(scores, bits, **({"guesses": 1} | options))
