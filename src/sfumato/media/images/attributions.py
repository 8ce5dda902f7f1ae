"""How much each pixel matters to a model: |∂f/∂x|, by which selective perturbation chooses (section 3.3.2).

An attribution maps pictures (n, h, w, c) with values in [0, 1] to (n, h, w), none negative. The paper does
not say which model it differentiates. The default here is a public one without training, whose gradient is
known in closed form; a caller's own model goes through :func:`model_gradient`, and a score that cannot be
differentiated, such as a detector's, through :func:`occlusion`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.media.images.tiles import edges, tile_grid

__all__ = ["Attribution", "contrast_gradient", "model_gradient", "occlusion"]

Array = NDArray[np.float64]
Attribution = Callable[[Array], Array]

_LUMA = np.array([0.299, 0.587, 0.114])
# Deviations in pixels of the centre and of the surround.
_CENTRE, _SURROUND = 1.0, 3.0


def contrast_gradient(pictures: Array) -> Array:
    """|∂f/∂x| of f(x) = ½‖Kx‖², where K is a centre minus its surround, on luma: |KᵀKx|.

    K is a difference of two Gaussian filters. With mirrored borders such a filter is symmetric only inside,
    so near the border this is the gradient with the border's mirror image held fixed.
    """
    from scipy.ndimage import gaussian_filter

    luma = pictures[..., :3] @ _LUMA if pictures.shape[-1] >= 3 else pictures[..., 0]

    def contrast(values: Array) -> Array:
        centre = gaussian_filter(values, sigma=(0.0, _CENTRE, _CENTRE), mode="reflect")
        surround = gaussian_filter(values, sigma=(0.0, _SURROUND, _SURROUND), mode="reflect")
        return np.asarray(centre - surround)

    return np.abs(contrast(contrast(luma)))


def model_gradient(model: Any) -> Attribution:
    """|∂f/∂x| of a torch ``model`` on pictures (n, c, h, w), summed over outputs, and over channels."""
    try:
        import torch
    except ImportError:
        raise BadInput("the gradient of a model needs torch: pip install 'sfumato[learn]'.") from None

    def attribution(pictures: Array) -> Array:
        inputs = torch.tensor(np.moveaxis(pictures, -1, 1), dtype=torch.float32, requires_grad=True)
        (found,) = torch.autograd.grad(model(inputs).sum(), inputs)
        return np.asarray(found.abs().sum(dim=1).numpy(), dtype=np.float64)

    return attribution


def occlusion(score: Callable[[Array], float], *, tile: int = 16) -> Attribution:
    """Finite differences of ``score`` of a picture (h, w, c): how it moves when a tile turns to its mean."""

    def attribution(pictures: Array) -> Array:
        found = np.zeros(pictures.shape[:3])
        height, width = pictures.shape[1:3]
        rows, cols = tile_grid(height, width, tile)
        down, across = edges(height, rows), edges(width, cols)
        for picture, moved in zip(pictures, found, strict=True):
            whole = score(picture)
            for y0, y1 in pairwise(down):
                for x0, x1 in pairwise(across):
                    hidden = picture.copy()
                    hidden[y0:y1, x0:x1] = picture[y0:y1, x0:x1].mean(axis=(0, 1))
                    moved[y0:y1, x0:x1] = abs(score(hidden) - whole)
        return found

    return attribution
