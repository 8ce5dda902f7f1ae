"""What the tables say, in sentences; their numbers were computed in this run or are the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from sfumato_reproductions.curvature_publication.candidates import AS_THE_PAPER, CONFIDENCE, MATCHED
from sfumato_reproductions.curvature_publication.cells import percent, success_cell
from sfumato_reproductions.curvature_publication.measured import Measured
from sfumato_reproductions.curvature_publication.membership import ART, LOSS, NEAREST, TAIL
from sfumato_reproductions.curvature_publication.methods import (
    CURVATURE,
    K_ANONYMITY,
    METHODS,
    ORIGINAL,
    VAEGAN,
)
from sfumato_reproductions.curvature_publication.published import (
    OURS,
    STRATEGIES,
    TABLE_1,
    attacked_records,
    close_seconds,
    rates,
)
from sfumato_reproductions.curvature_publication.results import Results, mean, pooled
from sfumato_reproductions.multimedia_dp.part import proven_epsilon
from sfumato_reproductions.proportions import interval

__all__ = ["Verdict", "says", "strategy_verdicts", "verdicts"]

#: A sentence, and whether the paper's claim that it is about holds in this run.
Verdict = tuple[bool, str]

# The number of attacked records that the paper's printed rates point to.
_PAPER_RECORDS = 1152
# One data set leaks clearly more than another if chance alone would show as much less often than this.
_CLEARLY = 1e-4


def verdicts(results: Results) -> Iterator[Verdict]:
    """Whether what the paper's table 1 shows of its own method is so here, claim by claim."""
    for data, rows in results.methods.items():
        if CURVATURE not in rows:
            continue
        others = [name for name in rows if METHODS[name].printed not in (None, OURS) and name != ORIGINAL]
        yield from _membership(results, data, others)
        accuracy = {name: mean(seeds, lambda made: made.accuracy) for name, seeds in rows.items()}
        for rival in (K_ANONYMITY, VAEGAN):
            if rival in rows:
                better = accuracy[CURVATURE] > accuracy[rival]
                word = "above" if better else "not above"
                yield (
                    _agrees(data, rival, better),
                    f"{data}, accuracy: curvature, {percent(accuracy[CURVATURE])}, is {word} {rival}, "
                    f"{percent(accuracy[rival])}{_paper(data, rival, 'accuracy')}.",
                )
        distance = {name: mean(rows[name], lambda made: made.frechet or 0.0) for name in [CURVATURE, *others]}
        lowest = min(distance, key=lambda name: distance[name])
        yield (
            lowest == CURVATURE,
            f"{data}, Fréchet distance: the lowest of the paper's methods is {lowest}, "
            f"{distance[lowest]:.3g}; curvature has {distance[CURVATURE]:.3g} (the paper: its own, by FID).",
        )


def _membership(results: Results, data: str, others: Sequence[str]) -> Iterator[Verdict]:
    """The order of membership under both protocols."""
    for attack in (f"{ART}, {AS_THE_PAPER}", f"{LOSS}, {MATCHED}", f"{LOSS}, {MATCHED}, {TAIL}"):
        own, original = (results.success(data, name, attack) for name in (CURVATURE, ORIGINAL))
        if own is None or original is None:
            continue
        found = {name: results.success(data, name, attack) for name in others}
        below = [name for name, other in found.items() if other is not None and other.rate < own.rate]
        least = "the lowest of the paper's methods" if not below else f"above {', '.join(below)}"
        apart, why = original.interval[0] > own.interval[1], ""
        if attack == f"{LOSS}, {MATCHED}":
            more, less, chance = results.leaks_more(data, ORIGINAL, CURVATURE)
            apart = chance < _CLEARLY
            why = (
                f" ({more:,} records are given away by the original alone and {less:,} by curvature alone, "
                f"sign test p = {chance:.1g})"
            )
        yield (
            not below and apart,
            f"{data}, membership by {attack}: curvature {success_cell(own)}, {least}; the original "
            f"{success_cell(original)}, {'clearly more' if apart else 'not clearly more'}{why}.",
        )


def _agrees(data: str, rival: str, better: bool) -> bool:
    """Whether the paper has the same order of accuracy; where it has none, whether ours is the better."""
    printed = TABLE_1.get(data)
    if printed is None:
        return better
    return better == (printed[OURS].accuracy > printed[METHODS[rival].printed or ""].accuracy)


def _paper(data: str, rival: str, what: str) -> str:
    printed = TABLE_1.get(data)
    if printed is None:
        return ""
    own, other = (getattr(printed[name], what) for name in (OURS, METHODS[rival].printed or ""))
    return f" (the paper: {own:.2f}% and {other:.2f}%)"


def strategy_verdicts(results: Results) -> Iterator[Verdict]:
    """Whether table 2's orders hold: ours leaks least, is the most accurate, and has the least distance."""
    measures: tuple[tuple[str, Callable[[Measured], float], Callable[[float], str], str], ...] = (
        ("accuracy", lambda made: -made.accuracy, lambda value: percent(-value), "the most accurate"),
        ("Fréchet distance", lambda made: made.frechet or 0.0, lambda value: f"{value:.3g}", "the nearest"),
    )
    for data, rows in results.strategies.items():
        for title, what, shown, word in measures:
            values = {name: mean(seeds, what) for name, seeds in rows.items() if name in STRATEGIES}
            first = min(values, key=lambda strategy: values[strategy])
            listed = ", ".join(f"{strategy} {shown(value)}" for strategy, value in values.items())
            yield first == "lowest", f"{data}, strategies, {title}: {listed}; {word} is {first}."
        attack = f"{LOSS}, {MATCHED}"
        found = {name: pooled(seeds, attack) for name, seeds in rows.items() if name in STRATEGIES}
        told = {strategy: success.rate for strategy, success in found.items() if success is not None}
        least = min(told, key=lambda strategy: (told[strategy], strategy != "lowest"))
        listed = ", ".join(f"{strategy} {success_cell(success)}" for strategy, success in found.items())
        paper = ", ".join(f"{strategy} {row.membership:.2f}%" for strategy, row in STRATEGIES.items())
        yield (
            least == "lowest",
            f"{data}, strategies, membership by {attack}: {listed}; the lowest rate is that of {least} "
            f"(the paper, on MNIST: {paper}).",
        )


def says(results: Results) -> Iterator[str]:
    """What the label alone explains, what the published pictures themselves give away, what is proven."""
    for data, rows in results.methods.items():
        alone = results.counted[data].label_alone
        yield _label_alone(results, data, alone)
        direct = {
            name: pooled(seeds, f"{NEAREST}, {MATCHED}") for name, seeds in rows.items() if name != ORIGINAL
        }
        told = sorted(
            ((success.rate, name) for name, success in direct.items() if success is not None), reverse=True
        )
        if told:
            listed = ", ".join(f"{name} {percent(rate)}" for rate, name in told)
            yield (
                f"{data}: the paper attacks the classifier alone. Whoever holds the published pictures needs "
                f"none: by the nearest of them, class-matched, membership is told in {listed}."
            )
        proven = [(name, seeds) for name, seeds in rows.items() if math.isfinite(seeds[0].proven.epsilon)]
        if proven:
            listed = "; ".join(
                f"{name}: ε = {proven_epsilon(seeds[0].proven.epsilon)} ({seeds[0].proven.neighbours}), "
                f"accuracy {percent(mean(seeds, lambda made: made.accuracy))}"
                for name, seeds in proven
            )
            yield f"{data}: something is proven of {len(proven)} of {len(rows)} rows: {listed}."
    hits, chance = attacked_records(_PAPER_RECORDS)
    low, high = interval(round(0.53 * _PAPER_RECORDS), _PAPER_RECORDS, CONFIDENCE)
    close, blocks = close_seconds(50.0 * (high - low))
    yield (
        f"{hits} of the paper's {len(list(rates()))} membership rates are, as printed, whole numbers out of "
        f"{_PAPER_RECORDS:,} (by chance {chance:.0f} would be; of all numbers from 100 to 3,000 this "
        "one stands out most), so that each seems to be measured on "
        f"that many records: the {CONFIDENCE:.0%} interval of a rate of 53% is then {percent(low)} to "
        f"{percent(high)}. In {close} of its {blocks} data sets its own rate and the lowest other one "
        "are nearer to each other than half of that."
    )


def _label_alone(results: Results, data: str, alone: float) -> str:
    text = (
        f"{data}: members come from imbalanced and non-members from balanced classes, so the label alone, "
        f"without any model, tells membership in {percent(alone)}"
    )
    if data in TABLE_1:
        printed = TABLE_1[data]
        more = [name for name, row in printed.items() if row.membership > 100.0 * alone]
        text += (
            f"; the paper's original has {printed['Original'].membership:.2f}%, "
            f"and above the label alone are {', '.join(more) if more else 'none'} of its rows"
        )
    attack = f"{ART}, {AS_THE_PAPER}"
    found = [
        success.rate
        for name in results.methods[data]
        if (success := results.success(data, name, attack)) is not None
    ]
    if found:
        text += (
            f". Our rows of ART, which sees the label, lie between {percent(min(found))} and "
            f"{percent(max(found))}"
        )
    matched = (
        results.success(data, ORIGINAL, f"{LOSS}, {MATCHED}") if ORIGINAL in results.methods[data] else None
    )
    if matched is not None:
        text += f"; class-matched, what is left of the original is {success_cell(matched)}"
    return text + "."
