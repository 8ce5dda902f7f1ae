"""Rényi DP of a composition, from dp-accounting, read in this package's one convention.

dp-accounting reads an event under a neighbouring relation of its own. Our events describe the worst pair
itself, so Gaussian and Laplace noise is read with unit sensitivity and Poisson sampling as add/remove. A
Poisson-sampled Laplace, which dp-accounting has no Rényi curve for, is bounded by randomised response at its
amplified ε, which dominates it. Conversion to (ε, δ) is that of Canonne, Kamath & Steinke (2020).

Small ε are ours: dp-accounting's differences of nearly equal numbers lose every digit there, and randomised
response at ε = 1e-8 comes out below zero, which a sum over many runs would count as budget given back.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.losses import GaussianLoss, Loss, ResponseLoss, SampledLoss

__all__ = ["ORDERS", "rdp", "rdp_delta", "rdp_epsilon", "response_noise"]

# Written out here: a ledger fixes some of them when a dataset is opened, and must find them ever after.
ORDERS: tuple[float, ...] = (
    *(1.0 + tenths / 10.0 for tenths in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
_SMALL = 1e-4  # where dp-accounting's Laplace keeps twelve digits
Parts = tuple[tuple[Loss, int], ...]


def response_noise(epsilon: float, buckets: int) -> float:
    """Probability of answering at random that gives randomised response its ε; 0 where e^−ε underflows."""
    shrink = math.exp(-epsilon)
    return buckets * shrink / (1.0 + (buckets - 1) * shrink)


def _one(loss: Loss) -> NDArray[np.float64]:
    """RDP of one run at every order."""
    if isinstance(loss, SampledLoss) and isinstance(loss.base, GaussianLoss):
        # dp-accounting's series for fractional orders may not converge. (α−1)·D_α is a cumulant generating
        # function, hence convex in α and 0 at α = 1: a chord between whole orders is above it.
        whole = [order for order in ORDERS if order == int(order)]
        import dp_accounting as dp

        event = dp.PoissonSampledDpEvent(loss.rate, dp.GaussianDpEvent(1.0 / loss.base.mu))
        at_whole = _accountant(event, whole, dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
        orders, knots = np.array(ORDERS), np.array([1.0, *whole])
        heights = (knots - 1.0) * np.array([0.0, *at_whole])
        return np.asarray(np.interp(orders, knots, heights) / (orders - 1.0), dtype=np.float64)
    if isinstance(loss, SampledLoss):
        loss = ResponseLoss(loss.pure, 2)
    if isinstance(loss, GaussianLoss):
        return np.asarray(np.array(ORDERS) / (2.0 * (1.0 / loss.mu) ** 2), dtype=np.float64)
    if isinstance(loss, ResponseLoss):
        return _response(loss)
    if loss.pure < _SMALL:
        # A pure ε has divergence at most αε²/2 (Bun & Steinke 2016, Proposition 1.4), nearly tight here.
        return np.asarray(0.5 * loss.pure**2 * np.array(ORDERS), dtype=np.float64)
    import dp_accounting as dp

    event = dp.LaplaceDpEvent(1.0 / loss.pure)
    return _accountant(event, list(ORDERS), dp.NeighboringRelation.REPLACE_ONE)


def _response(loss: ResponseLoss) -> NDArray[np.float64]:
    """log(1 + (e^{αε} − 1)(1 − e^{−(α−1)ε})/(e^ε + k − 1))/(α − 1): nothing cancels, nothing overflows."""
    epsilon, orders = loss.pure, np.array(ORDERS)
    if epsilon == 0.0:
        return np.zeros(len(ORDERS))
    grown = orders * epsilon + np.log(-np.expm1(-orders * epsilon))
    shrunk = np.log(-np.expm1(-(orders - 1.0) * epsilon))
    scale = epsilon + math.log1p((loss.buckets - 1) * math.exp(-epsilon))
    divergence = np.logaddexp(0.0, grown + shrunk - scale) / (orders - 1.0)
    return np.asarray(np.minimum(divergence, epsilon), dtype=np.float64)


def _rdp() -> Any:
    """dp-accounting's Rényi accountant, loaded when it is first asked."""
    from dp_accounting.rdp import rdp_privacy_accountant

    return rdp_privacy_accountant


def _accountant(event: Any, orders: list[float], relation: Any) -> NDArray[np.float64]:
    accountant = _rdp().RdpAccountant(orders, relation)
    accountant.compose(event)
    return np.asarray(accountant.rdp, dtype=np.float64)


@lru_cache(maxsize=256)
def rdp(parts: Parts) -> NDArray[np.float64]:
    """Rényi divergence of the composition at each of ``ORDERS``."""
    total = np.zeros(len(ORDERS))
    for loss, count in parts:
        total = total + count * _one(loss)
    total.setflags(write=False)  # it is cached
    return total


def rdp_epsilon(parts: Parts, delta: float) -> float:
    """ε at δ > 0 by Rényi DP."""
    return float(_rdp().compute_epsilon(ORDERS, rdp(parts), delta)[0])


def rdp_delta(parts: Parts, epsilon: float) -> float:
    """δ at ε by Rényi DP."""
    return float(_rdp().compute_delta(ORDERS, rdp(parts), epsilon)[0])
