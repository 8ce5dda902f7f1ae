"""Figures 2 and 3: how far trust levels are apart, and what a secret column order is worth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.mechanisms.transforms import ReverseManifold
from sfumato_reproductions.datasets import load
from sfumato_reproductions.tadp_rme.figure import Drawing, axes_row, tidy
from sfumato_reproductions.tadp_rme.measures import pairs_recovered
from sfumato_reproductions.tadp_rme.protocol import EPSILON, Run
from sfumato_reproductions.tadp_rme.settings import gaussian, release

__all__ = ["divergence_figure", "pairing_figure", "recovery_probability"]

_DIMENSIONS = (2, 3, 5, 10, 20, 50)
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
_RECORDS = 64
_ORDER = b"a secret column order"
_TRUST = 0.5


def divergence_figure() -> Drawing:
    """Figure 2: r² − 2 ln r − 1, twice the divergence between two trust levels for each column."""
    ratios = np.linspace(0.02, 1.0, 400)
    values = ratios**2 - 2.0 * np.log(ratios) - 1.0
    own = EPSILON[0] / EPSILON[1]
    at = own**2 - 2.0 * math.log(own) - 1.0

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot(
            ratios, values + 1.0, color="#b2182b", linestyle="--", label="r² − 2 ln r, as drawn in the paper"
        )
        axes.plot(ratios, values, color="#2166ac", label="r² − 2 ln r − 1, as in equation 5")
        axes.plot([own], [at], "o", color="#2166ac")
        axes.annotate(
            f"ε from 15 to 80: r = {own:g}, {at:.2f}",
            (own, at),
            xytext=(0.02, 0.45),
            arrowprops={"arrowstyle": "-", "color": "#2166ac"},
        )
        axes.axhline(0.0, color="black", linewidth=0.8)
        tidy(axes, x="r = σ_min / σ_max", y="twice the divergence for each column")
        axes.legend(frameon=False)

    return Drawing(
        number=2,
        title="r² − 2 ln r − 1 for r ≤ 1",
        caption="Positive for r < 1 and zero at r = 1, where two trust levels have the same noise. For "
        "random records data processing gives ≤ where equation 5 has ≥.",
        numbers={"ratio": own, "value": at},
        size=(7.2, 4.4),
        draw=draw,
    )


def recovery_probability(dimensions: int, known: float) -> float:
    """The paper's 1/|S_l| for l = ⌈(1 − known)·d⌉ unknown pairs with R = 1: the chance of a blind guess."""
    unknown = math.ceil((1.0 - known) * dimensions - 1e-9)
    ways = math.lgamma(2 * unknown + 1) - math.lgamma(unknown + 1) - unknown * math.log(2.0)
    return math.exp(-ways)


def pairing_figure(run: Run) -> Drawing:
    """Figure 3: that probability, beside the share of pairs that the attack recovers knowing none."""
    records, _ = load(run.data[0]).sample(_RECORDS, 0)
    noised = release(gaussian(_TRUST), records, 0, np.arange(0)).value
    dimensions = [d for d in (*_DIMENSIONS, noised.shape[1]) if d <= noised.shape[1]]
    achieved = {d: _achieved(noised, d) for d in dimensions}
    formula = {d: [recovery_probability(d, share) for share in _SHARES] for d in _DIMENSIONS[:5]}

    def draw(figure: Any) -> None:
        left, right = axes_row(figure, 2)
        shades = ("#1b7837", "#2166ac", "#762a83", "#e08214", "#b2182b")
        for (d, values), colour in zip(formula.items(), shades, strict=True):
            left.plot([100 * share for share in _SHARES], values, color=colour, marker="o", label=f"d = {d}")
        left.set_yscale("log")
        left.set_ylim(1e-26, 5.0)
        tidy(
            left, x="pairs known in advance, %", y="probability", title="the paper: a blind guess at the rest"
        )
        left.legend(frameon=False, fontsize=9)
        places = range(len(achieved))
        right.bar(places, [100 * value for value in achieved.values()], color="#2166ac", width=0.6)
        right.set_xticks(places, [str(d) for d in achieved])
        for place, value in zip(places, achieved.values(), strict=True):
            right.annotate(f"{100 * value:.0f}%", (place, 100 * value), ha="center", va="bottom", fontsize=9)
        right.set_ylim(0, 115)
        tidy(right, x="dimensions d", y="pairs recovered, %", title="the pairing attack: no pair known, no α")

    return Drawing(
        number=3,
        title="recovery under partial pairing knowledge",
        caption="Left: the paper's count of pairings, taken as the odds of a guess. Right: what an attack "
        f"that checks b = r sin(αr) in {_RECORDS} records recovers of {run.data[0]}, noised at τ = "
        f"{_TRUST:g}, embedded and in a secret column order, with neither α nor any pair known.",
        numbers={"paper": formula, "recovered": achieved, "known": list(_SHARES)},
        size=(9.6, 4.2),
        draw=draw,
    )


def _achieved(noised: Any, dimensions: int) -> float:
    """The share of pairs recovered from that many columns, embedded in a secret order."""
    columns = np.random.default_rng(dimensions).permutation(noised.shape[1])[:dimensions]
    rows = noised[:, columns]
    shuffled = ReverseManifold(math.pi, key=_ORDER).fit(rows)
    return pairs_recovered(shuffled.transform(rows), shuffled)
