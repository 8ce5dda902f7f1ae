"""Diffusion models small enough for private training without a graphics card, from network to sampler."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this package may count on it)
except ImportError:
    raise BadInput("diffusion models need torch: pip install 'sfumato[learn]'.") from None

from sfumato.publishers.diffusion.denoising import Denoiser
from sfumato.publishers.diffusion.diffusion_model import UNet
from sfumato.publishers.diffusion.diffusion_sampler import Sampler
from sfumato.publishers.diffusion.diffusion_training import Training
from sfumato.publishers.diffusion.example_gradients import ExampleGradients

__all__ = ["Denoiser", "ExampleGradients", "Sampler", "Training", "UNet"]
