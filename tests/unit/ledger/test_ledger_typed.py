"""Numbers that a ledger says would still fit: typed as they are printed they fit, and all places name one."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.ledger.accounts import typable
from sfumato.privacy import Guarantee


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    with Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'budget.db'}") as made:
        yield made


def test_a_whole_budget_is_named_in_full(ledger):
    ledger.open("whole", 8.0, 1e-5)
    assert (ledger.balance("whole").left, ledger.balance("whole").left_pure) == (8.0, 8.0)
    assert ledger.preview("whole", sf.Gaussian(epsilon=20.0, delta=1e-5, clip=1.0).guarantee()).largest == 8.0
    ledger.open("tenths", 1.0, 0.0)
    for _ in range(3):
        ledger.spend("tenths", Guarantee.pure(0.1))
    assert ledger.balance("tenths").left_pure == ledger.preview("tenths", Guarantee.pure(2.0)).largest == 0.7


def test_a_budget_of_another_unit_names_the_epsilon_that_was_asked_for(ledger):
    ledger.open("items", 8.0, 1e-5, "item")

    def priced(epsilon):
        return Guarantee.laplace(1.0 / (16.0 * epsilon), unit="item"), Guarantee.laplace(
            1.0 / epsilon, unit="region:16"
        )

    item, region = priced(4.0)
    refused = ledger.preview("items", item, asked=(region, "of this kind"))
    assert refused.refusal.startswith("ε=64 per item at δ=0 was asked of 'items'")
    assert refused.refusal.endswith("that would still fit is 0.5 per region(16).")
    assert refused.largest == 0.5
    assert ledger.preview("items", priced(refused.largest)[0]).fits
    with pytest.raises(BudgetRefused, match=r"0\.5 per region\(16\)"):
        ledger.spend("items", item, asked=(region, "of this kind"))


def typed_again(run, epsilon, *more):
    """Ask for too much, type what the refusal names, and return the sentence."""
    with pytest.raises(BudgetRefused) as refused:
        run(epsilon, *more)
    assert f"would still fit is {refused.value.largest:.4g}" in str(refused.value)
    return str(refused.value), run(refused.value.largest, *more)


def test_a_folder_whose_costs_add_up_names_the_epsilon_of_each_file(ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_HOME", str(tmp_path / "home"))
    (tmp_path / "files").mkdir()
    for number in range(10):
        np.save(tmp_path / "files" / f"{number}.npy", np.full((3, 2), number / 10.0))
    ledger.open("folder", 2.0, 1e-6)

    def run(epsilon, out, mechanism=sf.Gaussian):
        made = mechanism(epsilon=epsilon, delta=1e-6, clip=1.0)
        planned.append(sf.plan(tmp_path / "files", made, dataset="folder", ledger=ledger).cost)
        return sf.protect(tmp_path / "files", tmp_path / out, made, dataset="folder", ledger=ledger)

    planned = []
    with pytest.raises(BudgetRefused, match="of the 10 files, as it is proven and not as it is typed, that"):
        run((1.0, 8.0), "o", sf.TrustAdaptive)
    sentence, done = typed_again(run, 1.0, "o")
    assert "the largest ε in each of the 10 files that would still fit is 0." in sentence
    assert sentence.endswith(" at δ = 1e-06.")
    assert [cost.refusal for cost in planned[1:]] == [sentence, None]
    assert 0.9 * 2.0 < done.statement.proven.epsilon() <= 2.0


@pytest.mark.parametrize(
    ("value", "typed"),
    [(8.0, 8.0), (7.9999999, 7.999), (0.012345, 0.01234), (123456.0, 123400.0)],
)
def test_numbers_are_rounded_down_to_four_digits(value, typed):
    assert typable(value) == typed
