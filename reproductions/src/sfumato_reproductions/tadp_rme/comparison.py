"""Means over seeds, and whether two methods differ by more than their seeds do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["Comparison", "Summary", "compare", "holm", "paired_t_test", "summarise", "wilcoxon_signed_rank"]


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation over seeds; no deviation where there is one seed."""

    mean: float
    deviation: float | None
    seeds: int

    def __str__(self) -> str:
        if self.deviation is None:
            return f"{self.mean:.4g} (one seed: no deviation)"
        return f"{self.mean:.4g} ± {self.deviation:.2g} ({self.seeds} seeds)"


@dataclass(frozen=True)
class Comparison:
    """One method against another over the same seeds.

    ``difference`` is the mean of ``method`` minus that of ``baseline``. ``p_value`` is two-sided and None
    where no test can be made; ``adjusted`` is Holm's over all comparisons made together. ``sentence`` says
    all of it.
    """

    method: str
    baseline: str
    test: str
    difference: float
    p_value: float | None
    adjusted: float | None
    sentence: str


def summarise(values: Sequence[float]) -> Summary:
    """Mean and standard deviation (n − 1) of one result a seed."""
    found = _results(values, "results")
    return Summary(float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else None, len(found))


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> tuple[float | None, str]:
    """The two-sided p-value of a paired t-test, or None, and what is to be said about it."""
    from scipy.stats import ttest_1samp

    gaps = _gaps(first, second)
    if len(gaps) < 2:
        return None, "one seed: no test can be made, run at least two"
    if not gaps.any():
        return 1.0, "the results are the same for every seed"
    if float(gaps.std()) <= 1e-12 * float(np.abs(gaps).max()):
        return None, "the difference is the same for every seed, so its spread cannot be judged"
    return float(ttest_1samp(gaps, 0.0).pvalue), ""


def wilcoxon_signed_rank(first: Sequence[float], second: Sequence[float]) -> tuple[float | None, str]:
    """The two-sided p-value of Wilcoxon's signed-rank test, or None, and what is to be said about it.

    Zero differences are left out (Wilcoxon's way); the p-value is exact up to 50 seeds without ties.
    """
    from scipy.stats import wilcoxon

    gaps = _gaps(first, second)
    if len(gaps) < 2:
        return None, "one seed: no test can be made, run at least two"
    gaps = gaps[gaps != 0.0]
    if not len(gaps):
        return 1.0, "the results are the same for every seed"
    value = min(1.0, float(wilcoxon(gaps).pvalue))
    least = 2.0 ** (1 - len(gaps))
    return value, f"{len(gaps)} seeds that differ cannot give a p below {least:.2g}" if least > 0.05 else ""


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (1979), in the order given: significant at level α overall if below α."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise BadInput("p-values must be a list of numbers between 0 and 1.")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
    adjusted = np.empty(len(p))
    adjusted[order] = steps
    return [float(value) for value in adjusted]


def compare(
    results: Mapping[str, Sequence[float]], *, baseline: str, test: Literal["t", "wilcoxon"] = "wilcoxon"
) -> list[Comparison]:
    """Every method against ``baseline``: one result a seed each, in the same order of seeds.

    The p-values are adjusted by Holm over all comparisons for which a test could be made.
    """
    if test not in ("t", "wilcoxon"):
        raise BadInput(f"`test` was {test!r}; accepted are 't' and 'wilcoxon'.", parameter="test")
    if baseline not in results or len(results) < 2:
        raise BadInput(
            f"`baseline` was {baseline!r}; it must be one of at least two methods in the results.",
            parameter="baseline",
        )
    run = paired_t_test if test == "t" else wilcoxon_signed_rank
    name = "paired t-test" if test == "t" else "Wilcoxon signed-rank test"
    methods = [method for method in results if method != baseline]
    tests = {method: run(results[method], results[baseline]) for method in methods}
    made = [method for method in methods if tests[method][0] is not None]
    adjusted = dict(zip(made, holm([p for p, _ in tests.values() if p is not None]), strict=True))
    found = []
    for method in methods:
        p, remark = tests[method]
        gap = summarise(results[method]).mean - summarise(results[baseline]).mean
        sentence = f"{method} minus {baseline}: {gap:+.4g}"
        if p is not None:
            sentence += f", p = {p:.3g} ({name}), {adjusted[method]:.3g} after Holm over {len(made)}"
        sentence += f"; {remark}." if remark else "."
        found.append(Comparison(method, baseline, name, gap, p, adjusted.get(method), sentence))
    return found


def _results(values: Sequence[float], name: str) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not len(found):
        raise BadInput(f"{name} have shape {found.shape}; give one number for each seed, at least one.")
    if not np.isfinite(found).all():
        seed = int(np.flatnonzero(~np.isfinite(found))[0]) + 1
        raise BadInput(f"number {seed} of the {name} is NaN or an infinity; every seed needs a result.")
    return found


def _gaps(first: Sequence[float], second: Sequence[float]) -> NDArray[np.float64]:
    one, other = _results(first, "first results"), _results(second, "second results")
    if len(one) != len(other):
        raise BadInput(f"{len(one)} results cannot be paired with {len(other)}; both need the same seeds.")
    return one - other
