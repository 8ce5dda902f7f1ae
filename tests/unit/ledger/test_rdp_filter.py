"""Why a privacy filter must fix its Rényi order in advance: 'some order still fits' is unsound."""

import math

import numpy as np
from scipy.optimize import brentq

ORDERS = (3.5, 8.0)
EPSILON, DELTA = 3.0, 1e-3


def budget(order):
    """The RDP at ``order`` that converts to (3, 1e-3) (Canonne, Kamath & Steinke 2020)."""
    return EPSILON - math.log1p(-1 / order) + math.log(DELTA * order) / (order - 1)


def divergence(p, q, order):
    p, q = np.asarray(p), np.asarray(q)
    return math.log(np.sum(p**order * q ** (1 - order))) / (order - 1)


def test_admitting_whatever_some_order_still_allows_breaks_the_promise():
    """Two mechanisms, the second chosen after seeing the first, each admitted because one order still fits.

    First a rare signal. If it stays silent, spend what is left at order 3.5; if it fires, what is left at
    order 8. Each path fits its order's budget for (3, 1e-3), yet the true δ at ε=3 exceeds 1.75e-3.
    """
    first = ([0.99278, 0.00722], [0.997712, 0.002288])
    after_silence = ([0.002886, 1 - 0.002886], [0.0001022, 1 - 0.0001022])
    after_signal = ([0.9975, 0.0025], [0.13597, 1 - 0.13597])

    spent = {order: divergence(*first, order) for order in ORDERS}
    fits = {
        name: [order for order in ORDERS if spent[order] + divergence(*second, order) <= budget(order)]
        for name, second in (("silence", after_silence), ("signal", after_signal))
    }
    assert fits == {"silence": [3.5], "signal": [8.0]}  # no single order admits both paths

    upper, lower = [], []
    for outcome, second in enumerate((after_silence, after_signal)):
        upper += [first[0][outcome] * value for value in second[0]]
        lower += [first[1][outcome] * value for value in second[1]]
    assert math.isclose(sum(upper), 1.0)
    assert math.isclose(sum(lower), 1.0)
    true = sum(max(0.0, p - math.exp(EPSILON) * q) for p, q in zip(upper, lower, strict=True))
    assert true > 1.75 * DELTA


def test_an_order_fixed_in_advance_keeps_the_promise():
    """The best two-outcome second step that order 3.5 allows, after either outcome, stays within δ = 1e-3."""
    order = 3.5
    first = ([0.99278, 0.00722], [0.997712, 0.002288])
    left = budget(order) - divergence(*first, order)
    total = 0.0
    for p_first, q_first in zip(*first, strict=True):
        best = 0.0
        for p in np.concatenate([np.geomspace(1e-5, 0.5, 200), 1 - np.geomspace(1e-5, 0.5, 200)]):
            q = brentq(lambda q, p=p: divergence([p, 1 - p], [q, 1 - q], order) - left, 1e-12, p)
            best = max(best, p_first * p - math.exp(EPSILON) * q_first * q)
        total += best
    assert 0.8 * DELTA < total <= DELTA
