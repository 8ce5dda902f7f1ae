"""Many files as one release: the weakest promise of each unit, or, of records, all promises composed."""

import math
from functools import partial
from typing import Annotated

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent, pld

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.mechanisms import Parameter
from sfumato.privacy import Guarantee, Statement, Unit
from sfumato.release.combined_statement import (
    DECLARED_DISJOINT,
    INSIDE_ONE_FILE,
    check_charge,
    combine_statements,
    note_for_each_file,
)
from sfumato.release.path import Payment, terms_of

together = partial(combine_statements, apart=INSIDE_ONE_FILE)


def picture(region, item, parameters=None):
    return Statement(
        "PlaneMeans",
        parameters or {"epsilon": 4.0},
        None,
        Guarantee.pure(region, unit="region(16)"),
        also_proven=(Guarantee.pure(item, unit="item"),),
    )


def sound(window, item=None):
    also = () if item is None else (Guarantee.pure(item, unit="item"),)
    return Statement(
        "BandNoise", {"epsilon": 4.0}, None, Guarantee.pure(window, unit="window(20)"), also_proven=also
    )


def proven(statement):
    return {str(part.unit): part.epsilon() for part in (statement.proven, *statement.also_proven)}


def test_the_worst_file_speaks_for_all() -> None:
    assert proven(together([picture(4.0, 90.0), picture(3.0, 250.0)])) == {"region(16)": 4.0, "item": 250.0}


def test_a_file_of_which_nothing_is_proven_leaves_nothing() -> None:
    bare = Statement("Blur", {}, None, Guarantee.nothing("no noise", "region(16)"))
    assert together([picture(4.0, 90.0), bare]).proven.proves_nothing


def test_regions_and_windows_stand_side_by_side() -> None:
    made = together([picture(4.0, 90.0), sound(2.0, 700.0), sound(3.0, 70.0)])
    assert proven(made) == {"region(16)": 4.0, "item": 700.0, "window(20)": 3.0}
    assert made.mechanism == "BandNoise and PlaneMeans"


def test_a_unit_that_one_file_says_nothing_about_is_left_out() -> None:
    assert "item" not in proven(together([picture(4.0, 90.0), sound(2.0)]))


def test_only_parameters_that_all_share_are_kept() -> None:
    made = together([picture(4.0, 9.0, {"epsilon": 4.0, "shape": [1]}), picture(4.0, 9.0, {"epsilon": 4.0})])
    assert made.parameters == {"files": 2, "epsilon": 4.0}


def test_a_budget_per_region_pays_for_no_sound(tmp_path) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        ledger.open("album", epsilon=8, delta=1e-6, unit="region(16)")
        payment = Payment("album", ledger)
        check_charge(["a.jpg", "b.jpg"], [picture(4.0, 90.0), picture(3.0, 80.0)], payment)
        with pytest.raises(BadInput, match=r"per region\(16\) and b\.wav per window\(20\)"):
            check_charge(["a.jpg", "b.wav"], [picture(4.0, 90.0), sound(2.0, 700.0)], payment)


def test_a_budget_per_item_pays_for_both(tmp_path) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        ledger.open("album", epsilon=800, delta=1e-6, unit="item")
        both = [picture(4.0, 90.0), sound(2.0, 700.0)]
        check_charge(["a.jpg", "b.wav"], both, Payment("album", ledger))
        assert Payment("album", ledger).charged(together(both)).epsilon() == 700.0


def one(guarantee):
    return Statement("PlaneMeans", {}, None, guarantee)


def item(kind, number, delta=0.0):
    return getattr(Guarantee, kind)(number, unit="item", at_delta=delta)


def test_of_noise_of_one_law_the_smaller_is_the_worst_and_keeps_its_curve() -> None:
    for kind, delta in (("gaussian", 1e-6), ("laplace", 0.0)):
        parts = [item(kind, noise, delta) for noise in (2.0, 0.5, 1.0)]
        assert together([one(part) for part in parts]).proven == parts[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (item("gaussian", 0.5, 1e-6), item("pure", 30.0)),
        (item("gaussian", 0.1, 1e-6), item("pure", 2.0)),
        (item("laplace", 0.2), item("gaussian", 1.0, 1e-7)),
        (item("gaussian", 1.0, 1e-9), item("gaussian", 1.2, 1e-6)),
        (item("laplace", 0.5).times(8), item("pure", 14.0)),
    ],
)
def test_where_curves_may_cross_what_is_stated_holds_of_each_at_every_delta(first, second) -> None:
    for parts in ((first, second), (second, first)):
        made = together([one(part) for part in parts]).proven
        assert made.at_delta == max(part.at_delta for part in parts)
        for part in parts:
            assert part.epsilon(made.at_delta) <= made.epsilon()
            for delta in (0.0, 1e-9, 1e-6, 1e-3):
                assert part.epsilon(delta) <= made.epsilon(delta)


def test_a_parameter_that_another_file_does_not_have_is_not_shared() -> None:
    made = together([picture(4.0, 9.0, {"epsilon": 4.0, "block": None}), sound(4.0, 9.0)])
    assert made.parameters == {"files": 2, "epsilon": 4.0}


def test_the_headline_is_about_what_was_asked_for_where_that_is_stated() -> None:
    both = [sound(2.0, 700.0), picture(4.0, 90.0)]
    assert str(together(both).proven.unit) == "window(20)"
    for unit, epsilon in (("region(16)", 4.0), ("item", 700.0), ("window(20)", 2.0)):
        made = together(both, Unit.parse(unit))
        assert (str(made.proven.unit), made.proven.epsilon()) == (unit, epsilon)
        assert set(proven(made)) == {"window(20)", "item", "region(16)"}
    assert str(together(both, Unit("frame")).proven.unit) == "window(20)"


def records(guarantee, **parameters):
    return Statement("Gaussian", parameters, None, guarantee)


def test_files_of_records_compose_at_the_delta_of_one() -> None:
    """400 files at ε = 1 are what one file with a twentieth of the noise is, and what an oracle says."""
    one_file = Guarantee.gaussian(4.2246789, at_delta=1e-6)
    made = combine_statements([records(one_file)] * 400).proven
    assert made.at_delta == 1e-6
    assert made.epsilon() == pytest.approx(Guarantee.gaussian(4.2246789 / 20).epsilon(1e-6), rel=1e-6)
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(4.2246789), 400))
    assert made.epsilon() == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-2)
    assert made.epsilon() > 33.0


def test_composed_files_may_differ_and_each_is_counted() -> None:
    parts = [Guarantee.laplace(2.0), Guarantee.laplace(2.0), Guarantee.pure(1.0)]
    made = combine_statements([records(part, width=number) for number, part in enumerate(parts)])
    assert made.proven.epsilon() == pytest.approx(2.0)
    assert made.parameters == {"files": 3}
    assert "added up" in made.notes[0]
    assert "ε=2 at δ=0 per record" in note_for_each_file(made, None)


def test_slacks_of_composed_files_add_up_and_nothing_finite_is_never_printed_at_delta_one() -> None:
    loose = Guarantee.approximate(1.0, 1e-3)
    made = combine_statements([records(loose)] * 5).proven
    assert (made.epsilon(), made.at_delta) == (pytest.approx(5.0), pytest.approx(5e-3))
    assert combine_statements([records(loose)] * 1000).proven.proves_nothing
    unproven = records(Guarantee.nothing("no noise"))
    assert math.isinf(combine_statements([records(loose), unproven]).proven.epsilon())


def test_declared_disjoint_files_cost_what_one_does_and_say_whose_word_it_is() -> None:
    made = combine_statements([records(Guarantee.pure(1.0))] * 400, apart=DECLARED_DISJOINT)
    assert made.proven.epsilon() == 1.0
    assert made.parameters["disjoint"] is True
    assert "the owner declares" in made.notes[0]


def test_files_together_commit_to_wire_names():
    class Renamed(sf.TrustAdaptive, wire="TrustAdaptive"):
        """The mechanism with its parameter `distrust`, whose wire name is `trust`, under another name."""

        def __init__(self, doubt: Annotated[float, Parameter(wire="trust")] = 0.4):
            super().__init__(doubt, epsilon=(1.0, 8.0), clip=1.0)
            self.doubt = doubt

    before = sf.TrustAdaptive(0.4, epsilon=(1.0, 8.0), clip=1.0)
    alone, renamed = (combine_statements([each.statement(4)] * 2) for each in (before, Renamed()))
    assert terms_of(alone)["parameters"]["files"] == 2
    assert terms_of(renamed)["parameters"]["trust"] == terms_of(alone)["parameters"]["trust"] == 0.4
    assert "doubt" in renamed.parameters
    assert "distrust" in alone.parameters
