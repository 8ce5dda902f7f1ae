"""The methods of table 1, and ours that prove something, all behind the one interface of publishers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.noise import Seeded
from sfumato.publishers import Publisher
from sfumato_reproductions.curvature_publication.imbalance import Imbalanced
from sfumato_reproductions.curvature_publication.protocol import DELTA, Run
from sfumato_reproductions.curvature_publication.published import OURS

__all__ = [
    "CURVATURE",
    "K_ANONYMITY",
    "LOWEST",
    "METHODS",
    "ORIGINAL",
    "STRATEGY_NAMES",
    "VAEGAN",
    "Method",
    "Setting",
    "curvature_publisher",
]

ORIGINAL, CURVATURE, K_ANONYMITY, VAEGAN = "original", "curvature", "k-anonymity", "VAEGAN-DP, as the paper"
LOWEST = "lowest"

#: Strategy of the publisher -> what table 2 calls it; the last one is not in the paper.
STRATEGY_NAMES = {
    "linear": "Linear",
    "highest": "Highest curvature",
    LOWEST: OURS,
    "anywhere": "Lowest of the whole path",
}


@dataclass(frozen=True)
class Setting:
    """What a method is made for: the pictures' shape and classes, the run, the seed, and where it rests."""

    data: Imbalanced
    run: Run
    seed: int
    checkpoint: Path

    @property
    def randomness(self) -> Seeded:
        """The same noise in every run of this seed: measures of it, never a release."""
        return Seeded(self.seed)


@dataclass(frozen=True)
class Method:
    """A row of the tables: ``printed`` is its name in the paper's, ``make`` its publisher.

    There is none for the original, which is published as it is.
    """

    name: str
    printed: str | None
    make: Callable[[Setting], Publisher] | None


def _pixelation(setting: Setting) -> Publisher:
    from sfumato.publishers import PixelationPublisher

    return PixelationPublisher(3, randomness=setting.randomness)


def _blur(setting: Setting) -> Publisher:
    from sfumato.publishers import BlurPublisher

    return BlurPublisher(1.5, randomness=setting.randomness)


def _k_anonymity(setting: Setting) -> Publisher:
    from sfumato.publishers import KAnonymityPublisher

    # So many clusters that they have, on average, as many pictures as the paper's.
    clusters = min(1000, max(1, len(setting.data.private) // 32))
    return KAnonymityPublisher(10, clusters, randomness=setting.randomness)


# Examples that a step of training with noise takes on average; the paper names no batch.
_VAEGAN_BATCH, _DPDM_BATCH = 400, 1000


def _rate(setting: Setting, batch: int) -> float:
    return min(1.0, batch / len(setting.data.private))


def _vaegan_dp(mode: str) -> Callable[[Setting], Publisher]:
    def make(setting: Setting) -> Publisher:
        from sfumato.publishers import VAEGANDPPublisher

        quick = setting.run.quick
        options: dict[str, Any] = (
            {"steps": 20, "rate": 0.1} if quick else {"rate": _rate(setting, _VAEGAN_BATCH)}
        )
        return VAEGANDPPublisher(
            delta=DELTA,
            mode=mode,
            shape=setting.data.shape,
            classes=setting.data.classes,
            randomness=setting.randomness,
            **options,
        )

    return make


def _dpdm(setting: Setting) -> Publisher:
    from sfumato.publishers import DPDMPublisher

    options: dict[str, Any] = {"steps": 5} if setting.run.quick else {"rate": _rate(setting, _DPDM_BATCH)}
    return DPDMPublisher(
        delta=DELTA,
        shape=setting.data.shape,
        classes=setting.data.classes,
        randomness=setting.randomness,
        **options,
    )


def curvature_publisher(setting: Setting, latent: int | None = None) -> Any:
    """The paper's method, with ``latent`` dimensions where they are given (figure 4 has two)."""
    from sfumato.publishers import CurvaturePublisher

    options: dict[str, Any] = {"centres": 32} if setting.run.quick else {}
    options |= {} if latent is None else {"latent": latent}
    return CurvaturePublisher(
        time_budget=setting.run.budgets[CURVATURE if latent is None else "latent"],
        checkpoint=setting.checkpoint,
        randomness=setting.randomness,
        **options,
    )


def _certified(epsilon: float) -> Callable[[Setting], Publisher]:
    def make(setting: Setting) -> Publisher:
        from sfumato.publishers import CertifiedPublisher

        return CertifiedPublisher(
            epsilon,
            DELTA,
            shape=setting.data.shape,
            classes=setting.data.classes,
            kept=min(14, *setting.data.shape[:2]),
            randomness=setting.randomness,
        )

    return make


#: Method -> row, in the order of the tables.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(ORIGINAL, "Original", None),
        Method("pixelation", "Pixelation", _pixelation),
        Method("blur", "Blur", _blur),
        Method(K_ANONYMITY, "K-anonymity", _k_anonymity),
        Method(VAEGAN, "VAEGAN-DP", _vaegan_dp("paper")),
        Method("VAEGAN-DP, private", "VAEGAN-DP", _vaegan_dp("private")),
        Method("DPDM", "DPDM", _dpdm),
        Method(CURVATURE, OURS, curvature_publisher),
        Method("certified, ε = 10", None, _certified(10.0)),
        Method("certified, ε = 1", None, _certified(1.0)),
    )
}
