"""Random projection with noise, its normalised form, and hashing by random hyperplanes.

Three baselines of TADP-RME. The projection is public and orthonormal, and no record's row depends on
another's, so the guarantee is that of the noise: nothing for the paper's plain additive noise, and the
full promise when ``noise`` is a mechanism that clips what it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import AdditiveNoise, ExpectedError, Mechanism
from sfumato.mechanisms.base import finite, held
from sfumato.mechanisms.parameters import whole
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.mechanisms.transforms.transform import Transform
from sfumato.noise import NORMAL, Rounded, Seeded, each_block
from sfumato.privacy import Claim, Guarantee

__all__ = ["LocalitySensitiveHash", "RandomProjection", "ReconstructionResistant"]

Array = NDArray[np.float64]

# Rows with larger entries are scaled down before they are projected.
_MODERATE = 2.0**512
ProjectionSeed = Annotated[int, Parameter("Names the public projection.")]


def _directions(seed: int, columns: int, count: int) -> Array:
    """``count`` public random directions as columns of a (columns, count) matrix of Gaussian entries."""
    stream = Seeded(seed).stream(b"directions %d %d" % (columns, count))
    return Rounded(NORMAL, [2.0**20]).draw(stream, columns * count).reshape(columns, count) * 2.0**-20


@lru_cache(maxsize=4)
def _basis(seed: int, columns: int, count: int) -> Array:
    """Orthonormal directions; kept, since a release by blocks asks for them again and again."""
    return np.asarray(np.linalg.qr(_directions(seed, columns, count))[0])


def _moderate(values: Array) -> tuple[Array, Array]:
    """Rows whose products and sums cannot overflow, and the power of two (n, 1) that they were scaled by."""
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    scale = np.where(largest > _MODERATE, 1.0 / _MODERATE, 1.0)[:, None]
    return (values * scale if (largest > _MODERATE).any() else values), scale


@dataclass(eq=False, repr=False)
class RandomProjection(Mechanism):
    """Projects each record on ``components`` random orthonormal directions, then releases it by ``noise``.

    ``noise`` defaults to ``AdditiveNoise(0.1)`` as in the paper. ``seed`` names the public projection;
    with fewer columns than components, as many components as columns are kept.

    **Guarantee.** That of ``noise``, which holds whatever records it is given: each projected record is a
    function of one record.
    """

    kinds = ("array",)
    units = ("record",)

    components: Annotated[int, Parameter("Number of dimensions that are kept.", symbol="K")] = 64
    noise: Annotated[
        Mechanism | None,
        Parameter(
            "Mechanism that releases the projected records; additive-noise unless given.", doors=("python",)
        ),
    ] = None
    seed: ProjectionSeed = 0

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """That of the noise."""
        return self._noise().guarantee(None if columns is None else self._kept(columns))

    def claim(self) -> Claim | None:
        """What is claimed for the noise."""
        return self._noise().claim()

    def _nested(self) -> dict[str, Mechanism]:
        return {"noise": self._noise()}

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """That of the noise, on the projected values."""
        return self._noise().expected_error(self._kept(columns))

    def released_columns(self, columns: int) -> int:
        """As many as are kept."""
        return self._kept(columns)

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """As for every mechanism, with the basis of the projection, which is made by a QR decomposition."""
        return super().working_bytes(columns, rows) + 32 * self._kept(columns) * columns

    def prepare(self, columns: int, dtype: np.dtype[Any]) -> None:
        """Refuse what the noise could not draw, and a seed that names no projection."""
        _ = Seeded(self.seed).seed
        self._noise().prepare(self._kept(columns), dtype)

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse what is not finite, and what the noise refuses of projected rows."""
        super().check(X, first)
        self._noise().check(self._projected(X, first), first)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The projected and noised rows; see :meth:`Mechanism.perturb`."""
        rows, columns = X.shape
        size, noise = self.block_rows(columns), self._noise()
        # The noise is asked block by block, so that its bytes do not depend on how many rows came at once.
        parts: dict[int, NDArray[Any]] = {}

        def work(block: int) -> None:
            start = block * size
            projected = self._projected(X[start : start + size], first + start)
            parts[block] = self._finish(noise.perturb(projected, first + start))

        each_block(work, -(-rows // size))
        return np.concatenate([parts[block] for block in range(len(parts))])

    def _projected(self, X: NDArray[Any], first: int) -> NDArray[Any]:
        """Rows ``first``, … along the public directions; beyond its type's numbers, the largest of them."""
        basis = _basis(Seeded(self.seed).seed, X.shape[1], self._kept(X.shape[1]))
        values, scale = _moderate(finite(X, first))
        with np.errstate(over="ignore"):
            return held((values @ basis) / scale, X.dtype)

    def _finish(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows

    def _kept(self, columns: int) -> int:
        return min(whole("components", self.components), columns)

    def _noise(self) -> Mechanism:
        noise = AdditiveNoise(0.1) if self.noise is None else self.noise
        if not isinstance(noise, Mechanism):
            raise BadInput(
                f"`noise` must be a mechanism such as sf.Gaussian(…), not {shown(noise)}.", parameter="noise"
            )
        return noise

    def _randomness(self) -> Any:
        return self._noise()._randomness()


class ReconstructionResistant(RandomProjection):
    """Random projection and noise, then every row scaled to length one (post-processing).

    **Guarantee.** That of ``noise``; scaling to length one is post-processing.
    """

    kinds = ("array",)
    units = ("record",)

    def _finish(self, rows: NDArray[Any]) -> NDArray[Any]:
        largest = np.abs(rows).max(axis=1, keepdims=True)  # so that no square overflows or vanishes
        unit = rows / np.where(largest > 0, largest, 1.0)
        size = np.linalg.norm(unit, axis=1, keepdims=True)
        return (unit / np.where(size > 0, size, 1.0)).astype(rows.dtype)


@dataclass(eq=False, repr=False)
class LocalitySensitiveHash(Transform):
    """``bits`` signs of random projections: 1 where the record lies on the positive side of a hyperplane.

    **Guarantee.** On raw data nothing: it is deterministic. On a release that of the release, by
    post-processing.
    """

    kinds = ()
    units = ()

    bits: Annotated[int, Parameter("Number of signs.", symbol="B")] = 64
    seed: ProjectionSeed = 0

    def _map(self, X: NDArray[Any]) -> NDArray[Any]:
        values, _ = _moderate(X.astype(np.float64))  # a scale changes no side
        side = values @ _directions(self.seed, X.shape[1], whole("bits", self.bits))
        return (side > 0).astype(X.dtype)
