"""PSNR and SSIM against DP-Pix at the same unit and the same pure ε, on luma of test photographs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images import DPPix, PictureMechanism, PlaneMeans
from sfumato.privacy import Unit
from sfumato_reproductions.multimedia_dp.calibration_loss import measured_loss
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part, held
from sfumato_reproductions.multimedia_dp.protocol import SIDE
from sfumato_reproductions.multimedia_dp.sources import Sources
from sfumato_reproductions.regenerate import Report

__all__ = ["closeness_part"]

_UNIT, _EPSILONS, _SIZES = Unit("pixels", 16), (1.0, 4.0), (4, 8, 16, 32)
_RESTORES = ("wiener", "learned")
# Luma in 256ths of the channels, as PlaneMeans mixes them.
_LUMA = np.array([77.0, 150.0, 29.0]) / 256.0


def closeness_part(sources: Sources, report: Report) -> Part:
    """DP-Pix in its four sizes and PlaneMeans, and how far ours is above the best of the former."""
    pictures = np.stack([_luma(photograph.pixels) for photograph in sources.photographs])
    rows: list[dict[str, Any]] = []
    steps = len(_EPSILONS) * (len(_SIZES) + len(_RESTORES))
    for epsilon in _EPSILONS:
        made: dict[str, PictureMechanism] = {
            f"DP-Pix, blocks of {size}": DPPix(epsilon, _UNIT, size) for size in _SIZES
        }
        made |= {
            f"PlaneMeans, {restore}": PlaneMeans(epsilon, unit=_UNIT, restore=restore)
            for restore in _RESTORES
        }
        block: list[dict[str, Any]] = []
        for name, noise in made.items():
            decibels, similar = measured_loss(noise, pictures, sources.run.rounds)
            proven = held(noise.proven(_UNIT, (SIDE, SIDE, 1)))
            block.append(
                {"release": name, "epsilon": epsilon, "proven": proven, "psnr": decibels, "ssim": similar}
            )
            report("pictures beside DP-Pix", (len(rows) + len(block)) / steps)
        theirs = [row for row in block if "DP-Pix" in row["release"]]
        best = [max(row[measure] for row in theirs) for measure in ("psnr", "ssim")]
        for row in block:
            ours = "PlaneMeans" in row["release"]
            row["gain"] = [row["psnr"] - best[0], row["ssim"] - best[1]] if ours else None
        rows += block
    return Part(
        key="closeness",
        title="Pictures beside DP-Pix at equal proven unit and ε",
        told=_TOLD,
        grids=(_grid(rows),),
        numbers={"pictures": len(pictures), "rows": rows},
    )


_TOLD = (
    "Luma of the middle 224 × 224 pixels, any 16 pixels, pure ε. *Claimed* and *proven* agree for DP-Pix and "
    "for ours; both differ in what they make of it. Gains are over the best DP-Pix of the same ε, for each "
    "measure by itself."
)


def _luma(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    top, left = (height - SIDE) // 2, (width - SIDE) // 2
    cut = pixels[top : top + SIDE, left : left + SIDE].astype(np.float64)
    return np.asarray(np.rint(cut @ _LUMA), dtype=np.uint8)


def _grid(rows: list[dict[str, Any]]) -> Grid:
    body = tuple(
        (
            row["release"],
            f"{row['epsilon']:g}",
            row["proven"],
            f"{row['psnr']:.2f} dB",
            f"{row['ssim']:.3f}",
            NONE
            if row["gain"] is None
            else f"{row['gain'][0]:+.2f} dB, {row['gain'][1]:+.3f}".replace("-", "−"),
        )
        for row in rows
    )
    heads = (
        "release",
        "claimed ε",
        f"proven, {_UNIT}",
        "measured PSNR",
        "measured SSIM",
        "above the best DP-Pix",
    )
    return Grid("Means over photographs and releases", heads, body)
