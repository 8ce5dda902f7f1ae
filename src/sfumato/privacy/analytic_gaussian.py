"""The analytic Gaussian: exact privacy of Gaussian noise, in both directions (Balle & Wang 2018).

Everything is a function of μ = sensitivity / σ. With a = ε/μ − μ/2 and b = ε/μ + μ/2,

    δ(ε; μ) = Φ(−a) − e^ε Φ(−b) = φ(a)·[R(a) − R(b)],       R(x) = Φ(−x)/φ(x)  (Mills' ratio),

and ∂δ/∂μ = φ(a), ∂δ/∂ε = −φ(a)R(b). Relative error is at most 1e-9 for ε in [1e-3, 1000] and δ in
[1e-12, 0.1], in whichever of ε, δ, μ is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special

from sfumato.errors import BadInput

__all__ = ["classical_sigma", "gaussian_epsilon", "gaussian_mu"]

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_SQRT_2 = math.sqrt(2.0)
_MOST_STEPS = 100
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def check_epsilon(epsilon: float) -> float:
    """Return ``epsilon`` as a float, or refuse what is not a finite number ≥ 0."""
    value = float(epsilon)
    if not (math.isfinite(value) and value >= 0.0):
        raise BadInput(
            f"`epsilon` was {epsilon!r}: it must be a finite number, 0 or more.", parameter="epsilon"
        )
    return value


def check_delta(delta: float) -> float:
    """Return ``delta`` as a float, or refuse what is not strictly between 0 and 1."""
    value = float(delta)
    if not 0.0 < value < 1.0:
        raise BadInput(f"`delta` was {delta!r}: it must lie strictly between 0 and 1.", parameter="delta")
    return value


def _check_mu(mu: float) -> float:
    value = float(mu)
    if not 0.0 <= value <= 1e100:
        raise BadInput(
            f"`mu` (sensitivity / sigma) was {mu!r}: it must be a number from 0 to 1e100.", parameter="mu"
        )
    return value


def _mills(x: float) -> float:
    return _SQRT_HALF_PI * float(special.erfcx(x / _SQRT_2))


def _log_delta(epsilon: float, mu: float) -> float:
    """Return log δ(ε; μ) for μ > 0, without cancellation in any regime."""
    ratio = epsilon / mu
    a, b = ratio - 0.5 * mu, ratio + 0.5 * mu
    if a > 200.0:
        # δ < 1e-8000 is 0 as a float; only the sign of a comparison is needed there, and R(x) ≈ 1/x gives it.
        return math.log(mu / b) - math.log(a) - 0.5 * min(a, 1e150) ** 2 if b < math.inf else -math.inf
    if mu < 0.5:
        # R(a) − R(b) = ∫ (1 − xR(x)) dx over [a, b]: the difference of two nearly equal numbers is avoided.
        x = a + 0.5 * mu * (_NODES + 1.0)
        gap = 0.5 * mu * float(_WEIGHTS @ (1.0 - x * _SQRT_HALF_PI * special.erfcx(x / _SQRT_2)))
    elif a > -1.0:
        gap = _mills(a) - _mills(b)
    else:
        # Here δ > 0.68: 1 − δ is a sum of two positive numbers, accurate where δ itself runs out of digits.
        return math.log1p(-(float(special.ndtr(a)) + math.exp(-0.5 * a * a - _LOG_SQRT_2PI) * _mills(b)))
    return math.log(gap) - 0.5 * a * a - _LOG_SQRT_2PI


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest δ for which Gaussian noise with sensitivity/σ = ``mu`` is (ε, δ)-DP; 0 at μ = 0."""
    epsilon, mu = check_epsilon(epsilon), _check_mu(mu)
    return 0.0 if mu == 0.0 else math.exp(_log_delta(epsilon, mu))


def _settle(value: float, step: float, safe: Callable[[float], bool]) -> float:
    """Move ``value`` by ulps, then by doubling multiples of them, until ``safe`` holds."""
    moved = value
    while not safe(moved):
        moved = value + max(value, 1e-300) * step
        step *= 2.0
    return moved


def _root(of: Callable[[float], float], low: float, high: float) -> float:
    """Return where ``of`` crosses zero between ``low`` and ``high``, by Brent's method (1973, chapter 4).

    Step by step what ``scipy.optimize.brentq`` does at rtol = 1e-14, so with the same digits; loading
    ``scipy.optimize`` for this one root would take longer than most releases.
    """
    before, now, block = low, high, low
    f_before, f_now = of(before), of(now)
    f_block = f_before
    last = step = now - before
    for _ in range(_MOST_STEPS):
        if f_before != 0.0 and f_now != 0.0 and (f_before < 0.0) != (f_now < 0.0):
            block, f_block = before, f_before
            last = step = now - before
        if abs(f_block) < abs(f_now):
            before, now, block = now, block, now
            f_before, f_now, f_block = f_now, f_block, f_now
        close, half = 0.5 * (5e-324 + 1e-14 * abs(now)), 0.5 * (block - now)
        if f_now == 0.0 or abs(half) < close:
            return now
        tried = math.inf
        if abs(last) > close and abs(f_now) < abs(f_before):
            if before == block:
                tried = -f_now * (now - before) / (f_now - f_before)
            else:
                to_before = (f_before - f_now) / (before - now)
                to_block = (f_block - f_now) / (block - now)
                tried = -f_now * (f_block * to_block - f_before * to_before)
                tried /= to_block * to_before * (f_block - f_before)
        last, step = (step, tried) if 2 * abs(tried) < min(abs(last), 3 * abs(half) - close) else (half, half)
        before, f_before = now, f_now
        now += step if abs(step) > close else math.copysign(close, half)
        f_now = of(now)
    raise RuntimeError(f"no root was found between {low!r} and {high!r} in {_MOST_STEPS} steps")


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε for which Gaussian noise with sensitivity/σ = ``mu`` is (ε, ``delta``)-DP.

    Lands on the safe side: ``gaussian_delta(gaussian_epsilon(mu, delta), mu) <= delta``. It is 0 where
    even ε = 0 needs no larger δ.
    """
    return _solved_epsilon(_check_mu(mu), check_delta(delta))


@lru_cache(maxsize=4096)
def _solved_epsilon(mu: float, delta: float) -> float:
    if mu == 0.0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    target = math.log(delta)
    # δ(ε) ≤ Φ(−a), so the ε at which Φ(−a) = δ is an upper bracket; half a unit more absorbs rounding.
    upper = 0.5 * mu * mu + mu * (0.5 - float(special.ndtri(delta)))
    if mu > 1e6:
        # Here Φ(−a) and δ(ε) agree to more digits of ε than a double has.
        return upper - 0.5 * mu + 1e-15 * upper
    epsilon = _root(lambda e: _log_delta(e, mu) - target, 0.0, upper)
    for _ in range(2):
        a, b = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
        log_delta = _log_delta(epsilon, mu)
        slope = -math.exp(-0.5 * a * a - _LOG_SQRT_2PI - log_delta) * _mills(b)
        newton = epsilon - (log_delta - target) / slope
        if not 0.0 < newton < upper:
            break
        epsilon = newton
    return _settle(epsilon, 2.0**-52, lambda e: gaussian_delta(e, mu) <= delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ = sensitivity/σ for which Gaussian noise is (``epsilon``, ``delta``)-DP.

    Lands on the safe side: ``gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) <= delta``.
    """
    return _solved_mu(check_epsilon(epsilon), check_delta(delta))


@lru_cache(maxsize=4096)
def _solved_mu(epsilon: float, delta: float) -> float:
    target = math.log(delta)
    if epsilon > 1e10:
        # Here Φ(−a) and δ(ε) agree to more digits of μ than a double has: solve ε/μ − μ/2 = −Φ⁻¹(δ).
        z = -float(special.ndtri(delta))
        mu = 2.0 * epsilon / (z + math.hypot(z, math.sqrt(2.0 * epsilon)))
        return _settle(mu, -(2.0**-52), lambda m: gaussian_delta(epsilon, m) <= delta)
    lower = upper = max(math.sqrt(2.0 * epsilon), delta)
    while _log_delta(epsilon, lower) > target:
        lower *= 0.5
    while _log_delta(epsilon, upper) < target:
        upper *= 2.0
    mu = _root(lambda m: _log_delta(epsilon, m) - target, lower, upper)
    for _ in range(2):
        a = epsilon / mu - 0.5 * mu
        log_delta = _log_delta(epsilon, mu)
        newton = mu - (log_delta - target) * math.exp(log_delta + 0.5 * a * a + _LOG_SQRT_2PI)
        if not lower <= newton <= upper:
            break
        mu = newton
    return _settle(mu, -(2.0**-52), lambda m: gaussian_delta(epsilon, m) <= delta)


def gaussian_tradeoff(alpha: float, mu: float) -> float:
    """Return the least type II error at type I error ``alpha``: Φ(Φ⁻¹(1 − α) − μ) (Dong et al. 2022)."""
    mu, alpha = _check_mu(mu), check_alpha(alpha)
    return float(special.ndtr(-special.ndtri(alpha) - mu))


def check_alpha(alpha: float) -> float:
    """Return ``alpha`` as a float, or refuse what is not a probability."""
    value = float(alpha)
    if not 0.0 <= value <= 1.0:
        raise BadInput(f"`alpha` was {alpha!r}: a type I error lies between 0 and 1.", parameter="alpha")
    return value


def classical_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return σ = Δ√(2 ln(1.25/δ))/ε, the textbook formula that the TADP-RME paper uses.

    It is proven only for ε < 1 (Dwork & Roth 2014, Theorem A.1). Above that it is a number without a
    theorem: at ε = 80 and δ = 1e-5 the noise it gives has a true ε of 206. Calibrate with ``gaussian_mu``.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if epsilon == 0.0:
        raise BadInput(
            "`epsilon` was 0: the classical formula needs a positive epsilon.", parameter="epsilon"
        )
    if not (math.isfinite(sensitivity) and sensitivity > 0.0):
        raise BadInput(
            f"`sensitivity` was {sensitivity!r}: it must be a finite number above 0.", parameter="sensitivity"
        )
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
