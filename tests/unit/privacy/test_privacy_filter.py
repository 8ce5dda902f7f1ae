"""Why a privacy filter must fix its Rényi order in advance: 'some order still fits' is unsound."""

import math

import numpy as np

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
    """The same first step with either second step alone, at its own order, stays within δ = 1e-3."""
    first = ([0.99278, 0.00722], [0.997712, 0.002288])
    for second in (([0.002886, 0.997114], [0.0001022, 0.9998978]), ([0.9975, 0.0025], [0.13597, 0.86403])):
        for outcome in (0, 1):
            p = [first[0][outcome] * value for value in second[0]] + [first[0][1 - outcome]]
            q = [first[1][outcome] * value for value in second[1]] + [first[1][1 - outcome]]
            if any(divergence(p, q, order) <= budget(order) for order in ORDERS):
                true = sum(max(0.0, a - math.exp(EPSILON) * b) for a, b in zip(p, q, strict=True))
                assert true <= DELTA
