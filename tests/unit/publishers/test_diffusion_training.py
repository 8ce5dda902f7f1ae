"""Noisy training of a denoiser: what one example can add, where the noise comes from, and that it learns."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from sklearn.datasets import load_digits

from sfumato.learners import DPSGD
from sfumato.noise import NoisedSums, Secure, Seeded
from sfumato.publishers.diffusion.diffusion_model import Denoiser, UNet
from sfumato.publishers.diffusion.diffusion_training import ExampleGradients, Training
from sfumato.publishers.noisy_steps import generator_of

ALARM = 1e-7


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    pictures = torch.from_numpy(data.images.astype(np.float32) / 8.0 - 1.0)[:, None]
    return pictures, torch.from_numpy(data.target.astype(np.int64))


def fresh():
    return UNet((1, 8, 8), 10, 8, torch.Generator().manual_seed(0))


def mean_gradient(training, pictures, labels, records):
    """The noisy mean gradient of a fresh network, as one vector."""
    network = fresh()
    gradients, noisy = ExampleGradients(network), training.sgd.noisy(Seeded(3))
    draws = torch.Generator().manual_seed(4)
    training.leave_gradients(gradients, network, pictures, labels, draws)
    training.sgd.set_gradients(gradients.parameters, noisy, records, len(pictures))
    return torch.cat([parameter.grad.flatten() for parameter in gradients.parameters])


@pytest.mark.parametrize("multiplicity", [1, 3, 10])
def test_one_example_moves_the_sum_by_the_clip_at_most_whatever_the_multiplicity(digits, multiplicity):
    """A picture of NaN has a gradient that counts as zero: the null record of zero-out neighbours.

    The noise, 1e-6 of the clip in each of 10,000 entries, is the same on both sides.
    """
    training = Training(DPSGD(1e-6, 0.05, 1, 2.0), multiplicity)
    pictures, labels = digits[0][:80].clone(), digits[1][:80]
    whole = mean_gradient(training, pictures, labels, 1600)
    pictures[70] = torch.nan
    moved = torch.linalg.vector_norm((whole - mean_gradient(training, pictures, labels, 1600)) * 80.0)
    assert moved <= 2.0 * (1.0 + 1e-4)
    assert moved >= 1.99  # gradients are longer than the clip: what is measured is the clip itself


@pytest.mark.parametrize(("multiplier", "clip", "rate"), [(0.7, 2.0, 0.05), (3.0, 0.5, 0.2)])
@pytest.mark.parametrize("taken", [0, 5])
def test_noise_of_a_step_has_the_deviation_that_was_promised(digits, multiplier, clip, rate, taken):
    """With gradients that count as zero, what is left is noise of multiplier · clip / (rate · n).

    False alarms: 2e-7, both sides of the χ² of all entries together.
    """
    training = Training(DPSGD(multiplier, rate, 1, clip))
    nothing = torch.full((taken, 1, 8, 8), torch.nan)
    noise = mean_gradient(training, nothing, digits[1][:taken], 1000).double()
    ratio = (noise.square().sum() / (multiplier * clip / (rate * 1000.0)) ** 2).item()
    assert chi2.ppf(ALARM, len(noise)) <= ratio <= chi2.isf(ALARM, len(noise))


def test_training_moves_parameters_by_the_noisy_sum_and_nothing_else(digits):
    """One step of Adam moves each parameter against the sign of its gradient, which is noise alone here."""
    training = Training(DPSGD(0.7, 0.5, 1, 2.0), pace=1e-2)
    network, before = fresh(), fresh()
    nothing = torch.full((20, 1, 8, 8), torch.nan)
    training.averaged(network, nothing, digits[1][:20], NoisedSums(Seeded(3)))
    order = [list(layers.parameters()) for layers in (network, before)]
    parameters, steps = ExampleGradients(network).parameters, []
    NoisedSums(Seeded(3))(steps.append)
    drawn = training.sgd.noisy(steps[0])([], [p.shape for p in parameters])
    names = [id(p) for p in parameters]
    for now, was in zip(*order, strict=True):
        signs = drawn[names.index(id(now))].sign()
        assert torch.equal((now - was).sign(), -signs)


def test_loss_falls_without_noise_and_the_same_seed_gives_the_same_weights(digits):
    pictures, labels = digits
    training = Training(DPSGD(1e-6, 0.03, 60, 2.0))

    def loss(network):
        generator = torch.Generator().manual_seed(9)
        with torch.no_grad():
            return Denoiser(network).losses(pictures[:500], labels[:500], 2, generator).mean().item()

    first, second = fresh(), fresh()
    averages = [
        training.averaged(network, pictures, labels, NoisedSums(Seeded(1))) for network in (first, second)
    ]
    assert loss(first) < 0.6 * loss(fresh())
    assert loss(averages[0]) < 0.7 * loss(fresh())
    for one, other in zip(averages[0].parameters(), averages[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_generators_of_other_labels_and_other_runs_differ() -> None:
    seeds = [
        generator_of(randomness.stream(label)).initial_seed()
        for label in (b"a", b"b")
        for randomness in (Seeded(1), Seeded(2), Secure(), Secure())
    ]
    assert len(set(seeds)) == len(seeds)
    assert generator_of(Seeded(1).stream(b"a")).initial_seed() == seeds[0]
