"""The scattering transform: its shape, its invariances, and filters known in closed form."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.learners.scattering import Scattering

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("shape", "scales", "expected"),
    [
        ((28, 28), 2, (81, 7, 7)),
        ((32, 24, 3), 2, (243, 8, 6)),
        ((28, 28), 3, (217, 4, 4)),
        ((9, 8), 1, (9, 5, 4)),
    ],
)
def test_shapes_of_features(shape, scales, expected) -> None:
    transform = Scattering(shape, scales)
    assert transform.features == expected
    assert transform.transform(RNG.random((3, *shape))).shape == (3, *expected)


def test_each_picture_is_transformed_by_itself_and_colours_one_by_one() -> None:
    pictures = RNG.random((5, 16, 16, 3)).astype(np.float32)
    whole = Scattering((16, 16, 3)).transform(pictures)
    alone = np.concatenate([Scattering((16, 16, 3)).transform(pictures[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(whole, alone, atol=1e-6)
    green = Scattering((16, 16)).transform(pictures[..., 1])
    np.testing.assert_allclose(whole[:, 81:162], green, atol=1e-6)


def test_a_constant_picture_is_seen_by_the_low_pass_alone() -> None:
    found = Scattering((16, 16)).transform(np.full((1, 16, 16), 0.5))[0]
    np.testing.assert_allclose(found[0], 0.5, rtol=0.01)
    assert np.abs(found[1:]).max() < 1e-4


def test_moduli_grow_with_contrast_and_no_feature_sees_the_sign() -> None:
    pictures = RNG.normal(size=(4, 16, 16))
    once, twice, flipped = (Scattering((16, 16)).transform(factor * pictures) for factor in (1.0, 2.0, -1.0))
    np.testing.assert_allclose(twice, 2.0 * once, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(flipped[:, 1:], once[:, 1:], atol=1e-5)


def test_a_wave_answers_in_the_channel_of_its_direction() -> None:
    """A plane wave of the finest frequency excites one first-order channel more than all others together."""
    along = np.cos(0.75 * np.pi * np.arange(32))
    for pictures, other in ((np.tile(along, (32, 1)), 0), (np.tile(along[:, None], (1, 32)), 1)):
        energy = Scattering((32, 32), 2).transform(pictures[None])[0, 1:9].mean(axis=(1, 2))
        assert energy.max() > 0.3 * energy.sum(), other


def test_it_moves_less_than_pixels_do_when_a_digit_is_shifted() -> None:
    digits = load_digits().images[:100] / 16.0
    pictures = np.kron(np.pad(digits, ((0, 0), (2, 2), (2, 2))), np.ones((1, 2, 2)))
    moved = np.roll(pictures, 1, axis=2)
    transform = Scattering((24, 24))

    def change(first, second) -> float:
        gap = np.linalg.norm((first - second).reshape(100, -1), axis=1)
        return float(np.mean(gap / np.linalg.norm(first.reshape(100, -1), axis=1)))

    assert change(transform.transform(pictures), transform.transform(moved)) < 0.5 * change(pictures, moved)


@pytest.mark.parametrize(
    ("shape", "scales", "message"),
    [((28,), 2, "a picture is"), ((3, 28), 2, "sides of 4 pixels or more"), ((28, 28), 0, "1 to 6 scales")],
)
def test_bad_shapes_are_refused(shape, scales, message) -> None:
    with pytest.raises(BadInput, match=message):
        Scattering(shape, scales)


def test_other_pictures_are_refused() -> None:
    with pytest.raises(BadInput, match=r"numbers of shape \(n, 8, 8\)"):
        Scattering((8, 8)).transform(np.zeros((2, 9, 8)))
