import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import Claim, Comparison, Evidence, Guarantee, Neighbours, Statement
from sfumato.privacy.formatting import format_delta, format_lower

CLAIM = Claim(text="(ε, δ)-differential privacy", source="TADP-RME, Theorem 1", epsilon=80.0, delta=1e-5)
PROVEN = Guarantee.gaussian(0.0303, at_delta=1e-5)
EVIDENCE = Evidence(
    "distinguishing game", 12.5, 1e-5, 0.999, "10⁵ samples on the worst pair", "record", "replace"
)


def statement(**changes):
    fields = {
        "mechanism": "TrustAdaptive",
        "parameters": {"distrust": 0.4, "epsilon": (1.0, 8.0)},
        "claimed": CLAIM,
        "proven": PROVEN,
        "measured": (EVIDENCE,),
        "notes": ("reproducible run: not for release",),
    }
    return Statement(**(fields | changes))


words = st.text(max_size=60)


@settings(deadline=None)
@given(
    parameters=st.dictionaries(
        words, st.none() | st.booleans() | st.integers(-(10**6), 10**6) | words, max_size=4
    ),
    claimed=st.none() | st.builds(Claim, text=words, source=words, epsilon=st.none() | st.floats(0, 1e6)),
    measured=st.lists(
        st.builds(
            Evidence,
            words,
            st.none() | st.floats(0, 1e3),
            st.floats(0, 1),
            st.none(),
            words,
            st.sampled_from(["record", "region(8)"]),
            st.sampled_from(Neighbours),
            st.none() | st.floats(0, 1),
        ),
        max_size=3,
    ),
    notes=st.lists(words, max_size=2),
    mechanism=st.text(min_size=1, max_size=20),
)
def test_statements_survive_json_and_print_in_100_columns(parameters, claimed, measured, notes, mechanism):
    original = Statement(mechanism, parameters, claimed, PROVEN, tuple(measured), tuple(notes))
    assert Statement.from_json(original.to_json()) == original
    assert Statement.from_dict(json.loads(json.dumps(original.to_dict()))) == original
    assert hash(Statement.from_json(original.to_json())) == hash(original)
    for line in str(original).split("\n"):
        assert len(line) <= 100
        assert line.isprintable()


def test_the_table_reads_in_three_columns():
    lines = str(statement()).splitlines()
    assert lines[0] == "TrustAdaptive(distrust=0.4, epsilon=[1.0, 8.0])"
    assert [cell.strip() for cell in lines[2].strip("│").split("│")] == ["claimed", "proven", "measured"]
    text = "\n".join(lines)
    for words in ("ε = 80, δ = 1e-05", "ε = 684.5 at δ = 1e-05", "per record", "under replace", "ε ≥ 12.5"):
        assert words in text
    assert lines[-1] == "Note: reproducible run: not for release"
    assert len({len(line) for line in lines if line.startswith(("│", "┌", "├", "└"))}) == 1


@pytest.mark.parametrize(("width", "most"), [(100, 100), (80, 80), (43, 43), (10, 40)])
def test_a_narrower_table_says_the_same(width, most):
    narrow = statement().table(width)
    assert max(len(line) for line in narrow.splitlines()) <= most
    for words in ("claimed", "proven", "measured", "684.5", "12.5"):
        assert words in narrow


def test_nothing_and_no_audit_are_said_plainly():
    bare = statement(claimed=None, proven=Guarantee.nothing("no noise was added"), measured=(), notes=())
    text = str(bare)
    for words in ("no claim", "nothing", "not audited yet", "(no noise was added)"):
        assert words in text
    assert repr(bare) == (
        "Statement: TrustAdaptive, nothing claimed; proven: proves nothing per record under replace "
        "(no noise was added); measured: not audited yet"
    )


def test_what_is_printed_still_holds():
    assert "ε ≥ 1.439 at δ=1e-05" in str(game(1.43962, 1e-5))
    assert (format_lower(1.43962), format_lower(1.5), format_lower(0.0), format_lower(1e-7)) == (
        "1.439",
        "1.5",
        "0",
        "1e-07",
    )
    assert format_delta(1.0 / 3.0) == "0.333334"
    assert format_delta(1.0 - 5e-12, 4) == "1 − 5e-12"


def test_slack_is_part_of_the_proven_column():
    assert "slack δ₀ = 1e-09 included" in str(statement(proven=PROVEN.with_slack(1e-9)))
    assert "no finite ε at δ = 0" in str(statement(proven=Guarantee.gaussian(1.0)))


def test_control_characters_cannot_move_the_cursor():
    assert "\x1b" not in str(statement(notes=("\x1b[2Jcleared",)))


def test_repr_reads_like_a_sentence():
    assert repr(statement()) == (
        "Statement: TrustAdaptive, claimed ε=80, δ=1e-05: (ε, δ)-differential privacy (TADP-RME, Theorem 1); "
        "proven: ε=684.5 at δ=1e-05 per record under replace (analytic Gaussian); measured: "
        "distinguishing game: ε ≥ 12.5 at δ=1e-05 per record with 0.999 confidence; "
        "10⁵ samples on the worst pair"
    )


def test_consistent_means_proven_is_at_least_measured():
    proven = Guarantee.gaussian(1.0, at_delta=1e-5)

    def holds(*evidence):
        return statement(proven=proven, measured=evidence).consistent()

    assert holds()
    assert holds(game(4.3, 1e-5), Evidence("b", None))
    assert not holds(game(4.3, 1e-5), game(4.5, 1e-5))
    assert not holds(game(4.3, 1e-3))
    assert holds(game(4.5, 1e-5, unit="tensor"), game(4.5, 1e-5, neighbours="zero-out"))
    assert statement(proven=Guarantee.nothing("x"), measured=(game(1e3, 0.0),)).consistent()


def game(epsilon, delta, unit="record", neighbours="replace", **more):
    return Evidence("a", epsilon, delta, 0.99, "", unit, neighbours, **more)


def test_a_comparison_across_units_or_neighbours_does_not_exist():
    for other in (game(3.0, 0.0, unit="component"), game(3.0, 0.0, neighbours="zero-out")):
        with pytest.raises(BadInput, match="cannot be compared with a guarantee per record under replace"):
            Comparison(Guarantee.pure(1.0), other)
        assert statement(proven=Guarantee.pure(1.0)).compared(other) is None
    with pytest.raises(BadInput, match="bounds nothing"):
        Comparison(Guarantee.pure(1.0), Evidence("reconstruction"))


@pytest.mark.parametrize(
    ("guarantee", "evidence", "refuted"),
    [
        (Guarantee.pure(1.0), game(1.1, 0.0), True),
        (Guarantee.pure(1.0), game(1.0, 0.0), False),
        (Guarantee.approximate(1.0, 1e-3), game(9.0, 1e-5), False),  # nothing is said of so small a δ
        (Guarantee.pure(1.0), game(None, None, delta_lower=0.01, at_epsilon=1.0), True),
        (Guarantee.pure(1.0), game(None, None, delta_lower=0.01, at_epsilon=0.5), False),
        (Guarantee.approximate(1.0, 0.1), game(None, None, delta_lower=0.1, at_epsilon=1.0), False),
        (Guarantee.approximate(1.0, 0.1), game(None, None, delta_lower=0.2, at_epsilon=None), True),
        (Guarantee.nothing("x"), game(9.0, 0.0, delta_lower=0.9, at_epsilon=1.0), False),
    ],
)
def test_evidence_is_compared_at_its_own_delta_and_epsilon(guarantee, evidence, refuted):
    assert Comparison(guarantee, evidence).refuted is refuted


def test_a_claim_is_held_against_evidence_of_its_own_unit():
    made = Claim(text="t", source="s", epsilon=1.0, delta=0.0, unit="tensor", neighbours="replace")
    told = statement(claimed=made, proven=Guarantee.pure(1.0, unit="component"))
    assert Claim.from_dict(made.to_dict()) == made
    assert told.refutes_claim(game(3.7, 1e-5, unit="tensor"))
    assert not told.refutes_claim(game(3.7, 1e-5, unit="component"))
    assert told.contradicts(game(3.7, 1e-5, unit="component"))
    for silent in (CLAIM, Claim(text="t", source="s", epsilon=1.0, unit="tensor", neighbours="replace")):
        assert silent.guarantee() is None


def test_evidence_of_older_documents_is_about_the_headline():
    proven = Guarantee.pure(1.0, unit="component", at_delta=1e-6)
    document = statement(proven=proven, measured=()).to_dict()
    old = {"attack": "a", "epsilon_lower": 2.0, "delta": None, "confidence": 0.9, "detail": ""}
    read = Statement.from_dict(document | {"measured": [old]})
    assert read.measured == (Evidence("a", 2.0, 1e-6, 0.9, "", "component", "replace"),)
    assert Statement.from_json(read.to_json()) == read


def test_parameters_are_copied_and_must_be_json():
    mine = {"clip": 1.0, "levels": [1, 2]}
    kept = statement(parameters=mine)
    mine["levels"].append(3)
    assert kept.parameters == {"clip": 1.0, "levels": [1, 2]}
    for bad in ({"x": object()}, {"x": math.nan}, {"x": math.inf}):
        with pytest.raises(BadInput, match="cannot be written as JSON"):
            statement(parameters=bad)
    with pytest.raises(BadInput, match="mapping"):
        statement(parameters=[1])


def test_malformed_documents_are_refused():
    good = statement().to_dict()
    for change in (
        {"measured": None},
        {"notes": "x"},
        {"claimed": {"text": "x"}},
        {"mechanism": ""},
        {"notes": [1]},
    ):
        with pytest.raises(BadInput):
            Statement.from_dict(good | change)
    with pytest.raises(BadInput, match="a statement was"):
        Statement.from_dict({"mechanism": "x"})
    for text in ("{", "[" * 100_000, "3"):
        with pytest.raises(BadInput):
            Statement.from_json(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Claim(text=1, source="s"),
        lambda: Claim(text="t", source="s", epsilon=-1.0),
        lambda: Claim(text="t", source="s", delta=math.inf),
        lambda: game(-1.0, 0.0),
        lambda: game(math.inf, 0.0),
        lambda: game(1.0, 2.0),
        lambda: game(1.0, None),
        lambda: game(1.0, 0.0, unit=None),
        lambda: game(1.0, 0.0, neighbours=None),
        lambda: game(1.0, 0.0, delta_lower=1.5),
        lambda: Evidence("a", 1.0, 0.1, 1.5, "", "record", "replace"),
        lambda: Evidence(3),
    ],
)
def test_bad_claims_and_evidence_are_refused(make):
    with pytest.raises(BadInput):
        make()


def test_claims_read_and_round_trip():
    assert str(CLAIM) == "ε=80, δ=1e-05: (ε, δ)-differential privacy (TADP-RME, Theorem 1)"
    assert str(Claim(text="safe", source="abstract")) == "safe (abstract)"
    assert Claim.from_dict(json.loads(json.dumps(CLAIM.to_dict()))) == CLAIM
    assert Evidence.from_dict(json.loads(json.dumps(EVIDENCE.to_dict()))) == EVIDENCE
