"""Noisy maps, and noise that follows them: inside what is proven, and outside it with a fifth less noise.

Games are played on the worst pair: tiles that score 0 in one picture and 1 in the other, black against white.
The reader of a private map sees it together with the noisy picture, as everybody does who sees the release.
"""

import numpy as np
import pytest
from games import LESS, laplace_score, laplace_thresholds, violations

from sfumato.media.detect import Detector
from sfumato.media.images import ContentAdaptive, PlaneMeans, SelectiveNoise, SensitivityMap
from sfumato.media.images.content_adaptive import PrivateMap, estimated_scores
from sfumato.noise import Secure
from sfumato.privacy import Unit

SAMPLES = 200_000


class WeakMap(PrivateMap):
    """A private map with 20% less noise than it states."""

    def noisy(self, cells, shape, streams):
        weak = PrivateMap(self.epsilon / LESS, self.unit, self.tile)
        return weak.noisy(weak.cells(cells.reshape(-1, 2, 2) * self._step(shape), shape), shape, streams)


def map_scores(private, touched, shape):
    """Log-likelihood ratios of maps of 2×2 tiles in which the first ``touched`` score 1, over all 0."""
    found = []
    for value in (0.0, 1.0):
        scores = np.zeros((SAMPLES, 2, 2))
        scores.reshape(SAMPLES, 4)[:, :touched] = value
        noisy = private.noisy(private.cells(scores, shape), shape, [Secure().stream(b"")])
        seen = noisy.reshape(SAMPLES, 4)[:, :touched]
        found.append(laplace_score(seen, 0.0, 1.0, private.scale(shape)))
    return found


@pytest.mark.parametrize(
    ("unit", "touched"), [("pixels(1)", 1), ("pixels(2)", 2), ("region(2)", 4), ("item", 4)]
)
def test_a_private_map_keeps_what_is_proven_and_not_with_less_noise(unit, touched):
    """False-alarm rate 1e-6; ε = 2; a unit that lies in up to four tiles; miss rate below 1e-6."""
    shape = (64, 64, 1)
    sound, weak = PrivateMap(2.0, unit, 32), WeakMap(2.0, unit, 32)
    proven = sound.proven(Unit.parse(unit), shape)
    assert proven.epsilon() == pytest.approx(2.0)
    # With more tiles the largest loss is rarer, but seen exactly: all scores at or beyond 1.
    thresholds = [*laplace_thresholds(2.0), 2.0 * (1 - 1e-9)]
    assert not violations(proven, *map_scores(sound, touched, shape), thresholds)
    assert violations(proven, *map_scores(weak, touched, shape), thresholds)


class Bright(Detector):
    """A tile is as sensitive as it is bright: from the worst pair, 0 and 1."""

    factor = "identity"

    def boxes(self, picture):
        return []

    def scores(self, tiles):
        return tiles.mean(axis=(1, 2, 3)) / 255.0


SIDE = 8
GAMES = 60_000
EPSILON = 2.0


def adaptive_game(made, means_weakness=1.0, map_weakness=1.0):
    """Scores of (map, picture) for black and white: the likelihood ratio of both parts together.

    One tile and one block: the whole picture is the unit. Noise on the picture follows the noisy map, game
    by game, through the same rule as in a release: games whose map asks for the same share are played
    together.
    """
    private, rest = made.private_map(), (1.0 - made.map_share) * made.epsilon
    private = PrivateMap(private.epsilon / map_weakness, private.unit, private.tile)
    shape, found = (SIDE, SIDE, 1), []
    for value in (0, 255):
        pictures = np.full((GAMES, SIDE, SIDE, 1), value, dtype=np.uint8)
        scores = Bright().tile_scores(pictures, made.tile)
        noisy = private.noisy(private.cells(scores, shape), shape, [Secure().stream(b"")])
        estimated = estimated_scores(noisy, made.private_map().scale(shape))
        # A public rounding of the map, so that few different shares occur.
        rounded = np.round(estimated[:, 0, 0], 1)
        score = laplace_score(noisy[:, 0], 0.0, 1.0, made.private_map().scale(shape))
        for level in np.unique(rounded):
            own = rounded == level
            shares = made._shares(SensitivityMap.from_array([[level]]))
            means = PlaneMeans(
                rest / means_weakness, unit="item", block=SIDE, shares=shares, restore="none", shape=shape
            )
            soft = means.soften(pictures[own], 255.0, 0)[:, 0, 0, 0]
            scale = 255.0 / (rest * float(shares[0, 0]))
            score[own] += (np.abs(soft) - np.abs(soft - 255.0)) / scale
        found.append(score)
    return found


def test_noise_that_follows_a_private_map_keeps_what_is_proven_and_not_with_less():
    """False-alarm rate 1e-6; ε = 2 of which half pays for the map; miss rate below 1e-6 for both weak ones.

    Black pictures get the smallest score and the whole of the rest of ε, so the sum of both is reached.
    """
    made = ContentAdaptive(
        EPSILON,
        map="private",
        unit="item",
        detectors=(Bright(),),
        tile=SIDE,
        map_share=0.5,
        shape=(SIDE, SIDE, 1),
    )
    proven = made.guarantee()
    assert proven.epsilon() == pytest.approx(EPSILON)
    thresholds = [*laplace_thresholds(EPSILON), -EPSILON * (1 - 1e-6)]
    assert not violations(proven, *adaptive_game(made), thresholds)
    assert violations(proven, *adaptive_game(made, means_weakness=LESS), thresholds)
    assert violations(proven, *adaptive_game(made, map_weakness=LESS), thresholds)


def play_public(made, weakness, place, shape):
    """Scores of a pixel's block, black against white at ``place``, through the mechanism's own release."""
    shares = made._declared_shares()
    means = PlaneMeans(
        made.epsilon / weakness, unit=made.unit, block=1, shares=shares, restore="none", shape=shape
    )
    scale = float(np.broadcast_to(made._means(1.0, shares).design(shape).scales[0], shape[:2])[place]) * 255.0
    found = []
    for value in (0, 255):
        pictures = np.zeros((SAMPLES, *shape), dtype=np.uint8)
        pictures[(slice(None), *place)] = value
        soft = means.soften(pictures, 255.0, 0)[(slice(None), *place)][:, 0]
        found.append((np.abs(soft) - np.abs(soft - 255.0)) / scale)
    return found


@pytest.mark.parametrize("sensitive", [False, True])
def test_a_public_map_keeps_what_is_proven_where_it_is_proven(sensitive):
    """False-alarm rate 1e-6; miss rate below 1e-6; the headline outside, a quarter of ε inside the area."""
    shape = (2, 2, 1)
    made = ContentAdaptive(
        4.0, declared=[[0.0, 1.0], [0.0, 0.0]], unit="pixels(1)", block=1, low=0.25, shape=shape
    )
    proven = made.inside("pixels(1)") if sensitive else made.guarantee()
    epsilon = 1.0 if sensitive else 4.0
    assert proven.epsilon() == pytest.approx(epsilon)
    place = (0, 1) if sensitive else (0, 0)
    thresholds = laplace_thresholds(epsilon)
    assert not violations(proven, *play_public(made, 1.0, place, shape), thresholds)
    assert violations(proven, *play_public(made, LESS, place, shape), thresholds)


class WeakSelective(SelectiveNoise):
    """Selective noise of a fifth less than it states."""

    def scale(self, shape):
        return LESS * super().scale(shape)


class KeenSelective(SelectiveNoise):
    """A coin that chooses a fifth less often than it states."""

    def _threshold(self):
        return int(LESS * super()._threshold())


@pytest.mark.parametrize("strategy", ["uniform", "random"])
def test_selective_noise_keeps_what_is_proven_of_it(strategy):
    """False-alarm rate 1e-6; one grey pixel, ε = 1; miss rate below 1e-6 with less noise or a keener coin."""
    shape = (1, 1, 1)
    sound = SelectiveNoise(1.0, strategy, coverage=0.5, shape=shape)
    proven, thresholds = sound.guarantee(), [*laplace_thresholds(1.0), 20.0]

    def game(made):
        found = []
        for value in (0.0, 255.0):
            soft = made.soften(np.full((SAMPLES, *shape), value), 255.0, 0).ravel()
            score = (np.abs(soft) - np.abs(soft - 255.0)) / 255.0
            # A pixel that was not chosen is seen as it is; noise hits it exactly with a chance below 1e-5.
            if strategy == "random":
                score[soft == 0.0], score[soft == 255.0] = -np.inf, np.inf
            found.append(score)
        return violations(proven, *found, thresholds)

    assert not game(sound)
    assert game(WeakSelective(1.0, strategy, coverage=0.5, shape=shape))
    if strategy == "random":
        assert game(KeenSelective(1.0, strategy, coverage=0.5, shape=shape))
