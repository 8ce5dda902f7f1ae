"""``sfumato plan``: what protect would promise and cost, told without reading the data or spending."""

import json
import math

import numpy as np
import pytest

import sfumato as sf

OPTIONS = ("--epsilon", "1", "--clip", "1", "--delta", "1e-6")


@pytest.fixture
def home(folder, monkeypatch, tmp_path_factory):
    """A home of its own, and an array to plan for."""
    monkeypatch.setenv("SFUMATO_HOME", str(tmp_path_factory.mktemp("home")))
    np.save("X.npy", np.full((40, 9), 0.1))
    return folder


def test_it_takes_the_options_of_protect_and_promises_what_protect_then_states(home, called):
    planned = called("plan", "X.npy", *OPTIONS, "-o", "out.npy", "--json").result
    assert called("protect", "X.npy", *OPTIONS, "-o", "out.npy").code == 0
    released = called("verify", "out.npy", "--json").result
    assert planned["statement"]["proven"] == released["statement"]["proven"]
    assert (planned["rows"], planned["columns"], planned["cost"]) == (40, 9, None)


def test_groups_and_expected_error_are_those_of_the_mechanism(home, called):
    planned = called("plan", "X.npy", *OPTIONS, "--json").result
    mechanism = sf.Gaussian(1.0, 1e-6, 1.0)
    for size in (1, 2, 5, 10):
        expected = mechanism.guarantee().group(size).epsilon(1e-6)
        assert planned["epsilon_of_group"][str(size)] == pytest.approx(expected, rel=1e-12)
    (error,) = planned["expected_error"]
    assert error["value"] == mechanism.sigma(9)


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        (("--mechanism", "laplace", "--epsilon", "2", "--clip", "1"), "root mean square error", math.sqrt(2)),
        (("--mechanism", "additive-noise", "--scale", "0.25"), "root mean square error", 0.25),
        (("--mechanism", "binary-encoding", "--flip", "0.125"), "share of wrong answers", 0.125),
        (("--mechanism", "random-projection", "--components", "3"), "root mean square error", 0.1),
    ],
)
def test_every_mechanism_says_what_error_to_expect(home, called, words, kind, value):
    (error,) = called("plan", "X.npy", *words, "--json").result["expected_error"]
    assert (error["measure"], error["value"]) == (kind, pytest.approx(value, rel=1e-9))


def test_the_error_it_expects_is_the_error_that_comes(home, called):
    """The mean of 360,000 squared errors of known variance; false alarm below 1e-6 at 5 deviations."""
    mechanism = sf.Gaussian(1.0, 1e-6, 1.0)
    X = np.zeros((40_000, 9))
    (error,) = mechanism.expected_error(9)
    found = np.mean(mechanism.release(X).value ** 2) / error.value**2
    assert abs(found - 1.0) < 5.0 * math.sqrt(2.0 / X.size)


def test_a_table_is_planned_in_the_units_of_its_columns(home, called):
    (home / "t.csv").write_text("id,age,sex\n1,30,f\n2,40,m\n")
    columns = {
        "id": {"kind": "identifier"},
        "age": {"kind": "numeric", "bounds": [0, 100]},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
    }
    (home / "t.json").write_text(json.dumps({"columns": columns}))
    words = ("--schema", "t.json", "--mechanism", "laplace", "--epsilon", "4")
    planned = called("plan", "t.csv", *words, "--json").result
    assert planned["rows"] is None
    age, sex = planned["expected_error"]
    # Half of ε = 4 each: Laplace noise of scale 100/2, and a wrong answer with probability 1/(1 + e²).
    assert (age["of"], age["value"]) == ("age", pytest.approx(50 * math.sqrt(2), rel=1e-9))
    assert (sex["of"], sex["value"]) == ("sex", pytest.approx(1 / (1 + math.exp(2)), rel=1e-9))
    assert "age: root mean square error 70.71" in called("plan", "t.csv", *words).out


def test_the_cost_is_told_and_nothing_is_spent(home, called):
    called("budget", "open", "clinic", "--epsilon", "2", "--delta", "1e-6")
    before = called("budget", "show", "clinic", "--json").result
    planned = called("plan", "X.npy", *OPTIONS, "--dataset", "clinic", "--json").result
    assert called("budget", "show", "clinic", "--json").result == before
    assert planned["cost"]["fits"]
    called("protect", "X.npy", *OPTIONS, "-o", "out.npy", "--dataset", "clinic")
    after = called("budget", "show", "clinic", "--json").result
    assert planned["cost"]["balance"]["used"] == after["used"]
    assert planned["cost"]["balance"]["left"] == after["left"]
    large = ("--epsilon", "1.9", "--clip", "1", "--dataset", "clinic")
    refused = called("plan", "X.npy", *large, "--json").result["cost"]
    assert not refused["fits"]
    assert 0 < refused["largest"] < 1.9
    assert "Cost: refused" in called("plan", "X.npy", *large).out


def test_only_shapes_and_types_are_read(home, called):
    np.save("bad.npy", np.full((40, 9), np.nan))
    assert called("plan", "bad.npy", *OPTIONS).code == 0
    assert "NaN" in called("protect", "bad.npy", *OPTIONS, "-o", "out.npy").sentence


def test_what_cannot_be_planned_is_refused(home, called):
    assert "--clip" in called("plan", "X.npy", "--epsilon", "1").sentence
    assert "reads the data" in called("plan", "X.npy", "--epsilon", "1", "--bounds-from-data").sentence
    assert "does not exist" in called("plan", "missing.npy", *OPTIONS).sentence
    (home / "t.csv").write_text("a\n1\n")
    (home / "t.json").write_text('{"columns": {"a": {"kind": "numeric", "bounds": [0, 9]}}}')
    table = ("t.csv", "--schema", "t.json", "--epsilon", "1")
    assert "is a table" in called("plan", *table, "--alpha", "1").sentence
    assert "declares a table" in called("plan", "X.npy", *OPTIONS, "--schema", "t.json").sentence


def test_python_plans_the_same(home):
    planned = sf.plan("X.npy", sf.Gaussian(1.0, 1e-6, 1.0))
    assert planned.statement.proven == sf.Gaussian(1.0, 1e-6, 1.0).guarantee()
    assert (planned.rows, planned.columns, planned.cost) == (40, 9, None)
