"""What the asked ε of a clip leaves for one frame, and how finely a frame is then cut."""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import delta_between, positive
from sfumato.media.images.image_mechanism import Shape
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.privacy import Unit, gaussian_epsilon, gaussian_mu

__all__ = ["IN_A_FRAME", "WHOLE", "finer_block", "is_gaussian", "repeats", "spread", "video_unit"]

#: Units that lie inside one frame, and those that hold all of them.
IN_A_FRAME, WHOLE = ("region", "pixels"), ("clip", "channel", "item")

# More blocks than this take longer to restore than a frame is shown, and hardly show more.
_MOST_BLOCKS = 20_000


def video_unit(unit: str | Unit) -> Unit:
    """``unit``, if it is one that the frames of a clip have."""
    parsed = Unit.parse(unit)
    if parsed.name not in (*IN_A_FRAME, "frame", *WHOLE):
        raise BadInput(
            f"frames have the units region(m), pixels(m), frame, channel, clip and item, not {parsed}.",
            parameter="unit",
        )
    return parsed


def is_gaussian(values: dict[str, Any]) -> bool:
    """Whether a mechanism with the parameters ``values`` adds Gaussian noise."""
    return bool(values.get("delta", 0.0)) and values.get("noise", "gaussian") == "gaussian"


def repeats(frames: int, gaussian: bool) -> float:
    """How much more a change of ``frames`` frames costs than that of one: in μ if ``gaussian``, else in ε."""
    return math.sqrt(frames) if gaussian else float(frames)


def spread(values: dict[str, Any], times: float) -> float:
    """The ε for one picture, of which ``times`` as much, in ε or in μ, is the ε of ``values``."""
    epsilon = positive("epsilon", values["epsilon"])
    if not is_gaussian(values):
        return epsilon / times
    delta = delta_between(values["delta"])
    return gaussian_epsilon(gaussian_mu(epsilon, delta) / times, delta)


def finer_block(values: dict[str, Any], epsilon: float, shape: Shape, smoothing: float) -> int:
    """Blocks for what the filter leaves of the noise of ``epsilon``.

    It leaves √((1−β)/(1+β)) of it where nothing moves, and all of it where all moves. Blocks are for
    half of the way between, in logarithms: finer ones show more, but flicker more.
    """
    gain = ((1.0 + smoothing) / (1.0 - smoothing)) ** 0.25
    sensible = PlaneMeans(**(values | {"epsilon": gain * epsilon})).design(shape).blocks.luma
    return max(sensible, math.ceil(math.sqrt(shape[0] * shape[1] / _MOST_BLOCKS)))
