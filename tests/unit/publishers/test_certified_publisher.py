"""The certified publisher: its promise, what it refuses, and what its pictures are good for."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sfumato.errors import BadInput
from sfumato.noise import Seeded
from sfumato.privacy import Neighbours
from sfumato.publishers.certified_publisher import CertifiedPublisher

DIGITS = {"shape": (8, 8), "classes": 10, "top": 16.0, "kept": 6}


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images, data.target


@pytest.fixture(scope="module")
def fitted(digits):
    return CertifiedPublisher(50.0, neighbours="add/remove", randomness=Seeded(1), **DIGITS).fit(*digits)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_guarantee_is_known_before_fit_and_is_what_was_asked(epsilon, neighbours):
    guarantee = CertifiedPublisher(epsilon, 1e-5, neighbours=neighbours).guarantee()
    assert guarantee.epsilon(1e-5) <= epsilon
    assert guarantee.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-9)
    assert (str(guarantee.unit), guarantee.neighbours) == ("record", neighbours)


@pytest.mark.parametrize(("parts", "releases"), [(1, 2), (3, 6)])
def test_shares_of_the_releases_of_a_fit_add_up_to_the_whole(parts, releases):
    shares = CertifiedPublisher(parts=parts, epsilon=1.0).shares()
    assert len(shares) == releases
    assert min(shares) > 0.0
    assert sum(map(Fraction, shares)) <= 1 + Fraction(1, 10**15)


def test_a_release_has_pictures_labels_and_a_statement_without_the_number_of_records(fitted):
    release = fitted.publish(500)
    pictures, labels = release.value
    assert pictures.shape == (500, 8, 8)
    assert pictures.min() >= 0.0
    assert pictures.max() <= 16.0
    assert set(labels) == set(range(10))
    assert release.statement.proven == fitted.guarantee()
    assert "reproducible run: not for release" in release.statement.notes
    assert "1797" not in str(release.to_dict())


def test_pictures_classify_real_digits_far_better_than_chance(digits, fitted):
    pictures, labels = fitted.publish(2000).value
    score = (
        SVC(gamma=0.001).fit(pictures.reshape(2000, -1), labels).score(digits[0].reshape(-1, 64), digits[1])
    )
    assert score > 0.8


def test_publishing_again_gives_other_pictures_and_a_seed_gives_the_same_ones(digits, fitted):
    again = CertifiedPublisher(50.0, neighbours="add/remove", randomness=Seeded(1), **DIGITS).fit(*digits)
    first, second = again.publish(20).value[0], again.publish(20).value[0]
    other = CertifiedPublisher(50.0, neighbours="add/remove", randomness=Seeded(1), **DIGITS).fit(*digits)
    assert np.array_equal(first, other.publish(20).value[0])
    assert not np.array_equal(first, second)


def test_inputs_are_not_modified(digits):
    pictures, labels = digits[0].copy(), digits[1].copy()
    CertifiedPublisher(1.0, **DIGITS).fit(pictures, labels)
    assert np.array_equal(pictures, digits[0])
    assert np.array_equal(labels, digits[1])


def test_few_records_much_noise_and_missing_classes_still_give_pictures():
    pictures, labels = np.full((3, 8, 8), 7.0), np.array([0, 0, 2])
    made, kinds = CertifiedPublisher(0.05, parts=3, **DIGITS).fit(pictures, labels).publish(40).value
    assert np.isfinite(made).all()
    assert ((kinds >= 0) & (kinds < 10)).all()


def test_colour_pictures_are_published_in_colour(digits):
    colour = np.stack([digits[0]] * 3, axis=3)
    publisher = CertifiedPublisher(5.0, parts=1, **DIGITS | {"shape": (8, 8, 3), "kept": 4})
    assert publisher.fit(colour, digits[1]).publish(7).value[0].shape == (7, 8, 8, 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0.0}, "`epsilon` must be"),
        ({"delta": 0.0}, "`delta` must lie"),
        ({"classes": 1}, "`classes` was 1"),
        ({"parts": 0}, "`parts` was 0"),
        ({"kept": 1}, "`kept` was 1"),
        ({"shape": (8,)}, "a picture is"),
        ({"neighbours": "close"}, "`neighbours` 'close'"),
        ({"top": -1.0}, "`top` must be"),
    ],
)
def test_bad_parameters_are_refused_at_once(change, said):
    with pytest.raises(BadInput, match=said):
        CertifiedPublisher(**{"epsilon": 1.0} | DIGITS | change)


@pytest.mark.parametrize(
    ("pictures", "labels", "said"),
    [
        (np.zeros((0, 8, 8)), np.zeros(0, int), "n ≥ 1"),
        (np.zeros((4, 8, 9)), np.zeros(4, int), r"\(n, 8, 8\)"),
        (np.zeros((4, 8, 8)), np.zeros(3, int), "one whole number"),
        (np.zeros((4, 8, 8)), np.zeros(4), "one whole number"),
        (np.zeros((4, 8, 8)), np.array([0, 1, 10, 0]), "the label of picture 2"),
        (np.array([np.zeros((8, 8)), np.full((8, 8), np.nan)]), np.zeros(2, int), "picture 1 holds"),
        (np.full((2, 8, 8), "a"), np.zeros(2, int), "numbers of shape"),
    ],
)
def test_bad_data_is_refused_in_a_sentence(pictures, labels, said):
    with pytest.raises(BadInput, match=said):
        CertifiedPublisher(1.0, **DIGITS).fit(pictures, labels)


def test_publishing_before_fit_is_refused():
    with pytest.raises(BadInput, match="call fit"):
        CertifiedPublisher(1.0, **DIGITS).publish(3)
