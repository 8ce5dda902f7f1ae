"""Cells and columns of the tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from sfumato_reproductions.compactdp.attack import Attack, Range
from sfumato_reproductions.compactdp.measured import Measured
from sfumato_reproductions.compactdp.published import Printed
from sfumato_reproductions.compactdp.results import Spread, spread
from sfumato_reproductions.multimedia_dp.part import NONE, proven_epsilon

__all__ = [
    "APPENDIX_P_HEADS",
    "BESIDE",
    "DIFFERENCES",
    "HEURISTIC",
    "against_appendix_p",
    "beside",
    "by_line",
    "differences",
    "heuristic",
    "percent",
    "proven",
    "range_by_line",
    "seeds_that_found",
    "thousandths",
]

Seeds = tuple[Measured, ...]
Line = tuple[tuple[float, float], ...]

BESIDE = (
    "paper: accuracy",
    "accuracy",
    "paper: AUC",
    "AUC, the largest of six",
    "paper: TPR at 0.1% FPR",
    "TPR at 0.1% FPR",
    "paper: leakage",
    "leakage",
    "seeds in which an attack found anything",
    "records found by reading the model, first seed",
    "ε at least (one run, add/remove, 95%)",
    "proven ε",
)
HEURISTIC = (
    "paper: ε",
    "by advantage",
    "by TPR/FPR",
    "by AUC",
    "largest contraction η of a class",
    "ε of the head's noise alone, which does not count",
    "accuracy on members",
    "processor seconds to learn",
)
DIFFERENCES = (
    "paper: confidence",
    "confidence",
    "paper: ECE",
    "calibration error",
    "paper: entropy",
    "entropy",
)
APPENDIX_P_HEADS = (
    "AUC, the largest of six",
    "size of its advantage, upper half flagged",
    "confidence, members minus non-members",
    "accuracy, members minus non-members",
)


def percent(value: Spread) -> str:
    """A share in percent."""
    return value.shown(2, 100.0)


def proven(seeds: Seeds) -> str:
    """What is proven, with its neighbours."""
    first = seeds[0].proven
    return proven_epsilon(first.epsilon) + (f" ({first.neighbours})" if first.neighbours else "")


def seeds_that_found(seeds: Seeds) -> str:
    """In how many runs an attack did better than a coin."""
    return f"{sum(made.found for made in seeds)} of {len(seeds)}"


def beside(seeds: Seeds, printed: Printed | None) -> tuple[str, ...]:
    """A method beside the paper: the columns ``BESIDE``."""
    strongest = [made.strongest for made in seeds]
    low, high = min(one.tpr_low for one in strongest), max(one.tpr_high for one in strongest)
    bounds = [made.one_run.bound(len(seeds)) for made in seeds if made.one_run is not None]
    return (
        NONE if printed is None else f"{printed.accuracy:.2f}",
        percent(spread(seeds, lambda made: made.accuracy)),
        _printed(printed, lambda row: row.auc),
        spread(seeds, lambda made: made.auc).shown(),
        _printed(printed, lambda row: row.tpr),
        f"{spread(seeds, lambda made: made.strongest.tpr).shown()} [{low:.4f}, {high:.4f}]",
        _printed(printed, lambda row: row.leakage, 3),
        spread(seeds, lambda made: made.leakage).shown(3),
        seeds_that_found(seeds),
        NONE if seeds[0].stored is None else str(seeds[0].stored),
        f"{max(bounds):.3g}" if bounds else NONE,
        proven(seeds),
    )


def heuristic(seeds: Seeds, printed: Printed | None, line: Line) -> tuple[str, ...]:
    """The paper's conversions, and what else is known of a method: the columns ``HEURISTIC``."""
    eta, head = seeds[0].eta, seeds[0].head
    return (
        _printed(printed, lambda row: row.epsilon),
        _ranged([made.strongest.heuristics.advantage for made in seeds]),
        _ranged([made.strongest.heuristics.rates for made in seeds]),
        _ranged([range_by_line(made.strongest, line) for made in seeds]),
        NONE if eta is None else spread(seeds, lambda made: made.eta or 0.0).shown(3),
        NONE if head is None else proven_epsilon(max(made.head or 0.0 for made in seeds)),
        percent(spread(seeds, lambda made: made.learned)),
        f"{spread(seeds, lambda made: made.seconds).mean:.0f}",
    )


def differences(seeds: Seeds, printed: Printed | None) -> tuple[str, ...]:
    """Members minus non-members: the columns ``DIFFERENCES``."""
    return (
        _printed(printed, lambda row: row.confidence),
        spread(seeds, lambda made: made.differences["confidence"]).shown(),
        _printed(printed, lambda row: row.calibration),
        spread(seeds, lambda made: made.differences["calibration error"]).shown(),
        _printed(printed, lambda row: row.entropy),
        spread(seeds, lambda made: made.differences["entropy"]).shown(),
    )


def against_appendix_p(seeds: Seeds) -> tuple[str, ...]:
    """What appendix P says of members and non-members: the columns ``APPENDIX_P_HEADS``."""
    return (
        spread(seeds, lambda made: made.auc).shown(),
        spread(seeds, lambda made: abs(made.strongest.advantage)).shown(),
        spread(seeds, lambda made: made.differences["confidence"]).shown(),
        spread(seeds, lambda made: made.differences["accuracy"]).shown(),
    )


def by_line(auc: float, line: Line) -> float | None:
    """The third conversion, by the least-squares line; None where the models with known ε have one AUC."""
    areas, epsilons = zip(*line, strict=True) if line else ((), ())
    if len(set(areas)) < 2:
        return None
    slope, start = np.polyfit(areas, epsilons, 1)
    return float(start + slope * auc)


def range_by_line(attack: Attack, line: Line) -> Range:
    """The third conversion at the ends of the interval of the AUC too."""
    ends = [by_line(auc, line) for auc in (attack.low, attack.high)]
    known = sorted(end for end in ends if end is not None)
    return Range(by_line(attack.auc, line), *(known if len(known) == 2 else (None, None)))


def _ranged(found: Sequence[Range]) -> str:
    """Mean ± deviation over seeds, and the outermost ends of their intervals; an open end is a dash."""
    whole, known = Range.over(found), [one.value for one in found if one.value is not None]
    if whole.value is None:
        return NONE
    value = Spread(whole.value, statistics.stdev(known) if len(known) > 1 else None).shown(3)
    low, high = (NONE if end is None else thousandths(end) for end in (whole.low, whole.high))
    return f"{value} [{low}, {high}]"


def thousandths(value: float) -> str:
    """With three digits behind the point, and no minus before a zero."""
    return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")


def _printed(row: Printed | None, what: Callable[[Printed], float | None], digits: int = 4) -> str:
    value = None if row is None else what(row)
    return NONE if value is None else f"{value:.{digits}f}".replace("-", "−")
