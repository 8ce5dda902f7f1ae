"""Video: flicker where a clip stands still and lag where it moves, at the same proven ε for one frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from sfumato.media.images import PlaneMeans
from sfumato.media.video import FrameNoise
from sfumato.noise import Seeded
from sfumato.privacy import Unit, ar1_factor, gaussian_epsilon, gaussian_mu
from sfumato.utility import flicker, lag
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part, held
from sfumato_reproductions.multimedia_dp.published import DELTA
from sfumato_reproductions.multimedia_dp.sources import Bytes, Sources
from sfumato_reproductions.regenerate import Report

__all__ = ["steadiness_part"]

#: Height, width and number of channels of a frame.
Shape = tuple[int, int, int]

_EPSILON, _UNIT, _STRONG, _BEST = 4.0, Unit("region", 16), 0.9, 0.41
# Frames until a filter has settled; the side of a still region; how much it may change without noise.
_SETTLED, _SIDE, _STILL = 10, 48, 1.0
_PLAIN = "independent noise, unfiltered"


def steadiness_part(sources: Sources, report: Report) -> Part:
    """Independent and correlated noise, and filters over time, on real clips."""
    shape, frames = _shape(sources.clips[0][1]), len(sources.clips[0][1])
    found: dict[str, list[dict[str, float]]] = {name: [] for name in _releases(shape)}
    for done, (_, clip) in enumerate(sources.clips):
        still, moving = _stillest(clip), _moving(clip)
        calm = flicker(clip, still) < _STILL
        base: dict[str, dict[str, float]] = {}
        for name, (law, _, noise) in _releases(_shape(clip)).items():
            released = noise.release(clip).value
            one = {
                "psnr": _decibels(released, clip, moving),
                "lag": lag(_in(released, moving), _in(clip, moving)),
            }
            if calm:
                one["flicker"] = flicker(released[_SETTLED:], still)
            base.setdefault(law, one)
            ratio = {"flicker": one["flicker"] / base[law]["flicker"]} if calm else {}
            gone = {key: one[key] - base[law][key] for key in ("lag", "psnr")}
            found[name].append(gone | ratio)
        report("video", (done + 1) / len(sources.clips))
    rows = [
        _row(name, law, claimed, noise.shaped(shape, frames), found[name], shape)
        for name, (law, claimed, noise) in _releases(shape).items()
    ]
    return Part(
        key="video",
        title="Video: flicker and lag",
        told=_TOLD,
        grids=(_grid(rows, frames),),
        numbers={"clips": len(sources.clips), "frames": frames, "rows": rows},
    )


_TOLD = (
    "*Claimed*: correlated noise across frames prevents flickering (section 4.3.1), n_t = βn_{t−1} + "
    "√(1−β²)·w_t with the same σ as independent noise. *Proven* is for any 16 × 16 pixels of one frame, "
    "and for all frames of the clip. *Measured* beside the first row of the same law: flicker of the "
    "stillest region as a ratio, added lag and gained PSNR where the clip moves most. Medians of lag, "
    "means of the rest. Frames are restored from noisy averages; more noise is smoothed more, which lowers "
    "flicker and PSNR alike."
)


def _shape(clip: Bytes) -> Shape:
    height, width, channels = clip.shape[1:]
    return height, width, channels


def _releases(shape: Shape) -> dict[str, tuple[str, float | None, FrameNoise]]:
    """Name -> law of the noise, the ε claimed by the paper where it is a paper's, and the noise.

    Frames of ``shape`` are cut into the same blocks under independent and under correlated noise.
    """
    block = PlaneMeans(_EPSILON, DELTA, _UNIT).design(shape).blocks.luma

    def noise(epsilon: float, delta: float, **options: Any) -> FrameNoise:
        side = block if "beta" in options else None
        return FrameNoise(PlaneMeans(epsilon, delta, _UNIT, side), randomness=Seeded(0), **options)

    gaussian, laplace = f"Gaussian, δ = {DELTA:g}", "Laplace"
    same = gaussian_epsilon(ar1_factor(_STRONG) * gaussian_mu(_EPSILON, DELTA), DELTA)
    plain: dict[str, Any] = {"smoothing": 0.0}
    steady: dict[str, Any] = {"follow": "nothing"}
    return {
        _PLAIN: (gaussian, None, noise(_EPSILON, DELTA, **plain)),
        f"correlated, β = {_STRONG:g}, same σ: the paper's": (
            gaussian,
            _EPSILON,
            noise(same, DELTA, beta=_STRONG, **plain),
        ),
        f"correlated, β = {_STRONG:g}, same ε": (
            gaussian,
            None,
            noise(_EPSILON, DELTA, beta=_STRONG, **plain),
        ),
        f"correlated, β = {_BEST:g}, same ε": (gaussian, None, noise(_EPSILON, DELTA, beta=_BEST, **plain)),
        "steady filter of the release": (gaussian, None, noise(_EPSILON, DELTA, **steady)),
        "filter that follows motion, our default": (gaussian, None, noise(_EPSILON, DELTA)),
        f"{_PLAIN}, pure ε": (laplace, None, noise(_EPSILON, 0.0, **plain)),
        "steady filter of the release, pure ε": (laplace, None, noise(_EPSILON, 0.0, **steady)),
        "filter that follows motion, pure ε": (laplace, None, noise(_EPSILON, 0.0)),
    }


def _row(
    name: str,
    law: str,
    claimed: float | None,
    noise: FrameNoise,
    found: list[dict[str, float]],
    shape: Shape,
) -> dict[str, Any]:
    ratios = [one["flicker"] for one in found if "flicker" in one]
    return {
        "release": name,
        "law": law,
        "claimed_epsilon": claimed,
        "proven": held(noise.proven(_UNIT, shape)),
        "proven_clip": held(noise.proven(Unit("clip"), shape)),
        "still_clips": len(ratios),
        "flicker": float(np.mean(ratios)) if ratios else None,
        "worst_flicker": float(np.max(ratios)) if ratios else None,
        "lag": float(np.median([one["lag"] for one in found])),
        "psnr": float(np.mean([one["psnr"] for one in found])),
    }


def _grid(rows: list[dict[str, Any]], frames: int) -> Grid:
    def ratio(value: float | None) -> str:
        return NONE if value is None else f"{value:.2f}"

    body = tuple(
        (
            row["release"],
            row["law"],
            NONE if row["claimed_epsilon"] is None else f"{row['claimed_epsilon']:g}",
            row["proven"],
            row["proven_clip"],
            ratio(row["flicker"]),
            ratio(row["worst_flicker"]),
            f"{row['lag']:+.2f}".replace("-", "−"),
            f"{row['psnr']:+.2f} dB".replace("-", "−"),
        )
        for row in rows
    )
    heads = (
        "release",
        "law",
        "claimed ε",
        f"proven, {_UNIT} of a frame",
        f"proven, clip of {frames} frames",
        f"measured flicker, mean of {rows[0]['still_clips']} still regions",
        "worst",
        "measured lag, frames",
        "measured PSNR where it moves",
    )
    return Grid(f"Releases of ε = {_EPSILON:g} for {_UNIT} of one frame", heads, body)


def _changes(clip: Bytes) -> NDArray[np.float64]:
    return np.asarray(np.abs(np.diff(clip.astype(np.int16), axis=0)).mean(axis=(0, 3)))


def _stillest(clip: Bytes) -> tuple[slice, slice]:
    half = _SIDE // 2
    means = uniform_filter(_changes(clip), _SIDE)[half:-half, half:-half]
    y, x = np.unravel_index(np.argmin(means), means.shape)
    return slice(int(y), int(y) + _SIDE), slice(int(x), int(x) + _SIDE)


def _moving(clip: Bytes) -> NDArray[np.bool_]:
    """The tenth of all pixels around which most changes."""
    changes = uniform_filter(_changes(clip), 16)
    return np.asarray(changes > np.quantile(changes, 0.9))


def _in(clip: Bytes, where: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray(clip[:, where].mean(axis=2)[:, :, None])


def _decibels(released: Bytes, clip: Bytes, where: NDArray[np.bool_]) -> float:
    error = released[_SETTLED:, where].astype(np.float64) - clip[_SETTLED:, where]
    return float(10.0 * np.log10(255.0**2 / np.square(error).mean()))
