"""What ``budget show`` prints as left: typed as it is printed it fits, and refusals name the same."""

import re
from contextlib import suppress

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.budget import laplace_left
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.privacy import Guarantee

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


@pytest.mark.parametrize("spends", [0, 1])
def test_what_budget_show_prints_fits_with_the_delta_that_it_prints(ledger, spends):
    name = f"shown {spends}"
    ledger.open(name, 1.0, 1.23456789e-8)
    for _ in range(spends):
        ledger.spend(name, KINDS["gaussian"](0.3, 1e-8))
    found = re.fullmatch(
        r"Gaussian noise up to ε = (\S+) with `delta=(\S+)`", ledger.balance(name).gaussian_left
    )
    epsilon, delta = float(found[1]), float(found[2])
    assert ledger.preview(name, KINDS["gaussian"](epsilon, delta)).fits
    # The default δ of protect is another one, at which less fits, and the refusal names both.
    refused = ledger.preview(name, KINDS["gaussian"](epsilon, 1e-6))
    typed, said = named(refused)
    assert said == 1e-6
    assert ledger.preview(name, KINDS["gaussian"](float(typed), said)).fits
