"""How the page prints numbers: upper bounds rounded up, lower bounds rounded down, powers of ten as such."""

from __future__ import annotations

import math

from sfumato.privacy.wording import below_one, downward, upward

__all__ = [
    "at_least",
    "at_most",
    "delta_at_most",
    "factor",
    "one_in",
    "percent",
    "plain",
    "share",
    "share_at_most",
]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(value: float | None, digits: int = 4) -> str:
    """``value`` in ``digits`` significant digits, whole numbers below 10⁹ in full; "–" for None."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "not a number"
    if abs(value) < 1e9 and float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    return _readable(f"{value:.{digits}g}")


def at_most(value: float, digits: int = 4) -> str:
    """An upper bound ≥ 0, rounded up, so that what is printed still holds."""
    return _readable(upward(value, digits))


def delta_at_most(delta: float) -> str:
    """A δ, rounded up but never to 1, at which nothing is promised: 1 − 3e-07."""
    text = at_most(delta)
    return below_one(delta) if text == "1" else text


def at_least(value: float, digits: int = 4) -> str:
    """A lower bound ≥ 0, rounded down, so that what is printed was really reached."""
    return _readable(downward(value, digits))


def share(value: float) -> str:
    """A share of 1 as a percentage, to one decimal."""
    return "not a number" if math.isnan(value) else f"{100.0 * value:.1f}%"


def percent(confidence: float) -> str:
    """A confidence as a percentage, rounded down: 99%, 99.66%, 99.999999%; what it leaves has two digits."""
    rest = 100.0 * (1.0 - confidence)
    if rest <= 0.0:
        return "100%"
    decimals = max(0, 1 - math.floor(math.log10(rest) + 1e-9))
    scale = 10.0**decimals
    shown = f"{100.0 - math.ceil(rest * scale - 1e-6) / scale:.{decimals}f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}%"


def share_at_most(value: float) -> str:
    """A share of 1 as a percentage, rounded up to one decimal, or to as many as tell it from 100%.

    What is less than a millionth away from 1 is 100%.
    """
    rest = 1.0 - value
    if rest < 1e-6:
        return "100%"
    decimals = max(1, -math.floor(math.log10(rest)) - 2)
    scale = 10.0**decimals
    return f"{math.ceil(100.0 * scale * value - 1e-6) / scale:.{decimals}f}%"


def factor(epsilon: float) -> str:
    """e^ε in three digits, rounded up: 2.72, 181.3, 22,100 or 3 × 10¹⁹; also where a double overflows."""
    if not math.isfinite(epsilon):
        return "any number of"
    if epsilon <= math.log(1e6):
        number = upward(math.exp(epsilon), 3)
        return f"{float(number):,.0f}" if float(number) >= 1000.0 else number
    exponent = math.floor(epsilon / math.log(10.0))
    leading = math.ceil(math.exp(epsilon - exponent * math.log(10.0)) - 1e-6)
    if leading >= 10:
        leading, exponent = 1, exponent + 1
    return _power(str(leading), exponent)


def one_in(probability: float) -> str:
    """A probability > 0 as "1 in 1,000,000", and as a percentage above 1 in 10; never understated."""
    if probability > 0.1:
        return share_at_most(probability)
    return f"1 in {math.floor(1.0 / probability * (1.0 + 1e-9)):,}"


def _readable(text: str) -> str:
    if text in ("inf", "-inf"):
        return text.replace("inf", "∞").replace("-", "−")
    mantissa, sign, exponent = text.partition("e")
    mantissa = mantissa.replace("-", "−")
    return _power(mantissa, int(exponent)) if sign else mantissa


def _power(mantissa: str, exponent: int) -> str:
    power = f"10{str(exponent).translate(_RAISED)}"
    return power if mantissa == "1" else f"{mantissa} × {power}"
