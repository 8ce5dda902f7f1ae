"""The modified discrete cosine transform as an orthogonal map, by blocks, forwards and back.

The signal is cut into blocks of N samples. At each inner boundary the h samples on either side are mixed by
plane rotations, then each block is transformed by an orthonormal DCT-IV. Rotations and DCT-IV are orthogonal,
so the whole is: sums of squares are kept, and the inverse is the transpose. It is the MDCT of Princen &
Bradley (1986), time-domain aliasing cancellation included, with a window that rises over 2h samples; h = N/2
is full overlap. The two ends of a signal have no boundary, so n samples give ⌈n/N⌉ blocks and no more.

Coefficient k of block t depends on the samples from tN − h up to (t+1)N + h alone, which is what a bound on
the effect of a short stretch of time rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from sfumato.errors import BadInput

__all__ = ["Analysis", "Lapped", "Synthesis", "Window", "mdct"]

Array = NDArray[np.float64]
Window = Literal["sine", "kbd"]

# The shape of the Kaiser window whose running sum is the "kbd" window; 4 is what AAC uses for long blocks.
_KAISER = 4.0 * np.pi


@dataclass(frozen=True)
class Lapped:
    """An MDCT of ``hop`` samples a block whose neighbours overlap by ``lap`` samples on either side.

    ``lap`` is at most ``hop``/2; 0 is a DCT-IV block by block. ``window`` is the shape of the overlap.
    """

    hop: int
    lap: int
    window: Window = "sine"

    def __post_init__(self) -> None:
        for name in ("hop", "lap"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise BadInput(
                    f"`{name}` was {value!r}: it must be a whole number of samples.", parameter=name
                )
        if self.hop < 1 or not 0 <= 2 * self.lap <= self.hop:
            raise BadInput(
                f"`hop` was {self.hop} and lap {self.lap}: a hop is 1 sample or more, a lap at most half "
                "of it.",
                parameter="hop",
            )
        if self.window not in ("sine", "kbd"):
            raise BadInput(
                f"`window` was {self.window!r}: 'sine' and 'kbd' are accepted.", parameter="window"
            )

    def blocks(self, samples: int) -> int:
        """How many blocks a signal of ``samples`` samples has."""
        return -(-samples // self.hop)

    def touched(self, samples: int) -> int:
        """The largest number of blocks that a stretch of ``samples`` samples anywhere has a part in."""
        return (samples + self.hop + 2 * self.lap - 2) // self.hop + 1 if samples else 0

    def forward(self, signal: Array) -> Array:
        """Coefficients (…, blocks, hop) of signals (…, n); the last block is filled up with zeros."""
        samples = signal.shape[-1]
        blocks = self.blocks(samples)
        padded = np.zeros((*signal.shape[:-1], blocks * self.hop))
        padded[..., :samples] = signal
        cut = padded.reshape(*signal.shape[:-1], blocks, self.hop)
        _rotate(cut, self.lap, self.window, 1.0)
        return np.asarray(dct(cut, type=4, axis=-1, norm="ortho", overwrite_x=True))

    def inverse(self, coefficients: Array, samples: int) -> Array:
        """The first ``samples`` samples of the signals with ``coefficients`` (…, blocks, hop)."""
        cut = np.asarray(dct(coefficients, type=4, axis=-1, norm="ortho"))
        _rotate(cut, self.lap, self.window, -1.0)
        return np.ascontiguousarray(cut.reshape(*cut.shape[:-2], -1)[..., :samples])


def _rotate(cut: Array, lap: int, window: Window, sign: float) -> None:
    """Mix, in place, the last ``lap`` samples of each block with the first of the next; −1 turns back."""
    if lap == 0 or cut.shape[-2] < 2:
        return
    _turn(cut[..., :-1, :][..., -lap:][..., ::-1], cut[..., 1:, :][..., :lap], window, sign)


def _turn(left: Array, right: Array, window: Window, sign: float) -> None:
    """Rotate the pairs (left_j, right_j), both views counted from the boundary outwards, in place."""
    sine, cosine = _angles(left.shape[-1], window)
    mixed = sine * left - sign * cosine * right
    right *= sine
    right += sign * cosine * left
    left[...] = mixed


@lru_cache(maxsize=64)
def _angles(lap: int, window: Window) -> tuple[Array, Array]:
    """The window on the near and on the far side of a boundary, from the boundary outwards; s² + c² = 1."""
    if window == "sine":
        angle = (np.arange(lap) + lap + 0.5) * (np.pi / (4.0 * lap))
        return np.sin(angle), np.cos(angle)
    running = np.cumsum(np.kaiser(2 * lap + 1, _KAISER))
    share = running[:-1] / running[-1]
    return np.sqrt(share[lap:]), np.sqrt(share[:lap][::-1])


def mdct(hop: int, lap: int | None = None, window: Window = "sine") -> Lapped:
    """The MDCT of ``hop`` samples a block, with full overlap unless ``lap`` says less."""
    return Lapped(hop, hop // 2 if lap is None else lap, window)


class Analysis:
    """The coefficients of one signal of any length, given and taken piece by piece.

    Memory holds one block beyond what was given. The pieces together are exactly ``forward`` of the whole.
    """

    def __init__(self, transform: Lapped, channels: int = 1) -> None:
        self.transform = transform
        # The last complete block waits for its right neighbour; then come samples that fill no block yet.
        self._waiting = np.zeros((channels, 0))

    def feed(self, samples: Array) -> Array:
        """Coefficients (channels, blocks, hop) that ``samples`` (channels, k) complete; perhaps none."""
        self._waiting = np.concatenate([self._waiting, samples], axis=1)
        # A block is complete once its right neighbour has brought the samples it is mixed with.
        ready = (self._waiting.shape[1] - max(self.transform.lap, 1)) // self.transform.hop
        return self._take(max(ready, 0), last=False)

    def finish(self) -> Array:
        """The coefficients of what is left, the last block filled up with zeros."""
        hop, left = self.transform.hop, self._waiting.shape[1]
        fill = self.transform.blocks(left) * hop - left
        self._waiting = np.pad(self._waiting, ((0, 0), (0, fill)))
        return self._take(self._waiting.shape[1] // hop, last=True)

    def _take(self, count: int, *, last: bool) -> Array:
        hop, lap, window = self.transform.hop, self.transform.lap, self.transform.window
        channels = self._waiting.shape[0]
        if count == 0:
            return np.zeros((channels, 0, hop))
        cut = self._waiting[:, : count * hop].reshape(channels, count, hop)
        self._waiting = self._waiting[:, count * hop :].copy()
        _rotate(cut, lap, window, 1.0)
        if lap and not last:
            _turn(cut[:, -1, -lap:][:, ::-1], self._waiting[:, :lap], window, 1.0)
        return np.asarray(dct(cut, type=4, axis=-1, norm="ortho"))


class Synthesis:
    """The signal of coefficients that come piece by piece; the inverse of :class:`Analysis`.

    Memory holds one block beyond what was given.
    """

    def __init__(self, transform: Lapped, channels: int = 1) -> None:
        self.transform = transform
        self._waiting = np.zeros((channels, 0))

    def feed(self, coefficients: Array) -> Array:
        """The samples (channels, k) that ``coefficients`` (channels, blocks, hop) settle; perhaps none."""
        channels, count, hop = coefficients.shape
        lap = self.transform.lap
        if count == 0:
            return np.zeros((channels, 0))
        fresh = np.asarray(dct(coefficients, type=4, axis=-1, norm="ortho"))
        _rotate(fresh, lap, self.transform.window, -1.0)
        if lap and self._waiting.shape[1]:
            _turn(self._waiting[:, ::-1], fresh[:, 0, :lap], self.transform.window, -1.0)
        joined = np.concatenate([self._waiting, fresh.reshape(channels, count * hop)], axis=1)
        settled = joined.shape[1] - lap
        self._waiting = joined[:, settled:].copy()
        return np.ascontiguousarray(joined[:, :settled])

    def finish(self) -> Array:
        """The samples that were still waiting for a right neighbour."""
        left, self._waiting = self._waiting, self._waiting[:, :0]
        return left
