"""Datasets that can be handed over: what is learned from private records, and what is published instead.

Publishers that train networks are loaded when they are first asked for, since they need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_NEED_TORCH = {
    "CurvaturePublisher": "curvature_publisher",
    "DPDMPublisher": "dpdm",
    "VAEGANDPPublisher": "vaegan_dp",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"sfumato.publish has no {name!r}.")
    value = getattr(importlib.import_module(f"sfumato.publish.{_NEED_TORCH[name]}"), name)
    globals()[name] = value
    return value
