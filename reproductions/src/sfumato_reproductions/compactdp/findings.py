"""What the tables say, in sentences; their numbers were computed in this run or are the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato_reproductions.compactdp.cells import by_line, percent, seeds_that_found, thousandths
from sfumato_reproductions.compactdp.comparing import Difference
from sfumato_reproductions.compactdp.measured import Measured
from sfumato_reproductions.compactdp.methods import (
    CERTIFIED,
    COMBINED,
    COMPACT,
    DP_SGD,
    NON_PRIVATE,
    PAPER_NOISE,
)
from sfumato_reproductions.compactdp.pool import Source
from sfumato_reproductions.compactdp.published import FIGURE_13, TABLES, TEXT
from sfumato_reproductions.compactdp.results import Measures, Results, spread
from sfumato_reproductions.multimedia_dp.part import proven_epsilon

__all__ = ["Verdict", "says", "scale_says", "verdicts"]

#: A sentence, and whether the paper's claim that it is about holds in this run; None where seeds do not tell.
Verdict = tuple[bool | None, str]

# The paper's accuracies with and without its method are at most this many points apart.
_POINTS = 1.2
# Its accuracies over ε from 0.1 to 8 are closer than this.
_FLAT = 0.5


# How a lower bound stands to a proven ε.
_NEIGHBOURS = (
    " The bounds are for neighbours that add or remove a record, the proofs for zero-out, where a null "
    "record takes its place: both change every sum by the same one term, but adding or removing also changes "
    "the number of records, which zero-out takes as public and which sets the size of steps here. A bound "
    "below a proven ε contradicts nothing; one above it would refute the proof unless that number gave it "
    "away."
)


def verdicts(results: Results) -> Iterator[Verdict]:
    """Whether what the paper's tables show of its own method is so here, claim by claim."""
    for source, rows in results.rows.items():
        if COMPACT not in rows or not source.attacked:
            continue
        yield from _accuracy(source, rows)
        if DP_SGD[1.0] in rows:
            yield _membership(source, rows)
        if COMBINED[1.0] in rows:
            yield from _second_stage(source, rows)
            yield from _flatness(source, rows)


def _accuracy(source: Source, rows: Measures) -> Iterator[Verdict]:
    """Against the row without privacy, and against DP-SGD."""
    own = rows[COMPACT]
    claims: tuple[tuple[str, float, dict[bool | None, str]], ...] = (
        (
            NON_PRIVATE,
            -_POINTS,
            {
                True: f"a loss of more than {_POINTS:g} points, which the paper never has, is excluded",
                False: f"more than {_POINTS:g} points are lost, which the paper never does",
                None: f"the runs do not tell whether more than {_POINTS:g} points are lost",
            },
        ),
        (
            DP_SGD[1.0],
            0.0,
            {
                True: "it is more accurate, as the paper says",
                False: "it is less accurate, and not more, as the paper says",
                None: "the runs do not tell them apart",
            },
        ),
    )
    for rival, least, said in claims:
        if rival in rows:
            points = Difference.of(own, rows[rival], lambda made: 100.0 * made.accuracy)
            held = points.exceeds(least)
            yield (
                held,
                f"{source}: CompactDP, {percent(spread(own, _accuracy_of))}%, is {_apart(points.value)} "
                f"{rival}, {percent(spread(rows[rival], _accuracy_of))}%: {said[held]}{_doubt(points)}.",
            )


def _apart(points: float) -> str:
    return f"{abs(points):.2f} points {'above' if points >= 0.0 else 'below'}"


def _doubt(difference: Difference, digits: int = 2) -> str:
    if not math.isfinite(difference.error):
        return " (one seed)"
    return f" (twice the standard error of the difference is {difference.doubt:.{digits}f})"


def _membership(source: Source, rows: Measures) -> Verdict:
    own, other = rows[COMPACT], rows[DP_SGD[1.0]]
    difference = Difference.of(own, other, lambda made: made.auc)
    larger = difference.exceeds()
    if larger and 2 * sum(made.found for made in own) <= len(own):
        larger = None  # of most seeds no attack found anything
    reads = [
        made.stored.names if made.stored is not None else False for seeds in (own, other) for made in seeds
    ]
    if all(reads[: len(own)]) and not any(reads[len(own) :]):
        return (
            False,
            f"{source}: whoever reads the model of CompactDP finds {own[0].stored} in it as they are (first "
            f"seed), and in that of DP-SGD at ε = 1 {other[0].stored}: its membership risk is larger, not "
            f"comparable, whatever attacks by answers find (largest AUC "
            f"{spread(own, lambda made: made.auc).shown()} against "
            f"{spread(other, lambda made: made.auc).shown()}).",
        )
    said = {
        True: "its membership risk is larger, not comparable",
        False: "its membership risk is no larger, by these attacks, which is no guarantee",
        None: "the runs do not tell their membership risks apart, which is no guarantee",
    }
    return (
        None if larger is None else not larger,
        f"{source}: against CompactDP an attack found something in {seeds_that_found(own)} seeds (largest "
        f"AUC {spread(own, lambda made: made.auc).shown()}), against DP-SGD at ε = 1 in "
        f"{seeds_that_found(other)} ({spread(other, lambda made: made.auc).shown()}): {said[larger]}"
        f"{_doubt(difference, 4)}.",
    )


def _second_stage(source: Source, rows: Measures) -> Iterator[Verdict]:
    proven = [rows[name][0].proven for name in COMBINED.values() if name in rows]
    sound = [one for one in proven if math.isfinite(one.epsilon)]
    yield (
        bool(sound),
        f"{source}: “rigorous privacy guarantees” of CompactDP with DP-SGD: of {len(sound)} of {len(proven)} "
        f"budgets something is proven; {proven[0].theorem}.",
    )
    for epsilon, name in [*COMBINED.items(), (1.0, PAPER_NOISE)]:
        bound = _bound(rows[name]) if name in rows else 0.0
        if bound > epsilon:
            yield (
                False,
                f"{source}: the ε that “{name}” is named by is not its ε: the coins bound that from below by "
                f"{bound:.3g}, for this row with 95% confidence.",
            )
    if PAPER_NOISE in rows:
        made = rows[PAPER_NOISE]
        head = max(one.head or 0.0 for one in made)
        eta = spread(made, lambda one: one.eta or 0.0)
        yield (
            head <= 1.0,
            f"{source}: σ = ησ₁ with η = {eta.shown(3)}, the largest of a class, is no ε = 1: for a head on "
            f"features fixed beforehand it would be ε = {proven_epsilon(head)}, and here it proves nothing.",
        )


def _flatness(source: Source, rows: Measures) -> Iterator[Verdict]:
    """Table 3 and appendix P: accuracy does not depend on ε, and why; all kinds over the same ε, in order."""
    kinds = {"CompactDP + DP-SGD": COMBINED, "DP-SGD": DP_SGD, "certified contraction": CERTIFIED}
    kinds = {kind: names for kind, names in kinds.items() if sum(name in rows for name in names.values()) > 1}
    if "CompactDP + DP-SGD" not in kinds:
        return
    shared = sorted(
        epsilon for epsilon in COMBINED if all(names[epsilon] in rows for names in kinds.values())
    )
    if len(shared) < 2:
        return
    first, last = shared[0], shared[-1]
    ends = {
        kind: [100.0 * spread(rows[names[epsilon]], _accuracy_of).mean for epsilon in (first, last)]
        for kind, names in kinds.items()
    }
    own, *others = (f"{kind} goes from {low:.2f} to {high:.2f} percent" for kind, (low, high) in ends.items())
    step = Difference.of(rows[COMBINED[last]], rows[COMBINED[first]], lambda made: 100.0 * made.accuracy)
    steeper = Difference(abs(step.value), step.error).exceeds(_FLAT)
    said = {
        False: f"flat within {_FLAT:g} points",
        True: f"not flat within {_FLAT:g} points as the paper's",
        None: f"the runs do not tell whether that is within {_FLAT:g} points, as the paper's is",
    }
    paying = "".join(f"; {other}, and pays for all that it learns" for other in others)
    yield (
        None if steeper is None else not steeper,
        f"{source}: from ε = {first:g} to {last:g} the accuracy of {own}, "
        f"{said[steeper]}{_doubt(step)}{paying}. The first stage saw every record and label without noise: "
        f"without any head, and any noise, CompactDP has {percent(spread(rows[COMPACT], _accuracy_of))}.",
    )


def says(results: Results) -> Iterator[str]:
    """What is proven, what attacks convert to where nothing is, and whether bounds contradict proofs."""
    for source, rows in results.rows.items():
        if not source.attacked:
            continue
        yield from _conversions(source, rows, results.lines.get(source, ()))
        yield from _proven(source, rows)


def _conversions(source: Source, rows: Measures, line: tuple[tuple[float, float], ...]) -> Iterator[str]:
    told = []
    for name in (NON_PRIVATE, COMPACT):
        if name in rows:
            made = rows[name][0]
            kinds = made.strongest.heuristics
            values = {
                "advantage": kinds.advantage.value,
                "TPR/FPR": kinds.rates.value,
                "AUC": by_line(made.auc, line),
            }
            listed = ", ".join(
                f"{thousandths(value)} by {kind}" for kind, value in values.items() if value is not None
            )
            told.append(f"{name}: {listed}")
    if told:
        text, printed = TEXT[2, "epsilon"], TABLES[2]["CompactDP"].epsilon
        yield (
            f"{source}: the paper's conversions give an *empirical ε* of ({'; '.join(told)}), first seed. "
            "Neither row has any noise and nothing is proven of either: small numbers are evidence of weak "
            f"attacks. So are the paper's {text:g}, {printed:g} and {FIGURE_13:g}."
        )


def _proven(source: Source, rows: Measures) -> Iterator[str]:
    sound = {name: seeds for name, seeds in rows.items() if math.isfinite(seeds[0].proven.epsilon)}
    bounds = {name: _bound(seeds) for name, seeds in rows.items()}
    broken = [name for name, seeds in sound.items() if bounds[name] > seeds[0].proven.epsilon]
    most = max(bounds, key=lambda name: bounds[name])
    if COMPACT in rows and COMPACT not in sound:
        eta = spread(rows[COMPACT], lambda made: made.eta or 0.0)
        yield (
            f"{source}: contraction alone, here by η = {eta.shown(3)} in its widest class, proves nothing: "
            f"{rows[COMPACT][0].proven.theorem}."
        )
    yield (
        f"{source}: something is proven of {len(sound)} of {len(rows)} rows. The coins bound ε from below by "
        f"at most {bounds[most]:.3g} ({most}); "
        + (f"above what is proven of {', '.join(broken)}." if broken else "no bound is above what is proven.")
        + _NEIGHBOURS
    )
    pairs = [
        (epsilon, spread(rows[CERTIFIED[epsilon]], _accuracy_of), spread(rows[DP_SGD[epsilon]], _accuracy_of))
        for epsilon in CERTIFIED
        if CERTIFIED[epsilon] in rows and DP_SGD[epsilon] in rows
    ]
    if pairs:
        listed = "; ".join(
            f"ε = {epsilon:g}: {percent(certified)}% against {percent(plain)}%"
            for epsilon, certified, plain in pairs
        )
        yield f"{source}: certified contraction against DP-SGD on raw features, both proven: {listed}."


def _bound(seeds: Sequence[Measured]) -> float:
    """The largest lower bound on ε by the coins of any seed, corrected for there being several."""
    return max(made.one_run.bound(len(seeds)) for made in seeds if made.one_run is not None)


def _accuracy_of(made: Any) -> float:
    return float(made.accuracy)


def scale_says(scales: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Which learners a contraction by a constant was tried on, with which attacks, and what it did."""
    if not scales:
        return
    first = next(iter(scales.values()))
    attacks, probabilities = (
        max(scales, key=lambda name: scales[name][number]) for number in ("attack", "predictions")
    )
    yield (
        f"{len(scales)} learners ({'; '.join(scales)}) were each trained on {first['records']:,} records and "
        f"on {first['scale']:g} times the same, and met by the {len(first['attacks'])} attacks and measures "
        f"of the standard audit: {', '.join(first['attacks'])}. The largest difference of any number of any "
        f"of these is {scales[attacks]['attack']:.2g} ({attacks}), that of a probability "
        f"{scales[probabilities]['predictions']:.2g} ({probabilities}). DPAdam, Autoclip and DPA, whose "
        "steps have a fixed size, and the head without noise were not tried."
    )
    for name, check in scales.items():
        yield f"{name}: {check['sentence']}"
