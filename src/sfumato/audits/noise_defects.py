"""Defects of noise: fresh noise that averages out, values released exactly, and noise that is shared.

**Averaging.** The mean of k releases with independent noise of variance σ² carries noise of variance σ²/k, so
each release must be paid for. Keyed noise returns the same bytes for the same request: then the mean teaches
nothing new and nothing is owed.

**Exact-value leak**: how many released values are the original's own, bit by bit, and what that says of δ.

Continuous noise leaves no value as it was, but a method that keeps a value with some probability, or forgets
to clip or to add noise somewhere, does. Equality alone is no leak: a picture is mostly black and a released
black pixel says nothing. So only values are counted that differ from their column's most frequent one, and
chance is how often they would equal the value released for *another* record.

**A lower bound on δ.** Let rows come in disjoint pairs that were chosen without a look at the release, and
call a row telling of a record where one of its values equals the record's and the other record of the pair
has another value there. Let p be the chance that a row is telling of its own record and q that it is telling
of the other one, both averaged over the rows. For each row (ε, δ)-DP under ``replace`` says pᵢ ≤ e^ε·qᵢ + δ,
so on average δ ≥ p − e^ε·q. The numbers of telling rows are sums of independent coins with these means,
whatever each chance is, and bounded by the Chernoff–Hoeffding inequality P(S ≤ n(p̄ − t)) ≤ e^{−n·KL(p̄ − t ‖
p̄)}: this gives p_low and q_high, which hold together, and with them δ ≥ p_low − e^ε·q_high at every ε at
once. However seldom a row was telling of the other record, q_high is above 0, so at a large ε the bound says
nothing; only where q = 0 is *proven* does it hold at every ε. ∎

**Seed reuse**: noise that was drawn once and used twice hides nothing.

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
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sfumato.audits.distinguishing_game import ROW_BY_ROW, draw_pairs
from sfumato.audits.findings import Finding
from sfumato.audits.lower_bounds import chernoff_upper, failure_chance, interval
from sfumato.audits.record_attacks import corresponding, error_finding, rows_of
from sfumato.errors import BadInput
from sfumato.privacy import Neighbours

Floats = NDArray[np.float64]

# How often a test for shared noise may raise a false alarm.
_FALSE_ALARM = 1e-6


def exact_value_leak(original: ArrayLike, released: ArrayLike, *, confidence: float = 0.99) -> Finding:
    """Return the share of values, but their column's most frequent one, that are released exactly.

    A value counts as released exactly where the released one equals it, or equals its rounding to single
    precision if the release is in single precision. Chance is the expected share if the released rows
    belonged to other records, computed from all pairs of rows and not from a sample of them. Noise on the
    grid of the data itself leaves some values as they were, and then beats this chance without any fault.
    """
    before, after = _as_released(original, released)
    rows, columns = before.shape
    equal = before == after
    telling = np.empty(before.shape, dtype=bool)
    coincidence = np.zeros(rows)
    for column in range(columns):
        mode, expected = _column(before[:, column], after[:, column], equal[:, column])
        telling[:, column] = before[:, column] != mode
        coincidence += np.where(telling[:, column], expected, 0.0)
    counted = telling.sum(axis=1)
    if not counted.any():
        raise BadInput("every column of the original holds one value only: there is nothing to leak.")
    leaked = (equal & telling).sum(axis=1)
    total, count = int(counted.sum()), int(leaked.sum())
    return Finding(
        attack="exact values",
        threat="sees the release and asks which of its values are the original's own",
        measure="share of telling values released exactly",
        value=count / total,
        chance=float(coincidence.sum()) / total,
        interval=_clustered(leaked, counted, confidence),
        confidence=confidence,
        numbers={
            "leaked": float(count),
            "telling_values": float(total),
            "records_with_a_leak": float(np.count_nonzero(leaked)),
            "share_of_all_values": float(equal.mean()),
        },
        note="a value is telling where it differs from its column's most frequent one",
    )


def exact_value_game(
    original: ArrayLike,
    released: ArrayLike,
    *,
    delta: float,
    at_epsilon: float = 0.0,
    never: bool = False,
    unit: str = "record",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """Bound ε at ``delta`` and δ at ``at_epsilon`` from below by values that are the original's own.

    For a release made row by row, each row being one ``unit``. ``never`` says it is proven that no released
    row equals another record in a value that its own does not have: the bound on δ then holds at every ε, and
    that on ε is left out, since none is finite. Under neighbours two steps of which make one replacement,
    what holds of a step gives (2ε, (1 + e^ε)·δ) for the game, and the bounds are those of a step.
    """
    before, after = _as_released(original, released)
    rng = np.random.default_rng(seed)
    own = draw_pairs(before, law=None, rng=rng)
    own = np.concatenate([own, own[:, ::-1]])
    record, other, row = before[own[:, 0]], before[own[:, 1]], after[own[:, 0]]
    apart = record != other
    hits = int(np.count_nonzero(((row == record) & apart).any(axis=1)))
    misled = int(np.count_nonzero(((row == other) & apart).any(axis=1)))
    total, each = len(own), failure_chance(confidence) / 2.0
    low = 1.0 - chernoff_upper(total - hits, total, each)
    high = 0.0 if never else chernoff_upper(misled, total, each)
    steps = 1 if Neighbours(neighbours) is Neighbours.REPLACE else 2
    said = [ROW_BY_ROW] + ([f"two steps under {neighbours} make one replacement"] if steps == 2 else [])
    return Finding.of_count(
        "exact-value game",
        "knows both records of each pair and looks in a row for values that only one of them has",
        "share of rows with a value of their own record",
        hits,
        total,
        confidence,
        chance=misled / total,
        epsilon_lower=None if never else _epsilon(low, high, delta, steps),
        delta=None if never else delta,
        unit=unit,
        neighbours=str(Neighbours(neighbours)),
        numbers={"rows": float(total), "own": float(hits), "other": float(misled), "p": low, "q": high},
        note="; ".join(said),
        delta_lower=_delta(low, high, at_epsilon, steps),
        at_epsilon=None if never else at_epsilon,
    )


def _as_released(original: ArrayLike, released: ArrayLike) -> tuple[Floats, Floats]:
    """Return both tables; the originals in single precision if the release is."""
    before, after = corresponding(original, released)
    if rows_of(released, "release").dtype == np.float32:
        before = before.astype(np.float32).astype(np.float64)
    return before, after


def _epsilon(low: float, high: float, delta: float, steps: int) -> float:
    """The largest ε with p − e^{kε}·q ≥ δ·(1 + … + e^{(k−1)ε}) for k steps; 0 where there is none."""
    if steps == 1:
        odds = (low - delta) / high
    else:
        odds = (math.sqrt(delta**2 + 4.0 * high * max(low - delta, 0.0)) - delta) / (2.0 * high)
    return math.log(max(odds, 1.0))


def _delta(low: float, high: float, epsilon: float, steps: int) -> float:
    """(p − e^{kε}·q)/(1 + … + e^{(k−1)ε}), or 0."""
    factor = math.exp(min(epsilon, 300.0))
    return max(0.0, (low - factor**steps * high) / (1.0 if steps == 1 else 1.0 + factor))


def _column(before: Floats, after: Floats, equal: NDArray[np.bool_]) -> tuple[float, Floats]:
    """The most frequent original value, and the share of other rows that release each row's own value."""
    values, counts = np.unique(before, return_counts=True)
    ordered = np.sort(after)
    found = np.searchsorted(ordered, before, side="right") - np.searchsorted(ordered, before, side="left")
    return float(values[np.argmax(counts)]), (found - equal) / (len(before) - 1)


def _clustered(
    leaked: NDArray[np.integer], counted: NDArray[np.integer], confidence: float
) -> tuple[float, float]:
    """An interval for Σ leaked / Σ counted in which rows, not values, are independent.

    Where no row or every row leaks all there is, the normal interval has no width and the exact one for
    the share of such rows stands in.
    """
    total = int(counted.sum())
    value = int(leaked.sum()) / total
    if value in (0.0, 1.0):
        return interval(int(value) * leaked.size, leaked.size, confidence)
    spread = float(((leaked - value * counted) ** 2).sum()) * leaked.size / (leaked.size - 1)
    reach = -float(ndtri(failure_chance(confidence) / 2.0)) * math.sqrt(spread) / total
    return max(0.0, value - reach), min(1.0, value + reach)


def shared_noise(
    original: ArrayLike, first: ArrayLike, second: ArrayLike, *, confidence: float = 0.99
) -> Finding:
    """Test whether two releases of ``original`` share noise, and return what their best mix leaves of it.

    The value is the deviation of the noise that the best mix of both leaves, as a share of the less noisy
    one's, and chance is what independent noises would leave. 0 means that the table is given away. Nested
    tiers share noise by design: there the noisier release is the other one plus fresh noise,
    ``numbers["nested"]`` is 1, and the value is 1, for the mix tells no more than the better release alone.
    ``numbers["alarm"]`` is 1 where the test finds shared noise, at most once in 10⁶ in vain.
    """
    e, f = _noise(original, first), _noise(original, second)
    limit = _limit(_FALSE_ALARM, len(e))
    test = _Test(e, f)
    alarm = abs(test.statistic) > limit
    quiet, loud = (e, f) if test.variances[0] <= test.variances[1] else (f, e)
    nested = alarm and abs(_Test(quiet, loud - quiet).statistic) <= limit
    note = "the noises were not drawn independently" if alarm else "no shared noise was found"
    if nested:
        note = "the noisier release is the other plus fresh noise, as in nested tiers: it tells nothing more"
    value, reach = test.noise_left(test.correlation), test.reach(confidence)
    possible = np.linspace(max(test.correlation - reach, -1.0), min(test.correlation + reach, 1.0), 101)
    left = [value, *(test.noise_left(float(correlation)) for correlation in possible)]
    return Finding(
        attack="shared noise",
        threat="has the originals and sees both releases",
        measure="noise left in a mix",
        value=value,
        chance=test.noise_left(0.0),
        interval=(min(left), max(left)),
        confidence=confidence,
        higher_is_worse=False,
        numbers=test.numbers(limit) | {"nested": float(nested)},
        note=note,
    )


def noise_across_rows(
    original: ArrayLike, released: ArrayLike, *, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Test whether rows of one release share noise, so that their differences are released without any.

    Rows are compared in pairs, drawn at random and at distances of 1, 2, 4, … rows, where a generator that
    restarts with every block would repeat itself. The strongest of these tests is reported; together they
    raise a false alarm at most once in 10⁶.
    """
    e = _noise(original, released)
    order = np.random.default_rng(seed).permutation(len(e))
    pairs = [order[: len(e) // 2 * 2].reshape(2, -1)]
    for power in range((len(e) // 2).bit_length()):
        rows = np.arange(len(e) - (1 << power))
        rows = rows[(rows >> power) % 2 == 0]
        pairs.append(np.stack([rows, rows + (1 << power)]))
    limit = _limit(_FALSE_ALARM / len(pairs), len(e) // 2)
    best = max((_Test(e[own], e[its]) for own, its in pairs), key=lambda test: abs(test.statistic))
    alarm = abs(best.statistic) > limit
    # The strongest of several correlations is reported, so each interval must hold for all.
    reach = best.reach(1.0 - failure_chance(confidence) / len(pairs))
    size = abs(best.correlation)
    return Finding(
        attack="noise shared by rows",
        threat="has the originals and sees the release",
        measure="correlation of noises",
        value=size,
        chance=0.0,
        interval=(max(0.0, size - reach), min(1.0, size + reach)),
        confidence=confidence,
        numbers=best.numbers(limit),
        note="rows share noise, so their differences are bare"
        if alarm
        else "no noise shared by rows was found",
    )


def _noise(original: ArrayLike, released: ArrayLike) -> Floats:
    """Return what a release adds to the records, without its component along each record."""
    before, after = corresponding(original, released)
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
    """Return the threshold of the test, which no number of ``rows`` below its square could reach."""
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

    def numbers(self, limit: float) -> dict[str, float]:
        """Return the test's numbers for a finding."""
        return {
            "alarm": float(abs(self.statistic) > limit),
            "threshold": limit,
            "false_alarm": _FALSE_ALARM,
            "correlation": self.correlation,
            "statistic": self.statistic,
        }

    @property
    def correlation(self) -> float:
        """Return the correlation of the noises, from −1 to 1."""
        size = math.sqrt(self.variances[0]) * math.sqrt(self.variances[1])
        return float(np.clip(float(self.products.sum()) / size, -1.0, 1.0))

    def reach(self, confidence: float) -> float:
        """Return half the width of the correlation's interval: normal, by its influence function on rows."""
        one, two = self.variances
        own = self.squares[0] / one + self.squares[1] / two
        influence = self.products / math.sqrt(one * two) - self.correlation / 2.0 * own
        return -float(ndtri(failure_chance(confidence) / 2.0)) * float(np.linalg.norm(influence))

    def noise_left(self, correlation: float) -> float:
        """Return the deviation of the best unbiased mix, over that of the less noisy release."""
        low, high = sorted(math.sqrt(variance) for variance in self.variances)
        ratio = high / low
        apart = 1.0 + ratio**2 - 2.0 * correlation * ratio
        # Equal noises at one scale: mixing changes nothing.
        return math.sqrt((1.0 - correlation**2) / apart) * ratio if apart > 1e-12 * ratio**2 else 1.0


def averaging_attack(
    original: ArrayLike, releases: Sequence[ArrayLike], *, confidence: float = 0.99
) -> Finding:
    """Return the normalised error ‖x̂ − x‖/‖x‖ of the mean over two or more ``releases`` of the same records.

    The mean squared error of a value after k releases is a + b/k: ``numbers["falling"]`` is b, the variance
    of the noise that is fresh in each release, ``numbers["staying"]`` is a, the shared noise and the bias of
    clipping, which no averaging removes. ``identical`` is 1 where all releases are the same, and
    ``error_of_one`` is the normalised error of the first release alone.
    """
    count = len(releases)
    if count < 2:
        raise BadInput(f"averaging needs at least two releases of the same records, not {count}.")
    before, first = corresponding(original, releases[0])
    # Errors are averaged rather than released values, so that the originals drop out exactly.
    errors = [corresponding(original, release)[1] - before for release in releases]
    mean = np.mean(errors, axis=0)
    identical = all(np.array_equal(error, errors[0]) for error in errors)
    alone, together = float(np.mean(np.square(errors))), float(np.mean(np.square(mean)))
    # The mean of the errors and their spread add up to what they are alone.
    falling = 0.0 if identical else (alone - together) * count / (count - 1)
    blind = before.mean(axis=0)
    found = error_finding(
        "averaging",
        f"sees {count} releases of the same records and takes their mean",
        before,
        before + mean,
        blind,
        confidence,
        "the releases are identical: averaging gains nothing and nothing more is owed"
        if identical
        else "the error falls with every further release: each must be paid for",
    )
    numbers = {
        "falling": falling,
        "staying": alone - falling,
        "identical": float(identical),
        "error_of_one": error_finding("", "", before, first, blind, confidence).value,
        "releases": float(count),
    }
    return replace(found, numbers=dict(found.numbers) | numbers)
