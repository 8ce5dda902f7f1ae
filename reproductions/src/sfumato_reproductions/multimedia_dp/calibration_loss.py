"""Table 2, measured: what the paper's noise leaves of photographs, and ours at the same proven ε."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images import PictureMechanism, PlaneMeans, SpectralLaplace
from sfumato.noise import Seeded
from sfumato.privacy import Unit
from sfumato.utility import psnr, ssim
from sfumato_reproductions.multimedia_dp.calibration_table import (
    CLAIMED,
    PAPER_NOISE,
    readings,
    readings_grid,
)
from sfumato_reproductions.multimedia_dp.part import Grid, Part, held, proven_epsilon
from sfumato_reproductions.multimedia_dp.protocol import SIDE
from sfumato_reproductions.multimedia_dp.published import CALIBRATION, DELTA, NEEDED_SSIM
from sfumato_reproductions.multimedia_dp.sources import Sources
from sfumato_reproductions.regenerate import Report

__all__ = ["calibration_part", "measured_loss"]

_SHAPE, _UNIT = (SIDE, SIDE, 3), Unit("region", 16)
# So many photographs are enough to find an ε to within a factor of two.
_FEW = 8


def calibration_part(sources: Sources, report: Report) -> Part:
    """Table 2: theorems for every row, and the loss of the rows about pictures."""
    pictures = np.stack([photograph.pixels for photograph in sources.squares])
    rows, count = [], len(PAPER_NOISE)
    for done, (name, noise) in enumerate(PAPER_NOISE.items()):
        guarantee = noise.proven(_UNIT, _SHAPE)
        # Pure ε is more than (ε, δ), and at an ε this large Laplace noise is the smaller one.
        ours = PlaneMeans(guarantee.epsilon(), unit=_UNIT)
        printed = CALIBRATION["pixels" if name == "pixels" else "cosines"].loss
        for what, made in ((f"the paper's noise on {name}", noise), ("PlaneMeans, same proven ε", ours)):
            decibels, similar = measured_loss(made, pictures, 1)
            rows.append(
                {
                    "release": what,
                    "claimed_epsilon": CLAIMED if made is noise else None,
                    "claimed_loss": printed if made is noise and "growing" not in name else None,
                    "proven_epsilon": made.proven(_UNIT, _SHAPE).epsilon(),
                    "delta": made.proven(_UNIT, _SHAPE).at_delta,
                    "proven": held(made.proven(_UNIT, _SHAPE)),
                    "psnr": decibels,
                    "ssim": similar,
                }
            )
        report("table 2: loss", (done + 0.8) / count)
    needed = _needed(pictures[:_FEW], sources.run.quick)
    report("table 2: loss", 1.0)
    theorems = readings()
    return Part(
        key="table 2",
        title="Table 2: scale factors and utility loss",
        told=_TOLD,
        grids=(readings_grid(theorems), _grid(rows), _needed_grid(needed)),
        numbers={"readings": [reading.to_dict() for reading in theorems], "loss": rows, "needed": needed},
    )


_TOLD = (
    "*Claimed* is table 2's row at ε = 1. *Proven* is the certified ε over every placement of the unit under "
    "`replace`, of the noise that was really added; under Laplace noise it is proportional to the claimed ε. "
    "*Measured* are means over photographs. The rows of ours are calibrated to the ε that the row above them "
    "proves for region(16), so that both promise the same there, ours without any δ."
)


def measured_loss(
    mechanism: PictureMechanism, pictures: NDArray[np.uint8], rounds: int
) -> tuple[float, float]:
    """Mean PSNR in dB and mean SSIM over ``rounds`` seeded releases of ``pictures`` (n, h, w, …)."""
    found = []
    shaped = mechanism.shaped(pictures.shape[1:])
    for seed in range(rounds):
        made = type(shaped)(**(shaped.get_params(deep=False) | {"randomness": Seeded(seed)}))
        released = made.release(pictures).value
        both = (each(pictures, released, data_range=255.0).mean() for each in (psnr, ssim))
        found.append([float(value) for value in both])
    decibels, similar = np.mean(found, axis=0)
    return float(decibels), float(similar)


def _needed(pictures: NDArray[np.uint8], quick: bool) -> dict[str, Any]:
    """The smallest claimed ε at which noise on coefficients keeps the SSIM of table 2, by bisection."""
    low, high = 1.0, 4096.0
    for _ in range(3 if quick else 8):
        middle = math.sqrt(low * high)
        noise = SpectralLaplace(middle, "gaussian", delta=DELTA)
        low, high = (low, middle) if measured_loss(noise, pictures, 1)[1] >= NEEDED_SSIM else (middle, high)
    noise = SpectralLaplace(high, "gaussian", delta=DELTA)
    proven = {str(unit): noise.proven(unit, _SHAPE).epsilon() for unit in (Unit("pixels", 1), _UNIT)}
    return {"ssim": NEEDED_SSIM, "claimed_epsilon": high, "proven_epsilon": proven, "delta": DELTA}


def _grid(rows: list[dict[str, Any]]) -> Grid:
    body = tuple(
        (
            row["release"],
            "–" if row["claimed_epsilon"] is None else f"{row['claimed_epsilon']:g}",
            row["claimed_loss"] or "–",
            row["proven"],
            f"{row['psnr']:.2f} dB",
            f"{row['ssim']:.3f}",
            f"{100.0 * (1.0 - row['ssim']):.1f}%",
        )
        for row in rows
    )
    heads = (
        "release",
        "claimed ε",
        "claimed loss",
        f"proven for {_UNIT}",
        "measured PSNR",
        "measured SSIM",
        "measured loss of SSIM",
    )
    return Grid("What is left of photographs", heads, body)


def _needed_grid(needed: dict[str, Any]) -> Grid:
    heads = (
        "claimed loss of SSIM",
        "claimed ε it takes",
        *(f"proven ε, {unit}" for unit in needed["proven_epsilon"]),
    )
    row = (
        f"{100.0 * (1.0 - needed['ssim']):.1f}%",
        f"{needed['claimed_epsilon']:.0f}",
        *(proven_epsilon(value) for value in needed["proven_epsilon"].values()),
    )
    caption = f"The claimed ε from which noise on coefficients loses no more than table 2 says, δ = {DELTA:g}"
    return Grid(caption, heads, (row,))
