"""The curvature publisher: what it publishes, what it says of it, and what it refuses before it trains."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sfumato.errors import BadInput
from sfumato.noise import Seeded
from sfumato.publishers.curvature_publisher import CurvaturePublisher

SMALL = {"latent": 4, "centres": 30, "top": 16.0, "epochs": (60, 3, 1, 1)}


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images[:1100], data.target[:1100], data.images[1100:], data.target[1100:]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("private") / "run.pt"


@pytest.fixture(scope="module")
def fitted(digits, path):
    publisher = CurvaturePublisher(**SMALL, checkpoint=path, randomness=Seeded(1))
    return publisher.fit(*digits[:2])


def test_one_picture_is_published_for_each_private_one_with_its_label(digits, fitted):
    pictures, labels = fitted.publish().value
    assert fitted.one_to_one
    assert pictures.shape == digits[0].shape
    assert pictures.dtype == np.float32
    assert pictures.min() >= 0.0
    assert pictures.max() <= 16.0
    assert np.array_equal(labels, digits[1])
    own = np.square(pictures - digits[0]).mean()
    assert own < 0.5 * np.square(pictures - digits[0][::-1]).mean()
    few, of_few = fitted.publish(7).value
    assert np.allclose(few, pictures[:7], atol=1e-4)
    assert np.array_equal(of_few, labels[:7])


def test_a_classifier_learns_real_digits_from_published_ones(digits, fitted):
    """A sanity check of quality, far below what is reached and far above chance."""
    pictures, labels = fitted.publish().value
    classifier = SVC(gamma=0.001).fit(pictures.reshape(len(pictures), -1), labels)
    assert classifier.score(digits[2].reshape(-1, 64), digits[3]) > 0.75


def test_the_statement_claims_the_paper_s_words_and_proves_nothing(fitted):
    statement = fitted.publish(2).statement
    assert statement.proven.proves_nothing
    assert "one private picture and of networks trained on all" in statement.proven.theorem
    assert "low-curvature regions" in statement.claimed.text
    assert statement.claimed.epsilon is None
    assert "reproducible run: not for release" in statement.notes
    assert "1100" not in str(statement.to_dict())


def test_the_guarantee_is_known_before_any_fit():
    assert CurvaturePublisher().guarantee().proves_nothing


def test_a_finished_checkpoint_gives_the_same_pictures_and_serves_other_strategies(digits, fitted, path):
    stages = []
    again = CurvaturePublisher(**SMALL, checkpoint=path, randomness=Seeded(9))
    again.fit(*digits[:2], report=lambda stage, share, facts: stages.append(stage))
    assert set(stages) == {"perturbation"}
    assert np.array_equal(again.publish().value[0], fitted.publish().value[0])
    other = CurvaturePublisher(**SMALL, strategy="linear", checkpoint=path).fit(*digits[:2])
    assert np.array_equal(other.publish(50).value[0], fitted.using("linear").publish(50).value[0])


@pytest.mark.parametrize("strategy", ["highest", "linear"])
def test_other_strategies_use_the_same_networks(fitted, strategy):
    other = fitted.using(strategy)
    assert (other.strategy, fitted.strategy) == (strategy, "lowest")
    assert other.parameters()["strategy"] == strategy
    assert not np.array_equal(other.publish(50).value[0], fitted.publish(50).value[0])


def test_colour_pictures_that_are_not_square_are_published_by_convolutions():
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (40, 9, 12, 3), dtype=np.uint8)
    publisher = CurvaturePublisher(latent=2, centres=5, decoder="conv", time_budget=1.0, randomness=Seeded(2))
    assert publisher.fit(pictures, np.arange(40) % 3).publish(4).value[0].shape == (4, 9, 12, 3)


def test_inputs_and_torch_s_generator_are_not_modified(digits):
    pictures, labels, state = digits[0][:60].copy(), digits[1][:60].copy(), torch.random.get_rng_state()
    settings = SMALL | {"epochs": (1, 1, 1, 1)}
    CurvaturePublisher(**settings).fit(pictures, labels)
    assert np.array_equal(pictures, digits[0][:60])
    assert np.array_equal(labels, digits[1][:60])
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"latent": 0}, "`latent` was 0"),
        ({"centres": 0}, "`centres` was 0"),
        ({"strategy": "best"}, "`strategy` must be one of lowest, anywhere"),
        ({"decoder": "deep"}, "`decoder` must be one of dense, conv"),
        ({"time_budget": 0.0}, "`time_budget` must be"),
        ({"time_budget": -3.0}, "`time_budget` must be"),
        ({"time_budget": float("nan")}, "`time_budget` must be"),
        ({"epochs": (1, 2)}, "`epochs` must be 4"),
        ({"epochs": (1, 1, 0, 1)}, "`epochs` was 0"),
        ({"samples": 1}, "`samples` was 1"),
        ({"least": 20}, "`least` was 20"),
        ({"top": 0.0}, "`top` must be"),
        ({"randomness": 7}, "must be None or Seeded"),
    ],
)
def test_bad_parameters_are_refused_at_once(change, said):
    with pytest.raises(BadInput, match=said):
        CurvaturePublisher(**change)


GOOD = np.random.default_rng(0).random((40, 8, 8)) * 16
KINDS = np.arange(40) % 4


@pytest.mark.parametrize(
    ("pictures", "labels", "said"),
    [
        (GOOD, np.zeros(40, int), "one label"),
        (GOOD[:20], KINDS[:20], "20 pictures were given and 30 centres"),
        (np.full((40, 8, 8), 3.0), KINDS, "all pictures are the same"),
        (np.where(np.arange(40)[:, None, None] == 5, np.nan, GOOD), KINDS, "picture 5 holds"),
        (GOOD, KINDS[:39], "one whole number"),
        (GOOD, KINDS - 1, "the label of picture 0"),
        (GOOD, KINDS + 0.5, "one whole number"),
        (GOOD[:, :2], KINDS, "sides from"),
        (GOOD.reshape(40, 64), KINDS, "height, width"),
    ],
)
def test_bad_data_is_refused_before_training_starts(pictures, labels, said):
    stages = []
    with pytest.raises(BadInput, match=said):
        CurvaturePublisher(**SMALL).fit(pictures, labels, report=lambda *facts: stages.append(facts))
    assert stages == []


def test_a_checkpoint_of_another_model_or_dataset_is_refused_before_training(digits, fitted, path):
    with pytest.raises(BadInput, match="has latent 4, and 5 is asked for"):
        CurvaturePublisher(**SMALL | {"latent": 5}, checkpoint=path).fit(*digits[:2])
    with pytest.raises(BadInput, match="has decoder 'dense', and 'conv' is asked for"):
        CurvaturePublisher(**SMALL, decoder="conv", checkpoint=path).fit(*digits[:2])
    with pytest.raises(BadInput, match="has shape"):
        CurvaturePublisher(**SMALL, checkpoint=path).fit(digits[0][:, :, :7], digits[1])
    with pytest.raises(BadInput, match="made from other pictures"):
        CurvaturePublisher(**SMALL, checkpoint=path).fit(digits[0][:-1], digits[1][:-1])


def test_publishing_before_fit_or_more_than_was_fitted_is_refused(fitted):
    with pytest.raises(BadInput, match="call fit"):
        CurvaturePublisher().publish()
    with pytest.raises(BadInput, match="there are 1100 pictures to publish, one for a record at most"):
        fitted.publish(1101)
