"""What the tables say, in sentences; their numbers were computed in this run or are the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.papers.compactdp.cells import by_line, percent, seeds_that_found, thousandths
from sfumato.papers.compactdp.measured import Measured
from sfumato.papers.compactdp.methods import (
    CERTIFIED,
    COMBINED,
    COMPACT,
    DP_SGD,
    NON_PRIVATE,
    PAPER_NOISE,
)
from sfumato.papers.compactdp.pool import Source
from sfumato.papers.compactdp.published import FIGURE_13, TABLES, TEXT
from sfumato.papers.compactdp.results import Measures, Results, spread
from sfumato.papers.multimedia_dp.part import proven_epsilon

__all__ = ["Verdict", "says", "scale_says", "verdicts"]

#: A sentence, and whether the paper's claim that it is about holds in this run.
Verdict = tuple[bool, str]

# The paper's accuracies with and without its method are at most this many points apart.
_POINTS = 1.2
# Its accuracies over ε from 0.1 to 8 are closer than this.
_FLAT = 0.5


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
    own = spread(rows[COMPACT], lambda made: made.accuracy)
    claims = (
        (NON_PRIVATE, _POINTS, f"at most {_POINTS:g} points below", f"more than {_POINTS:g} points below"),
        (DP_SGD[1.0], 0.0, "more accurate than", "not more accurate than"),
    )
    for rival, slack, so, otherwise in claims:
        if rival in rows:
            other = spread(rows[rival], lambda made: made.accuracy)
            held = 100.0 * (own.mean - other.mean) > -slack
            said = so if held else otherwise
            yield held, f"{source}: CompactDP, {percent(own)}%, is {said} {rival}, {percent(other)}%."


def _membership(source: Source, rows: Measures) -> Verdict:
    own, other = rows[COMPACT], rows[DP_SGD[1.0]]
    held = sum(made.found for made in own) <= sum(made.found for made in other)
    return (
        held,
        f"{source}: against CompactDP an attack found something in {seeds_that_found(own)} seeds (largest "
        f"AUC {spread(own, lambda made: made.auc).shown()}), against DP-SGD at ε = 1 in "
        f"{seeds_that_found(other)} ({spread(other, lambda made: made.auc).shown()}): its membership risk is "
        f"{'' if held else 'not '}comparable by these attacks, which is no guarantee.",
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
    """Appendix P: accuracy and AUC do not depend on ε, and why."""
    ranges = {}
    for kind, names in ((COMPACT, COMBINED), ("certified", CERTIFIED), ("DP-SGD", DP_SGD)):
        found = {
            epsilon: 100.0 * spread(rows[name], lambda made: made.accuracy).mean
            for epsilon, name in names.items()
            if name in rows
        }
        if len(found) > 2:
            ranges[kind] = found
    if COMPACT not in ranges:
        return
    flat = ranges.pop(COMPACT)
    above = [value for epsilon, value in flat.items() if epsilon >= 0.5]
    alone = 100.0 * spread(rows[COMPACT], lambda made: made.accuracy).mean
    others = "".join(
        f"; {kind}, which pays for all that it learns, goes from {min(found.values()):.2f} to "
        f"{max(found.values()):.2f}"
        for kind, found in ranges.items()
    )
    held = max(above) - min(above) <= _FLAT
    why = "flat, because the first stage saw every record and label without noise" if held else "not flat"
    yield (
        held,
        f"{source}: from ε = 0.5 to 8 the accuracy of CompactDP + DP-SGD goes from {min(above):.2f} to "
        f"{max(above):.2f} percent, {why}: without any head, and any noise, it is {alone:.2f}{others}.",
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


def scale_says(scales: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a contraction by a constant did to each learner."""
    return [f"{name}: {check['sentence']}" for name, check in scales.items()]
