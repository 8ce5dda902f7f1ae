"""Text formatting of reports: rounded numbers and sanitised text from outside.

Upper bounds are rounded up, lower bounds down. Text from outside is made printable and stripped of folder
names.
"""

from __future__ import annotations

import math
import re
from itertools import accumulate
from unicodedata import east_asian_width

from sfumato.privacy import format_delta, format_lower, format_upper

__all__ = ["at_least", "at_most", "plain", "share"]

# "δ = 10⁻⁶" is one word and stays on one line.
_SIGN = re.compile(r"([εδ]₀?) ([=≥≤]) (?=\S)")
_TIMES = re.compile(r"(?<=\d) × (?=\d)")

# What stands before a slash that begins a path, and not a fraction, a closing tag or a relative path.
_START = r"(?<![\w.)\]}!*^/\\<…-])"
_WITHOUT_FOLDERS = (
    # In quotes a path may hold spaces.
    (re.compile(r"([\"'])(?:~[^\"'/]*)?/[^\"']*/([^\"'/]*)\1"), r"\1\2\1"),
    # A home folder itself has nothing to show but somebody's name.
    (re.compile(_START + r"/(?:home|Users)/[^\s\"'/]+/?(?![^\s\"'])"), "~"),
    (re.compile(_START + r"(?:~[\w.-]*/(?:[^\s\"'/]+/)*|/(?:[^\s\"'/]+/)+)"), ""),
    (re.compile(_START + r"(?:[A-Za-z]:|\\\\)[\\/]?(?:[^\s\"'\\/]+[\\/])+"), ""),
    # Addresses of files and databases hold folders, names and passwords; of web pages only the last two.
    (re.compile(r"\b(?!https?:)([a-z][a-z0-9+.-]+)://[^\s\"']*/(?=[^\s\"'/]*)"), r"\1://…/"),
    (re.compile(r"\b(https?://)[^\s\"'/@]*@"), r"\1"),
)

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shown(text: str) -> str:
    """Return ``text`` with unprintable characters as spaces and absolute paths as file names.

    Unprintable are also line ends, marks that change the direction of writing, and broken surrogate halves,
    none of which may rearrange a page. Folders, users and passwords in URLs are removed; relative paths are
    kept.
    """
    clean = "".join(character if character.isprintable() else " " for character in text)
    for pattern, replacement in _WITHOUT_FOLDERS:
        clean = pattern.sub(replacement, clean)
    return clean


def unbroken(text: str) -> str:
    """Return ``text`` with non-breaking spaces in formulas such as "δ = 1" and "3 × 10"."""
    return _TIMES.sub("\u00a0×\u00a0", _SIGN.sub("\\1\u00a0\\2\u00a0", text))


def shortened(text: str, most: int) -> str:
    """Return ``shown(text)``, at most as wide as ``most`` small letters; an ellipsis marks a cut."""
    clean = " ".join(shown(text).split())
    ends = list(accumulate(2 if _wide(letter) else 1 for letter in clean))
    if not ends or ends[-1] <= most:
        return clean
    return clean[: sum(end < most for end in ends)].rstrip() + "…"


def _wide(letter: str) -> bool:
    return letter.isupper() or letter in "mw@%" or east_asian_width(letter) in "WF"


def plain(value: float | None, digits: int = 4) -> str:
    """Return ``value`` in ``digits`` significant digits, whole numbers below 10⁹ in full; "–" for None."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "not a number"
    if abs(value) < 1e9 and float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    return _readable(f"{value:.{digits}g}")


def at_most(value: float, digits: int = 4) -> str:
    """Return an upper bound ≥ 0, rounded up, so that what is printed still holds."""
    return _readable(format_upper(value, digits))


def delta_at_most(delta: float) -> str:
    """Return a δ, rounded up but never to 1, where nothing is promised: 1 − 3e-07."""
    text = at_most(delta)
    return format_delta(delta) if text == "1" else text


def at_least(value: float, digits: int = 4) -> str:
    """Return a lower bound ≥ 0, rounded down, so that what is printed was really reached."""
    return _readable(format_lower(value, digits))


def share(value: float) -> str:
    """Return a share of 1 as a percentage, to one decimal."""
    return "not a number" if math.isnan(value) else f"{100.0 * value:.1f}%"


def percent(confidence: float) -> str:
    """Return a confidence as a percentage, rounded down: 99%, 99.66%, 99.999999%; the rest has two digits."""
    rest = 100.0 * (1.0 - confidence)
    if rest <= 0.0:
        return "100%"
    decimals = max(0, 1 - math.floor(math.log10(rest) + 1e-9))
    scale = 10.0**decimals
    shown = f"{100.0 - math.ceil(rest * scale - 1e-6) / scale:.{decimals}f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}%"


def share_at_most(value: float) -> str:
    """Return a share of 1 as a percentage, rounded up to one decimal, or to as many as differ from 100%.

    A share within a millionth of 1 is 100%.
    """
    rest = 1.0 - value
    if rest < 1e-6:
        return "100%"
    decimals = max(1, -math.floor(math.log10(rest)) - 2)
    scale = 10.0**decimals
    return f"{math.ceil(100.0 * scale * value - 1e-6) / scale:.{decimals}f}%"


def factor(epsilon: float) -> str:
    """Return e^ε in three digits, rounded up: 2.72, 181.3, 22,100 or 3 × 10¹⁹, also if a double overflows."""
    if not math.isfinite(epsilon):
        return "any number of"
    if epsilon <= math.log(1e6):
        number = format_upper(math.exp(epsilon), 3)
        return f"{float(number):,.0f}" if float(number) >= 1000.0 else number
    exponent = math.floor(epsilon / math.log(10.0))
    leading = math.ceil(math.exp(epsilon - exponent * math.log(10.0)) - 1e-6)
    if leading >= 10:
        leading, exponent = 1, exponent + 1
    return _power(str(leading), exponent)


def one_in(probability: float) -> str:
    """Return a probability > 0 as "1 in 1,000,000", or as a percentage above 1 in 10; never understated."""
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
