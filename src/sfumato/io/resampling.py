"""Sound at another rate, block by block: a polyphase filter whose blocks join without a seam.

The filter is that of :func:`scipy.signal.resample_poly`: a low-pass with a Kaiser window, ten zero crossings
of the slower rate on either side. Each block is filtered with as many samples of its neighbours as the filter
reaches over, so the blocks together are the whole sound resampled at once.

A sample spreads over twenty of the slower rate's, so a window of the sound before is a longer one after it: a
guarantee for windows of the resampled sound covers, of the original, windows shorter by that much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["resampled", "resampled_length"]

Array = NDArray[np.float64]

_CROSSINGS = 10


def resampled_length(samples: int, rate: int, wanted: int) -> int:
    """How many samples a sound of ``samples`` samples has at the rate ``wanted``."""
    return -(-samples * wanted // rate)


def resampled(blocks: Iterator[Array], rate: int, wanted: int, channels: int) -> Iterator[Array]:
    """Blocks (k, channels) at ``rate`` hertz as blocks at ``wanted`` hertz."""
    from scipy.signal import firwin, resample_poly

    common = math.gcd(rate, wanted)
    up, down = wanted // common, rate // common
    half = _CROSSINGS * max(up, down)
    filter_ = firwin(2 * half + 1, 1.0 / max(up, down), window=("kaiser", 5.0))
    # Blocks are cut at multiples of ``down``, where a sample of the one rate falls on one of the other.
    reach = -(-half // up)
    reach = -(-reach // down) * down
    waiting, before = np.zeros((0, channels)), 0

    def filtered(part: Array, left: int, count: int) -> Array:
        """The output of ``count`` samples of ``part`` that stand after ``left`` samples of context."""
        full = resample_poly(part, up, down, axis=0, window=filter_)
        first = left * up // down
        return np.asarray(full[first : first + resampled_length(count, rate, wanted)])

    for block in blocks:
        waiting = np.concatenate([waiting, block])
        ready = (len(waiting) - before - reach) // down * down
        if ready > 0:
            yield filtered(waiting[: before + ready + reach], before, ready)
            kept = min(before + ready, reach)
            waiting, before = waiting[before + ready - kept :].copy(), kept
    if len(waiting) > before:
        yield filtered(waiting, before, len(waiting) - before)
