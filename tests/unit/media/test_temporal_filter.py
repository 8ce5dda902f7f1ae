"""Filters over time: how much flicker they remove, and how late what moves arrives."""

import math

import numpy as np
import pytest

from real_data import real
from sfumato.errors import BadInput
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.video.frame_noise import FrameNoise
from sfumato.media.video.temporal_filter import MotionFilter, SteadyFilter
from sfumato.noise import Seeded
from sfumato.utility import flicker, lag


def drawn(frames=400, side=40, seed=0):
    return np.random.default_rng(seed).normal(size=(frames, side, side)).astype(np.float32)


def through(made, frames, deviation=1.0):
    return np.stack([made.step(frame, deviation)[0] for frame in frames])


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.52, 0.85])
def test_a_steady_filter_removes_as_much_flicker_as_theory_says(beta):
    """Means over 10⁵ or more differences; ten deviations of the mean are less than 5%."""
    z = drawn()
    y = through(SteadyFilter(beta), z)
    assert flicker(z) == pytest.approx(2 / math.sqrt(math.pi), rel=0.05)
    assert flicker(y[100:]) / flicker(z[100:]) == pytest.approx((1 - beta) / math.sqrt(1 + beta), rel=0.05)


@pytest.mark.parametrize("make", [SteadyFilter, MotionFilter])
def test_the_deviation_that_is_left_is_the_true_one_where_nothing_moves(make):
    made, z = make(0.85), drawn(60)
    errors, said = [], []
    for frame in z:
        estimate, left = made.step(frame, 1.0)
        errors.append(float(np.sqrt(np.square(estimate).mean())))
        said.append(float(np.sqrt(np.square(left).mean())))
    assert errors[0] == pytest.approx(said[0], rel=0.1)
    assert np.mean(errors[30:]) == pytest.approx(np.mean(said[30:]), rel=0.25)
    assert np.mean(errors[30:]) < 0.4


def test_what_moves_arrives_in_time_where_a_steady_filter_is_late():
    """A wide bright bar, ten deviations above the noise, moves by one value every second frame."""
    frames, side = 60, 40
    clean = np.zeros((frames, side, side), dtype=np.float32)
    for t in range(frames):
        clean[t, :, t // 2 : t // 2 + 8] = 10.0
    z = clean + drawn(frames)
    steady, following = through(SteadyFilter(0.85), z), through(MotionFilter(0.85), z)
    assert abs(lag(z, clean)) < 0.1
    assert lag(following, clean) < 0.5 < 2.0 < lag(steady, clean)
    assert np.square(following - clean).mean() < 0.5 * np.square(steady - clean).mean()
    assert np.square(following - clean).mean() < np.square(z - clean).mean()
    still = (slice(None), slice(36, None))
    assert flicker(following[10:], still) < 0.4 * flicker(z[10:], still)


def test_a_cut_to_another_scene_is_followed_at_once():
    z = drawn(40)
    z[20:] += 30.0
    assert np.abs(through(MotionFilter(0.9), z)[20] - 30.0).mean() < 2.0
    assert np.abs(through(SteadyFilter(0.9), z)[20] - 30.0).mean() > 20.0


@pytest.mark.parametrize("delay", [0, 1, 3, 6])
def test_lag_is_the_delay(delay):
    smooth = np.cumsum(np.random.default_rng(3).normal(size=(80, 6, 6)), axis=0)
    assert lag(smooth[10 - delay : 70 - delay], smooth[10:70]) == pytest.approx(delay, abs=0.05)


def test_flicker_is_measured_where_it_is_asked_for():
    frames = np.zeros((3, 4, 6, 3))
    frames[1, :, 3:] = 2.0
    assert flicker(frames) == pytest.approx(1.0)
    assert flicker(frames, (slice(None), slice(0, 3))) == 0.0
    assert flicker(frames, (slice(None), slice(3, 6))) == pytest.approx(2.0)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(BadInput, match="two or more frames"):
        flicker(np.zeros((1, 4, 4)))
    with pytest.raises(BadInput, match="not empty"):
        flicker(np.zeros((2, 4, 4)), (slice(9, 12), slice(None)))
    with pytest.raises(BadInput, match="stands still"):
        lag(np.zeros((30, 4, 4)), np.zeros((30, 4, 4)))
    with pytest.raises(BadInput, match="of one shape"):
        lag(np.zeros((30, 4, 4)), np.zeros((30, 4, 5)))
    with pytest.raises(BadInput, match="takes clips of 18 frames"):
        lag(np.zeros((10, 4, 4)), np.zeros((10, 4, 4)))


def test_released_frames_flicker_at_most_two_fifths_as_much():
    """A photograph that stands still, at equal proven ε per frame: the default against unfiltered noise."""
    from skimage.data import astronaut

    still = np.repeat(astronaut()[None, ::2, ::2], 40, axis=0)
    made = {
        smoothing: FrameNoise(PlaneMeans(4.0), smoothing=smoothing, randomness=Seeded(2)).release(still)
        for smoothing in (0.0, 0.88)
    }
    proven = [made[smoothing].statement.proven.epsilon() for smoothing in made]
    assert proven == pytest.approx([4.0, 4.0])
    filtered, plain = (flicker(made[smoothing].value[10:]) for smoothing in (0.88, 0.0))
    assert filtered <= 0.4 * plain


def test_a_still_part_of_a_real_clip_flickers_at_most_two_fifths_as_much():
    path = real("videos/basketball.mp4")
    pytest.importorskip("av")
    from sfumato.io import open_video

    shown = zip(open_video(path).pictures(), range(40), strict=False)
    clip, sky = np.stack([frame.pixels for frame, _ in shown]), (slice(72, 120), slice(480, 528))
    assert flicker(clip, sky) < 0.1
    measured = {}
    for smoothing in (0.0, 0.88):
        made = FrameNoise(PlaneMeans(4.0), smoothing=smoothing, randomness=Seeded(4)).release(clip)
        measured[smoothing] = flicker(made.value[10:], sky)
    assert measured[0.88] <= 0.4 * measured[0.0]
