"""Flicker that the filter over time leaves, the lag it costs where something moves, and frames a second.

Every real clip is released twice at the same proven ε per frame: unfiltered, each frame as good a picture as
the mechanism makes, and as the default does. Flicker is measured where a clip stands most still, lag and
error where it moves most. The lag of a filter is what it adds to that of the unfiltered release.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter

from sfumato.io import open_video
from sfumato.media.images import PlaneMeans
from sfumato.media.video import FrameNoise
from sfumato.noise import Seeded
from sfumato.utility import flicker, lag
from timing import Row

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[1].parent / "shared" / "data")) / "videos"
FRAMES, SETTLED, SIDE = 80, 10, 48
# In 255ths: a region that changes by more from frame to frame, before any noise, does not stand still.
STILL = 1.0


def measure() -> list[Row]:
    clips = [_frames(path) for path in sorted(DATA.glob("*.*"))] if DATA.is_dir() else []
    if not clips:
        return [Row("no real clips at hand: SFUMATO_DATA names their folder", "skipped", 0.0)]
    rows = []
    for epsilon, delta in ((4.0, 0.0), (16.0, 0.0), (4.0, 1e-6)):
        rows += _compared(clips, epsilon, delta)
    return [*rows, _speed(clips)]


def _compared(clips: list[np.ndarray], epsilon: float, delta: float) -> list[Row]:
    ratios, steady, lags, steady_lags, gains = [], [], [], [], []
    for clip in clips:
        plain = _released(clip, epsilon, delta, smoothing=0.0)
        kept = _released(clip, epsilon, delta)
        plainly = _released(clip, epsilon, delta, follow="nothing")
        still, moving = _stillest(clip), _moving(clip)
        if flicker(clip, still) < STILL:
            noise = flicker(plain[SETTLED:], still)
            ratios.append(flicker(kept[SETTLED:], still) / noise)
            steady.append(flicker(plainly[SETTLED:], still) / noise)
        own = lag(_inside(plain, moving), _inside(clip, moving))
        lags.append(lag(_inside(kept, moving), _inside(clip, moving)) - own)
        steady_lags.append(lag(_inside(plainly, moving), _inside(clip, moving)) - own)
        gains.append(_decibels(kept, clip, moving) - _decibels(plain, clip, moving))
    law = f"ε={epsilon:g}, " + (f"δ={delta:g}" if delta else "pure")
    each = f"{len(ratios)} still regions"
    return [
        Row(
            f"flicker over unfiltered, {law}, {each}, mean",
            f"{np.mean(ratios):.3f}",
            np.mean(ratios),
            at_most=0.4,
        ),
        Row(
            f"flicker over unfiltered, {law}, {each}, worst",
            f"{np.max(ratios):.3f}",
            np.max(ratios),
            at_most=0.4,
        ),
        Row(f"… of the same memory without motion, {law}, mean", f"{np.mean(steady):.3f}", np.mean(steady)),
        Row(
            f"lag it costs where clips move, {law}, median", f"{np.median(lags):.2f} frames", np.median(lags)
        ),
        Row(
            f"… of the same memory without motion, {law}, median",
            f"{np.median(steady_lags):.2f} frames",
            np.median(steady_lags),
        ),
        Row(f"PSNR gained where clips move, {law}, mean", f"{np.mean(gains):+.2f} dB", np.mean(gains)),
    ]


def _released(clip: np.ndarray, epsilon: float, delta: float, **options: Any) -> np.ndarray:
    noise = FrameNoise(PlaneMeans(epsilon, delta, "region(16)"), randomness=Seeded(0), **options)
    return noise.release(clip).value


def _speed(clips: list[np.ndarray]) -> Row:
    clip = max(clips, key=lambda each: each[0].size)
    noise = FrameNoise(PlaneMeans(4.0))
    noise.release(clip[:4])
    start = time.perf_counter()
    noise.release(clip)
    speed = len(clip) / (time.perf_counter() - start)
    height, width = clip.shape[1:3]
    return Row(f"frames a second through noise and filter, {width} × {height}", f"{speed:.0f}", speed)


def _frames(path: Path) -> np.ndarray:
    return np.stack(
        [frame.pixels for frame, _ in zip(open_video(path).pictures(), range(FRAMES), strict=False)]
    )


def _changes(clip: np.ndarray) -> np.ndarray:
    return np.abs(np.diff(clip.astype(np.int16), axis=0)).mean(axis=(0, 3))


def _stillest(clip: np.ndarray) -> tuple[slice, slice]:
    half = SIDE // 2
    means = uniform_filter(_changes(clip), SIDE)[half:-half, half:-half]
    y, x = np.unravel_index(np.argmin(means), means.shape)
    return slice(int(y), int(y) + SIDE), slice(int(x), int(x) + SIDE)


def _moving(clip: np.ndarray) -> np.ndarray:
    """The tenth of all pixels around which most changes."""
    changes = uniform_filter(_changes(clip), 16)
    return changes > np.quantile(changes, 0.9)


def _inside(clip: np.ndarray, where: np.ndarray) -> np.ndarray:
    return clip[:, where].mean(axis=2)[:, :, None]


def _decibels(released: np.ndarray, clip: np.ndarray, where: np.ndarray) -> float:
    error = released[SETTLED:, where].astype(float) - clip[SETTLED:, where]
    return float(10.0 * np.log10(255.0**2 / np.square(error).mean()))
