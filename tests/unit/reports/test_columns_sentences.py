"""Sentences of a report: they follow from the numbers and never say more than those."""

import math
import re

import pytest

from sfumato.audits import Finding
from sfumato.privacy import Claim, Evidence, Guarantee, Statement
from sfumato.reports import columns, page_text
from sfumato.reports.release_entry import Entry


def entry(proven, *, measured=(), findings=(), claimed=None, name="R"):
    return Entry(name, Statement("M", {}, claimed, proven, measured), findings)


def gaussian(epsilon, delta=1e-6, **terms):
    return Guarantee.approximate(epsilon, delta, **terms)


def shown(attack, epsilon, delta, confidence=0.99, unit="record", neighbours="replace", **more):
    return Evidence(attack, epsilon, delta, confidence, "", unit, neighbours, **more)


def claim(epsilon, delta=1e-6, unit="record", neighbours="replace"):
    return Claim(text="t", source="s", epsilon=epsilon, delta=delta, unit=unit, neighbours=neighbours)


NOTHING = Guarantee.nothing("trained on the data without noise")


@pytest.mark.parametrize(
    ("unit", "neighbours", "start"),
    [
        ("record", "replace", "If any one record were replaced by another, "),
        ("client", "add/remove", "If any one client were added or taken away, "),
        ("region(8)", "replace", "If any square of 8 × 8 pixels were replaced by another, "),
        ("pixels(5)", "replace", "If any 5 pixels were replaced by others, "),
        ("pixels(1)", "zero-out", "If any one pixel were blanked out (replaced by a fixed null value), "),
        ("window(12.5)", "zero-out", "If any stretch of 12.5 ms were blanked out"),
    ],
)
def test_the_proven_column_names_the_change_it_bounds(unit, neighbours, start):
    said = columns.proven(Guarantee.pure(1.0, unit=unit, neighbours=neighbours))
    assert said[0].startswith(start)
    assert "2.72 times as likely." in said[0]


def test_a_part_of_a_person_is_not_taken_for_the_person():
    assert "any one frame only" in columns.proven(Guarantee.pure(1.0, unit="frame"))[-1]
    assert not any("only" in line for line in columns.proven(Guarantee.pure(1.0)))


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 1.0, 3.0, 8.0, 12.0])
def test_the_best_guess_is_that_of_the_curve(epsilon):
    """Under pure ε-DP by randomised response the best guess at even odds is e^ε/(1 + e^ε)."""
    (said,) = re.findall(r"right at most ([\d.]+)%", columns.proven(Guarantee.pure(epsilon))[1])
    best = 100.0 / (1.0 + math.exp(-epsilon))
    assert best - 1e-9 <= float(said) <= best + 0.1
    assert float(said) < 100.0
    assert "practically every time" in columns.proven(Guarantee.pure(20.0))[1]


def test_delta_is_told_as_one_in_so_many():
    assert "at most 1 in 1,000,000." in columns.proven(gaussian(1.0, 1e-6))[0]
    assert "at most 1 in 333,333." in columns.proven(gaussian(1.0, 3e-6))[0]
    assert "exception" not in columns.proven(Guarantee.pure(1.0))[0]


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [(1.0, "tight"), (1.01, "moderate"), (4.0, "moderate"), (4.01, "loose"), (10.0, "loose")],
)
def test_the_size_of_epsilon_has_a_word(epsilon, words):
    assert f"This is a {words} bound" in columns.worth(epsilon)


def test_a_large_delta_promises_nothing_practical_whatever_epsilon_is():
    loose = gaussian(1.0, 0.3333)
    assert columns.worth(1.0, 1e-3) == "This is a tight bound."
    one = entry(loose, measured=(shown("game", 0.1, 0.3333, 0.99),))
    assert columns.verdict(one).headline == "Proven, but too loose to rely on"
    assert "probability at most 33.4%." in columns.proven(loose)[0]
    assert "A δ this large promises nothing practical" in columns.summary([one])
    assert "tight" not in everything(one)
    assert "At the δ of 1 of these" in columns.summary([one, entry(gaussian(1.0))])


def test_evidence_at_a_delta_where_nothing_is_proven_is_not_called_below_what_is():
    one = entry(Guarantee.approximate(1.0, 1e-4), measured=(shown("game", 6.302, 1e-5, 0.99),))
    told = columns.verdict(one)
    assert told.kind == "unaudited"
    assert (
        told.sentence
        == "An attack shows that ε is at least 6.302 at δ = 10⁻⁵, and at δ = 10⁻⁵ nothing is proven."
    )
    assert "No attack went beyond" not in columns.summary([one])


@pytest.mark.parametrize("epsilon", [10.1, 685.0, 1e6])
def test_a_huge_epsilon_is_said_to_promise_nothing_practical(epsilon):
    guarantee = Guarantee.pure(epsilon)
    assert any("promises nothing practical" in line for line in columns.proven(guarantee))
    assert columns.verdict(entry(guarantee)).kind == "vast"
    assert "promises nothing practical" in columns.summary([entry(guarantee)])


def test_nothing_proven_is_said_plainly():
    assert columns.proven(NOTHING)[0] == "Nothing is proven."
    told = columns.verdict(entry(NOTHING, measured=(shown("pairing", 6.1, 1e-5, 0.99),)))
    assert told.kind == "nothing"
    assert "trained on the data without noise" in told.sentence
    assert "ε is at least 6.1 at δ = 10⁻⁵, with 99% confidence" in told.sentence


def test_no_finite_epsilon_at_a_delta_is_said_plainly():
    guarantee = Guarantee.gaussian(1.0)  # at δ = 0 a Gaussian has none
    assert "no finite ε" in columns.proven(guarantee)[0]
    assert columns.verdict(entry(guarantee)).kind == "vast"


@pytest.mark.parametrize(
    ("claim", "proven", "words"),
    [
        (Claim(text="t", source="s"), gaussian(1.0), None),
        (claim(1.0), gaussian(1.0), "bears the number out at"),
        (claim(1.0), gaussian(2.0), "it gives ε = 2 at δ = 10⁻⁶"),
        (claim(1.0, 1e-9), gaussian(1.0), "it gives no finite ε"),
        (claim(1.0, None), NOTHING, "No theorem we know"),
        (Claim(text="t", source="s", epsilon=1.0), gaussian(1.0), "nothing is compared"),
        (claim(1.0, unit="tensor"), gaussian(1.0), "nothing is proven here, so no theorem bears"),
    ],
)
def test_a_claim_is_held_against_the_theorem_at_its_own_delta(claim, proven, words):
    said = columns.claimed(Statement("M", {}, claim, proven))
    assert said[0] == "These are the authors' words, not ours."
    assert len(said) == (1 if words is None else 2)
    assert words is None or words in said[1]


def test_an_attack_that_failed_is_no_proof():
    weak = Finding("guessing", "knows nothing", "AUC", 0.5, 0.5, (0.45, 0.55), 0.99)
    said = columns.measured(entry(gaussian(1.0), findings=(weak,)))
    assert "None of 1 attacks did better than a guess." in said
    assert said[-1] == columns.WEAK_ATTACK
    assert columns.measured(entry(gaussian(1.0)))[0].startswith("Not audited")


def test_measured_above_proven_is_an_alarm():
    bad = entry(gaussian(1.0), measured=(shown("game", 3.21987, 1e-6, 0.99), shown("other", 0.1, 1e-6, 0.99)))
    told = columns.verdict(bad)
    assert told.kind == "alarm"
    assert "at least 3.219 at δ = 10⁻⁶" in told.sentence
    assert "at most 1 is proven" in told.sentence
    assert "probability 2.0% at most" in told.sentence  # two bounds at 99%
    assert columns.alarm([bad]) == "Alarm: an attack went beyond what is proven for “R”."
    assert "An attack went beyond what is proven." in columns.summary([bad])
    assert columns.alarm([entry(gaussian(1.0))]) == ""


def test_a_finding_alone_raises_the_alarm_and_counts_once():
    strong = Finding(
        "game",
        "knows both",
        "ε",
        3.0,
        0.0,
        None,
        0.99,
        epsilon_lower=3.0,
        delta=1e-6,
        unit="record",
        neighbours="replace",
    )
    alone = entry(gaussian(1.0), findings=(strong,))
    both = entry(gaussian(1.0), findings=(strong,), measured=(strong.evidence(),))
    assert [columns.verdict(item).kind for item in (alone, both)] == ["alarm", "alarm"]
    assert len(both.evidence) == 1
    assert both.false_alarm_rate == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("measured", "kind"),
    [
        ((), "unaudited"),
        ((Evidence("reconstruction", detail="error 0.4"),), "unaudited"),
        ((shown("game", 0.9, 1e-6, 0.99),), "consistent"),
        ((shown("game", 0.0, 1e-6, 0.99),), "consistent"),
    ],
)
def test_a_sound_release_is_told_by_what_was_tried(measured, kind):
    told = columns.verdict(entry(gaussian(1.0), measured=measured))
    assert told.kind == kind
    assert ("Measured stays below proven" in told.sentence) == (kind == "consistent")


def test_the_summary_of_several_counts_them():
    several = [
        entry(gaussian(1.0), name="A", measured=(shown("game", 0.5, 1e-6, 0.99),)),
        entry(gaussian(5.2), name="B"),
        entry(NOTHING, name="C", measured=(shown("pairing", 6.1, 1e-5, 0.99),)),
    ]
    assert columns.summary(several) == (
        "This report covers 3 releases. A bound is proven for 2 of them (ε = 1 to 5.2 per record); for 1 "
        "nothing is. 2 of them were attacked. The strongest attack shows an ε of at least 6.1, on “C”. No "
        "attack went beyond what is proven."
    )


def test_a_range_of_epsilon_is_given_for_one_unit_only():
    mixed = [entry(gaussian(1.0)), entry(gaussian(2.0, unit="frame"))]
    assert "(ε" not in columns.summary(mixed)
    assert "was not tried" in columns.summary(mixed)
    assert "beyond" not in columns.summary([entry(NOTHING), entry(NOTHING)])


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [(0.0, "1"), (1.0, "2.72"), (5.2, "182"), (10.0, "22,100"), (44.8, "3 × 10¹⁹"), (1e6, "4 × 10⁴³⁴²⁹⁴")],
)
def test_odds_are_printed_rounded_up_at_any_size(epsilon, text):
    assert page_text.factor(epsilon) == text


@pytest.mark.parametrize(
    ("value", "above", "below"),
    [
        (1.23456, "1.235", "1.234"),
        (1e-6, "10⁻⁶", "10⁻⁶"),
        (1.0, "1", "1"),
        (0.0, "0", "0"),
        (math.inf, "∞", "∞"),
    ],
)
def test_bounds_are_rounded_to_the_side_on_which_they_hold(value, above, below):
    assert page_text.at_most(value) == above
    assert page_text.at_least(value) == below


def test_what_is_no_number_is_said_so():
    assert [page_text.plain(value) for value in (None, math.nan, -math.inf)] == ["–", "not a number", "−∞"]
    assert [page_text.plain(value) for value in (-3e-9, 100_000, -2.0)] == ["−3 × 10⁻⁹", "100,000", "−2"]


COMPONENT = Guarantee.pure(1.0, unit="component")
TENSOR = Guarantee.pure(784.0, unit="tensor")


def tensors(*, also=(TENSOR,), measured=(), claimed=None, proven=COMPONENT):
    return Entry("R", Statement("M", {}, claimed, proven, measured, also_proven=also))


def everything(one):
    """All that a page says about one release."""
    parts = [*columns.measured(one), *columns.claimed(one.statement, one.refuting)]
    return " ".join([*parts, columns.verdict(one).sentence, columns.summary([one]), columns.alarm([one])])


def test_a_tensors_game_is_never_held_against_a_components_proof():
    """Once: "Measured stays below proven, as it must: ε is at least 3.724 and at most 1 is proven"."""
    one = tensors(measured=(shown("game", 3.724, 0.0, unit="tensor"),))
    told = columns.verdict(one)
    assert told.kind == "unaudited"
    assert "ε per tensor under replace is at least 3.724, and at most 784 is proven of it" in told.sentence
    assert "What is proven per component under replace was not tried." in told.sentence
    assert "Measured stays below proven" not in everything(one)
    assert "No attack went beyond" not in everything(one)
    alone = columns.verdict(tensors(also=(), measured=(shown("game", 3.724, 0.0, unit="tensor"),)))
    assert "no theorem here speaks of it" in alone.sentence
    other = entry(Guarantee.pure(1.0), measured=(shown("game", 3.0, 0.0, neighbours="zero-out"),))
    assert columns.verdict(other).kind == "unaudited"


def test_a_claim_about_a_tensor_is_not_borne_out_by_a_component():
    """Once: "The theorem bears the number out" under a claim whose tensor has an ε of 784."""
    said = columns.claimed(tensors(claimed=claim(1.0, 0.0, unit="tensor")).statement)
    assert said[1] == (
        "The theorem does not bear the number out: it gives ε = 784 at δ = 0 per tensor under replace."
    )


def test_evidence_that_refutes_the_claim_is_told():
    made = claim(1.0, 0.0, unit="tensor")
    one = tensors(claimed=made, measured=(shown("game", 3.724, 1e-5, unit="tensor"),))
    assert columns.verdict(one).kind == "refuted"
    assert "is at least 3.724 at δ = 10⁻⁵, with 99% confidence; but at most 1 is claimed" in everything(one)
    assert "An attack refutes what is claimed." in columns.summary([one])
    weaker = tensors(claimed=made, measured=(shown("game", 0.9, 1e-5, unit="tensor"),))
    other = tensors(claimed=made, measured=(shown("game", 0.99, 0.0, unit="component"),))
    larger = tensors(
        claimed=claim(1.0, 1e-3, unit="tensor"), measured=(shown("game", 3.7, 1e-5, unit="tensor"),)
    )
    for item in (weaker, other, larger):  # what is claimed at a δ of 1e-3 says nothing of a smaller one
        assert not item.refuting
        assert "refute" not in everything(item)


def test_a_bound_on_delta_is_held_against_the_claim_and_the_proof():
    leak = shown("exact values", 0.5, 1e-5, unit="tensor", delta_lower=0.7, at_epsilon=1.0)
    one = tensors(claimed=claim(1.0, 0.0, unit="tensor"), measured=(leak,))
    assert columns.verdict(one).kind == "refuted"  # by δ alone: 0.5 is below the claimed ε
    assert "δ is at least 0.7 at ε = 1; but at most 0 is claimed, per tensor under replace" in everything(one)
    proven = tensors(proven=Guarantee.approximate(1.0, 0.1, unit="tensor"), also=(), measured=(leak,))
    assert columns.verdict(proven).kind == "alarm"
    assert "δ is at least 0.7 at ε = 1; but at most 0.1 is proven" in columns.verdict(proven).sentence
    every = shown("exact values", None, None, unit="tensor", delta_lower=0.7)
    assert tensors(also=(Guarantee.pure(784.0, unit="tensor"),), measured=(every,)).alarms
    assert not tensors(also=(Guarantee.approximate(1.0, 0.8, unit="tensor"),), measured=(every,)).alarms


def test_the_largest_of_several_bounds_is_told_with_the_confidence_of_all():
    two = entry(gaussian(5.0), measured=(shown("game", 0.9, 1e-6), shown("other", 1.2, 1e-6)))
    assert two.strongest.confidence == pytest.approx(0.98)
    assert "is at least 1.2 at δ = 10⁻⁶, with 98% confidence" in columns.measured(two)[0]
    alarmed = entry(gaussian(1.0), measured=(shown("game", 0.9, 1e-6), shown("other", 1.2, 1e-6)))
    assert "with 98% confidence; but at most 1 is proven" in columns.verdict(alarmed).sentence
