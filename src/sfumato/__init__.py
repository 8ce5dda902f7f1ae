"""Sfumato releases data so that nobody in it can be singled out, and says how far that promise goes.

Names are loaded when they are first used, so that ``import sfumato`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.audits import audit as audit
    from sfumato.errors import BadInput as BadInput
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.learners import fit_private as fit_private
    from sfumato.ledger import Ledger as Ledger
    from sfumato.mechanisms import AdditiveNoise as AdditiveNoise
    from sfumato.mechanisms import Duchi as Duchi
    from sfumato.mechanisms import Gaussian as Gaussian
    from sfumato.mechanisms import GridTensorLDP as GridTensorLDP
    from sfumato.mechanisms import HessianClipped as HessianClipped
    from sfumato.mechanisms import Hybrid as Hybrid
    from sfumato.mechanisms import IndependentDirectional as IndependentDirectional
    from sfumato.mechanisms import Laplace as Laplace
    from sfumato.mechanisms import LayerAdaptive as LayerAdaptive
    from sfumato.mechanisms import MatrixVariateGaussian as MatrixVariateGaussian
    from sfumato.mechanisms import Personalised as Personalised
    from sfumato.mechanisms import Piecewise as Piecewise
    from sfumato.mechanisms import PrivUnit as PrivUnit
    from sfumato.mechanisms import PrivUnitG as PrivUnitG
    from sfumato.mechanisms import Projection as Projection
    from sfumato.mechanisms import RandomisedResponse as RandomisedResponse
    from sfumato.mechanisms import Release as Release
    from sfumato.mechanisms import SymmetricTensors as SymmetricTensors
    from sfumato.mechanisms import TensorLDP as TensorLDP
    from sfumato.mechanisms import TrustAdaptive as TrustAdaptive
    from sfumato.mechanisms import WeightedTensorLDP as WeightedTensorLDP
    from sfumato.mechanisms.transforms import BinaryEncoding as BinaryEncoding
    from sfumato.mechanisms.transforms import LocalitySensitiveHash as LocalitySensitiveHash
    from sfumato.mechanisms.transforms import RandomProjection as RandomProjection
    from sfumato.mechanisms.transforms import ReconstructionResistant as ReconstructionResistant
    from sfumato.mechanisms.transforms import ReverseManifold as ReverseManifold
    from sfumato.media import BandNoise as BandNoise
    from sfumato.media import Blur as Blur
    from sfumato.media import ClipNoise as ClipNoise
    from sfumato.media import ContentAdaptive as ContentAdaptive
    from sfumato.media import DPPix as DPPix
    from sfumato.media import FrameNoise as FrameNoise
    from sfumato.media import Mask as Mask
    from sfumato.media import MelLaplace as MelLaplace
    from sfumato.media import Pixelate as Pixelate
    from sfumato.media import PlaneBands as PlaneBands
    from sfumato.media import PlaneMeans as PlaneMeans
    from sfumato.media import ScaledPixels as ScaledPixels
    from sfumato.media import SelectiveNoise as SelectiveNoise
    from sfumato.media import SensitivityMap as SensitivityMap
    from sfumato.media import SpectralLaplace as SpectralLaplace
    from sfumato.media import UniformPixels as UniformPixels
    from sfumato.noise import Keyed as Keyed
    from sfumato.noise import Seeded as Seeded
    from sfumato.privacy import Claim as Claim
    from sfumato.privacy import Evidence as Evidence
    from sfumato.privacy import Guarantee as Guarantee
    from sfumato.privacy import Neighbours as Neighbours
    from sfumato.privacy import Statement as Statement
    from sfumato.privacy import Unit as Unit
    from sfumato.publishers import BlurPublisher as BlurPublisher
    from sfumato.publishers import CertifiedPublisher as CertifiedPublisher
    from sfumato.publishers import KAnonymityPublisher as KAnonymityPublisher
    from sfumato.publishers import PixelationPublisher as PixelationPublisher
    from sfumato.publishers import RefinedPublisher as RefinedPublisher
    from sfumato.release import MediaMechanisms as MediaMechanisms
    from sfumato.release import load_model as load_model
    from sfumato.release import plan as plan
    from sfumato.release import protect as protect
    from sfumato.reports import report as report

__version__ = "0.1.0"

_ROOM_OF = {
    "AdditiveNoise": "mechanisms",
    "BadInput": "errors",
    "BandNoise": "media",
    "BinaryEncoding": "mechanisms.transforms",
    "Blur": "media",
    "BlurPublisher": "publishers",
    "CertifiedPublisher": "publishers",
    "Claim": "privacy",
    "ClipNoise": "media",
    "ContentAdaptive": "media",
    "DPPix": "media",
    "Duchi": "mechanisms",
    "Evidence": "privacy",
    "FrameNoise": "media",
    "Gaussian": "mechanisms",
    "GridTensorLDP": "mechanisms",
    "Guarantee": "privacy",
    "HessianClipped": "mechanisms",
    "Hybrid": "mechanisms",
    "IndependentDirectional": "mechanisms",
    "KAnonymityPublisher": "publishers",
    "Keyed": "noise",
    "Laplace": "mechanisms",
    "LayerAdaptive": "mechanisms",
    "Ledger": "ledger",
    "LocalitySensitiveHash": "mechanisms.transforms",
    "Mask": "media",
    "MatrixVariateGaussian": "mechanisms",
    "MediaMechanisms": "release",
    "MelLaplace": "media",
    "Neighbours": "privacy",
    "Personalised": "mechanisms",
    "Piecewise": "mechanisms",
    "Pixelate": "media",
    "PixelationPublisher": "publishers",
    "PlaneBands": "media",
    "PlaneMeans": "media",
    "PrivUnit": "mechanisms",
    "PrivUnitG": "mechanisms",
    "Projection": "mechanisms",
    "RandomProjection": "mechanisms.transforms",
    "RandomisedResponse": "mechanisms",
    "ReconstructionResistant": "mechanisms.transforms",
    "RefinedPublisher": "publishers",
    "Release": "mechanisms",
    "ReverseManifold": "mechanisms.transforms",
    "ScaledPixels": "media",
    "Seeded": "noise",
    "SelectiveNoise": "media",
    "SensitivityMap": "media",
    "SfumatoError": "errors",
    "SpectralLaplace": "media",
    "Statement": "privacy",
    "SymmetricTensors": "mechanisms",
    "TensorLDP": "mechanisms",
    "TrustAdaptive": "mechanisms",
    "UniformPixels": "media",
    "Unit": "privacy",
    "WeightedTensorLDP": "mechanisms",
    "audit": "audits",
    "load_model": "release",
    "plan": "release",
    "protect": "release",
    "report": "reports",
}

# Names that need an extra: listed and loaded like all others, but left out of ``from sfumato import *``.
_NEEDS_AN_EXTRA = {"fit_private": "learners"}

__all__ = ["__version__", *sorted(_ROOM_OF)]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__ = when_used("sfumato", _ROOM_OF | _NEEDS_AN_EXTRA)


def __dir__() -> list[str]:
    return sorted([*__all__, *_NEEDS_AN_EXTRA])
