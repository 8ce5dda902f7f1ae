"""What figures 1 and 2 say, in sentences; every number in them was computed in this run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from sfumato_reproductions.tldp.comparison import Row
from sfumato_reproductions.tldp.points import UNITS, Point
from sfumato_reproductions.tldp.promise import DELTA
from sfumato_reproductions.tldp.response import composed_epsilon
from sfumato_reproductions.tldp.settings import CLEAN, SAME_NOISE, WHOLE, Setting
from sfumato_reproductions.tldp.sweep import Results
from sfumato_reproductions.tldp.tables import shown

__all__ = ["fails", "holds", "says"]


def holds(results: Results) -> Iterator[str]:
    """What the paper's plots show and ours show too, at claimed ε."""
    for figure in results.figures:
        for data in results.run.data:
            means = {
                kind: [results.mean(figure, data, Setting(kind, epsilon)) for epsilon in results.run.epsilons]
                for kind in ("TLDP-L", "TLDP-G", *WHOLE)
            }
            clean = results.mean(figure, data, Setting(CLEAN))
            whole = [score for kind in WHOLE for score in means[kind]]
            ahead = sum(g >= laplace for g, laplace in zip(means["TLDP-G"], means["TLDP-L"], strict=True))
            yield (
                f"Figure {figure}, {data}, at the same claimed ε: the whole-tensor baselines reach an F1 of "
                f"{min(whole):.2f} to {max(whole):.2f}, TLDP-L rises to {max(means['TLDP-L']):.3f} and "
                f"TLDP-G to {max(means['TLDP-G']):.3f}; {clean:.3f} is reached "
                f"without noise. TLDP-G is at or above TLDP-L at {ahead} of {len(results.run.epsilons)} ε."
            )


def fails(results: Results, made: Sequence[Row]) -> Iterator[str]:
    """What is left of the advantage at equal proven (ε, δ)."""
    for figure in results.figures:
        for data in results.run.data:
            mine = [row for row in made if (row.point.figure, row.point.data) == (figure, data)]
            for unit in UNITS:
                here = [row for row in mine if row.point.unit == unit]
                yield f"Figure {figure}, {data}: " + _counted(here, unit)


def says(results: Results, made: Sequence[Row]) -> Iterator[str]:
    """What else was measured."""
    for figure in results.figures:
        for data in results.run.data:
            yield f"Figure {figure}, {data}: " + _leak(results, figure, data)
            if figure == 1:
                yield f"Figure {figure}, {data}: " + _withheld(results, data)
    ahead = sum(row.macro >= 0.0 for row in made)
    apart = max(abs(row.macro - row.difference) for row in made)
    yield (
        f"With macro F1, every class counted alike, the sound mechanism is at or above TLDP at {ahead} of "
        f"{len(made)} points of all plots and units (weighted, as in the paper: "
        f"{sum(row.at_or_above for row in made)}); no difference changes by more than {apart:.3f}."
    )
    if 1 in results.figures:
        yield from (_read_higher(results, data) for data in results.run.data)


def _counted(rows: Sequence[Row], unit: str) -> str:
    ahead = [row for row in rows if row.at_or_above]
    least = min(rows, key=lambda row: row.difference)
    most = max(rows, key=lambda row: row.difference)
    where = {
        "component": "at the same proven (ε, δ) for a component",
        "tensor": "at the same proven (ε, δ) for a tensor",
        "both": "with no more than TLDP's proven (ε, δ) for a component and for a tensor at once",
    }[unit]
    return (
        f"{where} the sound mechanism is at or above TLDP in F1 at {len(ahead)} of {len(rows)} points; the "
        f"difference lies between {_difference(least)} and {_difference(most)}."
    )


def _difference(row: Row) -> str:
    error = "" if row.standard_error is None else f" ± {row.standard_error:.3f}"
    text = f"{row.difference:+.3f}".replace("-", "−")
    return f"{text}{error} ({row.point.tldp.kind}, claimed ε = {row.point.tldp.epsilon:g})"


def _leak(results: Results, figure: int, data: str) -> str:
    gains = [
        results.mean(figure, data, Setting("TLDP-L", epsilon))
        - results.mean(figure, data, Setting(SAME_NOISE, epsilon))
        for epsilon in results.run.epsilons
    ]
    text = (
        "what TLDP-L keeps changes F1, against the same noise on every component and none kept, by "
        f"{statistics.fmean(gains):+.3f} on average and by {min(gains):+.3f} to {max(gains):+.3f} at one ε."
    )
    return text.replace("-0.", "−0.")


def _withheld(results: Results, data: str) -> str:
    parts = []
    for epsilon in results.run.epsilons:
        point = Point(1, data, Setting("TLDP-L", epsilon), "tensor")
        setting = point.shown()
        first, own = results.mean(1, data, setting), results.mean(1, data, point.tldp)
        parts.append(f"{first:.2f} against {own:.2f} (δ = {shown(setting.delta)})")
    return (
        "how little a δ of that size promises: to show each picture as it is with probability δ, and to "
        "withhold it otherwise, is (0, δ)-LDP for a tensor; at TLDP-L's δ that gives an F1 of "
        f"{'; '.join(parts)}. It is not counted as sound above."
    )


def _read_higher(results: Results, data: str) -> str:
    """TLDP-L at a slightly larger δ than its own, where its noise may be composed."""
    epsilon = results.run.epsilons[0]
    point = Point(1, data, Setting("TLDP-L", epsilon), "tensor")
    (promise,) = point.promises
    composed = composed_epsilon(epsilon, math.prod(point.shape), DELTA)
    larger = promise.delta + (1.0 - promise.delta) * DELTA
    return (
        f"{data}: the ε of TLDP-L for a tensor is so large because its own δ leaves none for composition: at "
        f"claimed ε = {epsilon:g} it is {shown(promise.epsilon)}, and {shown(composed)} at "
        f"δ = {shown(larger)}. A mechanism of *both* spends TLDP-L's ε on each component or less, so it "
        f"composes to that ε too, at a δ of {DELTA:g} instead."
    )
