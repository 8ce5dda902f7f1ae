"""Seed reuse: noise that was drawn once and used twice hides nothing.

Two releases of one table with the same noise z at two scales, y₁ = x + σ₁z and y₂ = x + σ₂z, give the table
away: x = (σ₂y₁ − σ₁y₂)/(σ₂ − σ₁). Two tables with the same noise give away x₁/σ₁ − x₂/σ₂, and one row of
noise for all records their differences. The auditor, who has the originals, looks at the noises themselves.

**The test.** Let e and f be the noises of two releases (or of two halves of one), with what clipping to a
ball takes from a record projected out of both: a multiple of the record. If they are independent and f is
symmetric about zero, row by row, then given their sizes the signs of sᵢ = ⟨eᵢ, fᵢ⟩ are fair coins, and by
Hoeffding's inequality P(|Σ sᵢ| ≥ t·√Σ sᵢ²) ≤ 2·exp(−t²/2), whatever the law of the noise. So t = √(2 ln(2/α))
raises a false alarm with probability at most α. That is for mechanisms that add noise to records; a rule that
pulls values to one side, as randomised response does, would be taken for shared noise. Where values are
clipped to bounds, pass the clipped originals.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sfumato.audits.findings import Finding
from sfumato.audits.proportions import failure_chance
from sfumato.audits.reconstruction import error_finding
from sfumato.audits.reidentification import View, corresponding
from sfumato.errors import BadInput

__all__ = ["noise_across_rows", "one_noise_two_scales", "shared_noise", "without_noise"]

Floats = NDArray[np.float64]


def shared_noise(
    original: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    other: ArrayLike | None = None,
    view: View | None = None,
    false_alarm: float = 1e-6,
    confidence: float = 0.99,
) -> Finding:
    """Whether two releases share noise, and what their best mix leaves of it.

    ``second`` is another release of ``original``: the value is the deviation of the noise that the best mix
    of both leaves, as a share of the less noisy one's, and chance is what independent noises would leave. 0
    means that the table is given away. Nested tiers share noise by design: there the noisier release is the
    other one plus fresh noise, ``numbers["nested"]`` is 1, and the value is 1, for the mix tells no more
    than the better release alone. Where ``other`` is given, ``second`` is a release of that table, of the
    same shape, and the value is the size of the correlation of the noises.

    ``numbers["alarm"]`` is 1 where the test finds shared noise, at most ``false_alarm`` of the time in vain.
    """
    e = _noise(original, first, view)
    f = _noise(original if other is None else other, second, view)
    if e.shape != f.shape:
        raise BadInput(
            f"the releases have shapes {e.shape} and {f.shape}, but only tables of one shape can share noise."
        )
    limit = _limit(false_alarm, len(e))
    test = _Test(e, f)
    alarm = abs(test.statistic) > limit
    said = "the noises were not drawn independently" if alarm else "no shared noise was found"
    numbers = {"alarm": float(alarm), "threshold": limit, "false_alarm": false_alarm}
    threat = "has the originals and sees both releases"
    found = _finding("shared noise", threat, test, numbers, said, confidence)
    if other is not None:
        return found
    quiet, loud = (e, f) if test.variances[0] <= test.variances[1] else (f, e)
    nested = alarm and abs(_Test(quiet, loud - quiet).statistic) <= limit
    if nested:
        said = "the noisier release is the other plus fresh noise, as in nested tiers: it tells nothing more"
    reach = test.reach(confidence)
    value = test.noise_left(test.correlation)
    possible = np.linspace(max(test.correlation - reach, -1.0), min(test.correlation + reach, 1.0), 101)
    left = [test.noise_left(float(correlation)) for correlation in possible]
    return replace(
        found,
        measure="noise left in a mix",
        value=value,
        chance=test.noise_left(0.0),
        interval=(min(*left, value), max(*left, value)),
        higher_is_worse=False,
        numbers=dict(found.numbers) | {"nested": float(nested)},
        note=said,
    )


def noise_across_rows(
    original: ArrayLike,
    released: ArrayLike,
    *,
    view: View | None = None,
    false_alarm: float = 1e-6,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """Whether rows of one release share noise, so that their differences are released without any.

    Rows are compared in pairs, drawn at random and at distances of 1, 2, 4, … rows, where a generator that
    restarts with every block would repeat itself. The strongest of these tests is reported; together they
    raise a false alarm at most ``false_alarm`` of the time.
    """
    e = _noise(original, released, view)
    order = np.random.default_rng(seed).permutation(len(e))
    pairs = [order[: len(e) // 2 * 2].reshape(2, -1)]
    for power in range((len(e) // 2).bit_length()):
        rows = np.arange(len(e) - (1 << power))
        rows = rows[(rows >> power) % 2 == 0]
        pairs.append(np.stack([rows, rows + (1 << power)]))
    limit = _limit(false_alarm / len(pairs), len(e) // 2)
    best = max((_Test(e[own], e[its]) for own, its in pairs), key=lambda test: abs(test.statistic))
    alarm = abs(best.statistic) > limit
    numbers = {"alarm": float(alarm), "threshold": limit, "false_alarm": false_alarm}
    said = "rows share noise, so their differences are bare" if alarm else "no noise shared by rows was found"
    # The strongest of several correlations is reported, so each interval must hold for all.
    each = 1.0 - failure_chance(confidence) / len(pairs)
    threat = "has the originals and sees the release"
    found = _finding("noise shared by rows", threat, best, numbers, said, each)
    return replace(found, confidence=confidence)


def one_noise_two_scales(
    original: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    scales: tuple[float, float],
    view: View | None = None,
    confidence: float = 0.99,
) -> Finding:
    """The normalised error after removing the noise that two releases share at the public ``scales``."""
    before, one = corresponding(original, first, view)
    two = corresponding(original, second, view)[1]
    return error_finding(
        "one noise at two scales",
        "sees two releases of the same records and knows the scale of the noise of each",
        before,
        without_noise(one, two, scales=scales),
        before.mean(axis=0),
        confidence,
    )


def without_noise(first: Floats, second: Floats, *, scales: tuple[float, float]) -> Floats:
    """(σ₂y₁ − σ₁y₂)/(σ₂ − σ₁): the records, if both releases add one noise to them at these scales."""
    low, high = scales
    if not (0.0 <= low < math.inf and 0.0 <= high < math.inf) or low == high:
        raise BadInput(
            f"`scales` were {low!r} and {high!r}: two different numbers, 0 or more, are needed.",
            parameter="scales",
        )
    return np.asarray((high * first - low * second) / (high - low))


def _noise(original: ArrayLike, released: ArrayLike, view: View | None) -> Floats:
    """What a release adds to the records, without its component along each record."""
    before, after = corresponding(original, released, view)
    noise = after - before
    size = np.einsum("ij,ij->i", before, before)
    along = np.einsum("ij,ij->i", noise, before) / np.where(size > 0.0, size, 1.0)
    across: Floats = noise - along[:, None] * before
    # Rounding leaves a trace where there is nothing, as in a table of one column.
    if before.shape[1] < 2 or not np.linalg.norm(across) > 1e-9 * np.linalg.norm(before):
        raise BadInput(
            "the release has no noise across the records (in at least two columns): nothing can be compared."
        )
    return across


def _limit(false_alarm: float, rows: int) -> float:
    """The threshold of the test, which no number of ``rows`` below its square could reach."""
    if not 0.0 < false_alarm < 1.0:
        raise BadInput(
            f"`false_alarm` was {false_alarm!r}: it must lie strictly between 0 and 1.",
            parameter="false_alarm",
        )
    limit = math.sqrt(2.0 * math.log(2.0 / false_alarm))
    if rows <= limit**2:
        raise BadInput(
            f"{rows} rows to compare are too few for a false-alarm rate of {false_alarm:.2g}: at least "
            f"{math.floor(limit**2) + 1} are needed."
        )
    return limit


class _Test:
    """Two noises, row by row: how they vary, each and together."""

    def __init__(self, e: Floats, f: Floats) -> None:
        self.products = np.einsum("ij,ij->i", e, f)
        self.squares = np.einsum("ij,ij->i", e, e), np.einsum("ij,ij->i", f, f)
        self.variances = float(self.squares[0].sum()), float(self.squares[1].sum())
        spread = math.sqrt(float((self.products**2).sum()))
        self.statistic = float(self.products.sum()) / spread if spread > 0.0 else 0.0

    @property
    def correlation(self) -> float:
        """From −1 to 1."""
        size = math.sqrt(self.variances[0]) * math.sqrt(self.variances[1])
        return float(np.clip(float(self.products.sum()) / size, -1.0, 1.0))

    def reach(self, confidence: float) -> float:
        """Half the width of the interval of the correlation: normal, by its influence function on rows."""
        one, two = self.variances
        own = self.squares[0] / one + self.squares[1] / two
        influence = self.products / math.sqrt(one * two) - self.correlation / 2.0 * own
        return -float(ndtri(failure_chance(confidence) / 2.0)) * float(np.linalg.norm(influence))

    def noise_left(self, correlation: float) -> float:
        """The deviation of the best unbiased mix, over that of the less noisy one, at a given correlation."""
        low, high = sorted(math.sqrt(variance) for variance in self.variances)
        ratio = high / low
        apart = 1.0 + ratio**2 - 2.0 * correlation * ratio
        # Equal noises at one scale: mixing changes nothing.
        return math.sqrt((1.0 - correlation**2) / apart) * ratio if apart > 1e-12 * ratio**2 else 1.0


def _finding(
    attack: str, threat: str, test: _Test, numbers: dict[str, float], said: str, confidence: float
) -> Finding:
    size = abs(test.correlation)
    reach = test.reach(confidence)
    return Finding(
        attack=attack,
        threat=threat,
        measure="correlation of noises",
        value=size,
        chance=0.0,
        interval=(max(0.0, size - reach), min(1.0, size + reach)),
        confidence=confidence,
        numbers=numbers | {"correlation": test.correlation, "statistic": test.statistic},
        note=said,
    )
