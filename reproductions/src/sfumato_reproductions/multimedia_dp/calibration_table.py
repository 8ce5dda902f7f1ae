"""Table 2 by theorem: the ε that each row's scale factor proves, for one value, a small unit and the item."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sfumato.media.audio import MelLaplace
from sfumato.media.images import PictureMechanism, ScaledPixels, SpectralLaplace
from sfumato.privacy import Unit, gaussian_epsilon
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, proven_epsilon
from sfumato_reproductions.multimedia_dp.protocol import SIDE
from sfumato_reproductions.multimedia_dp.published import CALIBRATION, DELTA, Calibration

__all__ = ["CLAIMED", "PAPER_NOISE", "Reading", "readings", "readings_grid"]

#: The claimed ε at which everything is read.
CLAIMED = 1.0

_SHAPE, _GREY = (SIDE, SIDE, 3), (SIDE, SIDE, 1)
_REGION, _SECONDS, _WORDS = 16, 3, 100
_RATE = 22_050  # hertz, section 4.1.1


@dataclass(frozen=True)
class Reading:
    """A row: ``proven`` is ε for one value, a small unit and the item; ``noise`` is that of the paper."""

    row: Calibration
    name: str
    proven: tuple[float, float, float]
    units: tuple[str, str, str]
    delta: float
    note: str = ""
    noise: str = ""

    @property
    def printed(self) -> str:
        """The noise that is claimed to be ε-DP."""
        row = self.row
        return self.noise or f"{row.distribution}, {row.factor:g}Δ/ε, Δ = {row.sensitivity}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; nothing is None."""
        finite = [value if math.isfinite(value) else None for value in self.proven]
        return {
            "feature": self.row.feature,
            "reading": self.name,
            "claimed_epsilon": CLAIMED,
            "scale_factor": self.row.factor,
            "units": list(self.units),
            "proven_epsilon": finite,
            "delta": self.delta,
        }


#: The three noises on pictures, by the row of table 2 and how it is read.
PAPER_NOISE: dict[str, PictureMechanism] = {
    "pixels": ScaledPixels(CLAIMED),
    "coefficients, Gaussian": SpectralLaplace(CLAIMED, "gaussian", delta=DELTA),
    "coefficients, Laplace growing with f": SpectralLaplace(CLAIMED),
}


@lru_cache(maxsize=1)
def readings() -> tuple[Reading, ...]:
    """Every row of table 2 at the claimed ε of 1; two for coefficients, for sound, for flow and for words."""
    pictures = [_picture(name, noise) for name, noise in PAPER_NOISE.items()]
    return (*pictures, *_sound(), *_flow(), *_words())


def _picture(name: str, noise: PictureMechanism) -> Reading:
    row = CALIBRATION["pixels" if name == "pixels" else "cosines"]
    # One value of a pixel is a pixel of a grey picture of the same size.
    asked = ((Unit("pixels", 1), _GREY), (Unit("region", _REGION), _SHAPE), (Unit("item"), _SHAPE))
    value, region, item = (noise.proven(unit, shape).epsilon() for unit, shape in asked)
    delta = noise.proven(Unit("item"), _SHAPE).at_delta
    growing = "growing" in name
    note = "section 3.2.1" if growing else ""
    printed = "Laplace, λ(1 + f/f_max)^0.6, λ as above" if growing else ""
    units = ("one value of a pixel", f"region({_REGION})", f"picture of {SIDE} × {SIDE}")
    return Reading(row, name, (value, region, item), units, delta, note, printed)


def _sound() -> tuple[Reading, Reading]:
    row, made = CALIBRATION["sound"], []
    shape = (_SECONDS * _RATE, 1)
    # The quietest noise stands where the ear is most sensitive.
    level = MelLaplace(CLAIMED).level_epsilon()
    units = ("one level near 3 kHz, at t₀", "window(20)", f"clip of {_SECONDS} s")
    for name, decay in (("levels, fading noise", 50.0), ("levels, noise that does not fade", None)):
        noise = MelLaplace(CLAIMED, rate=_RATE, decay=decay)
        window, clip = (noise.proven(unit, shape).epsilon() for unit in (Unit("window", 20), Unit("clip")))
        note = f"one level at 1 kHz, where A(f) = 1: {CLAIMED / row.factor:g}"
        note += "" if decay is None else "; 1.5 s away from t₀ the noise is e⁻³⁰ of itself"
        made.append(Reading(row, name, (level, window, clip), units, 0.0, note))
    return made[0], made[1]


def _flow() -> tuple[Reading, Reading]:
    row = CALIBRATION["flow"]
    value = CLAIMED / row.factor
    units = ("one value of a vector", f"region({_REGION}) of the field", f"field of {SIDE} × {SIDE}")
    proven = (value, 2 * _REGION**2 * value, 2 * SIDE**2 * value)
    nothing = (math.inf, math.inf, math.inf)
    chance = -math.expm1(-value)
    return (
        Reading(row, "two-sided", proven, units, 0.0, "of vectors; pixels reach many vectors"),
        Reading(row, "one-sided, as printed", nothing, units, 0.0, f"no ε has a δ below {chance:.3f}"),
    )


def _words() -> tuple[Reading, Reading]:
    row, made = CALIBRATION["words"], []
    for name, change in (("word left out, Δ = 1", 1.0), ("word replaced, Δ = 2", 2.0)):
        mu = change * CLAIMED / row.factor
        word, text = gaussian_epsilon(mu, DELTA), gaussian_epsilon(math.sqrt(_WORDS) * mu, DELTA)
        made.append(
            Reading(row, name, (word, math.nan, text), ("one word", "", f"text of {_WORDS} words"), DELTA)
        )
    return made[0], made[1]


def readings_grid(rows: tuple[Reading, ...]) -> Grid:
    """The theorems as a table."""

    def cell(reading: Reading, place: int) -> str:
        value = reading.proven[place]
        if math.isnan(value):
            return NONE
        return f"{proven_epsilon(value)} ({reading.units[place]})"

    body = tuple(
        (
            reading.row.feature,
            reading.name,
            reading.printed,
            f"{CLAIMED:g}",
            *(cell(reading, place) for place in range(3)),
            f"{reading.delta:g}",
            reading.note or NONE,
        )
        for reading in rows
    )
    heads = (
        "feature",
        "reading",
        "claimed noise",
        "claimed ε",
        "proven ε, one value",
        "proven ε, small unit",
        "proven ε, item",
        "δ",
        "note",
    )
    return Grid("Scale factors: claimed ε against the ε that a theorem gives", heads, body)
