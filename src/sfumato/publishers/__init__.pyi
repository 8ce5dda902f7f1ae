# Written by `make index` from the `__all__` of every module.
from .baseline_publishers import BlurPublisher as BlurPublisher
from .baseline_publishers import KAnonymityPublisher as KAnonymityPublisher
from .baseline_publishers import PixelationPublisher as PixelationPublisher
from .certified_publisher import CertifiedPublisher as CertifiedPublisher
from .certified_publisher import RefinedPublisher as RefinedPublisher
from .curvature_publisher import CurvaturePublisher as CurvaturePublisher
from .dpdm import DPDMPublisher as DPDMPublisher
from .publisher import ALIKE as ALIKE
from .publisher import Labelled as Labelled
from .publisher import Publisher as Publisher
from .vaegan_dp import VAEGANDPPublisher as VAEGANDPPublisher
