"""Datasets that can be handed over: what is learned from private records, and what is published instead.

Publishers that train networks are loaded when they are first asked for, since they need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used
from sfumato.publish.certified import CertifiedPublisher
from sfumato.publish.k_anonymity import KAnonymityPublisher
from sfumato.publish.obscuring import BlurPublisher, PixelationPublisher
from sfumato.publish.publisher import Publisher
from sfumato.publish.refined import RefinedPublisher

if TYPE_CHECKING:
    from sfumato.publish.curvature_publisher import CurvaturePublisher
    from sfumato.publish.dpdm import DPDMPublisher
    from sfumato.publish.vaegan_dp import VAEGANDPPublisher

__all__ = [
    "BlurPublisher",
    "CertifiedPublisher",
    "CurvaturePublisher",
    "DPDMPublisher",
    "KAnonymityPublisher",
    "PixelationPublisher",
    "Publisher",
    "RefinedPublisher",
    "VAEGANDPPublisher",
]

__getattr__ = when_used(
    "sfumato.publish",
    {
        "CurvaturePublisher": "curvature_publisher",
        "DPDMPublisher": "dpdm",
        "VAEGANDPPublisher": "vaegan_dp",
    },
)
