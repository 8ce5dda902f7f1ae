"""What the paper's numbers say about its runs, in sentences, each with its numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato_reproductions.tadp_rme.baselines import BUDGETS, others
from sfumato_reproductions.tadp_rme.protocol import PAPER_DATA
from sfumato_reproductions.tadp_rme.published import ABLATION, ATTACKS, BASELINES, OTHERS, TRUST_SWEEP
from sfumato_reproductions.tadp_rme.settings import tadp_rme
from sfumato_reproductions.tadp_rme.sweep import Results
from sfumato_reproductions.tadp_rme.table import shown_epsilon

__all__ = ["findings"]

_NOISED = tadp_rme(0.0, noiseless=False)
_EMBEDDED = tadp_rme(1.0, alpha=1.0)


def findings(results: Results) -> list[str]:
    """Sentences on the first data set that the paper has too; those whose numbers were measured."""
    shared = [data for data in results.run.data if data in PAPER_DATA]
    if not shared:
        return []
    data = shared[0]
    sentences = (_noiseless, _unembedded, _inverted, _membership, _laplace, _projections)
    return [f"{data}: {text}" for sentence in sentences for text in sentence(results, data)]


def _noiseless(results: Results, data: str) -> Iterator[str]:
    if results.values(data, _NOISED, "accuracy"):
        yield (
            f"at τ = 0 the paper adds no noise: its accuracy of {TRUST_SWEEP[data][0.0][0][0]} is that of "
            f"the embedding alone ({ABLATION['Embedding only'][data][0][0]}, table 4) and not that of "
            f"Gaussian noise at the same ε ({BASELINES[80.0]['Gaussian DP'][data][0][0]}, table 2). With "
            f"the noise of ε_max we measure {results.mean(data, _NOISED, 'accuracy'):.1f}."
        )


def _unembedded(results: Results, data: str) -> Iterator[str]:
    if results.values(data, _EMBEDDED, "accuracy"):
        yield (
            f"at τ = 1 the paper's accuracy of {TRUST_SWEEP[data][1.0][0][0]}, beside "
            f"{TRUST_SWEEP[data][0.95][0][0]} at τ = 0.95 and {BASELINES[15.0]['Gaussian DP'][data][0][0]} "
            "for Gaussian noise alone, is that of a run without an embedding: ours are "
            f"{results.mean(data, tadp_rme(1.0), 'accuracy'):.1f} without one and "
            f"{results.mean(data, _EMBEDDED, 'accuracy'):.1f} with α = 1."
        )


def _inverted(results: Results, data: str) -> Iterator[str]:
    if results.values(data, _NOISED, "inversion error"):
        yield (
            "the embedding hides nothing from a reader who knows it: it is undone with a relative error of "
            f"{results.mean(data, _NOISED, 'inversion error'):.0e}, and "
            f"{100 * results.mean(data, _NOISED, 'pairs recovered'):.0f}% of the pairs are recovered "
            "without α and without the column order. After inversion the posterior mean has an error of "
            f"{results.mean(data, _EMBEDDED, 'posterior error'):.3f} at τ = 1, where ridge regression on the "
            f"embedded rows has {results.mean(data, _EMBEDDED, 'error'):.3f}.".replace("e-", "e−")
        )


def _membership(results: Results, data: str) -> Iterator[str]:
    if results.values(data, _NOISED, "likelihood AUC"):
        own = tadp_rme(0.0)
        yield (
            f"the published membership attack scores {results.mean(data, own, 'membership'):.3f} (1 is full "
            "resistance) even at τ = 0, where nothing at all is hidden, since it never compares a "
            f"candidate with the release (paper: {ATTACKS[data][0.0][0][0]}). By likelihood the AUC is "
            f"{results.mean(data, own, 'likelihood AUC'):.3f} there, "
            f"{results.mean(data, _NOISED, 'likelihood AUC'):.3f} with the noise of ε_max and "
            f"{results.mean(data, tadp_rme(1.0), 'likelihood AUC'):.3f} at τ = 1."
        )


def _laplace(results: Results, data: str) -> Iterator[str]:
    setting = BUDGETS[15.0]["Laplace DP"]
    if results.values(data, setting, "accuracy"):
        yield (
            "Laplace noise at ε = 15 looks far better than Gaussian noise "
            f"({BASELINES[15.0]['Laplace DP'][data][0][0]} against "
            f"{BASELINES[15.0]['Gaussian DP'][data][0][0]}; ours "
            f"{results.mean(data, setting, 'accuracy'):.1f} against "
            f"{results.mean(data, BUDGETS[15.0]['Gaussian DP'], 'accuracy'):.1f}) because its scale is set "
            "for the L1 norm and the records are clipped in L2: what is proven is ε = "
            f"{shown_epsilon(results.proven(data, setting))} against "
            f"{shown_epsilon(results.proven(data, BUDGETS[15.0]['Gaussian DP']))}."
        )


def _projections(results: Results, data: str) -> Iterator[str]:
    methods = others()
    if results.values(data, methods["Random projection"], "accuracy"):
        parts = [
            f"{method} {OTHERS[method][data][0][0]} (ours "
            f"{results.mean(data, methods[method], 'accuracy'):.1f} with one basis, "
            f"{results.mean(data, methods[f'{method}, two bases'], 'accuracy'):.1f} with two)"
            for method in ("Random projection", "LSH", "Reconstruction-resistant")
        ]
        yield (
            "the paper's projections have the accuracy of chance, as if rows to learn from and rows to "
            f"test on had been projected differently: {', '.join(parts)}."
        )
