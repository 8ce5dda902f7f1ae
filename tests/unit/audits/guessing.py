"""The best that any mechanism can do in the one-run game, by linear programming instead of by theorem."""

import itertools
import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog


def most_likely(canaries, guesses, correct, promises):
    """The largest P(C ≥ correct) over all mechanisms that keep every promise (ε, δ), by linear programming.

    A mechanism is a table P(guesses t | coins s) over all t with the right number of guesses (2 stands for an
    abstention); each promise bounds Σ_t max(P(t|s) − e^ε·P(t|s′), 0) for coins s, s′ that differ in one.
    """
    coins = list(itertools.product((0, 1), repeat=canaries))
    answers = [t for t in itertools.product((0, 1, 2), repeat=canaries) if sum(x < 2 for x in t) == guesses]
    width, table = len(answers), len(coins) * len(answers)
    pairs = [
        (one, coins.index((*s[:j], 1 - s[j], *s[j + 1 :])))
        for one, s in enumerate(coins)
        for j in range(canaries)
    ]
    blocks, limits = [], []
    eye, ones = sparse.identity(width), np.ones((1, width))
    for place, ((one, other), (epsilon, delta)) in enumerate(itertools.product(pairs, promises)):
        row = [None] * (len(coins) + len(pairs) * len(promises))
        row[one], row[other], row[len(coins) + place] = eye, -math.exp(epsilon) * eye, -eye
        total = [None] * len(row)
        total[len(coins) + place] = sparse.csr_matrix(ones)
        blocks += [row, total]
        limits += [*np.zeros(width), delta]
    # The first row names every column once, so that their widths are known; it restricts nothing.
    blocks.insert(0, [-eye] * len(blocks[0]))
    limits = [*np.zeros(width), *limits]
    rest = width * len(pairs) * len(promises)
    laws = sparse.hstack(
        [sparse.kron(sparse.identity(len(coins)), ones), sparse.csr_matrix((len(coins), rest))]
    )
    gain = np.zeros(table + rest)
    gain[:table] = [
        -(sum(a == b for a, b in zip(s, t, strict=True)) >= correct) / len(coins)
        for s in coins
        for t in answers
    ]
    found = linprog(gain, sparse.bmat(blocks), limits, laws, np.ones(len(coins)))
    assert found.status == 0
    return -found.fun


def likeliest_law(canaries, guesses, correct, promises):
    """The law of C that makes P(C ≥ correct) largest, for numbers of canaries where no table can be written.

    Every mechanism can be made symmetric, by relabelling canaries and coins at random and undoing it in its
    guesses, without changing its promises or its C; of a symmetric one only the law of C is left, and its
    divergence is the sum over c of the positive parts of (c·p_c − e^ε(r − c + 1)·p_{c−1})/m and of
    ((r − c + 1)·p_{c−1} − e^ε·c·p_c)/m.
    """
    counts = np.arange(1, guesses + 1)
    hits, misses = (np.zeros((guesses, guesses + 1)) for _ in range(2))
    hits[counts - 1, counts] = counts
    misses[counts - 1, counts - 1] = guesses - counts + 1
    ways = [way for e, _ in promises for way in (hits - math.exp(e) * misses, misses - math.exp(e) * hits)]
    size = guesses * len(ways)  # one positive part for each promise, way and count
    parts = sparse.hstack([sparse.csr_matrix(np.vstack(ways)), -sparse.identity(size)])
    sums = sparse.kron(sparse.identity(len(promises)), np.ones((1, 2 * guesses)))
    totals = sparse.hstack([sparse.csr_matrix((len(promises), guesses + 1)), sums])
    limits = [*np.zeros(size), *(canaries * delta for _, delta in promises)]
    law = np.concatenate([np.ones(guesses + 1), np.zeros(size)])
    gain = np.zeros(guesses + 1 + size)
    gain[correct : guesses + 1] = -1.0
    found = linprog(gain, sparse.vstack([parts, totals]), limits, law[None, :], [1.0])
    assert found.status == 0
    return found.x[: guesses + 1]


def divergence(law, canaries, epsilon):
    """The hockey-stick divergence at e^ε, between coins that differ in one, of the symmetric mechanism."""
    guesses = len(law) - 1
    counts = np.arange(1, guesses + 1)
    hits, misses = counts * law[1:], (guesses - counts + 1) * law[:-1]
    ways = hits - math.exp(epsilon) * misses, misses - math.exp(epsilon) * hits
    return sum(np.maximum(way, 0.0).sum() for way in ways) / canaries
