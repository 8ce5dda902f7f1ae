"""Diffusion models small enough for private training without a graphics card, from network to sampler."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this package may count on it)
except ImportError:
    raise BadInput("diffusion models need torch: pip install 'sfumato[learn]'.") from None

from sfumato.publish.diffusion.denoising import Denoiser
from sfumato.publish.diffusion.example_gradients import ExampleGradients
from sfumato.publish.diffusion.network import UNet
from sfumato.publish.diffusion.sampling import Sampler
from sfumato.publish.diffusion.training import Training

__all__ = ["Denoiser", "ExampleGradients", "Sampler", "Training", "UNet"]
