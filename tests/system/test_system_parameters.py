"""Whatever is typed: exit code 0 with a release and its statement, or 2 with one sentence and neither."""

import base64
import contextlib
import io
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sfumato.cli import main
from sfumato.privacy import Statement

SCHEMA = """
[columns.a]
kind = "numeric"
bounds = [0, 1]
[columns.b]
kind = "categorical"
categories = ["x", "y"]
"""
ODD = ["0", "-0.0", "-1", "nan", "inf", "-inf", "1e-320", "1e-30", "1e9", "1e300", "1e999", "abc", ""]
odd = st.one_of(st.sampled_from(ODD), st.floats().map(repr))
positive = st.one_of(
    st.sampled_from(["0.1", "1", "8.0", "40"]),
    st.floats(1e-6, 1e6).map(repr),
    st.floats(1e-300, 1e300).map(repr),
)
# A process cannot be given a NUL.
word = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
share = st.floats(0, 1).map(repr)
whole = st.integers(1, 40).map(str)
# What a mechanism needs, each flag with values that mostly make sense; and what it may have.
bound = st.one_of(
    positive.map(lambda clip: ["--clip", clip]),
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(
        lambda pair: ["--bounds", repr(pair[0]), repr(pair[0] + pair[1])]
    ),
    st.just(["--bounds-from-data"]),
)
budget = positive.map(lambda epsilon: ["--epsilon", epsilon])
ranges = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=2).map(
    lambda pair: ["--epsilon", *map(repr, sorted(pair))]
)
needs = {
    "additive-noise": [],
    "binary-encoding": [st.one_of(budget, share.map(lambda flip: ["--flip", flip]))],
    "gaussian": [budget, bound],
    "laplace": [budget, bound],
    "personalised": [st.one_of(budget, st.just(["--epsilon-file", "e.npy"])), bound],
    "random-projection": [],
    "randomised-response": [budget],
    "reconstruction-resistant": [],
    "trust-adaptive": [ranges, bound],
    "gausian": [],
}
delta, neighbours = ("--delta", share), ("--neighbours", st.sampled_from(["replace", "zero-out"]))
calibration = ("--calibration", st.sampled_from(["analytic", "paper", "paper-tables"]))
extras = {
    "additive-noise": [("--scale", positive)],
    "binary-encoding": [("--bits", whole)],
    "gaussian": [delta, neighbours],
    "laplace": [neighbours],
    "personalised": [delta, neighbours],
    "random-projection": [("--components", whole)],
    "randomised-response": [("--categories", whole)],
    "reconstruction-resistant": [("--components", whole)],
    "trust-adaptive": [delta, neighbours, calibration, ("--distrust", share)],
    "gausian": [],
}
anything = [
    ("--alpha", positive),
    ("--array", st.sampled_from(["X", "y", ""])),
    ("--dataset", word),
    ("--schema", st.sampled_from(["X.npz", "no.toml"])),
]
numeric_flags = [
    "--epsilon",
    "--bounds",
    "--delta",
    "--clip",
    "--distrust",
    "--scale",
    "--flip",
    "--alpha",
    "--bits",
]


@st.composite
def command_lines(draw):
    """A sensible command line, to which none, one or two odd things are added."""
    name = draw(st.sampled_from(sorted(needs)))
    table = name in ("gaussian", "laplace", "trust-adaptive") and draw(st.integers(0, 4)) == 0
    files = ["t.csv", "t.parquet"] if table else ["X.npz", "small.npy", "codes.npy", "codes.npy", "huge.npy"]
    source = draw(st.sampled_from(files))
    line = ["protect", source, "-o", f"out{Path(source).suffix}", "--mechanism", name]
    for need in needs[name][:1] if table else needs[name]:
        line += draw(need)
    line += ["--schema", "s.toml"] if table else []
    for flag, values in extras[name]:
        line += [flag, draw(values)] if draw(st.booleans()) else []
    line += draw(st.sampled_from([[], [], ["--json"]]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        flag, values = draw(st.sampled_from([*anything, *((flag, odd) for flag in numeric_flags)]))
        line += [flag, draw(values)]
    return line


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder with one file of each kind, and the folder to be in while the test runs."""
    folder = tmp_path_factory.mktemp("shelf")
    random = np.random.default_rng(0)
    np.savez(folder / "X.npz", X=random.random((7, 3)).astype(np.float32))
    np.save(folder / "small.npy", random.normal(size=(5, 2)))
    np.save(folder / "codes.npy", random.integers(0, 2, (6, 2)))
    np.save(folder / "huge.npy", np.array([[1e300, -1e308], [5e-324, 0.0]]))
    np.save(folder / "e.npy", np.array([0.5, 1.0, 2.0, 3.0, 1.0, 1.0, 9.0]))
    (folder / "t.csv").write_text("a,b\n0.5,x\n0.1,y\n0.9,x\n")
    (folder / "s.toml").write_text(SCHEMA)
    pq.write_table(pa.table({"a": [0.25, 0.75], "b": ["x", "y"]}), folder / "t.parquet")
    before = os.getcwd()
    os.chdir(folder)
    yield frozenset(os.listdir())
    os.chdir(before)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(line=command_lines())
@example(
    line=[
        *("protect", "X.npz", "-o", "out.npz", "--mechanism", "trust-adaptive"),
        *("--epsilon", "0.0625", "1.0", "--clip", "0.1", "--delta", "0.99999"),
    ]
)
def test_any_command_line_is_answered_or_refused(shelf, line):
    code, out, err = answered(line)
    appeared = set(os.listdir()) - shelf
    try:
        # A dataset that somebody names here has no budget.
        assert code in ((0, 2, 3) if "--dataset" in line else (0, 2)), (line, code, out, err)
        if code:
            refused(line, out, err, code)
            assert appeared == set()
        else:
            released(line, out, err, appeared)
    finally:
        for name in appeared:
            os.unlink(name)


@settings(max_examples=150, deadline=None)
@given(line=st.lists(st.one_of(word, st.sampled_from(["protect", "paper", "--json", "-o", "X.npz"]))))
def test_any_words_at_all_are_answered_or_refused(shelf, line):
    code, out, err = answered(line)
    assert code in (0, 2), (line, code, out, err)
    assert set(os.listdir()) == shelf
    if code == 2:
        refused(line, out, err)


def answered(line):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(line)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


def refused(line, out, err, code=2):
    if "--json" in line:
        answer = json.loads(out)
        assert answer["exit_code"] == code
        sentence = answer["error"]
        assert err == ""
    else:
        assert out == ""
        assert err.count("\n") == 1
        sentence = err.removesuffix("\n").removeprefix("sfumato: ")
    assert sentence.endswith((".", "?"))


def released(line, out, err, appeared):
    assert err == "" or re.fullmatch(r"sfumato: ε = \S+ per \S+ is above 10, .*\n", err)
    if "--json" in line:
        json.loads(out)
    (output,) = [name for name in appeared if not name.endswith(".cert.json")]
    assert appeared == {output, f"{output}.cert.json"}
    envelope = json.loads(Path(f"{output}.cert.json").read_text("utf-8"))
    document = json.loads(base64.b64decode(envelope["payload"]))
    statement = Statement.from_dict(document["predicate"]["statement"])
    if statement.proven.proves_nothing:
        return
    epsilon = statement.proven.epsilon()
    assert 0 <= epsilon < math.inf
    if "--epsilon" in line and statement.parameters.get("calibration", "analytic") == "analytic":
        asked = statement.claimed.epsilon if statement.claimed else statement.parameters["epsilon"]
        # Near δ = 1 two neighbouring doubles of δ lie many digits of ε apart: there the promise is held in δ.
        close = epsilon <= asked * (1 + 1e-9) + 1e-12
        delta = statement.parameters.get("delta")
        assert close or statement.proven.delta(asked) <= delta + 1e-15
