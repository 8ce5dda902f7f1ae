"""Payments: what a request remembers, what is the same request, and what is charged to nobody."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.release.combined_statement import together
from sfumato.release.path import Content, Payment, asked_for, terms_of

SECRET = bytes(range(32))
TERMS = {"mechanism": "Gaussian", "parameters": {"epsilon": 1.0, "clip": [1, 2], "flag": True}}
ROWS = np.arange(24.0).reshape(6, 4)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        yield ledger


def test_how_rows_are_cut_makes_no_difference():
    codes = np.arange(6)[:, None]
    whole = committed((ROWS, codes))
    assert committed((ROWS[:1], codes[:1]), (ROWS[1:5], codes[1:5]), (ROWS[5:], codes[5:])) == whole
    assert committed((ROWS[:3], codes[:3]), (np.asfortranarray(ROWS[3:]), codes[3:])) == whole


def test_content_that_differs_in_anything_is_told_apart():
    changed = ROWS.copy()
    changed[5, 3] = np.nextafter(changed[5, 3], 0)
    contents = [
        (ROWS,),
        (changed,),
        (ROWS[:5],),
        (ROWS[::-1],),
        (ROWS.reshape(12, 2),),
        (ROWS.view(np.int64),),
        (ROWS.astype(np.float32),),
        (ROWS[:, :2], ROWS[:, 2:]),
        (ROWS[:, :3], ROWS[:, 3:]),
        (ROWS, ROWS[:, :0]),
    ]
    assert len({committed(content) for content in contents}) == len(contents)


def test_two_spellings_of_a_number_are_the_same_terms_and_nothing_else_is():
    same = {"parameters": {"flag": True, "clip": (1.0, 2.0), "epsilon": 1}, "mechanism": "Gaussian"}
    assert committed((ROWS,), terms=same) == committed((ROWS,))
    others = [
        TERMS | {"mechanism": "Laplace"},
        TERMS | {"parameters": {"epsilon": 1.0, "clip": [1, 3], "flag": True}},
        TERMS | {"parameters": {"epsilon": 1.0, "clip": [1, 2], "flag": 1}},
        TERMS | {"parameters": {"epsilon": "1.0", "clip": [1, 2], "flag": True}},
        TERMS | {"declared": None},
    ]
    assert len({committed((ROWS,), terms=terms) for terms in [TERMS, *others]}) == 6


def test_a_commitment_is_under_the_secret_and_the_names_of_the_noise():
    noises = [keyed(), keyed(secret=bytes(32)), keyed(version="2"), keyed(release="s"), keyed(dataset="d")]
    assert len({committed((ROWS,), noise=noise) for noise in noises}) == 5


@pytest.mark.parametrize("dataset", [None, "clinic"])
def test_a_request_needs_somewhere_to_be_remembered(ledger, dataset):
    with pytest.raises(BadInput, match="`request` is paid from a budget"):
        Payment(dataset, None if dataset else ledger, "r")


def test_a_dataset_without_a_budget_is_refused_whatever_else_the_ledger_holds(ledger):
    opens = re.escape("`ledger.open('clinic', epsilon=..., delta=...)`.")
    for request in (None, "r"):
        with pytest.raises(BudgetRefused, match=opens):
            pay(Payment("clinic", ledger, request), gaussian(keyed()))
        with pytest.raises(BudgetRefused, match=opens):
            Payment("clinic", ledger, request).require_budget()
        ledger.open("other", 4, 1e-6)
    region = sf.Guarantee.gaussian(1.0, unit="region:16", neighbours="zero-out")
    with pytest.raises(BudgetRefused, match=re.escape("unit='region:16', neighbours='zero-out')`.")):
        Payment("clinic", ledger).require_budget(region)
    with pytest.raises(BudgetRefused, match="'clinic' came without a ledger"):
        Payment("clinic")


def test_a_request_needs_keyed_noise(ledger):
    payment = Payment("clinic", ledger, "r")
    for randomness in (None, sf.Seeded(3)):
        with pytest.raises(BadInput, match="needs keyed noise"):
            payment.noise(gaussian(randomness).keyed)
    noise = keyed()
    assert payment.noise(gaussian(noise).keyed) is noise
    assert Payment("clinic", ledger).noise(gaussian(noise)) is None


def test_who_names_no_dataset_is_not_charged_nor_who_says_so(ledger):
    ledger.open("clinic", 4, 1e-6)
    for payment in (Payment(), Payment(None, ledger), Payment(uncharged=True)):
        assert pay(payment, gaussian()) is None
        assert payment.notes == ()
    for payment in (Payment("clinic", uncharged=True), Payment("clinic", ledger, uncharged=True)):
        assert pay(payment, gaussian()) is None
        assert payment.notes == ("not charged to the budget of the dataset, as was asked for",)
    with pytest.raises(BadInput, match="`request` is paid from a budget"):
        Payment("clinic", ledger, "r", uncharged=True)
    assert ledger.balance("clinic").spends == 0


def test_what_is_paid_is_what_the_statement_proves(ledger):
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger)
    statement, paid = gaussian().statement(4), pay(payment, gaussian())
    entry = ledger.find(paid["hash"])
    assert (entry.number, entry.ledger) == (paid["number"], paid["ledger"]) == (2, ledger.identity)
    assert (entry.guarantee, entry.purpose, entry.key) == (statement.proven, "out.npy", None)
    assert payment.notes == ()


def test_a_request_is_paid_once_whatever_the_version_of_the_package(ledger, monkeypatch):
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger, "r")
    first = pay(payment, gaussian(keyed()))
    assert pay(payment, gaussian(keyed())) == first
    monkeypatch.setattr(sf, "__version__", "99.0")
    assert pay(payment, gaussian(keyed())) == first
    assert ledger.balance("clinic").spends == 1


@pytest.mark.parametrize(
    ("mechanism", "declared"),
    [
        (sf.Gaussian(epsilon=1, delta=1e-6, clip=2.0), None),
        (sf.Gaussian(epsilon=1, delta=1e-6, bounds=(0.0, 1.0)), None),
        (sf.Gaussian(epsilon=1, delta=1e-6, clip=1.0), {"columns": {"a": {"bounds": [0, 2]}}}),
    ],
)
def test_other_noise_at_the_same_price_is_another_request(ledger, mechanism, declared):
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger, "r")
    pay(payment, gaussian(keyed()))
    other = mechanism.set_params(randomness=keyed())
    assert other.guarantee(4) == gaussian().guarantee(4)
    with pytest.raises(BadInput, match="request 'r' was made from other content, with other parameters"):
        pay(payment, other, declared=declared)
    assert ledger.balance("clinic").spends == 1


def test_what_was_paid_for_under_other_streams_is_not_drawn_again(ledger, monkeypatch):
    """The same request would get other noise, for which nobody paid."""
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger, "r")
    pay(payment, gaussian(keyed()))
    monkeypatch.setattr(sf.Keyed, "streams", sf.Keyed.streams + 1)
    with pytest.raises(BadInput, match="request 'r' was made from other content, with other parameters"):
        pay(payment, gaussian(keyed()))


def committed(*parts, terms=TERMS, noise=None):
    content = Content()
    for part in parts:
        content.add(*part)
    return content.commitment(noise or keyed(), terms)


def pay(payment, mechanism, declared=None):
    content = Content()
    content.add(ROWS)
    noise = mechanism.keyed if payment.request else None
    facts = {"name": "out.npy", "added": (), "checkpoint": None, "declared": declared}
    return payment.pay(SimpleNamespace(price=mechanism.statement(4), **facts), content, noise)


def gaussian(randomness=None):
    return sf.Gaussian(epsilon=1, delta=1e-6, clip=1.0, randomness=randomness)


def keyed(secret=SECRET, dataset="clinic", version="1", release="r"):
    return sf.Keyed(secret, dataset=dataset, version=version, release=release)


def test_files_that_promise_different_things_name_the_epsilon_of_all(ledger):
    parts = [sf.Gaussian(epsilon=epsilon, clip=1.0).statement() for epsilon in (1.0, 2.0)]
    headline, what = asked_for(together(parts), parts)
    assert what == "of all 2 files together"
    ledger.open("two", 1.0, 1e-6)
    refused = ledger.preview("two", headline, asked=(headline, what))
    assert "the largest ε of all 2 files together that would still fit is " in refused.refusal


def test_a_statement_without_terms_is_not_committed_to():
    statement = sf.Gaussian(1.0, clip=1.0).statement(4)
    with pytest.raises(ValueError, match="has no terms"):
        terms_of(type(statement).from_dict(statement.to_dict()))
