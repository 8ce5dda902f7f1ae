"""Selective perturbation as published: noise on chosen pixels, the others as they are (Table 5).

**Guarantee.** Let b be the Laplace scale on every channel of a chosen pixel, h the white of the picture, c
its channels and m the pixels of a unit; neighbours: replace. Noise on m pixels costs m·c·h/b in pure ε, and b
is what makes that the ε that was asked for.

- *uniform*: every pixel is chosen, so this is what holds.
- *random*: a coin that does not look at the data chooses each pixel with probability p. Where it does not,
  the pixel is shown. So with probability 1 − p^m some pixel of the unit is shown, and no ε gives a δ below
  that; otherwise what holds is the above.
- *gradient*, *attention*, *hybrid*: which pixels are chosen depends on the picture, and those that are not
  chosen are released as they are. Nothing is proven.

The paper calls these "0.82ε" to "0.93ε" at "equivalent privacy levels" and names no theorem.

**Edge cases.** Noise is rounded to a grid far finer than the levels of a picture. In a picture of one colour
nothing lies above the threshold μ + kσ, so nothing is chosen, and it is released as it is.

**Attributions** (section 3.3.2): how much each pixel matters to a model, |∂f/∂x|. An attribution maps
pictures (n, h, w, c) with values in [0, 1] to (n, h, w), none negative. The paper does not say which model it
differentiates. The default here is a public one without training, whose gradient is known in closed form; a
caller may give another function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    LARGEST,
    Epsilon,
    ExpectedError,
    Parameter,
    RandomSource,
    numeric,
    one_of,
    positive,
    saliency_weights,
    share,
    shown,
)
from sfumato.media.images.image_mechanism import (
    ImageUnit,
    PictureMechanism,
    Shape,
    footprint,
    picture_unit,
)
from sfumato.noise import LAPLACE, Rounded, Stream, coins, grid_step
from sfumato.privacy import REQUIRED, Claim, Guarantee, Neighbours, Unit

__all__ = ["SelectiveNoise"]

Array = NDArray[np.float64]

Attribution = Callable[[Array], Array]

_LUMA = np.array([0.299, 0.587, 0.114])
# Deviations in pixels of the centre and of the surround.
_CENTRE, _SURROUND = 1.0, 3.0


def contrast_gradient(pictures: Array) -> Array:
    """Return |∂f/∂x| of f(x) = ½‖Kx‖², where K is a centre minus its surround, on luma: |KᵀKx|.

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


STRATEGIES = ("uniform", "random", "gradient", "attention", "hybrid")

# Rows of Table 5: coverage, and what the paper writes for privacy loss.
_PUBLISHED = {
    "uniform": ("100%", "1.00ε"),
    "random": ("50%", "0.82ε"),
    "gradient": ("35%", "0.91ε"),
    "attention": ("42%", "0.93ε"),
    "hybrid": ("38%", "0.90ε"),
}
_COIN = 1 << 64


@dataclass(eq=False, repr=False)
class SelectiveNoise(PictureMechanism):
    """Laplace noise on chosen pixels; ``strategy`` is uniform, random, gradient, attention or hybrid.

    ``epsilon`` is what a chosen unit would cost. Content is chosen where a pixel's importance exceeds
    μ + ``k``·σ over the picture; with a ``coverage`` in (0, 1], the most important pixels up to that share
    are chosen instead (of equally important ones those that come first), and for random it is the
    probability p (a half where it is left out). ``attribution`` maps pictures (n, h, w, c) in [0, 1] to
    importances (n, h, w); left out, it is the gradient of a public contrast model. Attention is the spectral
    residual; hybrid is the sum of both, each in units of its own deviation.

    **Guarantee.** Under replace, where pixels are chosen at random what is shown, with its chance; where
    content is chosen nothing.
    """

    kinds = ("picture", "video")

    epsilon: Epsilon = REQUIRED
    strategy: Annotated[str, Parameter("Which pixels get noise.", choices=STRATEGIES)] = "hybrid"
    unit: ImageUnit = "pixels(1)"
    _: KW_ONLY
    k: Annotated[float, Parameter("How many deviations above the mean a pixel's importance has to be.")] = 0.0
    coverage: Annotated[float | None, Parameter("Share of the pixels that gets noise.")] = None
    attribution: Annotated[
        Callable[[Array], Array] | None,
        Parameter("Function that says how important each pixel is.", doors=("python",)),
    ] = None
    randomness: RandomSource = None

    def claim(self) -> Claim | None:
        """Return what Table 5 says."""
        strategy = one_of("strategy", self.strategy, STRATEGIES)
        coverage, loss = _PUBLISHED[strategy]
        return Claim(
            text=f"{strategy}: coverage {coverage}, privacy loss {loss}",
            source="Adaptive multimedia DP, Table 5",
            epsilon=float(loss[:-1]) * positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return what holds of ``unit``; see the module."""
        strategy, scale = one_of("strategy", self.strategy, STRATEGIES), self.scale(shape)
        count = footprint(unit, shape).pixels
        if strategy not in ("uniform", "random"):
            return Guarantee.nothing(
                "pixels are chosen by what they show, and those that are not chosen are released as they are",
                unit=unit,
                neighbours=Neighbours.REPLACE,
            )
        noise = Guarantee.laplace(
            scale / (count * shape[2]), unit=unit, theorem="Laplace mechanism on every pixel"
        )
        bare = _COIN - self._threshold()
        if not bare:
            return noise
        # 1 − (1 − q)^m with the digits of a small q.
        hidden = -math.inf if bare == _COIN else count * math.log1p(-bare / _COIN)
        shown_chance = min(1.0, -math.expm1(hidden) * (1.0 + 1e-12))
        theorem = "pixels are shown by a coin that does not look, the others noised"
        return replace(noise, revealed=shown_chance, at_delta=shown_chance, theorem=theorem)

    def scale(self, shape: Shape) -> float:
        """Return the Laplace scale on each channel, where white is 1."""
        count = footprint(self.unit, shape).pixels
        return count * shape[2] / positive("epsilon", self.epsilon) * (1.0 + 1e-12)

    def chosen(self, pictures: NDArray[Any], high: float, streams: Sequence[Stream]) -> NDArray[np.bool_]:
        """Return which pixels (n, h, w) get noise. ``streams``, one or one a picture, toss the coins."""
        strategy, shape = one_of("strategy", self.strategy, STRATEGIES), pictures.shape[:3]
        if strategy in ("uniform", "random"):
            if (threshold := self._threshold()) == _COIN:
                return np.ones(shape, dtype=np.bool_)
            each = len(pictures) // len(streams) * shape[1] * shape[2]
            return np.concatenate([coins(stream, threshold, each) for stream in streams]).reshape(shape)
        values = self._importance(strategy, pictures.astype(np.float64) / high).reshape(len(pictures), -1)
        if self.coverage is not None:
            count = int(np.ceil(self._coverage() * values.shape[1]))
            order = np.argsort(-values, axis=1, kind="stable")[:, :count]
            out = np.zeros(values.shape, dtype=np.bool_)
            np.put_along_axis(out, order, True, axis=1)
            return out.reshape(shape)
        k = self._deviations()
        mean, deviation = values.mean(axis=1, keepdims=True), values.std(axis=1, keepdims=True)
        return np.asarray(((values > mean + k * deviation) & (deviation > 0.0)).reshape(shape))

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return chosen pixels noised, the others as they came; see :meth:`PictureMechanism.soften`."""
        scale, step = self._scale_and_step(pictures.shape[1:], high)
        values = pictures.astype(np.float64)
        cells = np.trunc(values / step).reshape(len(pictures), -1)
        # Pixels that are not chosen are released to the last bit, so the content is every bit; and the white
        # that they stand for, since the same values on another scale get other noise.
        bits = values.reshape(len(pictures), -1).view(np.int64)
        whites = np.full((len(pictures), 1), int(high), dtype=np.int64)
        streams = self._streams(first, np.concatenate([bits, whites], axis=1))
        chosen = self.chosen(pictures, high, streams)
        rounded, each = Rounded(LAPLACE, [scale / step]), cells.size // len(streams)
        noise = np.concatenate([rounded.draw(stream, each)[0] for stream in streams]).reshape(cells.shape)
        noised = ((cells + noise) * step).reshape(values.shape)
        return np.where(chosen[..., None], noised, values)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the noise on a chosen pixel, before it is clipped to the range of a picture."""
        deviation = self.scale(self._picture(columns)) * LAPLACE.deviation * 255.0
        return (ExpectedError("each chosen value, in 255ths of white", "root mean square error", deviation),)

    def parameters(self) -> dict[str, Any]:
        """Return every parameter but the randomness; an attribution by its name."""
        values = super().parameters() | {"unit": str(picture_unit(self.unit))}
        used = self._attribution()
        name = getattr(used, "__qualname__", type(used).__qualname__)
        module = getattr(used, "__module__", "")
        # Keyed noise depends on the name, so ours stay what they were when the module moves.
        module = "sfumato.media.attributions" if module == contrast_gradient.__module__ else module
        return values | {"attribution": f"{module}.{name}"}

    def _prepared(self, shape: Shape, high: float) -> None:
        scale, step = self._scale_and_step(shape, high)
        Rounded(LAPLACE, [scale / step])
        self._deviations()
        if self.coverage is not None:
            self._coverage()
        self._attribution()

    def _scale_and_step(self, shape: Shape, high: float) -> tuple[float, float]:
        """Return the scale of the noise, and the step of the grid that it is drawn on."""
        scale = self.scale(shape) * high
        return scale, grid_step(scale, high)

    def _deviations(self) -> float:
        k = numeric(self.k)
        if k is None or k.ndim or not abs(float(k)) <= LARGEST:
            raise BadInput(f"`k` must be a number, not {shown(self.k)}.", parameter="k")
        return float(k)

    def _attribution(self) -> Callable[[Array], Array]:
        if self.attribution is not None and not callable(self.attribution):
            raise BadInput(
                f"`attribution` must be None or a function of pictures, not {shown(self.attribution)}.",
                parameter="attribution",
            )
        return self.attribution or contrast_gradient

    def _threshold(self) -> int:
        """Return the coin of a pixel in 2⁻⁶⁴: how many of these choose it."""
        if self.strategy == "uniform":
            return _COIN
        return int((0.5 if self.coverage is None else self._coverage()) * _COIN)

    def _coverage(self) -> float:
        coverage = share("coverage", self.coverage)
        if coverage <= 0.0:
            raise BadInput(
                "`coverage` must lie above 0: where nothing is chosen there is no noise.",
                parameter="coverage",
            )
        return coverage

    def _importance(self, strategy: str, values: Array) -> Array:
        """Return importances (n, h, w) of pictures in [0, 1]."""
        parts = []
        if strategy in ("gradient", "hybrid"):
            parts.append(np.asarray(self._attribution()(values), dtype=np.float64))
            if parts[0].shape != values.shape[:3] or not np.isfinite(parts[0]).all():
                raise BadInput(f"an attribution must give finite importances of shape {values.shape[:3]}.")
        if strategy in ("attention", "hybrid"):
            rows = values[..., :3].reshape(len(values), -1)
            weights = saliency_weights(rows, (*values.shape[1:3], min(values.shape[3], 3)))
            parts.append(weights.reshape(*values.shape[:3], -1)[..., 0])
        if len(parts) == 1:
            return parts[0]
        spread = [part.std(axis=(1, 2), keepdims=True) for part in parts]
        return np.asarray(
            sum(part / np.where(s > 0.0, s, 1.0) for part, s in zip(parts, spread, strict=True))
        )
