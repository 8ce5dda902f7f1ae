"""The publisher of pictures from a private diffusion model: its promise, its releases, what it refuses."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.noise import Keyed, NoisedSums, Seeded
from sfumato.privacy import DELTA, Neighbours
from sfumato.publishers.diffusion_model import UNet, denoising_loss, draw_noise
from sfumato.publishers.dpdm import DPDMPublisher
from sfumato.publishers.publisher import Labelled, silent

DIGITS = {"shape": (8, 8), "classes": 10, "top": 16.0, "width": 8}


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images[:300], data.target[:300]


@pytest.fixture(scope="module")
def fitted(digits):
    return DPDMPublisher(rate=0.1, steps=3, randomness=Seeded(1), **DIGITS).fit(*digits)


def test_guarantee_is_that_of_dp_sgd_with_the_papers_noise_and_known_before_fit():
    publisher = DPDMPublisher(rate=0.01, steps=100)
    assert publisher.guarantee() == DPSGD(0.7, 0.01, 100, 2.0).guarantee(DELTA)
    assert publisher.guarantee().neighbours is Neighbours.ZERO_OUT
    assert DPDMPublisher(rate=0.01, steps=100, multiplicity=20).guarantee() == publisher.guarantee()


def test_the_default_proves_what_its_page_says():
    assert DPDMPublisher().guarantee().epsilon(1e-5) == pytest.approx(7.11, abs=0.005)


def test_epsilon_sets_the_multiplier():
    publisher = DPDMPublisher(epsilon=3.0, delta=1e-6, rate=0.02, steps=50)
    assert 2.95 < publisher.guarantee().epsilon(1e-6) <= 3.0
    assert publisher.parameters()["multiplier"] == publisher.sgd.multiplier


def test_a_release_has_pictures_in_range_labels_and_its_statement(fitted):
    release = fitted.publish(40)
    pictures, labels = release.value
    assert pictures.shape == (40, 8, 8)
    assert pictures.dtype == np.float32
    assert pictures.min() >= 0.0
    assert pictures.max() <= 16.0
    assert labels.dtype == np.int64
    assert release.statement.proven == fitted.guarantee()
    assert release.statement.parameters["multiplicity"] == 3
    assert len(fitted.publish().value[1]) == 300


def test_labels_are_uniform_whatever_the_private_counts(digits):
    """χ² of 2,000 labels over 10 classes; false alarms 1e-6. All private pictures are of class 3."""
    publisher = DPDMPublisher(rate=0.1, steps=1, drawing=2, randomness=Seeded(2), **DIGITS)
    labels = publisher.fit(digits[0], np.full(300, 3)).publish(2000).value[1]
    counts = np.bincount(labels, minlength=10)
    assert ((counts - 200.0) ** 2 / 200.0).sum() < chi2.isf(1e-6, 9)


def test_the_same_seed_publishes_the_same_and_each_call_publishes_anew(digits, fitted):
    again = DPDMPublisher(rate=0.1, steps=3, randomness=Seeded(1), **DIGITS).fit(*digits)
    first, second = again.publish(10).value[0], again.publish(10).value[0]
    assert not np.array_equal(first, second)
    fitted.fit(*digits)
    assert np.array_equal(first, fitted.publish(10).value[0])
    assert np.array_equal(second, fitted.publish(10).value[0])


def test_without_a_seed_each_fit_differs(digits):
    made = [DPDMPublisher(rate=0.1, steps=1, **DIGITS).fit(*digits).publish(5).value[0] for _ in range(2)]
    assert not np.array_equal(*made)


@pytest.mark.parametrize("shape", [(9, 11, 3), (10, 8), (12, 12, 1)])
def test_other_sizes_and_colours(shape):
    pictures = np.random.default_rng(0).integers(0, 256, (30, *shape), dtype=np.uint8)
    kept = pictures.copy()
    publisher = DPDMPublisher(
        rate=0.5, steps=2, shape=shape, classes=2, width=8, drawing=3, randomness=Seeded(0)
    )
    drawn, labels = publisher.fit(pictures, np.arange(30) % 2).publish(7).value
    assert drawn.shape == (7, *shape)
    assert set(labels) <= {0, 1}
    assert 0.0 <= drawn.min() <= drawn.max() <= 255.0
    assert np.array_equal(pictures, kept)


def test_progress_tells_steps_and_shares_and_nothing_of_the_data(digits):
    told = []
    publisher = DPDMPublisher(rate=0.1, steps=4, drawing=2, randomness=Seeded(1), **DIGITS)
    publisher.fit(*digits, report=lambda *facts: told.append(facts))
    assert told == [("training", step / 4, {}) for step in range(1, 5)]
    publisher.publish(300, report=lambda *facts: told.append(facts))
    assert [(stage, facts) for stage, _, facts in told[4:]] == [("drawing pictures", {})] * 2
    assert told[-1][1] == 1.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 1.0, "multiplier": 1.0}, "both given"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"multiplier": 0.0}, "multiplier"),
        ({"clip": float("nan")}, "clip"),
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"steps": 0}, "steps"),
        ({"multiplicity": 0}, "multiplicity"),
        ({"classes": 1}, "classes"),
        ({"width": 12}, "multiple of 8"),
        ({"drawing": 1}, "drawing"),
        ({"pace": 0.0}, "pace"),
        ({"delta": 1.0}, "delta"),
        ({"shape": (7, 28)}, "shape"),
        ({"shape": 28}, "shape"),
        ({"shape": (28, 28, 0)}, "shape"),
        ({"randomness": Keyed(b"0" * 32, dataset="d", version="1", release="r")}, "keyed"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(given, said):
    with pytest.raises(BadInput, match=said):
        DPDMPublisher(**given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (X[:, :7], y), "shape"),
        (lambda X, y: (np.where(X > 15.0, np.nan, X), y), "not finite"),
        (lambda X, y: (X, y + 1), "label of picture"),
        (lambda X, y: (X, y[:-1]), "one whole number for each"),
        (lambda X, y: (X, y.astype(float)), "whole number"),
        (lambda X, y: (X[:0], y[:0]), "n ≥ 1"),
    ],
)
def test_bad_data_is_refused(digits, change, said):
    with pytest.raises(BadInput, match=said):
        DPDMPublisher(rate=0.1, steps=1, **DIGITS).fit(*change(*digits))


def test_nothing_is_published_before_fit_or_in_bad_numbers(fitted):
    with pytest.raises(BadInput, match="fit"):
        DPDMPublisher().publish(1)
    with pytest.raises(BadInput, match="`n` was 0"):
        fitted.publish(0)


class Recorded(NoisedSums):
    """Keeps the sums that it drew."""

    def __init__(self, randomness):
        super().__init__(randomness)
        self.drawn = []

    def _sum(self, number, drawn):
        self.drawn.append(drawn())
        return self.drawn[-1]


def first_sum(digits, null=(), **parameters):
    """The noisy gradient sum of the first step, on all records, of which those in ``null`` are left out.

    A picture of NaN has a gradient that counts as zero: the null record of zero-out neighbours.
    """
    publisher, sums = DPDMPublisher(rate=1.0, steps=1, **DIGITS, **parameters), Recorded(Seeded(3))
    publisher._sums = sums
    data = Labelled.checked(digits[0][:80], digits[1][:80], top=16.0, classes=10)
    data.pictures[list(null)] = np.nan
    publisher._train(data, silent)
    return sums.drawn[0].astype(np.float64)


@pytest.mark.parametrize("multiplicity", [1, 3, 10])
def test_one_example_moves_the_sum_by_the_clip_at_most_whatever_the_multiplicity(digits, multiplicity):
    """The noise, 1e-6 of the clipping norm in each of 10,000 entries, is the same on both sides."""
    options = {"multiplier": 1e-6, "clip": 2.0, "multiplicity": multiplicity}
    moved = np.linalg.norm(first_sum(digits, **options) - first_sum(digits, [70], **options))
    assert moved <= 2.0 * (1.0 + 1e-4)
    assert moved >= 1.99  # gradients are longer than the clip: what is measured is the clip itself


@pytest.mark.parametrize(("multiplier", "clip"), [(0.7, 2.0), (3.0, 0.5)])
def test_noise_of_a_step_has_the_deviation_that_was_promised(digits, multiplier, clip):
    """With gradients that count as zero, what is left is noise of multiplier · clip.

    False alarms: 2e-7, both sides of the χ² of all entries together.
    """
    noise = first_sum(digits, range(80), multiplier=multiplier, clip=clip)
    ratio = np.square(noise / (multiplier * clip)).sum()
    assert chi2.ppf(1e-7, len(noise)) <= ratio <= chi2.isf(1e-7, len(noise))


def test_the_loss_falls_without_noise(digits):
    data = load_digits()
    publisher = DPDMPublisher(rate=0.03, steps=60, multiplier=1e-6, randomness=Seeded(1), **DIGITS)
    pictures = torch.from_numpy(data.images.astype(np.float32) / 8.0 - 1.0)[:500, None]
    draws = draw_noise(500, 2, (1, 8, 8), torch.Generator().manual_seed(9))
    labels = torch.from_numpy(data.target[:500].astype(np.int64))

    def loss(network):
        def forward(given):
            return network(*given)

        with torch.no_grad():
            rows = zip(pictures, labels, *draws, strict=True)
            return sum(denoising_loss(forward, *row).item() for row in rows)

    fresh = UNet((1, 8, 8), 10, 8, torch.Generator().manual_seed(0))
    assert loss(publisher.fit(data.images, data.target)._model) < 0.7 * loss(fresh)
