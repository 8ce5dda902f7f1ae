"""One way to release the records: the paper's method, its parts, or one of its baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import AdditiveNoise, Laplace, Mechanism, Personalised, TrustAdaptive
from sfumato.mechanisms.transforms import (
    BinaryEncoding,
    LocalitySensitiveHash,
    RandomProjection,
    ReconstructionResistant,
    ReverseManifold,
)
from sfumato.noise import Randomness, Seeded
from sfumato_reproductions.tadp_rme.protocol import CLIP, DELTA, EPSILON, clipped, distortion

__all__ = ["Released", "Setting", "baseline", "gaussian", "release", "tadp_rme"]

Rows = NDArray[np.float32]

_DRAWS = 1_000  # seeds of a second, independent draw of the noise start here
_LEVELS = 8  # different budgets of Personalised DP


@dataclass(frozen=True)
class Setting:
    """What is released, apart from the data and the seed.

    ``method`` is "TADP-RME" (noise for ``trust`` within ``epsilon``, then the embedding with ``alpha``, or
    none where that is 0) or a baseline of table 2 at the budget ``epsilon[1]``. ``noiseless`` leaves the
    noise out. With ``bases`` = 2 the rows that the probe is tested on are projected by other directions
    than those that it learns from. ``draw`` names an independent draw of the noise.
    """

    method: str = "TADP-RME"
    trust: float = 0.0
    alpha: float = 0.0
    epsilon: tuple[float, float] = EPSILON
    clip: float = CLIP
    noiseless: bool = False
    bases: int = 1
    draw: int = 0

    def proven(self, columns: int) -> float | None:
        """ε at δ = 1e-5 for one record under ``replace``; None where nothing is proven."""
        maker = self._maker(0, columns, 1)
        if not isinstance(maker, Mechanism):
            return None  # a deterministic transform of raw records
        guarantee = maker.guarantee(columns)
        return None if guarantee.proves_nothing else guarantee.epsilon(DELTA)

    def _maker(self, seed: int, columns: int, rows: int, basis: int = 0) -> Any:
        """The mechanism or transform for one seed."""
        noise: Randomness = Seeded(seed + _DRAWS * self.draw)
        low, high = self.epsilon
        if self.method == "TADP-RME":
            return TrustAdaptive(
                self.trust,
                # The paper keeps σ where it changes the radius; here σ is proportional to clip/ε.
                (low * self.clip, high * self.clip),
                DELTA,
                self.clip,
                calibration="paper-tables" if self.noiseless else "paper",
                randomness=noise,
            )
        if self.method == "Laplace DP":
            # Scale 1/ε on records of L2 norm 1: the L1 ball that holds all of them has the radius √d.
            radius = math.sqrt(columns)
            return Laplace(2.0 * radius * high, radius, randomness=noise)
        if self.method == "Personalised DP":
            levels = np.resize(np.linspace(high, 0.5 * high, _LEVELS), rows)
            budgets = np.random.default_rng(seed).permutation(levels)
            return Personalised(budgets, DELTA, self.clip, randomness=noise)
        if self.method == "Additive noise":
            return AdditiveNoise(0.1, randomness=noise)
        if self.method == "Random projection":
            return RandomProjection(64, AdditiveNoise(0.1, randomness=noise), seed=2 * seed + basis)
        if self.method == "Reconstruction-resistant":
            return ReconstructionResistant(64, AdditiveNoise(0.1, randomness=noise), seed=2 * seed + basis)
        if self.method == "LSH":
            return LocalitySensitiveHash(64, seed=2 * seed + basis)
        return BinaryEncoding(1, 0.1, randomness=noise)

    @property
    def clips(self) -> bool:
        """Whether records are clipped first."""
        return self.method in ("TADP-RME", "Laplace DP", "Personalised DP")


@dataclass(frozen=True, eq=False)
class Released:
    """A release with what the attacks on it may know.

    ``original`` are the records as the mechanism saw them; ``noised`` (n, d) is what was embedded, and
    ``embedding`` the embedding, where there is one; ``sigma`` the deviation of Gaussian noise, where known.
    """

    value: NDArray[Any]
    original: Rows
    noised: NDArray[Any] | None
    embedding: ReverseManifold | None
    sigma: float | None


def release(setting: Setting, records: Rows, seed: int, held: NDArray[np.intp]) -> Released:
    """``records`` (n, d) released; ``held`` are the rows that a probe is tested on."""
    original = clipped(records, setting.clip) if setting.clips else records
    rows, columns = original.shape
    maker = setting._maker(seed, columns, rows)
    value = maker.fit(original).transform(original)
    if setting.bases == 2:
        other = setting._maker(seed, columns, rows, basis=1)
        value[held] = other.fit(original).transform(original)[held]
    sigma = maker.sigma(columns) if isinstance(maker, TrustAdaptive) else None
    if not setting.alpha:
        return Released(value, original, None, None, sigma)
    embedding = ReverseManifold(setting.alpha).fit(value)
    return Released(embedding.transform(value), original, value, embedding, sigma)


def tadp_rme(trust: float, *, noiseless: bool | None = None, alpha: float | None = None) -> Setting:
    """The paper's method at ``trust``; as in its tables, without noise at τ = 0 unless told otherwise."""
    quiet = trust == 0.0 if noiseless is None else noiseless
    return Setting(trust=trust, alpha=distortion(trust) if alpha is None else alpha, noiseless=quiet)


def gaussian(trust: float) -> Setting:
    """The paper's noise at ``trust`` without an embedding: its baseline Gaussian DP at ε_τ."""
    return Setting(trust=trust)


def baseline(method: str, epsilon: float = EPSILON[1]) -> Setting:
    """A baseline of table 2 at the budget ``epsilon``, where it has one."""
    return Setting(method, epsilon=(epsilon, epsilon))
