"""The self-test: what it concludes, how it prints, what it refuses."""

import json

import numpy as np
import pytest

from sfumato.audits.auditor_check import (
    Attempt,
    BrokenVerdict,
    SelfTest,
    SoundVerdict,
    alarms_allowed,
    self_test,
    specimens,
    try_broken,
)
from sfumato.audits.zoo.suspect import Specimen, equality_scores
from sfumato.errors import BadInput
from sfumato.privacy import Guarantee


@pytest.fixture(scope="module")
def quick(few_trees):
    """A short run with small classifiers: the outcome of these seeds is fixed."""
    return self_test(games=50_000, repetitions=3, seed=1)


def test_a_run_catches_the_broken_and_clears_the_sound(quick):
    assert quick.passed
    assert len(quick.broken) >= 14
    assert "records mixed before clipping" in {row.specimen.name for row in quick.broken}
    assert "gradients of single records" in {row.specimen.name for row in quick.sound}
    assert len(quick.sound) >= 8
    assert quick.sound_games == 10_000
    for row in quick.broken:
        assert row.measured > row.specimen.epsilon
        assert row.by
    for row in quick.to_dict()["sound"]:
        assert row["typical_measured"] <= row["largest_measured"]


def test_the_table_names_every_mechanism_and_fits_the_terminal(quick):
    for width in (72, 80, 100, 140):
        table = quick.table(width)
        assert max(map(len, table.splitlines())) <= width
        words = "".join(table.split())
        for row in quick.broken:
            assert "".join(row.specimen.mistake.split()) in words
    assert quick.table(10) == quick.table(72)
    wide = quick.table(200)
    for row in (*quick.broken, *quick.sound):
        assert row.specimen.name in wide
    assert str(quick) == quick.table(100)


def test_the_footnote_says_what_the_attacks_knew(quick):
    text = " ".join(quick.table(100).split())
    assert "What this does not show" in text
    only = [row.specimen.name for row in quick.broken if not row.by_strangers]
    assert "Laplace noise in floats" in only  # no classifier reads the last bits
    assert f"Found only by an attack that knew what to look for ({len(only)})" in text
    assert "classical formula at epsilon 15" in text.split("assume normal scores")[1]
    assert "is not thereby proven" in text


def test_a_run_is_json_and_can_be_repeated(quick, few_trees):
    written = json.dumps(quick.to_dict(), ensure_ascii=False, allow_nan=False)
    assert json.loads(written) == quick.to_dict()
    row = quick.to_dict()["broken"][0]
    assert row["promised_epsilon"] < row["measured_epsilon"]
    assert row["caught"] is True
    assert {attempt["attack"] for attempt in row["attempts"]} >= {"classifier", "equalities"}
    assert "exact-value game" in quick.to_dict()["broken"][-1]["by"]
    assert quick.sound[-1].specimen.name == "Gaussian, keyed embedding, audited"
    told = []
    again = self_test(
        games=1000, repetitions=1, seed=5, report=lambda stage, share: told.append((stage, share))
    )
    assert again == self_test(games=1000, repetitions=1, seed=5)
    assert again.broken[0] == try_broken(specimens()[0], games=1000, confidence=0.99, seed=5)
    assert again.broken[0] != try_broken(specimens()[0], games=1000, confidence=0.99, seed=6)
    # Progress is told.
    assert told[0] == ("broken mechanisms", 0.0)
    assert told[-1] == ("sound mechanisms", 1.0)
    assert all(0.0 <= share <= 1.0 for _, share in told)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"games": 10}, "games"),
        ({"games": 1e5}, "games"),
        ({"repetitions": 0}, "repetitions"),
        ({"repetitions": True}, "repetitions"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"seed": "7"}, "seed"),
    ],
)
def test_what_is_no_self_test_is_refused_in_a_sentence(options, word):
    with pytest.raises(BadInput, match=f"^`{word}` .*must be") as refusal:
        self_test(**options)
    assert "\n" not in str(refusal.value)


def broken_row(*attempts):
    specimen = Specimen(name="x", promised=Guarantee.pure(1.0), mistake="A mistake.", hint="nothing")
    return BrokenVerdict(specimen, attempts)


def sound_row(alarms, strict):
    return SoundVerdict(Specimen(name="y", promised=Guarantee.pure(1.0)), (0.9,) * 200, alarms, strict, 0.99)


def result(broken, sound):
    return SelfTest((broken,), (sound,), 1000, 200, 200, 0.99, None)


CAUGHT = Attempt("likelihood ratio", True, 1.5)
MISSED = Attempt("likelihood ratio", True, 0.7)
STRANGER = Attempt("classifier", False, 1.2)


@pytest.mark.parametrize(
    ("broken", "sound", "passed"),
    [
        (broken_row(CAUGHT), sound_row(12, 0), True),
        (broken_row(CAUGHT), sound_row(13, 0), False),
        (broken_row(CAUGHT), sound_row(1, 1), False),
        (broken_row(MISSED), sound_row(0, 0), False),
        (broken_row(Attempt("likelihood ratio", True, 1.0)), sound_row(0, 0), False),
        (broken_row(MISSED, STRANGER), sound_row(0, 0), True),
    ],
)
def test_one_miss_or_one_alarm_too_many_fails_the_test(broken, sound, passed):
    assert result(broken, sound).passed is passed


@pytest.mark.parametrize(
    ("attempts", "text"),
    [
        ((CAUGHT,), "likelihood ratio only"),
        ((CAUGHT, STRANGER), "likelihood ratio; also classifier"),
        ((MISSED, STRANGER), "only classifier"),
        ((MISSED,), "NOT CAUGHT"),
    ],
)
def test_the_table_says_who_caught_it(attempts, text):
    assert text in result(broken_row(*attempts), sound_row(0, 0)).table(120)


def test_a_failure_is_marked():
    table = result(broken_row(CAUGHT), sound_row(14, 0)).table()
    assert "0 of 1 within" in table
    assert "14 of 200" in table
    assert "(!)" in table


@pytest.mark.parametrize(
    ("repetitions", "confidence", "allowed"), [(200, 0.99, 12), (20, 0.99, 5), (1, 0.99, 1), (200, 0.9999, 3)]
)
def test_alarms_are_allowed_as_far_as_chance_goes(repetitions, confidence, allowed):
    assert alarms_allowed(repetitions, confidence) == allowed


def test_a_lower_bound_is_printed_rounded_down():
    assert "ε ≥ 1.499" in result(broken_row(Attempt("a", True, 1.49999)), sound_row(0, 0)).table()


def test_equalities_are_counted_for_either_input():
    first, second = np.array([0.0, 5.0]), np.array([1.0, 5.0])
    outputs = np.array([[0.0, 7.0], [1.0, 7.0], [0.5, 5.5], [1.5, 5.5], [0.2, 4.0]])
    # Kept by the first, kept by the second, the same noise twice under either, and neither.
    assert equality_scores(outputs, first, second).tolist() == [-1.0, 1.0, -1.0, 1.0, 0.0]
