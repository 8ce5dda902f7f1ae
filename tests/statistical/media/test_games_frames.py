"""Distinguishing games about frames of clips: nobody tells neighbours apart better than is proven.

The reader sees more than is released: frames before they are clipped and rounded. Pictures are cut into as
many blocks as there are trials; in every block the same unit takes its two worst values, and noise on blocks
is independent, so one clip is a thousand games. The score is the likelihood ratio, which for correlated noise
reads the innovations of what it sees.
"""

import numpy as np
import pytest
from games import LESS, NORMAL_THRESHOLDS, laplace_score, laplace_thresholds, violations

from sfumato.media.images import PlaneMeans
from sfumato.media.video import FrameNoise
from sfumato.media.video.frame_noise import Innovations
from sfumato.privacy import Unit, gaussian_epsilon

BLOCK, SIDE, CLIPS = 8, 512, 12
SHAPE, UNIT = (SIDE, SIDE, 1), Unit("region", BLOCK)
# Levels of the frames of one clip and of its neighbour. The middle frame takes any other value; or all frames
# change at once, against each other, which is what correlated noise hides worst.
ONE_FRAME = ([0, 0, 0, 0], [0, 255, 0, 0])
ALL_FRAMES = ([0, 255, 0, 255], [255, 0, 255, 0])


def noise_for(epsilon, delta, beta):
    mechanism = PlaneMeans(epsilon, delta, UNIT, BLOCK, restore="none")
    return FrameNoise(mechanism, beta=beta, smoothing=0.0, frames=4, shape=SHAPE)


def seen(noise, levels, epsilon=None):
    """What a reader sees of each block: (trials, frames); ``epsilon`` replaces that of the noise."""
    if epsilon is not None:
        given = noise.mechanism.get_params(deep=False) | {"epsilon": epsilon}
        noise = FrameNoise(**(noise.get_params(deep=False) | {"mechanism": PlaneMeans(**given)}))
    clip = np.stack([np.full(SHAPE, level, dtype=np.uint8) for level in levels])
    trials = []
    for _ in range(CLIPS):
        frames = noise.passage(SHAPE).feed(clip, 255.0)
        trials.append(frames[:, ::BLOCK, ::BLOCK, 0].reshape(len(levels), -1).T)
    return np.concatenate(trials).astype(np.float64)


def whitened(values, beta):
    """Innovations of the rows of ``values``, in units of the noise of the last ones."""
    if beta == 0:
        return values
    made = Innovations(beta)
    later = values[:, 1:] - made.beta * values[:, :-1]
    return np.column_stack([values[:, 0] * made.c / 128.0, later])


def deviation(noise):
    """Of the noise on what :func:`whitened` gives, in 255ths."""
    left = float(noise.each(SHAPE).design(SHAPE).noise.deviations[0][0, 0])
    return left if noise.beta == 0 else left * 257.0 / 128.0


def gaussian_scores(noise, pair, weak):
    record, neighbour = (whitened(np.array([levels], dtype=float), noise.beta)[0] for levels in pair)
    way, middle = neighbour - record, (neighbour + record) / 2.0
    epsilon = None
    if weak:
        # The same mechanism with a fifth of its noise taken away: its μ is 1/LESS as large.
        own = noise.each(SHAPE).proven(UNIT, SHAPE).event.noise_multiplier
        factor = 1.0 if noise.beta == 0 else Innovations(noise.beta).frame_factor
        epsilon = gaussian_epsilon(factor / (LESS * own), 1e-6)
    direction = way / (np.linalg.norm(way) * deviation(noise) * (LESS if weak else 1.0))
    return [(whitened(seen(noise, levels, epsilon), noise.beta) - middle) @ direction for levels in pair]


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.90625])
@pytest.mark.parametrize("everywhere", [False, True])
def test_gaussian_noise_on_frames_keeps_its_promise(beta, everywhere):
    """One frame, and a clip whose frames all change; false-alarm rate 1e-6 a game."""
    noise = noise_for(2.0 if everywhere else 4.0, 1e-6, beta)
    scores = gaussian_scores(noise, ALL_FRAMES if everywhere else ONE_FRAME, weak=False)
    assert not violations(noise._proven_inside(UNIT, SHAPE, everywhere), *scores, NORMAL_THRESHOLDS)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.90625])
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_fifth_less_gaussian_noise_on_frames_is_caught(beta, everywhere):
    """Over 49,152 trials the errors are far below the curve; miss rate below 1e-6."""
    noise = noise_for(2.0 if everywhere else 4.0, 1e-6, beta)
    scores = gaussian_scores(noise, ALL_FRAMES if everywhere else ONE_FRAME, weak=True)
    assert violations(noise._proven_inside(UNIT, SHAPE, everywhere), *scores, NORMAL_THRESHOLDS)


@pytest.mark.parametrize(("weak", "everywhere"), [(False, False), (False, True), (True, False), (True, True)])
def test_laplace_noise_on_frames_keeps_its_promise_and_a_fifth_less_is_caught(weak, everywhere):
    """Pure ε for one frame, and four times as much for all four; false-alarm rate 1e-6 a game."""
    epsilon = 0.25 if everywhere else 1.0
    noise = noise_for(epsilon, 0.0, 0.0)
    pair = ALL_FRAMES if everywhere else ONE_FRAME
    used = epsilon / LESS if weak else epsilon
    scores = [
        laplace_score(seen(noise, levels, used), np.array(pair[0]), np.array(pair[1]), 255.0 / used)
        for levels in pair
    ]
    total = epsilon * (4 if everywhere else 1)
    found = violations(noise._proven_inside(UNIT, SHAPE, everywhere), *scores, laplace_thresholds(total))
    assert bool(found) is weak


def test_correlated_noise_has_the_marginal_and_the_correlation_it_says():
    """Over 49,152 blocks a correlation has the deviation 0.0045, a relative variance 0.0064; six of each."""
    noise = noise_for(4.0, 1e-6, 0.5)
    values = seen(noise, [0, 0, 0, 0]) / (deviation(noise) / np.sqrt(1.0 - 0.25))
    assert np.var(values, axis=0) == pytest.approx([1.0] * 4, rel=0.06)
    for t in range(3):
        assert np.corrcoef(values[:, t], values[:, t + 1])[0, 1] == pytest.approx(0.5, abs=0.03)
