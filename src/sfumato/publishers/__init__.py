"""Datasets that can be handed over: what is learned from private records, and what is published instead.

Publishers that train networks are loaded when they are first asked for, since they need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used
from sfumato.publishers.baseline_publishers import BlurPublisher, PixelationPublisher
from sfumato.publishers.certified_publisher import CertifiedPublisher
from sfumato.publishers.k_anonymity import KAnonymityPublisher
from sfumato.publishers.publisher import Publisher
from sfumato.publishers.refined_publisher import RefinedPublisher

if TYPE_CHECKING:
    from sfumato.publishers.curvature_publisher import CurvaturePublisher
    from sfumato.publishers.dpdm import DPDMPublisher
    from sfumato.publishers.vaegan_dp import VAEGANDPPublisher

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
    "sfumato.publishers",
    {
        "CurvaturePublisher": "curvature_publisher",
        "DPDMPublisher": "dpdm",
        "VAEGANDPPublisher": "vaegan_dp",
    },
)
