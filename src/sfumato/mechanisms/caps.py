"""Exact draws of a public random vector, given on which side of a cap around a private direction it falls.

The public law B: d independent normals, each rounded to a grid of step h = 2⁻¹⁸ (exactly: see ``noise``),
drawn again while a value lies beyond 32 or, for caps of directions, while the vector is shorter than a public
length or so long that its square has no exact float64. A private direction, held as whole numbers K, splits
the grid points v in two by one fixed computation: those with ⟨v, K⟩ ≥ t‖K‖ρ(v)/h are in the cap; ρ is 1, or
for directions h‖v‖. ⟨v, K⟩ and ‖v‖² are sums of whole numbers below 2⁵³, so no order of summation changes
them, and roots and products are rounded as IEEE 754 says: the same point is never in the cap for one draw and
outside it for another.

Outside a cap: draw from B until a point is outside. Inside, where that would take long: draw w from the law
of B before anything was drawn again, which gives w and −w the same probability, turn it so that ⟨w, K⟩ ≥ 0,
propose v = w + jK with a whole number j, and accept with probability exp(−(1 − h²/12)·jh²·(⟨v, K⟩ − s)),
where s is a whole number below ⟨v, K⟩ on the whole cap. j‖K‖² is less than ⟨v, K⟩ on the cap too, so every
point of it is proposed, as w + jK with ⟨w, K⟩ > 0, hence with twice the probability of w; a point that is not
in the cap, too far or too short, never passes. The acceptance is B(v)/B(v − jK) up to a factor that is the
same for all v: the probability of a cell around x is h·φ(x)·(1 + h²(x² − 1)/24 − h⁴x⁴/2880 + …), so that
log B(v) is a constant minus (1 − h²/12)·h²‖v‖²/2, up to 10⁻¹³ while no value exceeds 40 and d ≤ 2¹⁸; and
values of w exceed those of v by less than 8. The comparison with a random word is decided by further words
where 64 bits leave it open. So a point of the cap is drawn with probability B(v)/B(cap) up to a factor
e^{±2·10⁻¹³}; two records differ by twice that, which whoever states an ε has to add (``SLACK``).

The sign of a zero is no part of v and is not released: v + jK would have it from K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import NORMAL, Rounded, Stream
from sfumato.noise.precise import precise

__all__ = ["FARTHEST", "MOST_COLUMNS", "MOST_DIRECTION_COLUMNS", "SLACK", "STEP", "draw_sides"]

Array = NDArray[np.float64]

#: The grid, in deviations of the noise.
STEP = 2.0**-18
#: ⟨v, K⟩ is a sum of whole numbers, of size ‖v‖‖K‖ < 2⁵³ at most, so that float64 adds it up exactly.
MOST_COLUMNS = 1 << 18
#: Of caps of directions: beyond it the square of a typical length comes near 2⁵³.
MOST_DIRECTION_COLUMNS = 1 << 16
#: Values beyond it, in deviations, are drawn again.
FARTHEST = 32.0
#: What the log ratio of two probabilities can be off by.
SLACK = 1e-12

_DIRECTION = 2.0**14
# Sums of whole numbers that stay below it are exact in whatever order they are added.
_EXACT = 2.0**53


def draw_sides(
    stream: Stream, directions: Array, inside: NDArray[np.bool_], threshold: float, shortest: float
) -> Array:
    """For each row of unit vectors ``directions`` a vector inside its cap, or outside, as ``inside`` says.

    With ``shortest`` = 0 a vector V is in the cap where ⟨V, u⟩ ≥ ``threshold`` ≥ 0; otherwise it is at least
    ``shortest`` long, and in the cap where ⟨V, u⟩ ≥ ``threshold``·‖V‖. u is the direction on a grid of 2⁻¹⁴.
    """
    towards = np.rint(directions * _DIRECTION)
    squares = np.einsum("ij,ij->i", towards, towards)
    sizes = np.sqrt(squares)
    # A whole number below ⟨v, K⟩ on the cap: what is beyond it is then exact too.
    lowest = np.floor(threshold * (shortest or 1.0) * sizes / STEP * (1.0 - 1e-12))
    # The largest whole number with j‖K‖² < lowest, or none where the cap begins at the middle.
    moves = np.where(inside, np.maximum(np.ceil(lowest / squares) - 1.0, 0.0), 0.0)
    turned = inside & (lowest > 0.0)
    noise = Rounded(NORMAL, [1.0 / STEP])
    out = np.empty_like(directions)
    waiting = np.arange(len(directions))
    while waiting.size:
        K, j = towards[waiting], moves[waiting]
        v = noise.draw(stream, K.size)[0].reshape(K.shape)
        along = np.einsum("ij,ij->i", v, K)
        back = turned[waiting] & (along < 0.0)
        np.negative(v, out=v, where=back[:, None])
        v += j[:, None] * K
        # Sums of whole numbers that float64 holds: exact.
        along = np.where(back, -along, along) + j * squares[waiting]
        reach = sizes[waiting] / STEP
        fits = np.ones(waiting.size, dtype=bool)
        if shortest:
            lengths = np.einsum("ij,ij->i", v, v)
            fits &= lengths < _EXACT
            lengths = STEP * np.sqrt(lengths)
            fits &= lengths >= shortest
            reach = reach * lengths
        fits &= (along >= threshold * reach) == inside[waiting]
        if max(v.max(), -v.min()) > FARTHEST / STEP:
            fits &= np.abs(v).max(axis=1) <= FARTHEST / STEP
        candidates = np.flatnonzero(fits)
        beyond = along[candidates] - lowest[waiting[candidates]]
        candidates = candidates[_accepted(stream, j[candidates], beyond)]
        out[waiting[candidates]] = v[candidates]
        waiting = np.delete(waiting, candidates)
    out *= STEP
    out += 0.0  # −0 becomes 0
    return out


def _accepted(stream: Stream, moves: Array, beyond: Array) -> NDArray[np.bool_]:
    """True with probability exp(−(1 − h²/12)·jh²·``beyond``), for each pair; no coin where j is 0."""
    exponent = -(1.0 - STEP * STEP / 12.0) * STEP * STEP * moves * beyond
    words = stream.words(moves.size)
    uniform = words.astype(np.float64) * 2.0**-64
    weight = np.exp(np.minimum(exponent, 0.0))
    accepted = (uniform < weight) | (moves == 0.0)
    # A word stands for one cell of 2⁻⁶⁴, its float for 2⁻⁵³ of it, the exponent is good to 10⁻¹⁴.
    doubt = weight * 1e-13 + 2.0**-52
    for index in np.flatnonzero((np.abs(uniform - weight) <= doubt) & (moves != 0.0)):
        accepted[index] = _accepted_exactly(stream, int(words[index]), moves[index], beyond[index])
    return np.asarray(accepted)


def _accepted_exactly(stream: Stream, word: int, move: float, beyond: float) -> bool:
    bits, mp = 64, precise()
    while True:
        with mp.workprec(bits + 128):
            step = mp.mpf(STEP) ** 2
            weight = mp.exp(-(1 - step / 12) * step * mp.mpf(move) * mp.mpf(beyond))
            doubt = mp.ldexp(weight, -bits - 32)
            if mp.ldexp(word + 1, -bits) <= weight - doubt:
                return True
            if mp.ldexp(word, -bits) >= weight + doubt:
                return False
        word, bits = (word << 64) | stream.integer(64), bits + 64
