"""Rounded noise against its exact probabilities, from a fraction of a grid step to millions."""

import math

import numpy as np
import pytest
from frequencies import fits
from scipy.special import ndtr
from scipy.stats import norm

from sfumato.noise import LAPLACE, NORMAL, Rounded, Stream, gaussian_noise, laplace_noise

DRAWS = 1_000_000
SCALES = [0.3, 1.0, 7.5, 4096.0, 2.0**22]
BELOW = {
    NORMAL.name: ndtr,
    LAPLACE.name: lambda z: np.where(
        z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0))
    ),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", [NORMAL, LAPLACE], ids=lambda law: law.name)
def test_rounded_noise_has_the_probabilities_of_the_rounded_real_law(law, scale):
    """False-alarm rate 1e-6; a million draws, in about two hundred cells at most."""
    draws = Rounded(law, [scale]).draw(Stream(), DRAWS)[0]
    edges = half_integers(scale)
    assert fits(histogram(draws, edges), np.diff(BELOW[law.name](edges / scale), prepend=0.0, append=1.0))


@pytest.mark.parametrize("scale", [0.3, 7.5, 2.0**22])
@pytest.mark.parametrize("law", [NORMAL, LAPLACE], ids=lambda law: law.name)
def test_few_draws_at_a_time_have_the_same_probabilities(law, scale):
    """False-alarm rate 1e-6; draws too few for the table go straight to double precision."""
    noise, stream = Rounded(law, [scale]), Stream()
    draws = np.concatenate([noise.draw(stream, 10_000)[0] for _ in range(30)])
    edges = half_integers(scale)
    assert fits(histogram(draws, edges), np.diff(BELOW[law.name](edges / scale), prepend=0.0, append=1.0))


def test_far_tails_have_their_probabilities():
    """False-alarm rate 1e-6; twenty million draws beyond 3, 4 and 4.5 deviations on either side."""
    noise, stream, scale = Rounded(NORMAL, [1000.0]), Stream(), 1000.0
    edges = np.array([-4500.5, -4000.5, -3000.5, 3000.5, 4000.5, 4500.5])
    counts = sum(histogram(noise.draw(stream, 2_000_000)[0], edges) for _ in range(10))
    assert fits(counts, np.diff(ndtr(edges / scale), prepend=0.0, append=1.0))


@pytest.mark.parametrize("rungs", [[0.6, 0.8], [8.0, 6.0], [3.0, 0.01]])
def test_nested_tiers_have_the_law_of_the_rounded_sum_and_of_their_difference(rungs):
    """False-alarm rate 1e-6 for each of two laws: tier 1 alone, and tier 1 where tier 0 is zero."""
    first, second = Rounded(NORMAL, rungs).draw(Stream(), DRAWS)
    total = math.hypot(*rungs)
    edges = half_integers(total)
    assert fits(histogram(second, edges), np.diff(ndtr(edges / total), prepend=0.0, append=1.0))
    # Given that rung 0 rounds to zero it is a truncated normal; its sum with rung 1, by quadrature.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    inside = 0.5 * nodes
    density = weights * norm.pdf(inside / rungs[0])
    density /= density.sum()
    edges = half_integers(rungs[1])
    below = np.array([density @ ndtr((edge - inside) / rungs[1]) for edge in edges])
    probabilities = np.diff(below, prepend=0.0, append=1.0)
    assert fits(histogram(second[first == 0.0], edges), probabilities)


def test_a_relative_scale_acts_draw_by_draw():
    """False-alarm rate 1e-6 for each of two laws; factors 1 and 1/4 take turns."""
    factors = np.tile([1.0, 0.25], DRAWS // 2)
    draws = Rounded(NORMAL, [40.0]).draw(Stream(), DRAWS, relative=factors)[0]
    for factor in (1.0, 0.25):
        edges = half_integers(40.0 * factor)
        probabilities = np.diff(ndtr(edges / (40.0 * factor)), prepend=0.0, append=1.0)
        assert fits(histogram(draws[factors == factor], edges), probabilities)


@pytest.mark.parametrize(("noise", "law"), [(gaussian_noise, NORMAL), (laplace_noise, LAPLACE)])
def test_noise_by_the_array_has_its_law_on_the_default_grid(noise, law):
    """False-alarm rate 1e-6; scale 3, a million values over two blocks of work."""
    values = noise(3.0, (2, DRAWS // 2)).ravel()
    edges = np.linspace(-12.0, 12.0, 101)
    # A grid value stands for all reals within half a step of it, so edges lie between grid values.
    step = 2.0**-11
    assert np.all(values / step == np.rint(values / step))
    inner = np.floor(edges / step) + 0.5
    assert fits(
        histogram(values / step, inner), np.diff(BELOW[law.name](inner * step / 3.0), prepend=0.0, append=1.0)
    )


def half_integers(scale):
    """Cell boundaries k + 1/2 out to six scales, about two hundred of them at most."""
    reach = math.ceil(6.0 * scale)
    return np.arange(-reach, reach + 1, max(1, reach // 100)) + 0.5


def histogram(draws, edges):
    return np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
