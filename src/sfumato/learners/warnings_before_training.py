"""Warnings before training: a δ that promises little, and noise longer than any signal.

**δ.** A method that publishes one record whole, chosen at random, is (0, 1/n) differentially private under
zero-out neighbours: a δ of 1/n or more allows it.

**Noise.** A learner reads its n records through noisy sums Σᵢ vᵢ + Z alone, with ‖vᵢ‖ ≤ c and Z of w
independent entries of deviation s. By the triangle inequality the sum is at most nc long, which it is where
all records say the same. The noise has √E‖Z‖² = s√w, and its length leaves that by about a part in √(2w). For
T sums that are added up, as weights add up gradients, these are Tqnc and s√(Tw), where a step takes a record
with chance q. Where s√w ≥ nc what is released is longer by its noise than by anything that records can say.
This is no proof that nothing is learned: in a direction that is known before, noise is √w times shorter. So
it is a warning; :func:`sfumato.learners.private_fit.fit_private` refuses where it holds for a torch module,
of which all directions must be learned.

Both are functions of what is public: the number of records and features, the classes and the parameters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.errors import Forewarning


@dataclass(frozen=True)
class NoisyRelease:
    """A noisy sum ``what`` from which a ``learned`` comes, both in words, in any unit of length.

    ``signal`` is the longest that the sum could be, whatever the records are, ``noise`` the root of the mean
    square length of the noise in it.
    """

    what: str
    learned: str
    signal: float
    noise: float

    @property
    def drowned(self) -> bool:
        """Whether the noise is as long as any signal could be, or longer."""
        return self.noise >= self.signal


def forewarnings(
    epsilon: float, delta: float, records: int, releases: Iterable[NoisyRelease]
) -> tuple[str, ...]:
    """Return sentences, without full stop, on a δ of 1/n or more and on ``releases`` that noise drowns."""
    said = []
    if delta >= 1.0 / records:
        said.append(
            f"δ = {delta:g} is not below 1/n for n = {records} records: so large a δ would allow to publish "
            f"one of them whole, chosen at random; take a δ of {_below(0.1 / records):g} or less"
        )
    for release in releases:
        if release.drowned:
            said.append(
                f"at ε = {epsilon:.3g} the noise in {release.what} is {release.noise / release.signal:.2g} "
                f"times as long as what {records} records can say there, whatever they are: expect a "
                f"{release.learned} that knows next to nothing; take a larger ε, more records or fewer "
                "features"
            )
    return tuple(said)


def forewarn(sentences: Iterable[str], *, above: int = 0) -> None:
    """Warn by each of ``sentences`` at the line that called the caller, or ``above`` calls further up."""
    for sentence in sentences:
        warnings.warn(sentence + ".", Forewarning, stacklevel=3 + above)


def _below(value: float) -> float:
    """Return ``value`` rounded down to one digit."""
    scale = 10.0 ** math.floor(math.log10(value))
    return math.floor(value / scale * (1.0 + 1e-12)) * scale
