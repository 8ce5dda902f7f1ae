"""Randomised mechanisms, each calibrated from its parameters alone."""

from sfumato.mechanisms.control import AdditiveNoise
from sfumato.mechanisms.expected import ExpectedError
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.personalised import Personalised
from sfumato.mechanisms.release import Release
from sfumato.mechanisms.response import RandomisedResponse
from sfumato.mechanisms.table import Rows
from sfumato.mechanisms.trust import Tiers, TrustAdaptive

__all__ = [
    "AdditiveNoise",
    "ExpectedError",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "Personalised",
    "RandomisedResponse",
    "Release",
    "Rows",
    "Tiers",
    "TrustAdaptive",
]
