"""Every mechanism once, and the analytic Gaussian by mpmath as an oracle that shares no code with ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from sfumato.mechanisms import Mechanism

# 500 categories: what scikit-learn's checks round their random data to lies well below.
MAKERS: dict[str, Callable[[Any], Mechanism]] = {
    "Gaussian": lambda source: sf.Gaussian(clip=1.0, randomness=source, epsilon=1.0),
    "Gaussian-box": lambda source: sf.Gaussian(bounds=(-1.0, 1.0), randomness=source, epsilon=1.0),
    "Laplace": lambda source: sf.Laplace(clip=1.0, randomness=source, epsilon=1.0),
    "AdditiveNoise": lambda source: sf.AdditiveNoise(randomness=source),
    "TrustAdaptive": lambda source: sf.TrustAdaptive(clip=1.0, randomness=source, epsilon=(1.0, 8.0)),
    "Personalised": lambda source: sf.Personalised(clip=1.0, randomness=source, epsilon=1.0),
    "RandomisedResponse": lambda source: sf.RandomisedResponse(
        categories=500, randomness=source, epsilon=1.0
    ),
    "BinaryEncoding": lambda source: sf.BinaryEncoding(randomness=source),
    "RandomProjection": lambda source: sf.RandomProjection(
        2, sf.Laplace(clip=1.0, randomness=source, epsilon=1.0)
    ),
    "ReconstructionResistant": lambda source: sf.ReconstructionResistant(
        2, sf.AdditiveNoise(randomness=source)
    ),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[Any], Mechanism]:
    """A function from a randomness to a mechanism; the test runs once for each mechanism."""
    maker: Callable[[Any], Mechanism] = request.param
    return maker


@pytest.fixture
def codes() -> np.ndarray:
    """Records that every mechanism accepts, whole numbers from 0 to 7 included."""
    return np.arange(60.0).reshape(12, 5) % 8


@pytest.fixture(scope="session")
def exact_delta() -> Callable[[float, Any], Any]:
    """δ(ε; μ) of the analytic Gaussian to 60 digits."""

    def delta(epsilon: float, mu: Any) -> Any:
        with mpmath.workdps(60):
            e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

    return delta
