import numpy as np
import pytest

from people_photos import astronaut
from sfumato.errors import BadInput
from sfumato.media.images.content_adaptive import ContentAdaptive, PrivateMap, estimated_scores
from sfumato.noise import Secure, Seeded
from sfumato.privacy import Unit

SHAPE = (224, 224, 3)


@pytest.mark.parametrize(
    ("unit", "touched"),
    [("region(16)", 4), ("pixels(1)", 1), ("pixels(5)", 5), ("item", 16), ("region(80)", 9)],
)
def test_what_is_asked_for_is_what_is_proven(unit, touched):
    private = PrivateMap(0.8, unit, 64)
    assert private.touched(Unit.parse(unit), SHAPE) == touched
    assert private.scale(SHAPE) == pytest.approx(touched / 0.8)
    proven = private.proven(Unit.parse(unit), SHAPE)
    assert proven.epsilon() <= 0.8
    assert proven.epsilon() == pytest.approx(0.8)
    assert str(proven.unit) == unit
    # One tile, and so a pixel, costs what its part of them does.
    assert private.proven(Unit("pixels", 1), SHAPE).epsilon() == pytest.approx(0.8 / touched)


def test_cells_lie_inside_the_range_that_the_proof_needs():
    private = PrivateMap(1.0, "region(16)", 64)
    scores = np.linspace(-1.0, 2.0, 32).reshape(2, 4, 4)
    cells = private.cells(scores, SHAPE)
    step = private._step(SHAPE)
    assert np.array_equal(cells, np.trunc(cells))
    assert cells.min() == 0.0
    assert cells.max() * step <= 1.0
    inside = np.clip(scores, 0.0, 1.0).reshape(2, -1)
    assert (np.abs(cells * step - inside) <= step).all()


def test_every_picture_may_have_a_stream_of_its_own():
    private = PrivateMap(1.0, "region(16)", 64)
    cells = np.zeros((2, 16))
    two = private.noisy(cells, SHAPE, [Seeded(1).stream(b"a"), Seeded(1).stream(b"b")])
    assert two.shape == (2, 4, 4)
    assert not np.array_equal(two[0], two[1])
    assert np.array_equal(two[:1], private.noisy(cells[:1], SHAPE, [Seeded(1).stream(b"a")]))


def test_with_little_noise_scores_come_through():
    scores = np.random.default_rng(0).random((1, 4, 4))
    private = PrivateMap(1e6, "region(16)", 64)
    noisy = private.noisy(private.cells(scores, SHAPE), SHAPE, [Secure().stream(b"")])
    assert np.abs(estimated_scores(noisy, private.scale(SHAPE)) - scores).max() < 1e-3


def test_with_much_noise_scores_are_drawn_to_the_middle():
    noisy = np.random.default_rng(0).laplace(scale=50.0, size=(20, 8, 8))
    estimated = estimated_scores(noisy, 50.0)
    assert estimated.min() >= 0.0
    assert estimated.max() <= 1.0
    assert estimated.std() < 0.1


def test_the_estimate_is_nearer_than_the_noisy_scores():
    """Half of each of 200 maps scores 1. The mean squared error falls at every scale, often by far."""
    truth = np.zeros((200, 8, 8))
    truth[:, :, 4:] = 1.0
    rng = np.random.default_rng(0)
    for scale in (0.1, 0.5, 2.0, 10.0):
        noisy = truth + rng.laplace(scale=scale, size=truth.shape)
        raw, better = (np.square(each - truth).mean() for each in (noisy, estimated_scores(noisy, scale)))
        assert better < raw


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"unit": "frame"}, {"tile": 0}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(BadInput):
        ContentAdaptive(**({"epsilon": 1.0, "map": "private", "shape": (64, 64)} | wrong)).guarantee()


def test_a_small_picture_is_one_tile():
    private = PrivateMap(1.0, "item", 64)
    assert private.touched(Unit("item"), (*astronaut().shape[:1], 64, 3)) == 4
    assert private.touched(Unit("item"), (10, 10, 1)) == 1
