"""Certified sensitivities: never below what a change achieves, exact where they can be."""

import math

import numpy as np
import pytest

from sfumato.media.audio.mdct import Lapped, rounding_share, window_sensitivity

RNG = np.random.default_rng(0)
TRANSFORMS = [Lapped(8, 4), Lapped(8, 2), Lapped(7, 3), Lapped(8, 0), Lapped(6, 3)]
SAMPLES = [5, 8, 41, 100]
WINDOWS = [1, 2, 5, 9, 17, 33]


def matrix(transform, scales, samples):
    """Rows: samples; columns: kept coefficients over their noise scales."""
    kept = transform.forward(np.eye(samples))[..., : len(scales)] / np.asarray(scales)
    return kept.reshape(samples, -1)


def achieved(rows, window, norm):
    """The largest movement over every placement and many corners of the box, and over columns alone."""
    corners = RNG.choice([-1.0, 1.0], (300, window))
    best = 0.0
    for at in range(len(rows) - window + 1):
        moved = corners @ rows[at : at + window]
        sizes = np.abs(moved).sum(axis=1) if norm == "l1" else np.linalg.norm(moved, axis=1)
        best = max(best, float(sizes.max()))
    return best


def textbook(rows, window, norm):
    """The bound of the module's docstring, without shortcuts."""
    best = 0.0
    for at in range(len(rows) - window + 1):
        part = rows[at : at + window]
        if norm == "l1":
            best = max(best, float(np.abs(part).sum()))
        else:
            apart = float(np.linalg.norm(part, axis=1).sum())
            best = max(best, min(apart, math.sqrt(window) * float(np.linalg.norm(part, 2))))
    return best


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: f"{t.hop}-{t.lap}")
@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_no_change_moves_the_output_further(transform, samples, norm, kept):
    count = max(1, round(kept * transform.hop))
    for scales in (tuple(RNG.uniform(0.5, 2.0, count)), (0.7,) * count):
        rows = matrix(transform, scales, samples)
        for window in WINDOWS:
            bound = window_sensitivity(transform, scales, window, samples, norm)
            width = min(window, samples)
            assert bound >= achieved(rows, width, norm)
            # The columns' sum is one of the terms of the minimum, and its placements are exact.
            columns = np.abs(rows).sum(axis=1) if norm == "l1" else np.linalg.norm(rows, axis=1)
            sums = np.convolve(columns, np.ones(width), "valid")
            assert bound <= sums.max() * (1.0 + 1e-6)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: f"{t.hop}-{t.lap}")
def test_one_sample_is_exact(transform):
    scales = tuple(RNG.uniform(0.5, 2.0, transform.hop - 2))
    rows = matrix(transform, scales, 50)
    for norm, columns in (("l1", np.abs(rows).sum(axis=1)), ("l2", np.linalg.norm(rows, axis=1))):
        assert window_sensitivity(transform, scales, 1, 50, norm) == pytest.approx(columns.max(), rel=1e-8)


@pytest.mark.parametrize("window", [1, 3, 16, 100])
def test_a_flat_full_band_is_exact_in_the_second_norm(window):
    """Orthonormal: every corner of the box moves the output by √window/s."""
    bound = window_sensitivity(Lapped(16, 8), (0.25,) * 16, window, 1000, "l2")
    assert bound == pytest.approx(math.sqrt(window) / 0.25, rel=1e-8)


@pytest.mark.parametrize("samples", [30, 100])
def test_shaped_scales_come_near_the_bound_over_each_placement(samples):
    transform, scales = Lapped(8, 4), tuple(np.linspace(0.5, 2.0, 8))
    rows = matrix(transform, scales, samples)
    for window in (2, 5, 9, 17):
        bound = window_sensitivity(transform, scales, window, samples, "l2")
        exact = textbook(rows, window, "l2")
        # A stretch of one sample more covers neighbouring placements where blocks are long; not here.
        assert exact * (1.0 - 1e-9) <= bound <= exact * 1.1


def test_a_long_window_costs_no_memory_and_adds_up():
    """Whole inner blocks are counted, not listed: twice as long costs twice as much, but for the edges."""
    transform, scales = Lapped(480, 240), (1.0,) * 100
    hour = 48000 * 3600
    one, two = (window_sensitivity(transform, scales, n, 3 * hour, "l1") for n in (hour, 2 * hour))
    assert two == pytest.approx(2.0 * one, rel=1e-4)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_rounding_adds_no_more_than_its_share(norm):
    transform, scales, step, samples = Lapped(8, 4), tuple(RNG.uniform(0.5, 2.0, 6)), 0.125, 60
    share = rounding_share(transform, scales, 5, samples, norm)
    bound = window_sensitivity(transform, scales, 5, samples, norm) + step * share
    for _ in range(200):
        sound = RNG.uniform(-0.5, 0.5, samples)
        other, at = sound.copy(), int(RNG.integers(0, samples - 4))
        other[at : at + 5] += RNG.choice([-1.0, 1.0], 5)
        cells = [np.rint(transform.forward(x)[..., :6] / step) * step / scales for x in (sound, other)]
        moved = cells[1] - cells[0]
        assert (np.abs(moved).sum() if norm == "l1" else np.linalg.norm(moved)) <= bound
