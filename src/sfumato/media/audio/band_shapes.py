"""Speech told in a few public shapes: which shape each kept block is nearest to, by randomised response.

Of every ``stride`` blocks one is kept. The window that a guarantee is for then reaches one kept block, since
kept blocks are further apart than it is long, and that block's shape can be told with all of ε; two blocks
with half of ε each would say less. Between kept blocks nothing of the recording is used.

What is released is the sequence of answers. The sound is post-processing: levels follow from the answers and
from public statistics of speech (the posterior mean in a hidden Markov model), or are those of the answers
themselves, and coefficients with such levels get public signs. It is speech without a voice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.randomised_response import keep_threshold
from sfumato.media.audio.band_levels import BANDS, BandLevels
from sfumato.media.audio.mdct import Analysis, Lapped, Synthesis
from sfumato.media.audio.speech import Shapes, Weighting, shapes, steps_ahead
from sfumato.noise import Stream, below, coins

__all__ = ["Answers", "ShapesPassage", "kept_blocks", "kept_touched", "smallest_stride"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Kept blocks that draw their noise from one stream, and answers that are looked ahead at: half a second.
_PART = 256
_AHEAD = 16


def smallest_stride(transform: Lapped, window: int) -> int:
    """The smallest stride at which ``window`` samples anywhere reach one kept block only."""
    return (window + transform.hop + 2 * transform.lap - 2) // transform.hop + 1


def kept_blocks(transform: Lapped, stride: int, samples: int) -> int:
    """How many blocks of a clip of ``samples`` samples are kept: the first and every ``stride``-th."""
    return -(-transform.blocks(samples) // stride)


def kept_touched(transform: Lapped, stride: int, window: int, samples: int) -> int:
    """The largest number of kept blocks that ``window`` samples anywhere in a clip have a part in.

    Block t depends on the samples from t·hop − lap up to (t + 1)·hop + lap alone.
    """
    reach = window + transform.hop + 2 * transform.lap - 2
    return min(reach // (stride * transform.hop) + 1, kept_blocks(transform, stride, samples))


@dataclass(frozen=True)
class Answers:
    """Randomised response over ``size`` shapes with ``epsilon`` for each kept block, and how it is read.

    ``smooth`` reads the answers together with how speech goes on; else each speaks for itself.
    """

    size: int
    epsilon: float
    stride: int
    smooth: bool

    @property
    def shapes(self) -> Shapes:
        """The shapes that are told apart."""
        return shapes(self.size)

    @property
    def threshold(self) -> int:
        """The coin that keeps a shape, in 2⁻⁶⁴."""
        return _threshold(self.epsilon, self.size)

    def draw(self, stream: Stream, codes: Codes) -> Codes:
        """An answer for each of ``codes``."""
        other = below(stream, self.size - 1, codes.size)
        other += other >= codes  # of the others, those from the true shape on move up by one
        return np.where(coins(stream, self.threshold, codes.size), codes, other)


@lru_cache(maxsize=64)
def _threshold(epsilon: float, size: int) -> int:
    return keep_threshold(epsilon, size)


class _Reading:
    """Levels of kept blocks from the answers about them, as they come in."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        kept = answers.threshold / 2.0**64
        self._kept, self._other = kept, (1.0 - kept) / (answers.size - 1)
        self._step = steps_ahead(answers.size, answers.stride)
        self._before: Array | None = None  # what is known of the block before the first that waits
        self._waiting: Codes = np.zeros(0, dtype=np.intp)

    def feed(self, answers: Codes, *, last: bool) -> Array:
        """Levels (k, BANDS) of the blocks that ``answers`` settle: all of them at the ``last``."""
        if not self._answers.smooth:
            return self._answers.shapes.levels[answers]
        self._waiting = np.concatenate([self._waiting, answers])
        count = self._waiting.size
        ready = count if last else max(count - _AHEAD, 0)
        if ready == 0:
            return np.zeros((0, BANDS))
        size = self._answers.size
        likely = np.full((count, size), self._other)
        likely[np.arange(count), self._waiting] = self._kept
        forward = np.empty((count, size))
        for index in range(count):
            known = self._answers.shapes.share if self._before is None else self._before @ self._step
            known = known * likely[index]
            self._before = forward[index] = known / known.sum()
        after = np.ones(size)
        both = forward[:ready].copy()
        for index in range(count - 2, -1, -1):
            after = self._step @ (after * likely[index + 1])
            after /= after.sum()
            if index < ready:
                both[index] *= after
        self._before = forward[ready - 1]
        self._waiting = self._waiting[ready:]
        return np.asarray(both / both.sum(axis=1, keepdims=True) @ self._answers.shapes.levels)


class ShapesPassage:
    """One clip on its way; see :class:`~sfumato.media.audio.audio_mechanism.Passage`.

    ``streams(part, codes)`` gives the stream that the answers about the kept blocks of ``part`` come from.
    """

    def __init__(
        self,
        bands: BandLevels,
        answers: Answers,
        weighting: Weighting,
        clip: float,
        shape: tuple[int, int],
        streams: Callable[[int, Codes], Stream],
    ) -> None:
        self._bands, self._answers, self._weighting, self._clip = bands, answers, weighting, clip
        self._blocks, self._channels = bands.transform.blocks(shape[0]), shape[1]
        self._streams = streams
        self._analysis = Analysis(bands.transform, shape[1])
        self._synthesis = Synthesis(bands.transform)
        self._reading = _Reading(answers)
        self._seen = 0  # blocks of the clip so far
        self._codes: Codes = np.zeros(0, dtype=np.intp)
        self._part = 0
        self._level: Array | None = None  # of the last kept block, where the next one is not known yet
        self._made = 0  # blocks of the release so far
        self._piece = 0

    def feed(self, samples: Array) -> Array:
        """Released samples that ``samples`` (channels, k) settle."""
        inside = np.clip(samples, -self._clip, self._clip) / self._clip
        self._read(self._analysis.feed(inside))
        return self._answered(last=False)

    def finish(self) -> Array:
        """The rest of the release."""
        self._read(self._analysis.finish())
        return self._answered(last=True)

    def _read(self, coefficients: Array) -> None:
        """The shapes of those blocks among the next ones that are kept."""
        first = -self._seen % self._answers.stride
        self._seen += coefficients.shape[1]
        levels = self._bands.levels(coefficients[:, first :: self._answers.stride])
        codes = self._answers.shapes.nearest(levels, self._weighting)
        self._codes = np.concatenate([self._codes, codes])

    def _answered(self, *, last: bool) -> Array:
        """Answer for every complete part, and make the sound that they settle."""
        out = [np.zeros((self._channels, 0))]
        while self._codes.size >= _PART or (last and self._codes.size):
            codes, self._codes = self._codes[:_PART], self._codes[_PART:]
            answers = self._answers.draw(self._streams(self._part, codes), codes)
            self._part += 1
            out.append(self._sound(self._reading.feed(answers, last=False)))
        if last:
            none = np.zeros(0, dtype=np.intp)
            out += [self._sound(self._reading.feed(none, last=True)), self._ending()]
        return np.concatenate(out, axis=1)

    def _sound(self, levels: Array) -> Array:
        """Samples of kept blocks with ``levels``, once the levels between them can be drawn as lines."""
        if self._level is not None:
            levels = np.concatenate([self._level, levels])
        if not len(levels):
            return np.zeros((self._channels, 0))
        self._level = levels[-1:]
        steps = np.arange(self._answers.stride)[:, None] / self._answers.stride
        if not self._answers.smooth:
            steps[:] = 0.0
        between = levels[:-1, None] * (1.0 - steps) + levels[1:, None] * steps
        return self._made_of(between.reshape(-1, BANDS))

    def _ending(self) -> Array:
        """The blocks from the last kept one on, which all sound like it."""
        if self._level is None:
            return np.zeros((self._channels, 0))
        rest = self._made_of(np.repeat(self._level, self._blocks - self._made, axis=0))
        return np.concatenate([rest, self._spread(self._synthesis.finish())], axis=1)

    def _made_of(self, levels: Array) -> Array:
        self._made += len(levels)
        coefficients = self._bands.sounding(levels, self._piece)
        self._piece += 1
        return self._spread(self._synthesis.feed(coefficients[None]))

    def _spread(self, samples: Array) -> Array:
        """The same in every channel, at the loudness that was declared."""
        return np.repeat(samples * self._clip, self._channels, axis=0)
