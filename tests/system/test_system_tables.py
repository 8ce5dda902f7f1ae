"""Tables through the command: every kind of column, every format, and the guarantee of a row."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq
from scipy.stats import binom, norm

import sfumato as sf
from sfumato.io import Schema

SCHEMA = """
[columns.name]
kind = "identifier"
[columns.age]
kind = "numeric"
bounds = [0, 100]
[columns.income]
kind = "numeric"
bounds = [-1e4, 1e6]
clamp = true
[columns.sex]
kind = "categorical"
categories = ["f", "m", "x, other"]
[columns.ward]
kind = "categorical"
categories = [3, 7, 12, 40]
[columns.smoker]
kind = "boolean"
"""
RELEASED = ["age", "income", "sex", "ward", "smoker"]
ROWS = 3000


@pytest.fixture
def people(folder):
    """A table of all kinds of columns with an identifier in the middle of it."""
    (folder / "people.toml").write_text(SCHEMA)
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": random.integers(18, 90, ROWS),
            "sex": random.choice(["f", "m", "x, other"], ROWS),
            "name": [f"secret-{i}" for i in range(ROWS)],
            "smoker": random.random(ROWS) < 0.3,
            "income": random.normal(4e4, 1e4, ROWS).round(2),
            "ward": random.choice([3, 7, 12, 40], ROWS),
        }
    )


def save(table, file):
    if file.endswith(".parquet"):
        table.to_parquet(file)
    else:
        table.to_csv(file, index=False)


def load(file):
    return pd.read_parquet(file) if file.endswith(".parquet") else pd.read_csv(file)


@pytest.mark.parametrize(
    ("source", "output"),
    [("p.csv", "o.csv"), ("p.csv.gz", "o.parquet"), ("p.parquet", "o.csv.gz"), ("p.parquet", "o.parquet")],
)
def test_every_format_becomes_every_other_without_identifiers(
    called, people, statement_beside, source, output
):
    save(people, source)
    words = ("--schema", "people.toml", "--epsilon", "200", "--dataset", "people", "--uncharged")
    ran = called("protect", source, "-o", output, *words)
    assert ran.code == 0
    assert ran.appeared == {output, f"{output}.cert.json"}
    assert "Left out: name" in ran.out
    assert f"Released: {output} (3,000 records of 5 columns)" in ran.out
    released = load(output)
    assert list(released) == RELEASED
    assert len(released) == ROWS
    content = Path(output).read_bytes()
    assert b"secret" not in (gzip.decompress(content) if output.endswith("gz") else content)
    assert released["income"].between(-1e4, 1e6).all()
    assert set(released["sex"]) <= {"f", "m", "x, other"}
    assert set(released["ward"]) <= {3, 7, 12, 40}
    assert released["smoker"].dtype == bool
    # At ε = 40 a column little is changed, so the rows are still in their order.
    for column in ("sex", "ward", "smoker"):
        assert (released[column] == people[column]).mean() > 0.99
    assert np.corrcoef(released["age"], people["age"])[0, 1] > 0.5
    statement, document = statement_beside(output)
    assert document["dataset"] == "people"
    assert document["left_out"] == ["name"]
    assert statement.parameters["numeric_columns"] == 2


def test_parquet_keeps_its_types(called, people):
    save(people, "p.parquet")
    called("protect", "p.parquet", "-o", "o.parquet", "--schema", "people.toml", "--epsilon", "2")
    types = {field.name: str(field.type) for field in pq.read_schema("o.parquet")}
    assert types == {"age": "double", "income": "double", "sex": "string", "ward": "int64", "smoker": "bool"}


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (5.0, 1e-5), (20.0, 1e-8)])
def test_the_guarantee_of_a_row_is_the_composition_of_its_columns(called, people, epsilon, delta):
    """Against dp-accounting: Gaussian noise on the numeric columns, one response for each coded one."""
    save(people, "p.csv")
    words = ("--schema", "people.toml", "--epsilon", epsilon, "--delta", delta, "--json")
    result = called("protect", "p.csv", "-o", "o.csv", *words).result
    columns = 5
    total = pld.from_gaussian_mechanism(
        gaussian_multiplier(2 * epsilon / columns, delta), value_discretization_interval=1e-4
    )
    for categories in (3, 4, 2):
        keep = math.exp(epsilon / columns)
        total = total.compose(
            pld.from_randomized_response(
                categories / (keep + categories - 1), categories, value_discretization_interval=1e-4
            )
        )
    assert result["delta"] == delta
    assert result["epsilon"] == pytest.approx(total.get_epsilon_for_delta(delta), rel=2e-3)
    assert result["epsilon"] <= epsilon * (1 + 1e-9)


def gaussian_multiplier(epsilon, delta):
    """σ over sensitivity, straight from the definition (Balle & Wang 2018, theorem 8)."""

    def excess(sigma):
        first = norm.cdf(0.5 / sigma - epsilon * sigma)
        return first - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma) - delta

    return brentq(excess, 1e-3, 1e3, xtol=1e-14)


def test_noise_and_responses_are_as_large_as_the_statement_says(called, people, statement_beside):
    """Mean and spread of a numeric column, flips of a boolean one; false alarms below 1e-6 together."""
    save(people, "p.csv")
    called("protect", "p.csv", "-o", "o.csv", "--schema", "people.toml", "--epsilon", "10", "--delta", "1e-6")
    released, (statement, _) = load("o.csv"), statement_beside("o.csv")
    numeric, coded = statement.parameters["numeric_epsilon"], statement.parameters["coded_epsilon"]
    assert numeric + coded == pytest.approx(10.0)
    # Two columns on [-1, 1] are at most 2√2 apart; the age column is 50 units wide on either side.
    sigma = 50 * 2 * math.sqrt(2) * gaussian_multiplier(numeric, 1e-6)
    noise = released["age"] - people["age"]
    limit = norm.isf(1e-7)
    assert abs(noise.mean()) < limit * sigma / math.sqrt(ROWS)
    assert noise.std() == pytest.approx(sigma, rel=limit / math.sqrt(2 * ROWS))
    kept = int((released["smoker"] == people["smoker"]).sum())
    chance = 1 / (1 + math.exp(-coded / 3))
    assert binom.ppf(1e-7, ROWS, chance) <= kept <= binom.isf(1e-7, ROWS, chance)


def test_weights_share_out_the_budget(called, people, statement_beside):
    save(people, "p.csv")
    weighted = SCHEMA.replace("bounds = [0, 100]", "bounds = [0, 100]\nweight = 6")
    Path("people.toml").write_text(weighted)
    called("protect", "p.csv", "-o", "o.csv", "--schema", "people.toml", "--epsilon", "10")
    parameters = statement_beside("o.csv")[0].parameters
    assert parameters["numeric_epsilon"] == pytest.approx(7.0)
    assert parameters["coded_epsilon"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("words", "epsilon"),
    [
        (("--mechanism", "laplace", "--epsilon", "2"), 2.0),
        (("--mechanism", "trust-adaptive", "--epsilon", "1", "8", "--distrust", "0.5"), 4.5),
    ],
)
def test_other_mechanisms_for_the_numeric_columns(called, people, words, epsilon):
    save(people, "p.csv")
    result = called("protect", "p.csv", "-o", "o.csv", "--schema", "people.toml", *words, "--json").result
    assert 0.5 * epsilon < result["epsilon"] <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("kept", ["age", "smoker"])
def test_a_table_of_one_kind_of_column(called, people, kept, statement_beside):
    save(people[[kept]], "p.csv")
    declared = Schema.load("people.toml").to_dict()["columns"]
    Path("s.json").write_text(json.dumps({"columns": {kept: declared[kept]}}))
    result = called(
        "protect", "p.csv", "-o", "o.csv", "--schema", "s.json", "--epsilon", "1", "--json"
    ).result
    assert result["epsilon"] == pytest.approx(1.0, rel=1e-9)
    statement, _ = statement_beside("o.csv")
    assert ("RandomisedResponse" in statement.mechanism) == (kept == "smoker")
    assert ("Gaussian" in statement.mechanism) == (kept == "age")


def test_a_seeded_table_is_reproducible_and_a_plain_one_is_not(people):
    save(people, "p.csv")
    outputs = []
    for randomness in (sf.Seeded(3), sf.Seeded(3), None, None):
        mechanism = sf.Gaussian(5.0, randomness=randomness)
        sf.protect("p.csv", "o.csv", mechanism, schema="people.toml", overwrite=True)
        outputs.append(Path("o.csv").read_bytes())
    assert outputs[0] == outputs[1]
    assert len(set(outputs)) == 3
