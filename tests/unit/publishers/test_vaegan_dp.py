"""The VAE-GAN with noise: what is proven of which mode, what it publishes, and what it refuses."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.noise import Seeded
from sfumato.privacy import DELTA
from sfumato.publishers.vaegan_dp import Critic, VAEGANDPPublisher

DIGITS = {"shape": (8, 8), "classes": 10, "top": 16.0, "latent": 4, "hidden": 24, "rate": 0.15, "steps": 150}


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images, data.target


@pytest.fixture(scope="module")
def private(digits):
    return VAEGANDPPublisher(multiplier=0.8, randomness=Seeded(1), **DIGITS).fit(*digits)


@pytest.fixture(scope="module")
def paper(digits):
    return VAEGANDPPublisher(mode="paper", multiplier=0.8, randomness=Seeded(1), **DIGITS).fit(*digits)


def test_guarantee_of_private_mode_is_that_of_its_steps_and_known_before_fit():
    plan = VAEGANDPPublisher()
    expected = DPSGD(1.1, plan.rate, plan.steps, 1.0).guarantee(DELTA)
    assert plan.guarantee() == expected
    assert 0.1 < expected.epsilon() < 10.0
    assert not plan.one_to_one
    assert plan.claim() is None


def test_epsilon_chooses_the_noise():
    plan = VAEGANDPPublisher(3.0, 1e-6, rate=1.0, steps=4)
    assert 2.97 < plan.guarantee().epsilon(1e-6) <= 3.0
    assert plan.parameters()["multiplier"] == plan.sgd.multiplier > 2.0


def test_nothing_is_proven_of_paper_mode(paper):
    statement = paper.publish(5).statement
    assert statement.proven.proves_nothing
    assert "reconstructions" in statement.proven.theorem
    assert "critic" in statement.proven.theorem
    assert "generator only" in statement.claimed.text
    assert paper.one_to_one


def test_private_pictures_look_like_their_labels(digits, private):
    pictures, labels = private.publish(1500).value
    assert (pictures.shape, pictures.dtype, labels.dtype) == ((1500, 8, 8), np.float32, np.int64)
    assert pictures.min() >= 0.0
    assert pictures.max() <= 16.0
    assert set(labels) == set(range(10))
    model = SVC().fit(pictures.reshape(1500, -1), labels)
    assert model.score(digits[0].reshape(-1, 64), digits[1]) > 0.5


def test_paper_mode_publishes_reconstructions_in_the_order_of_the_records(digits, paper):
    pictures, labels = paper.publish().value
    assert np.array_equal(labels, digits[1])
    private = digits[0].reshape(len(labels), -1)
    apart = np.square(pictures.reshape(len(labels), -1) - private).mean()
    others = np.square(np.roll(pictures.reshape(len(labels), -1), 1, axis=0) - private).mean()
    assert apart < 0.7 * others
    with pytest.raises(BadInput, match="there are 1797 pictures to publish"):
        paper.publish(1798)


def test_private_mode_keeps_no_record_and_may_publish_more_than_it_read(private):
    assert private._data is None
    assert len(private.publish(2000).value[1]) == 2000
    assert len(private.publish().value[1]) == 1797


def test_publishing_again_gives_other_pictures_and_a_seed_gives_the_same_ones(digits):
    few = {**DIGITS, "steps": 3}
    one, two = (
        VAEGANDPPublisher(randomness=Seeded(4), **few).fit(digits[0][:200], digits[1][:200]) for _ in range(2)
    )
    first = one.publish(20).value
    for mine, other in zip(first, two.publish(20).value, strict=True):
        assert np.array_equal(mine, other)
    assert not np.array_equal(first[0], one.publish(20).value[0])


def test_torch_is_left_as_it_was_and_inputs_are_not_modified(digits):
    pictures, labels, state = digits[0].copy(), digits[1].copy(), torch.get_rng_state()
    VAEGANDPPublisher(mode="paper", **{**DIGITS, "steps": 2}).fit(pictures, labels).publish(3)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(pictures, digits[0])
    assert np.array_equal(labels, digits[1])


def test_losses_are_reported_in_paper_mode_alone(digits):
    for mode, named in (("paper", {"loss", "critic"}), ("private", set())):
        told = []
        publisher = VAEGANDPPublisher(mode=mode, **{**DIGITS, "steps": 4})
        publisher.fit(*digits, report=lambda stage, share, facts, told=told: told.append((share, set(facts))))
        assert [share for share, _ in told] == [0.25, 0.5, 0.75, 1.0]
        assert told[-1][1] == named


def test_steps_without_examples_add_noise_alone(digits):
    """At a rate of 1e-12 the seed takes no record: labels do not matter, and weights move with each step."""
    shown = [
        VAEGANDPPublisher(randomness=Seeded(2), **{**DIGITS, "rate": 1e-12, "steps": steps})
        .fit(digits[0], labels)
        .publish(10)
        .value[0]
        for labels, steps in ((digits[1], 3), (digits[1][::-1], 3), (digits[1], 2))
    ]
    assert np.array_equal(shown[0], shown[1])
    assert not np.array_equal(shown[0], shown[2])


def test_a_step_has_the_noise_of_its_guarantee(digits):
    """Gradients of a step without examples are noise alone; false-alarm rate 1e-7, 20% less is noticed."""
    publisher = VAEGANDPPublisher(
        multiplier=0.8, randomness=Seeded(5), **{**DIGITS, "rate": 1e-12, "steps": 1, "clip": 3.0}
    )
    model = publisher.fit(*digits)._model
    noise = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).double()
    event = publisher.guarantee().event.event.event  # one step, its sample, its Gaussian
    low, high = chi2.ppf([5e-8, 1 - 5e-8], len(noise)) * (3.0 * event.noise_multiplier) ** 2
    assert low < noise.square().sum() < high
    assert not low < (0.8 * noise).square().sum() < high


def test_the_critic_learns_to_tell_bright_from_dark():
    from sfumato.publishers.vaegan_dp import _Judge

    judge = _Judge(Critic(9, 2, 16, torch.Generator().manual_seed(0)))
    real, made, kinds = torch.ones(8, 9), torch.zeros(8, 9), torch.eye(2).repeat(4, 1)
    losses = [judge.learn(real, made, kinds) for _ in range(200)]
    assert losses[-1] < 0.9 * losses[0]
    assert (judge.generator_losses(real, kinds) < judge.generator_losses(made, kinds)).all()


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"epsilon": 1.0, "multiplier": 1.0}, "both given"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"multiplier": 0.0}, "multiplier"),
        ({"rate": 2.0}, "rate"),
        ({"steps": 0}, "steps"),
        ({"clip": 0.0}, "clip"),
        ({"mode": "sound"}, "`mode` must be one of private, paper"),
        ({"classes": 1}, "classes"),
        ({"latent": 0}, "latent"),
        ({"shape": (0, 3)}, "shape"),
        ({"shape": 28}, "`shape` was 28"),
        ({"shape": (784,)}, "height, width"),
        ({"randomness": 7}, "randomness"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(parameters, word):
    with pytest.raises(BadInput, match=word):
        VAEGANDPPublisher(**parameters)


def test_data_that_cannot_be_used_is_refused(digits):
    with pytest.raises(BadInput, match="nothing has been fitted"):
        VAEGANDPPublisher().publish(3)
    with pytest.raises(BadInput, match="28, 28"):
        VAEGANDPPublisher().fit(*digits)
    with pytest.raises(BadInput, match="not one of 0 to 4"):
        VAEGANDPPublisher(**{**DIGITS, "classes": 5}).fit(*digits)
    with pytest.raises(BadInput, match="all pictures are the same"):
        VAEGANDPPublisher(mode="paper", **DIGITS).fit(np.ones((9, 8, 8)), np.arange(9) % 2)
    with pytest.raises(BadInput, match="not finite"):
        VAEGANDPPublisher(**DIGITS).fit(np.full((2, 8, 8), np.nan), [0, 1])
