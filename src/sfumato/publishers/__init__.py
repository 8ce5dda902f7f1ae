"""Publishers: they learn from private pictures and publish other pictures in their place.

Publishers that train networks need torch and are loaded when they are first used.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.publishers.baseline_publishers import BlurPublisher as BlurPublisher
    from sfumato.publishers.baseline_publishers import KAnonymityPublisher as KAnonymityPublisher
    from sfumato.publishers.baseline_publishers import PixelationPublisher as PixelationPublisher
    from sfumato.publishers.certified_publisher import CertifiedPublisher as CertifiedPublisher
    from sfumato.publishers.certified_publisher import RefinedPublisher as RefinedPublisher
    from sfumato.publishers.curvature_publisher import CurvaturePublisher as CurvaturePublisher
    from sfumato.publishers.dpdm import DPDMPublisher as DPDMPublisher
    from sfumato.publishers.publisher import ALIKE as ALIKE
    from sfumato.publishers.publisher import Labelled as Labelled
    from sfumato.publishers.publisher import Publisher as Publisher
    from sfumato.publishers.vaegan_dp import VAEGANDPPublisher as VAEGANDPPublisher

__all__ = [
    "ALIKE",
    "BlurPublisher",
    "CertifiedPublisher",
    "CurvaturePublisher",
    "DPDMPublisher",
    "KAnonymityPublisher",
    "Labelled",
    "PixelationPublisher",
    "Publisher",
    "RefinedPublisher",
    "VAEGANDPPublisher",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "BlurPublisher": "baseline_publishers",
            "KAnonymityPublisher": "baseline_publishers",
            "PixelationPublisher": "baseline_publishers",
            "CertifiedPublisher": "certified_publisher",
            "RefinedPublisher": "certified_publisher",
            "CurvaturePublisher": "curvature_publisher",
            "DPDMPublisher": "dpdm",
            "ALIKE": "publisher",
            "Labelled": "publisher",
            "Publisher": "publisher",
            "VAEGANDPPublisher": "vaegan_dp",
        },
    )
