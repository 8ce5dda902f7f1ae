"""Projections, embeddings and table rows: what stands around the noise changes nothing in its proof."""

import numpy as np
import pytest
from games import LESS, NORMAL_THRESHOLDS, WeakGaussian, WeakLaplace, normal_score, rows_of, violations

from sfumato.mechanisms import Gaussian, Laplace, RandomisedResponse, Rows
from sfumato.mechanisms.transforms import RandomProjection, ReconstructionResistant, ReverseManifold

SAMPLES = 400_000  # a side


class WeakResponse(RandomisedResponse):
    def _budgets(self, columns):
        return [budget / LESS for budget in super()._budgets(columns)]


def test_random_projection_keeps_the_promise_of_its_noise():
    """False-alarm rate 1e-6; ε = 2, 5 columns to 2, 400 000 samples a side; miss rate below 1e-12."""
    record = np.array([30.0, -10.0, 5.0, 0.0, 20.0])
    # Almost no noise shows where the public projection takes the record; the clip puts it on the circle.
    shown = RandomProjection(2, Gaussian(1e6, 1e-5, 1.0)).release([record]).value[0]
    way = shown / np.linalg.norm(shown)
    sound = Gaussian(2.0, 1e-5, 1.0)

    def game(noise):
        projection = RandomProjection(2, noise)
        releases = [projection.release(rows_of(sign * record, SAMPLES)).value for sign in (-1.0, 1.0)]
        scores = [normal_score(value, -way, way, sound.sigma(2)) for value in releases]
        return violations(RandomProjection(2, sound).guarantee(5), *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(WeakGaussian(2.0, 1e-5, 1.0))


def test_reconstruction_resistant_keeps_the_promise_of_its_noise():
    """False-alarm rate 1e-6; ε = 2, one component, of which only the sign remains; miss rate below 1e-12."""
    sound = Gaussian(2.0, 1e-5, 1.0)
    record = np.array([3.0, -1.0, 2.0])
    # Almost no noise shows on which side of the public direction the record lies.
    side = ReconstructionResistant(1, Gaussian(1e6, 1e-5, 1.0)).release([record]).value[0, 0]

    def game(noise):
        mechanism = ReconstructionResistant(1, noise)
        signs = [mechanism.release(rows_of(sign * record, SAMPLES)).value[:, 0] for sign in (-side, side)]
        return violations(ReconstructionResistant(1, sound).guarantee(3), *signs, [0.0])

    assert not game(sound)
    assert game(WeakGaussian(2.0, 1e-5, 1.0))


@pytest.mark.parametrize("key", [None, b"a key of sixteen bytes or more"])
def test_reverse_manifold_passes_the_guarantee_of_the_release_through(key):
    """False-alarm rate 1e-6, miss rate below 1e-12; ε = 2, read by the inverse, 400 000 samples a side."""
    sound = Gaussian(2.0, 1e-5, 1.0)
    pair = ((-1.0, 0.0), (1.0, 0.0))

    def game(mechanism):
        scores = []
        for record in pair:
            embedding = ReverseManifold(0.1, key)
            release = embedding.apply(mechanism.release(rows_of(record, SAMPLES)))
            scores.append(normal_score(embedding.inverse(release.value), *pair, sound.sigma(2)))
        return violations(release.statement.proven, *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(WeakGaussian(2.0, 1e-5, 1.0))


BOUNDS = [(0.0, 10.0), (-1.0, 1.0)]
CATEGORIES = [3]
WEIGHTS = [1.0, 3.0, 2.0]
STRETCH = np.array([0.5, 1.5])  # the numeric weights, scaled to a mean of one


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_table_rows_compose_numeric_and_coded_columns(law):
    """False-alarm rate 1e-6; ε = 3 shared 2 : 1, 400 000 samples a side; miss rate below 1e-12."""
    if law == "gaussian":
        budget, weakened = Gaussian(3.0, 1e-5), WeakGaussian(3.0, 1e-5)
    else:
        budget, weakened = Laplace(3.0), WeakLaplace(3.0)
    sound = Rows(budget, BOUNDS, CATEGORIES, WEIGHTS)
    weak = Rows(weakened, BOUNDS, CATEGORIES, WEIGHTS)
    weak.coded = WeakResponse(weak.coded.epsilon, weak.coded.categories, weights=weak.coded.weights)
    thresholds = np.linspace(-2.9, 2.9, 13)
    proven = sound.guarantee()
    assert proven.epsilon(1e-5) <= 3.0
    assert not violations(proven, *row_scores(sound, sound), thresholds)
    assert violations(proven, *row_scores(weak, sound), thresholds)


def row_scores(rows, sound):
    """Log-likelihood ratios, by the noise of ``sound``, under the two opposite corners of a row."""
    scores = []
    for corner, code in ((0, 0), (1, 2)):
        numeric = rows_of([bound[corner] for bound in BOUNDS], SAMPLES)
        released, codes = rows.perturb(numeric, np.full((SAMPLES, 1), code))
        low, high = np.array(BOUNDS).T
        values = (2.0 * released - low - high) / (high - low) * STRETCH
        if isinstance(sound.numeric, Gaussian):
            ratio = values @ STRETCH * 2.0 / sound.numeric.sigma(2) ** 2
        else:
            ratio = (np.abs(values + STRETCH) - np.abs(values - STRETCH)).sum(axis=1) / sound.numeric.scale(2)
        answer = codes[:, 0]
        scores.append(ratio + sound.coded.epsilon * ((answer == 2).astype(float) - (answer == 0)))
    return scores
