"""Adaptive multimedia DP, section 3.2.3: how ε grows under composition.

The paper's figure 2 shows three curves without stating the mechanism. Ours states it: Gaussian noise that
alone is (0.1, 1e-9)-DP, composed k times, read at a total δ of 1e-5 under four methods.
"""

from __future__ import annotations

import math

from sfumato.privacy import ORDERS, Guarantee, gaussian_mu
from sfumato_reproductions.regenerate import Regenerated, Report, Request

__all__ = ["composition_figure", "composition_table"]

EPSILON, DELTA, TOTAL_DELTA = 0.1, 1e-9, 1e-5
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def composition_table(report: Report) -> dict[str, list[float]]:
    """Total ε at δ = 1e-5 after each of ``COUNTS`` compositions, under the four methods."""
    one = Guarantee.gaussian(1.0 / gaussian_mu(EPSILON, DELTA))
    table: dict[str, list[float]] = {"basic": [], "advanced": [], "Rényi": [], "PLD": []}
    for done, k in enumerate(COUNTS):
        table["basic"].append(k * EPSILON)
        table["advanced"].append(advanced_composition(EPSILON, DELTA, k, TOTAL_DELTA - k * DELTA)[0])
        table["Rényi"].append(renyi_composition(one, k, TOTAL_DELTA))
        table["PLD"].append(one.times(k).epsilon(TOTAL_DELTA))
        report("composing", (done + 1) / len(COUNTS))
    return table


def advanced_composition(epsilon: float, delta: float, k: int, delta_prime: float) -> tuple[float, float]:
    """Return (ε√(2k ln(1/δ′)) + kε(e^ε − 1), kδ + δ′) (Dwork, Rothblum & Vadhan 2010)."""
    drift = k * epsilon * math.expm1(epsilon)
    return epsilon * math.sqrt(2.0 * k * math.log(1.0 / delta_prime)) + drift, k * delta + delta_prime


def renyi_composition(guarantee: Guarantee, k: int, delta: float) -> float:
    """Return ε at ``delta`` of ``k`` releases, by Rényi DP."""
    from dp_accounting.rdp import rdp_privacy_accountant

    divergences = guarantee.times(k).curve.renyi(ORDERS)
    return float(rdp_privacy_accountant.compute_epsilon(ORDERS, divergences, delta)[0])


def composition_figure(request: Request, report: Report) -> Regenerated:
    """Figure 2: ε against 1 … 1000 compositions, as a picture and as numbers."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a window system for the caller

    table = composition_table(report)
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    looks = (("#b2182b", "o"), ("#2166ac", "s"), ("#1b7837", "^"), ("#762a83", "D"))
    for (method, values), (colour, marker) in zip(table.items(), looks, strict=True):
        axes.loglog(COUNTS, values, color=colour, marker=marker, markersize=4, label=method)
    axes.set_xlabel("compositions k")
    axes.set_ylabel(f"total ε at δ = {TOTAL_DELTA:g}")
    axes.set_title(f"Gaussian noise, alone ({EPSILON:g}, {DELTA:g})-DP, composed k times")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(title="composition")
    request.output.mkdir(parents=True, exist_ok=True)
    file = request.output / "multimedia-dp-figure-2.png"
    figure.savefig(file, dpi=150)
    header = f"{'k':>6}" + "".join(f"{method:>12}" for method in table)
    rows = [
        f"{k:>6}" + "".join(f"{table[method][i]:>12.4f}" for method in table) for i, k in enumerate(COUNTS)
    ]
    numbers = {"compositions": list(COUNTS), "delta": TOTAL_DELTA, "epsilon": table}
    return Regenerated(
        title="Adaptive multimedia DP, figure 2: privacy budget under composition",
        text="\n".join([header, *rows]),
        numbers=numbers,
        files=(file,),
    )
