import math

import numpy as np
import pytest

from people_photos import FACE, astronaut
from sfumato.errors import BadInput
from sfumato.media.images.selective_noise import (
    STRATEGIES,
    SelectiveNoise,
    contrast_gradient,
)
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit

SHAPE = (112, 112, 3)
# Privacy loss in ε as Table 5 prints it.
PRINTED_LOSS = {"gradient": 0.91, "attention": 0.93, "hybrid": 0.90}
CHOOSING = ("gradient", "attention", "hybrid")
BOX = tuple(side / 4 for side in FACE)


@pytest.mark.parametrize("unit", ["pixels(1)", "pixels(16)", "region(8)", "item"])
def test_uniform_noise_proves_what_was_asked(unit):
    proven = SelectiveNoise(2.0, "uniform", unit, shape=SHAPE).guarantee()
    assert proven.epsilon() <= 2.0
    assert proven.epsilon() == pytest.approx(2.0)
    assert proven.revealed == 0.0


def test_uniform_noise_on_other_units_is_counted_in_pixels():
    made = SelectiveNoise(2.0, "uniform", "pixels(4)", shape=SHAPE)
    assert made.proven(Unit("pixels", 1), SHAPE).epsilon() == pytest.approx(0.5)
    assert made.proven(Unit("region", 8), SHAPE).epsilon() == pytest.approx(32.0)
    assert made.proven(Unit("region", 500), SHAPE).epsilon() == made.proven(Unit("item"), SHAPE).epsilon()


@pytest.mark.parametrize(("unit", "count"), [("pixels(1)", 1), ("pixels(3)", 3), ("region(2)", 4)])
@pytest.mark.parametrize("coverage", [None, 0.25, 0.9])
def test_random_choice_shows_what_it_does_not_choose(unit, count, coverage):
    proven = SelectiveNoise(2.0, "random", unit, coverage=coverage, shape=SHAPE).guarantee()
    p = 0.5 if coverage is None else coverage
    assert proven.revealed == pytest.approx(1 - p**count)
    assert proven.delta(2.0) == pytest.approx(1 - p**count)
    assert proven.delta(1e6) >= 1 - p**count
    assert math.isinf(proven.epsilon(0.9 * (1 - p**count)))


def test_a_coin_that_always_chooses_is_uniform():
    one, other = (
        SelectiveNoise(2.0, strategy, coverage=1.0, shape=SHAPE) for strategy in ("random", "uniform")
    )
    assert one.guarantee() == other.guarantee()


@pytest.mark.parametrize("strategy", CHOOSING)
def test_a_choice_by_content_proves_nothing(strategy):
    statement = SelectiveNoise(2.0, strategy, shape=SHAPE).statement()
    assert statement.proven.proves_nothing
    assert "released as they are" in statement.proven.theorem
    assert all(each.proves_nothing for each in statement.also_proven)
    assert statement.claimed.epsilon == pytest.approx(2.0 * PRINTED_LOSS[strategy])
    assert "Table 5" in statement.claimed.source


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pixels_that_are_not_chosen_come_through_and_chosen_ones_do_not(strategy):
    """A chosen pixel keeps all three bytes with a probability far below 1e-3 at this scale."""
    picture = np.clip(astronaut(112), 60, 190)
    made = SelectiveNoise(3.0, strategy, coverage=0.3, shape=SHAPE, randomness=Seeded(1))
    released = made.release(picture).value
    moved = (released != picture).any(axis=2)
    if strategy == "uniform":
        assert moved.mean() > 0.999
    elif strategy == "random":
        assert abs(moved.mean() - 0.3) < 5 * math.sqrt(0.3 * 0.7 / moved.size) + 1e-3
    else:
        chosen = made.chosen(picture[None], 255.0, [])[0]
        assert chosen.mean() == pytest.approx(0.3, abs=1e-4)
        assert not moved[~chosen].any()
        assert moved[chosen].mean() > 0.999


@pytest.mark.parametrize("strategy", CHOOSING)
def test_the_threshold_is_the_mean_plus_k_deviations(strategy):
    picture = astronaut(112)
    shares = []
    for k in (-1.0, 0.0, 1.0, 2.0):
        made = SelectiveNoise(1.0, strategy, k=k, shape=SHAPE)
        values = made._importance(strategy, picture[None] / 255.0)[0]
        chosen = made.chosen(picture[None], 255.0, [])[0]
        assert np.array_equal(chosen, values > values.mean() + k * values.std())
        shares.append(chosen.mean())
    assert shares == sorted(shares, reverse=True)
    plain = np.full((1, *SHAPE), 77, dtype=np.uint8)
    assert not SelectiveNoise(1.0, strategy, k=-1.0).chosen(plain, 255.0, []).any()


def test_the_default_importance_is_a_gradient():
    """Finite differences of ½‖Kx‖² at pixels away from the border, where the filter is symmetric."""
    from scipy.ndimage import gaussian_filter

    picture = astronaut(112)[None, :48, :48].astype(float)[..., :1] / 255.0

    def model(values):
        kept = [gaussian_filter(values[0, ..., 0], sigma, mode="reflect") for sigma in (1.0, 3.0)]
        return 0.5 * np.square(kept[0] - kept[1]).sum()

    found = contrast_gradient(picture)[0]
    for y, x in ((20, 20), (24, 30), (30, 17)):
        moved = picture.copy()
        moved[0, y, x, 0] += 1e-5
        slope = (model(moved) - model(picture)) / 1e-5
        assert found[y, x] == pytest.approx(abs(slope), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"strategy": "best"}, "`strategy` must be one of"),
        ({"strategy": "random", "coverage": 0.0}, "`coverage` must lie above 0"),
        ({"strategy": "random", "coverage": 1.5}, "between 0 and 1"),
        ({"strategy": "gradient", "k": "high"}, "`k` must be a number"),
        ({"strategy": "gradient", "attribution": lambda pictures: pictures}, "finite importances of shape"),
        ({"epsilon": 0.0}, "positive"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong, word):
    with pytest.raises(BadInput, match=word):
        SelectiveNoise(**({"epsilon": 1.0} | wrong)).release(astronaut(112))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["uint16", "float64", "grey", "alpha"])
def test_every_kind_of_picture_comes_back_as_it_went_in(strategy, kind):
    picture = astronaut(112)
    if kind == "uint16":
        picture = picture.astype(np.uint16) * 257
    elif kind == "float64":
        picture = picture / 255.0
    elif kind == "grey":
        picture = picture[..., 0]
    else:
        picture = np.concatenate([picture, picture[..., :1]], axis=-1)
    before = picture.copy()
    released = SelectiveNoise(3.0, strategy).release(picture).value
    assert released.shape == picture.shape
    assert released.dtype == picture.dtype
    assert np.array_equal(picture, before)
    assert not np.array_equal(released, picture)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_seeded_and_keyed_releases_repeat(strategy):
    pictures = np.stack([astronaut(112), astronaut(112)[::-1]])
    for source in (Seeded(1), Keyed(b"k" * 32, dataset="album", version="1", release="a")):
        one, two = (
            SelectiveNoise(3.0, strategy, randomness=source).release(pictures).value for _ in range(2)
        )
        assert np.array_equal(one, two)
        assert not np.array_equal(one[0], one[1][::-1])
