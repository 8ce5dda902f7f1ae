"""What the paper's own printed numbers say of each other; nothing here depends on a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.privacy import RECORD, Guarantee, Neighbours, gaussian_mu
from sfumato_reproductions.compactdp.protocol import DELTA
from sfumato_reproductions.compactdp.published import (
    ETA,
    FIGURE_13,
    FIGURE_15,
    FIGURE_16,
    TABLES,
    TEXT,
    combined,
)
from sfumato_reproductions.multimedia_dp.part import proven_epsilon

__all__ = ["ContractionFactors", "contraction_factors", "epsilon_of_less_noise", "printed_says"]

_NAMES = {"accuracy": "accuracy", "tpr": "TPR at 0.1% FPR", "leakage": "leakage", "epsilon": "empirical ε"}
# A leakage with three printed digits agrees with its formula up to this.
_ROUNDING = 0.0006
# Ten classes as different as the paper's two examples of a contraction, and an order of its divergence.
_ETAS, _ORDER = (*(ETA,) * 9, 0.5), 2.0


@dataclass(frozen=True)
class ContractionFactors:
    """By what a contraction would multiply the Rényi divergence ρ of a Gaussian mechanism.

    ``definition`` by Definition 4, ``theorem`` by equation 17 and ``stated`` by the sentence below it, which
    are to be one bound. ``theorem`` is what remains of ρ for a record of the class that is contracted least:
    no bound that holds for all records lies below it.
    """

    definition: float
    theorem: float
    stated: float


def contraction_factors(etas: Sequence[float], order: float) -> ContractionFactors:
    """Those of classes whose diameters shrink by ``etas``, at an ``order`` α above 1.

    A Gaussian mechanism has a divergence of αΔ²/2σ², so that a sensitivity of ηΔ leaves η² of it.
    """
    return ContractionFactors(
        definition=math.prod(eta ** (order - 1.0) for eta in etas),
        theorem=max(eta**2 for eta in etas),
        stated=min(etas) ** 2,
    )


def epsilon_of_less_noise(epsilon: float, eta: float) -> float:
    """The ε of a Gaussian mechanism that proves ``epsilon``, with its noise multiplied by ``eta``."""
    return Guarantee.gaussian(
        eta / gaussian_mu(epsilon, DELTA),
        unit=RECORD,
        neighbours=Neighbours.ZERO_OUT,
        theorem="analytic Gaussian",
        at_delta=DELTA,
    ).epsilon()


def printed_says() -> Iterator[str]:
    """Sentences, each computed from the printed tables."""
    leaks = [row for rows in TABLES.values() for row in rows.values() if row.leakage is not None]
    agree = [row for row in leaks if abs(row.leakage_by_formula - (row.leakage or 0.0)) <= _ROUNDING]
    first = leaks[0]
    yield (
        f"The paper's leakage is (AUC − 0.5)/0.5 by its own definition; of the {len(leaks)} that it prints "
        f"beside an AUC {len(agree)} are that number (its first, of an AUC of {first.auc:g}, would be "
        f"{first.leakage_by_formula:.3f}, and {first.leakage:.3f} is printed)."
    )
    told = "; ".join(
        f"{_NAMES[measure]} of table {table}: {text:g} in the text, "
        f"{getattr(TABLES[table]['CompactDP'], measure):g} in the table"
        for (table, measure), text in TEXT.items()
    )
    yield f"Of CompactDP the paper's text and its tables disagree: {told}."
    tight = TABLES[3][combined(0.1)]
    yield (
        f"Table 3 claims ε = 0.1 for a row whose *empirical ε bound* it prints as {tight.epsilon:g}: were "
        "that a lower bound, as its name says, it would refute the claim. It is a conversion of an AUC by a "
        "line, and no bound."
    )
    below = [row.auc for row in TABLES[6].values() if row.auc < 0.5]
    yield (
        f"All {len(below)} AUCs of table 6 lie below one half, by about the same, that of the non-private "
        "row too. Scores of different folds that are pooled do that where there is nothing to find; ours are "
        "compared within their folds."
    )
    true = epsilon_of_less_noise(1.0, ETA)
    yield (
        f"Noise σ = ησ₁ with the paper's η = {ETA:g} is another ε: where σ₁ proves ε = 1 at δ = {DELTA:g} by "
        f"the analytic Gaussian, {ETA:g}·σ₁ proves {proven_epsilon(true)}. Gradients are clipped to the same "
        "length before and after contraction, so that nothing has become less sensitive."
    )
    factors = contraction_factors(_ETAS, _ORDER)
    yield (
        "Definition 4 and Theorem 2 bound one divergence by two numbers, ρ·Π η_c^(α−1) and ρ·max η_c², and "
        f"the sentence below the theorem by a third, ρ·η_min². For nine classes with η = {_ETAS[0]:g} and "
        f"one with η = {_ETAS[-1]:g} at α = {_ORDER:g} these are {factors.definition:.2g}·ρ, "
        f"{factors.theorem:g}·ρ and {factors.stated:g}·ρ. By the proof in appendix B a record of the class "
        f"that is contracted least keeps {factors.theorem:g}·ρ: the worst class is the one with the largest "
        f"η, so that the bound by η_min points the wrong way (it is {factors.theorem / factors.stated:g} "
        "times too small), and the mechanism of the theorem does not satisfy the definition. All three take "
        "the contraction to be known before the records are."
    )
    compact, both = TABLES[2]["CompactDP"], combined(1.0)
    yield (
        f"Appendix N reads an *empirical ε* of “approximately {FIGURE_13:g}” off the attacks of figure 13 on "
        f"CompactDP and “nearly {FIGURE_15:g}” off those of figure 15 on CompactDP with DP-SGD at ε = 1; "
        f"tables 2 and 3 print {compact.epsilon:g} and {TABLES[3]['CompactDP'].epsilon:g} for the first, "
        f"{TABLES[2][both].epsilon:g} and {TABLES[3][both].epsilon:g} for the second."
    )
    low, high, auc, deviation = FIGURE_16
    rows = [TABLES[3][combined(epsilon)] for epsilon in (0.5, 1.0, 3.0, 8.0)]
    areas = [row.auc for row in rows]
    accuracies = " to ".join(dict.fromkeys(f"{row.accuracy:g}" for row in rows))
    yield (
        f"Of CompactDP with DP-SGD from ε = 0.5 to 8 appendix P has an accuracy of {low:g} to {high:g} and "
        f"an AUC of {auc:g} ± {deviation:g}, table 3 an accuracy of {accuracies} and an AUC of "
        f"{min(areas):.4f} to {max(areas):.4f}."
    )
