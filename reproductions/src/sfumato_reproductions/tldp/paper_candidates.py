"""The paper's mechanisms and its baselines, each brought to one promise: same unit, neighbours, ε and δ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sfumato.mechanisms import (
    Gaussian,
    HessianClipped,
    IndependentDirectional,
    Laplace,
    LayerAdaptive,
    MatrixVariateGaussian,
    TensorLDP,
    WeightedTensorLDP,
)
from sfumato_reproductions.tldp.candidate import TLDP, Candidate, root_mean_square
from sfumato_reproductions.tldp.promise import DELTA, Promise, claim_for, proven_epsilon, unit_guarantee
from sfumato_reproductions.tldp.published import Sizes
from sfumato_reproductions.tldp.response import composed_epsilon, largest_share

__all__ = ["paper_candidates"]

_LAYERS = 4
_FOR_TENSORS = "made for tensors: the noise is that of a whole one"


def paper_candidates(promise: Promise, sizes: Sizes, randomness: Any) -> Iterator[Candidate]:
    """Laplace, Gaussian, MVG, IDN, LLAGP, DPHSGD and TLDP, all of which keep to ``promise``."""
    yield _laplace(promise, sizes, randomness)
    yield from _gaussian(promise, sizes, randomness)
    yield from _layered(promise, sizes, randomness)
    for name in TLDP:
        yield _tldp(name, promise, sizes, randomness)


def _laplace(promise: Promise, of: Sizes, randomness: Any) -> Candidate:
    """Noise for all components at once or for each of them, whichever is smaller."""
    count = of.count if promise.unit == "tensor" else 1
    # Laplace noise of pure ε′ has δ = 1 − e^{(ε−ε′)/2}: what δ allows makes the noise smaller.
    whole = (promise.epsilon - 2.0 * math.log1p(-promise.delta)) * (1.0 - 1e-12)
    common: dict[str, Any] = {"bounds": (0.0, of.span), "randomness": randomness}
    share = largest_share(promise.epsilon, promise.delta, count)
    if share * count > whole:
        mechanism, columns = Laplace(share, **common), 1
        proven = composed_epsilon(share, count, promise.delta)
        note = f"every component, ε = {share:.3g} each, composed exactly"
    else:
        mechanism, columns = Laplace(whole, **common), count
        proven, note = mechanism.guarantee(count).epsilon(promise.delta), ""
    closed = root_mean_square(mechanism, columns, of.count)
    return Candidate("Laplace", mechanism, mechanism.epsilon, proven, closed, columns, (of.span,), note=note)


def _gaussian(promise: Promise, of: Sizes, randomness: Any) -> Iterator[Candidate]:
    """The Gaussian mechanism, and the two that shape its noise."""
    epsilon, delta, whole = promise.epsilon, promise.delta, promise.unit == "tensor"
    common: dict[str, Any] = {"bounds": (0.0, of.span), "randomness": randomness}
    made: list[tuple[str, Any, str]] = [("Gaussian", Gaussian(epsilon, delta, **common), "")]
    columns = of.count if whole else 1
    matrix = (of.shape[0], of.count // of.shape[0]) if whole else (1, 1)
    for name, kind, sides in (
        ("MVG", MatrixVariateGaussian, matrix),
        ("IDN", IndependentDirectional, of.shape if whole else (1,)),
    ):
        authors = kind(1.0, DELTA, shape=sides, calibration="paper", **common)
        said = authors.guarantee(columns).epsilon(DELTA)
        note = (
            "without directions it is the Gaussian; with some it has more noise; its authors' own "
            f"calibration for (1, {DELTA:g}) proves ε = {said:.2g}"
        )
        made.append((name, kind(epsilon, delta, shape=sides, **common), note))
    for name, mechanism, note in made:
        proven = mechanism.guarantee(columns).epsilon(delta)
        closed = root_mean_square(mechanism, columns, of.count)
        yield Candidate(name, mechanism, epsilon, proven, closed, columns, (of.span,), note=note)


def _layered(promise: Promise, of: Sizes, randomness: Any) -> Iterator[Candidate]:
    """Mechanisms for model parameters: a tensor stands for those of one client, in four layers."""
    part = of.count // _LAYERS
    layers = [part] * (_LAYERS - 1) + [of.count - part * (_LAYERS - 1)]
    clip, centre = math.sqrt(of.count) * of.span / 2.0, of.span / 2.0
    common: dict[str, Any] = {"layers": layers, "randomness": randomness}
    for name, kind, own, note in (
        ("LLAGP", LayerAdaptive, {"progress": 0.5}, "four layers, half of the training done"),
        ("DPHSGD", HessianClipped, {"curvature": (4.0, 3.0, 2.0, 1.0)}, "four layers, public curvature"),
    ):
        mechanism = kind(promise.epsilon, promise.delta, clip, **common, **own)
        yield Candidate(
            name,
            mechanism,
            promise.epsilon,
            mechanism.guarantee(of.count).epsilon(promise.delta),
            root_mean_square(mechanism, of.count, of.count),
            of.count,
            (centre,),
            centre=centre,
            note=note if promise.unit == "tensor" else f"{note}; {_FOR_TENSORS}",
        )


def _tldp(name: str, promise: Promise, of: Sizes, randomness: Any) -> Candidate:
    noise, weights = TLDP[name]
    common: dict[str, Any] = {"noise": noise, "delta": DELTA, "unit": promise.unit, "randomness": randomness}

    def make(claim: float) -> TensorLDP:
        if weights is None:
            return TensorLDP(claim, (0.0, of.span), **common)
        return WeightedTensorLDP(claim, (0.0, of.span), weights=weights, **common)

    claim = claim_for(make, promise, of.count)
    mechanism = make(claim)
    guarantee = unit_guarantee(mechanism, promise.unit, of.count)
    proven = proven_epsilon(mechanism, promise.unit, of.count, promise.delta)
    note = "δ, not ε, sets the noise: with less of it more is shown"
    return Candidate(
        name,
        mechanism,
        claim,
        proven,
        root_mean_square(mechanism, of.count, of.count),
        of.count,
        (of.span,),
        shown=guarantee.revealed + guarantee.slack,
        note=note if proven < 0.9 * promise.epsilon else "",
    )
