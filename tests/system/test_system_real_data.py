"""Real data sets through the command, where they are at hand: census rows and handwritten digits."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import sfumato as sf
from real_data import real

WORK = [
    *("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"),
    *("Without-pay", "Never-worked", "?"),
]
RACES = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]
KEPT = {
    "age": {"kind": "numeric", "bounds": [0, 100]},
    "hours-per-week": {"kind": "numeric", "bounds": [0, 100], "clamp": True},
    "workclass": {"kind": "categorical", "categories": WORK},
    "race": {"kind": "categorical", "categories": RACES},
    "sex": {"kind": "categorical", "categories": ["Female", "Male"]},
    "income": {"kind": "categorical", "categories": ["<=50K", ">50K"], "weight": 2},
}
DROPPED = [
    *("fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("capital-gain", "capital-loss", "native-country"),
]


def test_a_census_keeps_its_averages_and_loses_its_people(command, folder, statement_beside):
    """Two estimates from the release against the truth; false alarms below 1e-6 together."""
    source = real("adult_train.csv.gz")
    columns = KEPT | {name: {"kind": "identifier"} for name in DROPPED}
    (folder / "adult.json").write_text(json.dumps({"columns": columns}))
    words = ("--schema", "adult.json", "--epsilon", "14", "--delta", "1e-7", "--dataset", "adult")
    words = (*words, "--uncharged", "--json")
    result = command("protect", source, "-o", "out.csv.gz", *words).result
    original, released = (
        pd.read_csv(source, keep_default_na=False),
        pd.read_csv("out.csv.gz", keep_default_na=False),
    )
    assert (result["rows"], result["left_out"]) == (len(original), DROPPED)
    assert list(released) == list(KEPT)
    assert result["epsilon"] <= 14
    statement, _ = statement_beside("out.csv.gz")
    rows, limit = len(original), norm.isf(1e-7)

    # Two of seven shares are income's, so its ε is 4: a yes is kept with probability p.
    p = 1 / (1 + math.exp(-4.0))
    estimate = ((released["income"] == ">50K").mean() - (1 - p)) / (2 * p - 1)
    spread = math.sqrt(p * (1 - p) / rows) / (2 * p - 1)
    assert abs(estimate - (original["income"] == ">50K").mean()) < limit * spread

    noise = sf.Gaussian(statement.parameters["numeric_epsilon"], 1e-7, bounds=(0.0, 100.0))
    assert statement.parameters["numeric_epsilon"] == pytest.approx(4.0)
    assert abs(released["age"].mean() - original["age"].mean()) < limit * noise.sigma(2) / math.sqrt(rows)
    assert released["hours-per-week"].between(0, 100).all()


def test_digits_keep_their_average_and_lose_their_strokes(command, folder):
    """Every pixel of the mean image against its truth; false alarms below 1e-6 together (Bonferroni)."""
    with np.load(real("mnist.npz")) as archive:
        X = archive["x_train"][:20_000].reshape(-1, 784)
    np.savez("X.npz", X=X)
    words = ("--mechanism", "trust-adaptive", "--distrust", "0.25", "--epsilon", "1", "8", "--clip", "2000")
    assert command("protect", "X.npz", "-o", "out.npz", *words).code == 0
    with np.load("out.npz") as archive:
        released = archive["X"]
    assert released.shape == X.shape
    sigma = sf.TrustAdaptive(0.25, (1.0, 8.0), clip=2000.0).sigma(784)
    length = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    clipped = X * np.minimum(1.0, 2000.0 / np.maximum(length, 1.0))
    error = released.mean(axis=0) - clipped.mean(axis=0)
    assert np.abs(error).max() < norm.isf(5e-7 / (2 * 784)) * sigma / math.sqrt(len(X)) + sigma / 4096
    # One record is all noise: its correlation with the original is that of chance.
    assert abs(np.corrcoef(released[0], X[0])[0, 1]) < norm.isf(1e-7) / math.sqrt(784) + 0.05
