"""The certified publisher's releases: inside the proven curve, and outside it with 20% less noise.

A dataset of the game is two cells, and one release holds many: their noises are independent, so that it gives
as many samples as there are datasets. The reader knows all but the record and uses the likelihood ratio.
"""

import numpy as np
import pytest
from games import LESS, NORMAL_THRESHOLDS, violations

from sfumato.privacy import Guarantee
from sfumato.publish.cell_sums import CellSums
from sfumato.publish.certified import CertifiedPublisher
from sfumato.publish.partition import Partition

SAMPLES = 40_000  # a side
CLIP = 0.7
AHEAD, BACK, ASIDE = (CLIP, 0.0), (-CLIP, 0.0), (0.0, CLIP)
# (cell, vector) of the record and of its worst neighbour; None where the record is absent.
PAIRS = {
    ("replace", True): ((0, AHEAD), (1, ASIDE)),
    ("replace", False): ((0, AHEAD), (0, BACK)),
    ("add/remove", True): ((0, AHEAD), None),
    ("add/remove", False): ((1, ASIDE), None),
    ("zero-out", True): ((1, AHEAD), None),
}


class WeakPublisher(CertifiedPublisher):
    def _multiplier(self):
        return LESS * super()._multiplier()


@pytest.mark.parametrize(("neighbours", "moments"), list(PAIRS))
def test_one_release_stays_inside_its_curve_and_leaves_it_with_less_noise(neighbours, moments):
    """False-alarm rate 1e-6; 40 000 samples a side; ε = 8; miss rate below 1e-12."""
    share = 0.4
    parameters = {"shape": (4, 4), "classes": 2 * SAMPLES, "neighbours": neighbours, "parts": 1}
    sound, weak = CertifiedPublisher(8.0, **parameters), WeakPublisher(8.0, **parameters)
    proven = Guarantee.gaussian(sound._multiplier() / np.sqrt(share))
    stages = [(share, moments)]
    assert not violations(proven, *scores(sound, PAIRS[neighbours, moments], stages), NORMAL_THRESHOLDS)
    assert violations(proven, *scores(weak, PAIRS[neighbours, moments], stages), NORMAL_THRESHOLDS)


def test_all_releases_of_a_fit_stay_inside_the_guarantee_and_leave_it_with_less_noise():
    """False-alarm rate 1e-6; ε = 8, in the shares of a fit with one part; miss rate below 1e-12."""
    parameters = {"shape": (4, 4), "classes": 2 * SAMPLES, "neighbours": "add/remove", "parts": 1}
    sound, weak = CertifiedPublisher(8.0, **parameters), WeakPublisher(8.0, **parameters)
    pair, stages = PAIRS["add/remove", True], list(zip(sound.shares(), (False, True), strict=True))
    assert not violations(sound.guarantee(), *scores(sound, pair, stages), NORMAL_THRESHOLDS)
    assert violations(sound.guarantee(), *scores(weak, pair, stages), NORMAL_THRESHOLDS)


def scores(publisher, pair, stages):
    """The likelihood-ratio statistic under the record and under its neighbour, all stages together."""
    partition = Partition(np.zeros((2 * SAMPLES, 1, 2)))
    sides = [[], []]
    means = [[], []]
    for share, moments in stages:
        plan = CellSums(2, CLIP, moments, publisher.neighbours)
        for side, record in enumerate(pair):
            vectors, cells = dataset(record)
            many = (np.arange(SAMPLES)[:, None] * 2 + cells).reshape(-1)
            sums = publisher._sums(
                partition, np.tile(vectors, (SAMPLES, 1)), many, CLIP, share, "game", moments=moments
            )
            sides[side].append(whitened(sums).reshape(SAMPLES, -1))
            means[side].append(noiseless(plan, vectors, cells, sums))
    middle = (np.concatenate(means[0]) + np.concatenate(means[1])) / 2.0
    way = np.concatenate(means[1]) - np.concatenate(means[0])
    way /= np.linalg.norm(way)
    return [(np.concatenate(side, axis=1) - middle) @ way for side in sides]


def dataset(record):
    if record is None:
        return np.zeros((0, 2)), np.zeros(0, dtype=np.intp)
    return np.array([record[1]]), np.array([record[0]])


def whitened(sums):
    """Released sums (cells, values), divided by the deviation of the noise that they are said to hold."""
    parts = [sums.counts[:, None] / sums.count_noise, sums.firsts / sums.first_noise]
    if sums.seconds is not None:
        rows, columns = np.triu_indices(2)
        deviations = sums.second_noise * np.where(rows == columns, np.sqrt(2.0), 1.0)
        parts.append(sums.seconds[:, rows, columns] / deviations)
    return np.concatenate(parts, axis=1)


def noiseless(plan, vectors, cells, sums):
    """What :func:`whitened` would be of one dataset without noise: counts, sums and products as they are."""
    counts = np.bincount(cells, minlength=2).astype(float)
    firsts, seconds = np.zeros((2, 2)), np.zeros((2, 2, 2))
    for vector, cell in zip(vectors, cells, strict=True):
        firsts[cell] += vector
        seconds[cell] += np.outer(vector, vector)
    return whitened(
        type(sums)(
            counts,
            firsts,
            seconds if plan.moments else None,
            sums.count_noise,
            sums.first_noise,
            sums.second_noise,
        )
    ).reshape(-1)
