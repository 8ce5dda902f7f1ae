"""Sfumato releases data so that nobody in it can be singled out, and says how far that promise goes.

Names are loaded when they are first used, so that ``import sfumato`` stays light.
"""

__version__ = "0.1.0"

# Below this line: written by `make index` from the `__all__` of every module.
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
    from sfumato.mechanisms import mechanism as mechanism
    from sfumato.mechanisms.transforms import BinaryEncoding as BinaryEncoding
    from sfumato.mechanisms.transforms import LocalitySensitiveHash as LocalitySensitiveHash
    from sfumato.mechanisms.transforms import RandomProjection as RandomProjection
    from sfumato.mechanisms.transforms import ReconstructionResistant as ReconstructionResistant
    from sfumato.mechanisms.transforms import ReverseManifold as ReverseManifold
    from sfumato.media.audio import BandNoise as BandNoise
    from sfumato.media.audio import MelLaplace as MelLaplace
    from sfumato.media.images import Blur as Blur
    from sfumato.media.images import ContentAdaptive as ContentAdaptive
    from sfumato.media.images import DPPix as DPPix
    from sfumato.media.images import Mask as Mask
    from sfumato.media.images import Pixelate as Pixelate
    from sfumato.media.images import PlaneBands as PlaneBands
    from sfumato.media.images import PlaneMeans as PlaneMeans
    from sfumato.media.images import ScaledPixels as ScaledPixels
    from sfumato.media.images import SelectiveNoise as SelectiveNoise
    from sfumato.media.images import SensitivityMap as SensitivityMap
    from sfumato.media.images import SpectralLaplace as SpectralLaplace
    from sfumato.media.images import UniformPixels as UniformPixels
    from sfumato.media.video import ClipNoise as ClipNoise
    from sfumato.media.video import FrameNoise as FrameNoise
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
    from sfumato.release import federate as federate
    from sfumato.release import learn as learn
    from sfumato.release import load_model as load_model
    from sfumato.release import plan as plan
    from sfumato.release import protect as protect
    from sfumato.release import publish as publish
    from sfumato.release import verify as verify
    from sfumato.reports import report as report

__all__ = [
    "AdditiveNoise",
    "BadInput",
    "BandNoise",
    "BinaryEncoding",
    "Blur",
    "BlurPublisher",
    "CertifiedPublisher",
    "Claim",
    "ClipNoise",
    "ContentAdaptive",
    "DPPix",
    "Duchi",
    "Evidence",
    "FrameNoise",
    "Gaussian",
    "GridTensorLDP",
    "Guarantee",
    "HessianClipped",
    "Hybrid",
    "IndependentDirectional",
    "KAnonymityPublisher",
    "Keyed",
    "Laplace",
    "LayerAdaptive",
    "Ledger",
    "LocalitySensitiveHash",
    "Mask",
    "MatrixVariateGaussian",
    "MediaMechanisms",
    "MelLaplace",
    "Neighbours",
    "Personalised",
    "Piecewise",
    "Pixelate",
    "PixelationPublisher",
    "PlaneBands",
    "PlaneMeans",
    "PrivUnit",
    "PrivUnitG",
    "Projection",
    "RandomProjection",
    "RandomisedResponse",
    "ReconstructionResistant",
    "RefinedPublisher",
    "Release",
    "ReverseManifold",
    "ScaledPixels",
    "Seeded",
    "SelectiveNoise",
    "SensitivityMap",
    "SfumatoError",
    "SpectralLaplace",
    "Statement",
    "SymmetricTensors",
    "TensorLDP",
    "TrustAdaptive",
    "UniformPixels",
    "Unit",
    "WeightedTensorLDP",
    "__version__",
    "audit",
    "federate",
    "learn",
    "load_model",
    "mechanism",
    "plan",
    "protect",
    "publish",
    "report",
    "verify",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "AdditiveNoise": "mechanisms",
            "BadInput": "errors",
            "BandNoise": "media.audio",
            "BinaryEncoding": "mechanisms.transforms",
            "Blur": "media.images",
            "BlurPublisher": "publishers",
            "CertifiedPublisher": "publishers",
            "Claim": "privacy",
            "ClipNoise": "media.video",
            "ContentAdaptive": "media.images",
            "DPPix": "media.images",
            "Duchi": "mechanisms",
            "Evidence": "privacy",
            "FrameNoise": "media.video",
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
            "Mask": "media.images",
            "MatrixVariateGaussian": "mechanisms",
            "MediaMechanisms": "release",
            "MelLaplace": "media.audio",
            "Neighbours": "privacy",
            "Personalised": "mechanisms",
            "Piecewise": "mechanisms",
            "Pixelate": "media.images",
            "PixelationPublisher": "publishers",
            "PlaneBands": "media.images",
            "PlaneMeans": "media.images",
            "PrivUnit": "mechanisms",
            "PrivUnitG": "mechanisms",
            "Projection": "mechanisms",
            "RandomProjection": "mechanisms.transforms",
            "RandomisedResponse": "mechanisms",
            "ReconstructionResistant": "mechanisms.transforms",
            "RefinedPublisher": "publishers",
            "Release": "mechanisms",
            "ReverseManifold": "mechanisms.transforms",
            "ScaledPixels": "media.images",
            "Seeded": "noise",
            "SelectiveNoise": "media.images",
            "SensitivityMap": "media.images",
            "SfumatoError": "errors",
            "SpectralLaplace": "media.images",
            "Statement": "privacy",
            "SymmetricTensors": "mechanisms",
            "TensorLDP": "mechanisms",
            "TrustAdaptive": "mechanisms",
            "UniformPixels": "media.images",
            "Unit": "privacy",
            "WeightedTensorLDP": "mechanisms",
            "audit": "audits",
            "federate": "release",
            "fit_private": "learners",
            "learn": "release",
            "load_model": "release",
            "mechanism": "mechanisms",
            "plan": "release",
            "protect": "release",
            "publish": "release",
            "report": "reports",
            "verify": "release",
        },
    )
