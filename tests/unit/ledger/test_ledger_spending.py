"""Opening, spending, holding, settling and closing; what is refused, and in which words."""

import math
import re
from dataclasses import replace

import pytest
from scipy.optimize import brentq

import sfumato.ledger.ledger_tables as module
from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.privacy import Guarantee, gaussian_epsilon, gaussian_mu, poisson

HALF = Guarantee.pure(0.5)


def test_a_budget_is_spent_until_nothing_fits(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    assert [ledger.spend("clinic", HALF, purpose=f"table {i}").number for i in (1, 2)] == [2, 3]
    with pytest.raises(
        BudgetRefused, match=r"ε=0.5 at δ=0 was asked of 'clinic'.* is 100.0% used: nothing more"
    ):
        ledger.spend("clinic", HALF)
    assert [entry.kind for entry in ledger.history("clinic")] == ["open", "spend", "spend"]
    assert [entry.purpose for entry in ledger.history("clinic")] == ["", "table 1", "table 2"]
    balance = ledger.balance("clinic")
    assert (balance.spends, balance.used, balance.left_pure, balance.state) == (
        2,
        1.0,
        pytest.approx(0),
        "open",
    )
    assert ledger.check() == []


def test_another_process_sees_what_was_spent(ledger, file):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    spent = ledger.spend("clinic", HALF)
    with Ledger(f"sqlite:///{file}") as other:
        assert other.identity == ledger.identity
        assert other.history("clinic") == ledger.history("clinic")
        assert other.find(spent.hash) == spent
        assert other.balance("clinic") == ledger.balance("clinic")


def test_a_budget_never_changes_but_may_be_opened_again(ledger):
    first = ledger.open("clinic", epsilon=1, delta=1e-6, unit="frame", neighbours="zero-out")
    ledger.spend("clinic", Guarantee.pure(0.5, unit="frame", neighbours="zero-out"))
    assert ledger.open("clinic", epsilon=1.0, delta=1e-6, unit="frame", neighbours="zero-out") == first
    for changed in ({"epsilon": 2.0}, {"delta": 1e-5}, {"unit": "record"}, {"neighbours": "replace"}):
        terms = {"epsilon": 1.0, "delta": 1e-6, "unit": "frame", "neighbours": "zero-out"} | changed
        with pytest.raises(BadInput, match="is open already with ε=1, δ=1e-06 per frame under zero-out"):
            ledger.open("clinic", **terms)
    assert ledger.names() == ["clinic"]


def test_a_guarantee_of_another_unit_or_neighbours_is_refused(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    for other in (Guarantee.pure(0.1, unit="frame"), Guarantee.pure(0.1, neighbours="zero-out")):
        with pytest.raises(BadInput, match="counts per record under replace; a guarantee per"):
            ledger.spend("clinic", other)
    assert ledger.balance("clinic").spends == 0


def test_what_is_no_guarantee_no_budget_or_no_dataset_is_refused(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    with pytest.raises(BadInput, match=r"`guarantee` was 0\.5"):
        ledger.spend("clinic", 0.5)
    with pytest.raises(BadInput, match="`epsilon` was '1'"):
        ledger.open("other", epsilon="1", delta=0.0)
    with pytest.raises(BadInput, match="`neighbours` must be one of"):
        ledger.open("other", epsilon=1.0, delta=0.0, neighbours="swap")
    for ask in (ledger.balance, ledger.history, ledger.check, ledger.close, ledger.fixed_plan_epsilon):
        with pytest.raises(BadInput, match="no budget was opened for dataset 'other'"):
            ask("other")


def test_a_release_of_the_whole_budget_fits_alone_and_exhausts_it(ledger):
    ledger.open("clinic", epsilon=1.0, delta=1e-6)
    ledger.spend("clinic", Guarantee.gaussian(1.0 / gaussian_mu(1.0, 1e-6), at_delta=1e-6))
    balance = ledger.balance("clinic")
    assert (balance.state, balance.used, balance.left, balance.left_pure) == ("exhausted", 1.0, 0.0, 0.0)
    with pytest.raises(BudgetRefused, match="nothing more fits"):
        ledger.spend("clinic", Guarantee.pure(1e-9))
    assert ledger.check() == []


def test_a_hold_of_the_whole_budget_that_is_given_back_reopens_it(ledger):
    ledger.open("clinic", epsilon=1.0, delta=1e-6)
    whole = Guarantee.gaussian(1.0 / gaussian_mu(1.0, 1e-6))
    hold = ledger.hold("clinic", whole)
    assert ledger.balance("clinic").state == "exhausted"
    ledger.release_hold("clinic", hold.number)
    ledger.commit("clinic", ledger.hold("clinic", whole).number)
    assert ledger.balance("clinic").state == "exhausted"
    assert ledger.check() == []


def test_a_hold_counts_until_it_is_given_back_and_then_leaves_no_trace(ledger, sql):
    ledger.open("clinic", epsilon=2.0, delta=1e-6)
    ledger.spend("clinic", Guarantee.gaussian(7.3))
    before, totals = ledger.balance("clinic"), sql("SELECT spent, spends, holds, state FROM accounts")
    hold = ledger.hold("clinic", Guarantee.laplace(3.7).with_slack(1e-8), purpose="a long job")
    assert ledger.balance("clinic").open_holds == 1
    assert ledger.balance("clinic").left < before.left
    released = ledger.release_hold("clinic", hold.number)
    assert (released.kind, released.refers_to) == ("release", hold.number)
    assert ledger.balance("clinic") == before
    assert sql("SELECT spent, spends, holds, state FROM accounts") == totals


def test_settling_twice_changes_nothing_and_settling_otherwise_is_refused(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    kept, back = ledger.hold("clinic", HALF).number, ledger.hold("clinic", HALF).number
    assert ledger.commit("clinic", kept) == ledger.commit("clinic", kept)
    assert ledger.release_hold("clinic", back) == ledger.release_hold("clinic", back)
    with pytest.raises(BadInput, match="hold 2 of 'clinic' was settled before, by a commit"):
        ledger.release_hold("clinic", kept)
    with pytest.raises(BadInput, match="hold 3 of 'clinic' was settled before, by a release"):
        ledger.commit("clinic", back)
    with pytest.raises(BadInput, match="entry 1 of 'clinic' is not a hold but a open"):
        ledger.commit("clinic", 1)
    for nobody in (0, -1, 99, 2**70):
        with pytest.raises(BadInput, match=f"has no entry {nobody}"):
            ledger.commit("clinic", nobody)
    with pytest.raises(BadInput, match="an entry number was"):
        ledger.commit("clinic", True)
    balance = ledger.balance("clinic")
    assert (balance.spends, balance.open_holds, len(ledger.history("clinic"))) == (1, 0, 5)


def test_the_same_key_pays_once_whatever_happened_since(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    first = ledger.spend("clinic", HALF, key="request 1")
    assert ledger.spend("clinic", HALF, key="request 1") == first
    reworded = replace(HALF, theorem="the same theorem in other words")
    assert ledger.spend("clinic", reworded, key="request 1") == first
    ledger.spend("clinic", HALF, key="request 2")
    ledger.close("clinic")
    assert ledger.spend("clinic", HALF, key="request 1", purpose="again") == first
    assert ledger.balance("clinic").spends == 2


def test_a_key_belongs_to_one_request_of_one_dataset(ledger):
    for name in ("clinic", "school"):
        ledger.open(name, epsilon=1.0, delta=0.0)
    ledger.spend("clinic", Guarantee.pure(0.1), key="k")
    with pytest.raises(BadInput, match="the key 'k' was used for another request on 'clinic'"):
        ledger.spend("clinic", Guarantee.pure(0.2), key="k")
    with pytest.raises(BadInput, match="the key 'k' was used for another request on 'clinic'"):
        ledger.hold("clinic", Guarantee.pure(0.1), key="k")
    assert ledger.spend("school", Guarantee.pure(0.2), key="k").number == 2


def test_the_key_of_a_hold_that_was_given_back_pays_for_nothing(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    hold = ledger.hold("clinic", HALF, key="job")
    assert ledger.hold("clinic", HALF, key="job") == hold
    ledger.release_hold("clinic", hold.number)
    with pytest.raises(BadInput, match="hold 2 of 'clinic', which was given back; ask with a new key"):
        ledger.hold("clinic", HALF, key="job")
    kept = ledger.hold("clinic", HALF, key="job, second try")
    ledger.commit("clinic", kept.number)
    assert ledger.hold("clinic", HALF, key="job, second try") == kept


def test_a_closed_dataset_admits_nothing_but_settles_its_holds(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    hold = ledger.hold("clinic", HALF)
    assert ledger.close("clinic") == ledger.close("clinic")
    with pytest.raises(BudgetRefused, match="'clinic' is closed and admits no further release") as refused:
        ledger.spend("clinic", Guarantee.pure(0.1))
    assert (refused.value.largest, refused.value.exit_code) == (0.0, 3)
    ledger.release_hold("clinic", hold.number)
    assert ledger.close("clinic").number == 3
    balance = ledger.balance("clinic")
    assert (balance.state, balance.spends, balance.left, balance.left_pure) == ("closed", 0, 0.0, 0.0)
    assert ledger.check() == []


KINDS = {
    "Gaussian": (lambda e: Guarantee.gaussian(1.0 / gaussian_mu(e, 1e-6), at_delta=1e-6), "replace"),
    "Gaussian without a δ of its own": (lambda e: Guarantee.gaussian(1.0 / gaussian_mu(e, 1e-6)), "replace"),
    "Laplace": (lambda e: Guarantee.laplace(1.0 / e), "replace"),
    "response": (lambda e: Guarantee.randomised_response(e, 5), "replace"),
    "slack": (lambda e: Guarantee.pure(e, at_delta=1e-6).with_slack(1e-9), "replace"),
    "sampled": (
        lambda e: poisson(Guarantee.gaussian(4.0 / e, neighbours="add/remove", at_delta=1e-6), 0.1),
        "add/remove",
    ),
    "repeated": (lambda e: Guarantee.gaussian(9.0 / e, at_delta=5e-7).times(2), "replace"),
    "two kinds": (lambda e: Guarantee.pure(e / 2) + Guarantee.gaussian(9.0 / e, at_delta=1e-6), "replace"),
}


@pytest.mark.parametrize("before", ["first", "later"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_epsilon_of_a_refusal_fits_and_one_percent_more_does_not(ledger, kind, before):
    make, neighbours = KINDS[kind]
    ledger.open("clinic", epsilon=1.0, delta=1e-6, neighbours=neighbours)
    if before == "later":
        ledger.spend("clinic", Guarantee.pure(0.2, neighbours=neighbours))
    with pytest.raises(BudgetRefused, match="the largest ε of this kind that would still fit is") as refused:
        ledger.hold("clinic", make(8.0))
    largest = refused.value.largest
    printed = float(re.search(r"fit is (\S+?)(?: at δ = \S+)?\.$", str(refused.value)).group(1))
    assert 0.0 < largest <= 1.0 + 1e-9
    assert 0.999 * largest <= printed <= largest

    delta = make(1.0).at_delta if math.isfinite(make(1.0).epsilon()) else 1e-6
    at, more = (
        brentq(lambda asked, goal=goal: make(asked).epsilon(delta) - goal, 0.1, 8.0, xtol=1e-4)
        for goal in (largest, 1.01 * largest)
    )
    ledger.release_hold("clinic", ledger.hold("clinic", make(at - 2e-4)).number)
    with pytest.raises(BudgetRefused):
        ledger.hold("clinic", make(more))


def test_nothing_of_a_kind_that_cannot_fit_is_offered(ledger):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    with pytest.raises(BudgetRefused, match=r"is 0\.0% used: nothing more of this kind fits") as refused:
        ledger.spend("clinic", Guarantee.gaussian(1.0))
    assert refused.value.largest == 0.0
    assert "ε=inf at δ=0 was asked" in str(refused.value)


def test_what_the_balance_shows_as_left_can_be_spent(ledger):
    ledger.open("clinic", epsilon=2.0, delta=1e-6)
    assert ledger.balance("clinic").left == 2.0
    ledger.spend("clinic", Guarantee.gaussian(9.0))
    left = ledger.balance("clinic").left
    assert 0.0 < left < 2.0
    hold = ledger.hold("clinic", Guarantee.gaussian(1.0 / gaussian_mu(left, 1e-6)))
    assert ledger.balance("clinic").used == pytest.approx(1.0, rel=1e-3)
    ledger.release_hold("clinic", hold.number)
    with pytest.raises(BudgetRefused):
        ledger.spend("clinic", Guarantee.gaussian(0.99 / gaussian_mu(left, 1e-6)))


def test_the_fixed_plan_figure_is_the_composition_of_what_was_kept(ledger):
    ledger.open("clinic", epsilon=8.0, delta=1e-6)
    assert ledger.fixed_plan_epsilon("clinic") == 0.0
    for _ in range(3):
        ledger.spend("clinic", Guarantee.gaussian(4.0))
    ledger.release_hold("clinic", ledger.hold("clinic", Guarantee.gaussian(2.0)).number)
    ledger.hold("clinic", Guarantee.gaussian(4.0))
    assert ledger.fixed_plan_epsilon("clinic") == pytest.approx(gaussian_epsilon(0.5, 1e-6))


def test_a_clock_that_is_moved_back_reorders_nothing(ledger, monkeypatch):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    ledger.spend("clinic", HALF)

    class Yesterday(module.datetime):
        @classmethod
        def now(cls, zone=None):
            return super().now(zone).replace(year=2001)

    monkeypatch.setattr(module, "datetime", Yesterday)
    ledger.spend("clinic", HALF)
    ledger.close("clinic")
    history = ledger.history("clinic")
    assert [entry.number for entry in history] == [1, 2, 3, 4]
    assert [entry.at for entry in history] == sorted(entry.at for entry in history)
    assert history[-1].at == history[1].at
    assert ledger.check() == []


def test_two_ledgers_with_a_dataset_of_the_same_name_are_two(ledger, tmp_path):
    with Ledger(f"sqlite:///{tmp_path}/other.db") as other:
        entries = []
        for one in (ledger, other):
            one.open("clinic", epsilon=1.0, delta=0.0)
            entries.append(one.spend("clinic", HALF))
        assert ledger.identity != other.identity
        assert ledger.find(entries[0].hash) == entries[0]
        assert ledger.find(entries[1].hash) is None
        assert other.find(entries[0].hash) is None


def test_entries_become_json_values_for_people(ledger):
    ledger.open("clinic", epsilon=8.0, delta=1e-6)
    paid = ledger.spend("clinic", Guarantee.gaussian(2.0, at_delta=1e-6), purpose="table", key="k").to_dict()
    assert paid["epsilon"] == pytest.approx(gaussian_epsilon(0.5, 1e-6))
    assert (paid["delta"], paid["kind"], paid["purpose"], paid["key"]) == (1e-6, "spend", "table", "k")
    assert Guarantee.from_dict(paid["guarantee"]) == Guarantee.gaussian(2.0, at_delta=1e-6)
    without = ledger.spend("clinic", Guarantee.gaussian(9.0)).to_dict()
    assert math.isinf(Guarantee.gaussian(9.0).epsilon())
    assert without["epsilon"] is None
    assert ledger.history("clinic")[0].to_dict()["guarantee"] is None


@pytest.fixture
def leased(ledger, monkeypatch):
    """A ledger with one spend, row 2, and a clock that tests move."""
    now = [1000.0]
    monkeypatch.setattr(type(ledger._storage), "clock", lambda storage, transaction: now[0])
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    ledger.spend("clinic", Guarantee.pure(0.5))
    ledger.lease("clinic", 2, "one")
    return ledger, now


@pytest.mark.parametrize(
    ("moved", "free"),
    [(0.0, False), (Ledger.LEASE_SECONDS - 1, False), (Ledger.LEASE_SECONDS + 1, True), (-3600.0, True)],
    ids=["at once", "just before its end", "after its end", "the clock was moved back"],
)
def test_a_lease_keeps_others_out_until_it_ends(leased, moved, free):
    ledger, now = leased
    now[0] += moved
    if free:
        ledger.lease("clinic", 2, "two")
        with pytest.raises(BadInput, match="another process"):
            ledger.lease("clinic", 2, "one")
    else:
        with pytest.raises(BadInput, match="another process"):
            ledger.lease("clinic", 2, "two")


def test_a_lease_is_renewed_and_given_back_by_its_holder_alone(leased):
    ledger, now = leased
    now[0] += Ledger.LEASE_SECONDS - 1
    ledger.lease("clinic", 2, "one")
    now[0] += Ledger.LEASE_SECONDS - 1
    ledger.end_lease("clinic", 2, "two")
    with pytest.raises(BadInput, match="another process"):
        ledger.lease("clinic", 2, "two")
    ledger.end_lease("clinic", 2, "one")
    ledger.lease("clinic", 2, "two")


def test_a_run_that_ended_for_good_is_leased_to_nobody(leased):
    ledger, now = leased
    ledger.end_lease("clinic", 2, "one", for_good=True)
    now[0] += 10 * Ledger.LEASE_SECONDS
    for holder in ("one", "two"):
        with pytest.raises(BadInput, match="released nothing"):
            ledger.lease("clinic", 2, holder)
        with pytest.raises(BadInput, match="was lost"):
            ledger.keep_certificate("clinic", 2, "{}", holder)


def test_under_a_lease_the_first_certificate_stays(leased):
    ledger, _ = leased
    assert ledger.keep_certificate("clinic", 2, "first", "one") == "first"
    assert ledger.keep_certificate("clinic", 2, "second", "one") == "first"
    with pytest.raises(BadInput, match="was lost"):
        ledger.keep_certificate("clinic", 2, "third", "two")
    assert ledger.certificates("clinic") == {2: "first"}
    assert ledger.keep_certificate("clinic", 2, "fourth") == "fourth"


def test_a_row_that_is_not_there_is_not_leased(leased):
    with pytest.raises(BadInput, match="no entry 7"):
        leased[0].lease("clinic", 7, "one")


def test_a_mistyped_dataset_is_answered_with_the_one_that_was_meant(ledger):
    ledger.open("clinic", epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetRefused, match=r"'clinc'; did you mean 'clinic'\? Otherwise open one"):
        ledger.spend("clinc", Guarantee.pure(0.5))
    with pytest.raises(BadInput, match=r"did you mean 'clinic'\?"):
        ledger.balance("Clinic")
    with pytest.raises(BudgetRefused, match="for dataset 'ward'; open one with"):
        ledger.require_open("ward")


def test_an_entry_is_bound_to_one_output_for_good(ledger):
    ledger.open("clinic", epsilon=2.0, delta=1e-6)
    ledger.spend("clinic", Guarantee.pure(0.5), "round 1", "run round 1")
    for _ in range(2):
        ledger.bind("clinic", "run round 1", "a" * 64)
    with pytest.raises(BadInput, match="entry 2 of 'clinic' paid for another output before"):
        ledger.bind("clinic", "run round 1", "b" * 64)
    with pytest.raises(BadInput, match="no entry of 'clinic' has the key"):
        ledger.bind("clinic", "run round 2", "a" * 64)
    with pytest.raises(BadInput, match="has its one output: it cannot be resumed"):
        ledger.lease("clinic", 2, "somebody")
    ledger.end_lease("clinic", 2, "somebody", for_good=True)
    ledger.bind("clinic", "run round 1", "a" * 64)
    assert ledger.check() == []
