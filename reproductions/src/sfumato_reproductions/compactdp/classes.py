"""Class by class: what attacks find, the paper's class profile, and the noise that its theorem 3 gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean, stdev
from typing import Any

from sfumato.audits import class_leakage
from sfumato_reproductions.compactdp.bench import Bench
from sfumato_reproductions.compactdp.class_names import class_names
from sfumato_reproductions.compactdp.methods import COMPACT, DP_SGD, METHODS, NON_PRIVATE
from sfumato_reproductions.compactdp.pool import Source
from sfumato_reproductions.compactdp.protocol import CONFIDENCE, DELTA
from sfumato_reproductions.compactdp.published import AUTOMOBILE, BIRD, VULNERABLE
from sfumato_reproductions.compactdp.results import Spread
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part

__all__ = ["class_measures", "classes_part"]

#: What was measured with one seed, as JSON values.
Measures = Mapping[str, Any]

_ATTACKED = (NON_PRIVATE, DP_SGD[1.0], COMPACT)
_EPSILON = 1.0
_PROFILE = {
    "records n": ("count", 0),
    "diameter d": ("diameter", 3),
    "contracted d′": ("contracted_diameter", 3),
    "η": ("eta", 3),
    "κ": ("kappa", 3),
    "log ρ": ("log_rho", 1),
    "log ρ contracted": ("contracted_log_rho", 1),
    "ν": ("vulnerability", 3),
}
_BIRD, _AUTOMOBILE = "bird", "automobile"


def class_measures(bench: Bench) -> Measures:
    """Leakage by method, class profile and both allocations, from memory or made now."""
    parameters = {name: METHODS[name].parameters() for name in _ATTACKED}
    kept: Measures = bench.remembered("classes", partial(_made, bench), parameters)
    return kept


def _made(bench: Bench) -> dict[str, Any]:
    from sfumato.learners.compact import allocations

    leaks = {
        name: [row.to_dict() for row in class_leakage(*bench.answers(METHODS[name]), confidence=CONFIDENCE)]
        for name in _ATTACKED
    }
    profile = bench.model(METHODS[COMPACT]).profile_
    noise = allocations(profile, epsilon=_EPSILON, delta=DELTA)
    return {
        "leakage": leaks,
        # ρ itself leaves the floats in many dimensions; its logarithm stays.
        "profile": [{name: value for name, value in row.items() if name != "rho"} for row in profile.rows()],
        "allocations": [asdict(one) | {"sigma": one.sigma.tolist()} for one in noise],
    }


def classes_part(found: Mapping[Source, Sequence[Measures]]) -> Part:
    """Of each source what was measured with each seed."""
    grids, told = [], [_ABOUT]
    for source, seeds in found.items():
        names = class_names(source.data, len(seeds[0]["profile"]))
        grids += [_leakage(source, names, seeds), _profile(source, names, seeds)]
        told += [_constraint(source, seeds), _with_diameter(source, seeds), *_two(source, names, seeds)]
    return Part(
        key="classes",
        title="Classes: what leaks, their profile, and the noise of theorem 3",
        told=" ".join(filter(None, told)),
        grids=tuple(grids),
        numbers={str(source): list(seeds) for source, seeds in found.items()},
    )


_ABOUT = (
    "Leakage is the AUC of a loss threshold among the records of one class, a mean over seeds ± their "
    "deviation and the lowest and highest end of its 95% intervals, each class by itself. The profile is "
    "that of definitions 1 and 6 (diameter d and contracted d′ of members, η = d′/d, κ = 1 − η, density ρ as "
    "its logarithm, for it leaves the floats, vulnerability ν = d/n^(1/(p+4))), means over seeds, in units "
    f"of the features. σ is the noise of theorem 3 at ε = {_EPSILON:g}, δ = {DELTA:g} and Δ = 1: equation 21 "
    "as printed, which has √(2 log(1.25/δ)) in the denominator, so that a smaller δ gets less noise, and "
    "corrected, with the root in the numerator. Both are computed from private diameters and counts: neither "
    "proves anything."
)


def _leakage(source: Source, names: Sequence[str], seeds: Sequence[Measures]) -> Grid:
    rows = tuple(
        (name, *(_auc([made["leakage"][method][kind] for made in seeds]) for method in _ATTACKED))
        for kind, name in enumerate(names)
    )
    return Grid(f"{source}, AUC within a class", ("class", *_ATTACKED), rows)


def _auc(rows: Sequence[Mapping[str, Any]]) -> str:
    if any(row["auc"] is None for row in rows):
        return NONE
    low, high = min(row["interval"][0] for row in rows), max(row["interval"][1] for row in rows)
    return f"{_over([row['auc'] for row in rows]).shown(3)} [{low:.3f}, {high:.3f}]"


def _profile(source: Source, names: Sequence[str], seeds: Sequence[Measures]) -> Grid:
    rows = []
    for kind, name in enumerate(names):
        profiles = [made["profile"][kind] for made in seeds]
        cells = [
            f"{fmean(row[key] for row in profiles):,.{digits}f}".replace("-", "−")
            for key, digits in _PROFILE.values()
        ]
        sigmas = [f"{fmean(made['allocations'][i]['sigma'][kind] for made in seeds):.3g}" for i in range(2)]
        rows.append((name, *cells, *sigmas))
    heads = ("class", *_PROFILE, "σ as printed", "σ corrected")
    return Grid(f"{source}, profile of classes under CompactDP", heads, tuple(rows))


def _constraint(source: Source, seeds: Sequence[Measures]) -> str:
    """Whether equation 22 holds of either noise."""
    printed, corrected = (fmean(made["allocations"][i]["spent"] for made in seeds) for i in range(2))
    first = seeds[0]["allocations"][0]
    held = [
        "keeps to it" if spent <= first["allowed"] else "does not keep to it"
        for spent in (printed, corrected)
    ]
    return (
        f"{source}: equation 22 allows a Σ Δ²/σ² of {first['allowed']:.3g} (the Gaussian mechanism would "
        f"need {first['sound']:.3g}); the noise as printed has {printed:.3g} and {held[0]}, the corrected "
        f"one has {corrected:.3g} and {held[1]}."
    )


def _with_diameter(source: Source, seeds: Sequence[Measures]) -> str:
    """Whether wide classes leak more, which the introduction says of CIFAR-10."""
    said = []
    for method in _ATTACKED:
        found = [_rank_correlation(made, method) for made in seeds]
        known = [value for value in found if value is not None]
        if known and len(known) == len(found):
            said.append(f"{_over(known).shown(2)} ({method})")
    if not said:
        return ""
    classes = len(seeds[0]["profile"])
    return (
        "That leakage grows with the diameter of a class, as the paper's introduction says, would be a rank "
        f"correlation of d and AUC near 1; here it is {', '.join(said)}, and of {classes} classes without "
        f"any relation it would have a deviation of {1.0 / (classes - 1) ** 0.5:.2f}."
    )


def _rank_correlation(made: Measures, method: str) -> float | None:
    from scipy.stats import spearmanr

    areas = [row["auc"] for row in made["leakage"][method]]
    if None in areas or len(set(areas)) < 2 or len(areas) < 3:
        return None
    return float(spearmanr([row["diameter"] for row in made["profile"]], areas).statistic)


def _two(source: Source, names: Sequence[str], seeds: Sequence[Measures]) -> list[str]:
    """The two classes that section 4.3 names."""
    if _BIRD not in names:
        return []
    pairs = [[made["profile"][names.index(name)] for name in (_BIRD, _AUTOMOBILE)] for made in seeds]
    ratios = {
        key: fmean(bird[key] / automobile[key] for bird, automobile in pairs)
        for key in ("diameter", "vulnerability")
    }
    return [
        f"Section 4.3 has d = {BIRD:g} for birds and {AUTOMOBILE:g} for automobiles, and ν {VULNERABLE:g} "
        f"times as large; by our features d of birds is {ratios['diameter']:.2f} times that of automobiles, "
        f"and ν {ratios['vulnerability']:.2f} times."
    ]


def _over(values: Sequence[float]) -> Spread:
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None)
