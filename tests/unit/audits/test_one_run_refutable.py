"""From which ε on no audit of one run could refute a promise; a perfect score is the least likely."""

from pathlib import Path

import pytest

from sfumato.audits.one_run import one_run_chance, refutable_epsilon
from sfumato.privacy import DELTA, Guarantee, gaussian_mu


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 1000), (1.0, 30), (10.0, 1000)])
@pytest.mark.parametrize("chance", [1e-12, 1e-10, 1e-8])
def test_no_score_is_less_likely_than_that_of_guesses_that_are_all_right(epsilon, most, chance):
    proven = Guarantee.gaussian(1.0 / gaussian_mu(epsilon, 1e-5), at_delta=1e-5)
    delta = 0.1 * chance / 4.0 / most
    allowed = proven.epsilon(delta)
    all_right = one_run_chance(most, most, most, allowed, delta)
    for correct, guesses in ((most - 1, most), (most // 2, most // 2), (most // 3, most // 2), (1, 1)):
        assert all_right <= one_run_chance(correct, guesses, most, allowed, delta)


@pytest.mark.parametrize("page", ["how-to-learn.md", "limits.md"])
def test_the_pages_say_from_which_epsilon_on_no_model_is_kept_back(page):
    """500 canaries at the default δ, a thousandth of it set aside: half for answers, half for weights."""
    chance = 1e-3 * DELTA / 2.0
    most, more = (refutable_epsilon(count, delta=DELTA, chance=chance) for count in (500, 2000))
    text = (Path(__file__).parents[3] / "docs" / page).read_text("utf-8")
    assert 3.08 <= most < 3.09
    assert "ε = 3.08" in text
    assert 4.28 <= more < 4.29
    assert ("4.28 that of 2,000 canaries" in text) == (page == "how-to-learn.md")
