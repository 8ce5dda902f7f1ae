"""The search for noise: never too little, hardly too much, and with few questions."""

import pytest

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import least_noise


@pytest.mark.parametrize("guess", [None, 0.3, 2.9, 3.0, 3.1, 50.0])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_least_noise_is_found(guess, power):
    asked = []

    def proven(multiplier):
        asked.append(multiplier)
        return (3.0 / multiplier) ** power

    assert 3.0 <= least_noise(proven, 1.0, 1e-5, 10, guess=guess) <= 3.0 * 1.001
    if guess is not None and abs(guess - 3.0) <= 0.1:
        assert len(asked) <= 5


def test_no_less_than_a_twentieth_and_no_more_than_can_be_drawn():
    assert least_noise(lambda multiplier: 0.0, 1.0, 1e-5, 10) == 0.05
    with pytest.raises(BadInput, match="take fewer steps"):
        least_noise(lambda multiplier: 2.0, 1.0, 1e-5, 10)
