"""Tables beside the paper: differences, agreement and proven ε are computed from what stands in them."""

from __future__ import annotations

import pytest

from sfumato_reproductions.tadp_rme import trust_sweep
from sfumato_reproductions.tadp_rme.protocol import Run
from sfumato_reproductions.tadp_rme.published import TRUST_SWEEP, TRUSTS
from sfumato_reproductions.tadp_rme.sweep import Results
from sfumato_reproductions.tadp_rme.table import Line, Pair, Table, shown_epsilon

DATA = ("mnist", "fashion-mnist")


def results(shift) -> Results:
    """Results as if ours were the paper's, moved by ``shift(data, trust)`` = (points, error)."""
    made = Results(Run.of(DATA, 2, quick=False), columns=dict.fromkeys(DATA, 784))
    for data in DATA:
        for _, trust, setting, _ in trust_sweep.rows(made.run):
            points, error = shift(data, trust)
            accuracy, _, published = TRUST_SWEEP[data][trust]
            values = {
                "accuracy": accuracy[0] + points,
                "error": published[0] + error,
                "membership": 1.0,
                "attribute": 0.5,
            }
            for name, value in values.items():
                made.numbers[data, setting, name] = [value - 0.001, value + 0.001]
        for trust in TRUSTS:
            own = trust_sweep.tadp_rme(trust)
            made.numbers[data, own, "plain accuracy"] = [0.0]
            other = trust_sweep.tadp_rme(trust, alpha=1.0)
            for name in ("accuracy", "error"):
                made.numbers[data, other, name] = list(made.numbers[data, own, name])
    return made


@pytest.mark.parametrize(
    ("shift", "agreeing"),
    [
        (lambda data, trust: (0.0, 0.0), 16),
        (lambda data, trust: (2.9, -0.047), 16),
        (lambda data, trust: (-3.1, 0.0), 0),
        (lambda data, trust: (0.0, 0.053), 0),
        (lambda data, trust: (3.5 if data == "mnist" else 0.0, 0.0), 8),
        (lambda data, trust: (0.0, 0.06 if trust in (0.5, 1.0) else 0.0), 12),
    ],
)
def test_agreement_is_counted(shift, agreeing) -> None:
    made = trust_sweep.table(results(shift))
    assert made.counted == (agreeing, 16)
    assert f"in {agreeing} of 16 rows" in made.remarks[0]
    assert f"the protocol as it is: {agreeing} of 16" in made.remarks[1]
    assert "columns not standardised before the probe: 0 of 16" in made.remarks[1]


def test_rows_outside_the_tolerance_say_so_and_rows_of_ours_are_not_counted() -> None:
    made = trust_sweep.table(results(lambda data, trust: (0.0, 0.06)))
    assert len(made.lines) == 20
    own = [line for line in made.lines if line.labels[1] in ("0, noise", "1, α = 1")]
    assert len(own) == 4
    assert all(line.agrees is None and line.pairs[0].paper is None for line in own)
    for line in made.lines:
        assert ("error differs by more than 0.05" in line.note) == (line not in own)


def test_proven_epsilon_is_that_of_the_noise_and_nothing_without_noise() -> None:
    made = trust_sweep.table(results(lambda data, trust: (0.0, 0.0)))
    proven = {line.labels[1]: shown_epsilon(line.proven) for line in made.lines if line.labels[0] == "mnist"}
    assert proven["0"] == "nothing"
    assert proven["0, noise"] == "685"
    assert proven["0.5"] == "275"
    assert proven["1"] == proven["1, α = 1"] == "44.8"


def test_markdown_and_text_hold_the_same_numbers() -> None:
    line = Line(("a", "b"), (Pair((72.7, 0.4), [71.0, 73.0], 1),), 44.83, "why", agrees=True)
    bare = Line(("a", "c"), (Pair(None, [1e-8], None),), None)
    table = Table(9, "title", ("x", "y"), ("accuracy %",), (line, bare), remarks=("a remark",))
    page = table.markdown()
    assert "| a | b | 72.7 ± 0.4 | 72.0 ± 1.4 | −0.7 | 44.8 | yes | why |" in page
    assert "| a | c | – | 1e−08 | – | nothing |  |  |" in page
    assert page.endswith("\na remark")
    text = table.text()
    assert "72.7 | 72.0 ± 1.4 (−0.7)" in text
    assert "[1] why" in text
    assert table.counted == (1, 1)
    rows = table.to_dict()["rows"]
    assert rows[0]["measures"]["accuracy %"]["difference"] == pytest.approx(-0.7)
    assert rows[1]["measures"]["accuracy %"]["difference"] is None


def test_a_pair_without_numbers_has_no_verdict() -> None:
    assert Pair(None, [1.0]).within(3.0) is None
    assert Pair((1.0, 0.0), []).within(3.0) is None
    assert Pair((1.0, 0.0), [1.0]).deviation is None
