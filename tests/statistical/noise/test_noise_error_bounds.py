"""The bounds that make rounding certain, each held against mpmath on a dense sample; no chance involved."""

import mpmath
import numpy as np
import pytest

from sfumato.noise import LAPLACE, NORMAL, mpmath_context
from sfumato.noise.grid import Rounded, _Scratch, _table

LAWS = [NORMAL, LAPLACE]


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
def test_the_double_quantile_errs_by_less_than_half_its_bound(law):
    """From 2⁻⁶⁴ to 1/2. The other half of the bound is left for the rounding of products and sums."""
    p = probabilities()
    z = law.quantile(p)
    with mpmath.workprec(160):
        worst = max(abs(residual(law, pi, zi)) / ei for pi, zi, ei in zip(p, z, law.error(z), strict=True))
    assert worst < 0.5


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
def test_the_slope_is_bounded_by_the_steepness(law):
    """q′(p)·p ≤ steepness from 2⁻⁶⁴ to 1/2, where q′ = 1/density; equality is nearly reached somewhere."""
    with mpmath.workprec(160):
        largest = max(mpmath.mpf(float(p)) / density(law, quantile(law, p)) for p in probabilities())
        assert largest <= law.steepness * (1 + mpmath.ldexp(1, -100))  # an equality, for Laplace
        assert largest > 0.999 * law.steepness


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
def test_the_curvature_bounds_the_second_derivative_up_to_one_half(law):
    """|q″| at p and at points from p to 1/2 is at most curvature(p)."""
    for p in probabilities()[:-1:8]:
        bound = mpmath.mpf(float(law.curvature(np.array([p]))[0]))
        for share in (0.0, 1e-9, 0.01, 0.3, 0.9):
            with mpmath.workprec(160):
                there = mpmath.mpf(float(p)) + share * (mpmath.mpf(0.5) - mpmath.mpf(float(p)))
                z = quantile(law, there)
                second = abs(z) / density(law, z) ** 2 if law is NORMAL else 1 / there**2
            assert second <= bound


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
def test_the_table_errs_by_less_than_its_bound(law):
    """The line of every 97th cell and of the outermost ones, at nine places, for both ends of the word."""
    values, slopes, error = _table(law)
    cells = 1 << 11
    held = np.arange(40 * cells, 63 * cells)
    with mpmath.workprec(160):
        for cell in [*held[::97], held[0], held[-1]]:
            octave, place = divmod(int(cell), cells)
            for share in (0.0, 0.03, 0.2, 0.4, 0.5, 0.6, 0.8, 0.97, 1.0 - 2.0**-30):
                s = int((1 << octave) * (cells + place + share) / cells)
                for sign in (1, -1):
                    bits = np.array([sign * s], dtype=np.float64).view(np.uint64)
                    found = int(bits[0] >> np.uint64(52 - 11))
                    line = mpmath.mpf(float(slopes[found])) * sign * s + mpmath.mpf(float(values[found]))
                    for end in (s - 1, s, s + 1):
                        assert abs(sign * quantile(law, mpmath.ldexp(end, -64)) - line) <= error


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
def test_the_table_holds_no_word_that_is_too_wide_for_it(law):
    """Words next to 0 and to 2⁶⁴, and the one in the middle, are for the second attempt."""
    noise, scratch = Rounded(law, [3.0]), _Scratch(1)
    ends = [*range(100), *(1 << bit for bit in range(64)), *((1 << bit) - 1 for bit in range(1, 41))]
    words = np.array([*ends, *((1 << 64) - 1 - end for end in ends)], dtype=np.uint64)[None]
    assert len(list(noise._from_table(words, None, scratch))) == 1
    undecided = np.flatnonzero(~scratch.sure[: words.size])
    size = np.abs(words[0].view(np.int64).astype(np.float64))
    outside = np.flatnonzero((size < 2.0**40) | (size >= 2.0**63))
    assert set(outside) <= set(undecided)
    assert len(undecided) < words.size


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
@pytest.mark.parametrize("bits", [1, 2, 20, 64, 128, 700, 1100])
def test_the_exact_interval_holds_the_quantile(law, bits):
    """At 256 bits of precision, and narrow: p = 2⁻ᵇ and 3·2⁻ᵇ, as far as a double reaches and beyond."""
    mp = mpmath_context()
    for numerator in (1, 3):
        if numerator >= 1 << (bits - 1) and (numerator, bits) != (1, 1):
            continue
        with mp.workprec(256):
            low, high = law.exact(mp.ldexp(numerator, -bits))
        with mpmath.workprec(2 * bits + 600):
            p = mpmath.ldexp(numerator, -bits)
            low, high = mpmath.mpf(low), mpmath.mpf(high)
            assert below(law, low) < p < below(law, high)
            assert high - low < mpmath.ldexp(1 + abs(low), 30 - 256)


def probabilities():
    """Dense in p and in log p, with both ends and the neighbourhood of one half."""
    ends = np.arange(1, 200) * 2.0**-64
    near_half = 0.5 - np.concatenate([[0.0], np.arange(1, 60) * 2.0**-54, np.geomspace(2.0**-48, 0.01, 300)])
    # Where ndtri changes its formula, at exp(−2) and for sqrt(−2 log p) = 8, the neighbouring doubles.
    changes = np.concatenate(
        [c * (1.0 + np.arange(-40, 41) * 2.0**-52) for c in (np.exp(-2.0), np.exp(-32.0))]
    )
    spread = np.concatenate([np.geomspace(2.0**-64, 0.5, 4000), np.linspace(2.0**-16, 0.5, 3000)])
    return np.sort(np.concatenate([ends, near_half, changes, spread]))


def below(law, z):
    return mpmath.ncdf(z) if law is NORMAL else mpmath.exp(z) / 2


def density(law, z):
    return mpmath.npdf(z) if law is NORMAL else mpmath.exp(-abs(z)) / 2


def residual(law, p, z):
    """z − q(p), by one Newton step from z, whose own error is its square and far below what is measured."""
    return (below(law, mpmath.mpf(float(z))) - mpmath.mpf(float(p))) / density(law, mpmath.mpf(float(z)))


def quantile(law, p):
    """q(p) for any 0 < p < 1 at 160 bits: two Newton steps from an error of 2⁻⁴⁸, squared by each."""
    p = mpmath.mpf(float(p)) if not isinstance(p, mpmath.mpf) else p
    if p > 0.5:
        return -quantile(law, 1 - p)
    if law is LAPLACE:
        return mpmath.log(2 * p)
    z = mpmath.mpf(float(NORMAL.quantile(np.array([float(p)]))[0]))
    for _ in range(2):
        z -= (mpmath.ncdf(z) - p) / mpmath.npdf(z)
    return z
