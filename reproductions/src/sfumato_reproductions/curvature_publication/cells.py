"""Cells and columns that tables 1 and 2 share."""

from __future__ import annotations

from sfumato_reproductions.curvature_publication.candidates import AS_THE_PAPER, MATCHED, Success
from sfumato_reproductions.curvature_publication.measured import Measured
from sfumato_reproductions.curvature_publication.membership import ART, LOSS, NEAREST, TAIL, has_art
from sfumato_reproductions.curvature_publication.published import Printed
from sfumato_reproductions.curvature_publication.results import mean, pooled
from sfumato_reproductions.multimedia_dp.part import NONE, proven_epsilon

__all__ = ["ATTACKS", "BESIDE", "DETAIL", "beside", "detail", "percent", "success_cell"]

#: Attack as it is kept -> its column.
ATTACKS = {
    f"{ART}, {AS_THE_PAPER}": "ART, as the paper",
    f"{LOSS}, {AS_THE_PAPER}": "loss threshold, as the paper",
    f"{ART}, {MATCHED}": "ART, class-matched",
    f"{LOSS}, {MATCHED}": "loss threshold, class-matched",
    f"{LOSS}, {MATCHED}, {TAIL}": "the same, tail classes",
    f"{NEAREST}, {MATCHED}": "nearest picture, class-matched",
}
BESIDE = (
    "paper: membership",
    "membership, ART as the paper",
    "paper: accuracy",
    "accuracy",
    "paper: FID",
    "Fréchet distance",
    "paper: IS",
    "inception-style score",
    "proven ε",
)
DETAIL = (
    *ATTACKS.values(),
    "accuracy on what was learned",
    "accuracy, tail classes",
    "published",
    "seconds to fit and publish",
    "seconds to learn",
)


def percent(share: float) -> str:
    """A share in percent with one decimal."""
    return f"{100.0 * share:.1f}%"


def success_cell(success: Success | None) -> str:
    """A rate with its interval; where there is none, why."""
    if success is None:
        return NONE if has_art() else "ART is not installed"
    low, high = success.interval
    return f"{percent(success.rate)} [{100.0 * low:.1f}, {100.0 * high:.1f}]"


def beside(seeds: tuple[Measured, ...], printed: Printed | None) -> tuple[str, ...]:
    """A method beside the paper: the columns ``BESIDE``."""
    first = seeds[0]
    frechet = NONE if first.frechet is None else f"{mean(seeds, lambda made: made.frechet or 0.0):.3g}"
    proven = proven_epsilon(first.proven.epsilon)
    where = f" ({first.proven.neighbours})" if first.proven.neighbours else ""
    return (
        NONE if printed is None else f"{printed.membership:.2f}%",
        success_cell(pooled(seeds, f"{ART}, {AS_THE_PAPER}")),
        NONE if printed is None else f"{printed.accuracy:.2f}%",
        percent(mean(seeds, lambda made: made.accuracy)),
        NONE if printed is None or printed.fid is None else f"{printed.fid:.1f}",
        frechet,
        NONE if printed is None else f"{printed.score:.2f}",
        f"{mean(seeds, lambda made: made.score):.2f}",
        proven + where,
    )


def detail(seeds: tuple[Measured, ...]) -> tuple[str, ...]:
    """A method's attacks and times: the columns ``DETAIL``."""
    return (
        *(success_cell(pooled(seeds, attack)) for attack in ATTACKS),
        percent(mean(seeds, lambda made: made.learned)),
        percent(mean(seeds, lambda made: made.tail_accuracy)),
        f"{mean(seeds, lambda made: made.published):,.0f}",
        f"{mean(seeds, lambda made: made.seconds):.0f}",
        f"{mean(seeds, lambda made: made.learning):.0f}",
    )
