"""Numbers that a ledger says would still fit: typed as they are printed they fit, and all places name one."""

import re
from contextlib import suppress

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.budget import gaussian_left, laplace_left
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.ledger.refusal import typable
from sfumato.privacy import Guarantee
from sfumato.release.combined_statement import together
from sfumato.release.payment import asked_for

KINDS = {
    "gaussian": lambda epsilon, delta: sf.Gaussian(epsilon=epsilon, delta=delta, clip=1.0).guarantee(),
    "laplace": lambda epsilon, delta: sf.Laplace(epsilon=epsilon, clip=1.0).guarantee(),
    "pure": lambda epsilon, delta: Guarantee.pure(epsilon),
    "response": lambda epsilon, delta: sf.RandomisedResponse(epsilon=epsilon, categories=4).guarantee(1),
}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    with Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'budget.db'}") as made:
        yield made


def named(preview):
    """The ε and the δ that a refusal says would still fit, as it prints them; None where nothing would."""
    found = re.search(r"would still fit is (\S+?)(?: at δ = (\S+))?\.$", preview.refusal)
    return (None, 0.0) if found is None else (found[1], float(found[2] or 0.0))


@pytest.mark.parametrize("state", range(40))
def test_what_is_said_to_fit_fits_when_it_is_typed_and_is_said_everywhere(ledger, state):
    rng = np.random.default_rng(state)
    budget, delta = rng.choice([0.1, 1.0, 2.0, 8.0, 20.0]), rng.choice([0.0, 1e-9, 1e-6, 1e-3, 0.2])
    name = f"state {state}"
    ledger.open(name, float(budget), float(delta))
    for _ in range(state % 4):
        kind = KINDS[rng.choice(list(KINDS))]
        with suppress(BudgetRefused):
            ledger.spend(name, kind(float(budget * rng.uniform(0.05, 0.7)), float(delta or 1e-6)))
    balance = ledger.balance(name)
    shown = {
        "gaussian": balance.left,
        "laplace": laplace_left(ledger, balance),
        "pure": balance.left_pure,
        "response": balance.left_pure,
    }
    for kind, make in KINDS.items():
        for at in {1e-6, float(delta or 1e-6)}:
            refused = ledger.preview(name, make(3.0 * float(budget) + 10.0 * float(delta), at))
            assert not refused.fits
            typed, said = named(refused)
            assert typed is not None or refused.largest == 0.0
            if typed is not None:
                assert float(typed) == refused.largest
                assert said == (at if kind == "gaussian" else 0.0)
                assert ledger.preview(name, make(float(typed), said)).fits
            if kind == "response":  # of more than two answers more may fit than is shown for all kinds
                assert refused.largest >= shown[kind]
            elif kind != "gaussian" or at == delta:
                assert refused.largest == shown[kind]
    for kind, left in shown.items():
        assert left == float(f"{left:.4g}")
        assert left == 0.0 or ledger.preview(name, KINDS[kind](left, float(delta))).fits


def test_a_whole_budget_is_named_in_full(ledger):
    ledger.open("whole", 8.0, 1e-5)
    assert (ledger.balance("whole").left, ledger.balance("whole").left_pure) == (8.0, 8.0)
    assert ledger.preview("whole", KINDS["gaussian"](20.0, 1e-5)).largest == 8.0
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
    refused = ledger.preview("items", item, headline=region)
    assert refused.refusal.startswith("ε=64 per item at δ=0 was asked of 'items'")
    assert refused.refusal.endswith("that would still fit is 0.5 per region(16).")
    assert refused.largest == 0.5
    assert ledger.preview("items", priced(refused.largest)[0]).fits
    with pytest.raises(BudgetRefused, match=r"0\.5 per region\(16\)"):
        ledger.spend("items", item, headline=region)


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


def test_files_that_promise_different_things_name_the_epsilon_of_all(ledger):
    parts = [sf.Gaussian(epsilon=epsilon, clip=1.0).statement() for epsilon in (1.0, 2.0)]
    headline, what = asked_for(together(parts), parts)
    assert what == "of all 2 files together"
    ledger.open("two", 1.0, 1e-6)
    refused = ledger.preview("two", headline, headline=headline, what=what)
    assert "the largest ε of all 2 files together that would still fit is " in refused.refusal


@pytest.mark.parametrize("spends", [0, 1])
def test_what_budget_show_prints_fits_with_the_delta_that_it_prints(ledger, spends):
    name = f"shown {spends}"
    ledger.open(name, 1.0, 1.23456789e-8)
    for _ in range(spends):
        ledger.spend(name, KINDS["gaussian"](0.3, 1e-8))
    found = re.fullmatch(
        r"Gaussian noise up to ε = (\S+) with --delta (\S+)", gaussian_left(ledger.balance(name))
    )
    epsilon, delta = float(found[1]), float(found[2])
    assert ledger.preview(name, KINDS["gaussian"](epsilon, delta)).fits
    # The default δ of protect is another one, at which less fits, and the refusal names both.
    refused = ledger.preview(name, KINDS["gaussian"](epsilon, 1e-6))
    typed, said = named(refused)
    assert said == 1e-6
    assert ledger.preview(name, KINDS["gaussian"](float(typed), said)).fits


@pytest.mark.parametrize(
    ("value", "typed"),
    [(8.0, 8.0), (7.9999999, 7.999), (0.012345, 0.01234), (123456.0, 123400.0)],
)
def test_numbers_are_rounded_down_to_four_digits(value, typed):
    assert typable(value) == typed
