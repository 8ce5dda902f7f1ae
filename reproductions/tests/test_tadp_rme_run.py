"""A quick run on the digits of scikit-learn: the page, every row, every picture, and what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions import Regenerated, regenerate

FIGURES = range(2, 11)
ROWS = {1: 6, 2: 20, 3: 25, 4: 4, 5: 11}
FIRST_SEED = ("inversion error", "posterior error", "pairs recovered", "likelihood AUC")


@pytest.fixture(scope="module")
def run(made_quickly) -> Regenerated:
    """Everything, quickly, on the digits."""
    return made_quickly("tadp-rme", data=["digits"])


def test_the_page_says_how_it_was_made(run) -> None:
    page = run.files[0].read_text("utf-8")
    assert run.files[0].name == "tadp-rme.md"
    assert run.numbers["command"] in page
    assert run.numbers["command"].startswith("sfumato paper tadp-rme --data digits --quick -o ")
    assert "Seeds: 0, 1." in page
    assert "scikit-learn" in page
    assert re.search(r"It took \d+ (seconds|minutes)\. A quick run", page)
    assert "α(τ) = 2π(1 − τ)" in page


@pytest.mark.parametrize("number", ROWS)
def test_every_table_has_all_its_rows(run, number) -> None:
    page = run.files[0].read_text("utf-8")
    rows = run.numbers["tables"][str(number)]["rows"]
    assert len(rows) == ROWS[number]
    section = page.split(f"## Table {number}: ")[1].split("\n## ")[0]
    assert sum(line.startswith("| ") for line in section.splitlines()) == ROWS[number] + 2
    for row in rows:
        for pair in row["measures"].values():
            assert pair["paper"] is None
            assert len(pair["ours"]) == (1 if row["labels"].get("attack") in FIRST_SEED else 2)
            assert all(np.isfinite(pair["ours"]))


def test_nothing_counts_as_agreement_where_the_paper_has_no_numbers(run) -> None:
    assert run.numbers["agreement"] == {}
    assert run.numbers["findings"] == []
    page = run.files[0].read_text("utf-8")
    assert "## What agrees" not in page
    assert "## What the numbers say" not in page


def test_the_proven_column_is_that_of_the_noise(run) -> None:
    proven = {row["labels"]["τ"]: row["proven_epsilon"] for row in run.numbers["tables"]["1"]["rows"]}
    assert proven["0"] is None
    assert proven["0, noise"] == pytest.approx(685.0, rel=2e-3)
    assert proven["0.5"] == pytest.approx(275.0, rel=2e-3)
    assert proven["1"] == pytest.approx(44.8, rel=2e-3)


def test_informed_readers_undo_the_embedding(run) -> None:
    rows = run.numbers["tables"]["3"]["rows"]
    found = {}
    for row in rows:
        found.setdefault(row["labels"]["attack"], []).append(row["measures"]["value"]["mean"])
    assert max(found["inversion error"]) < 1e-6
    assert min(found["pairs recovered"]) == 1.0
    assert len(found["pairs recovered"]) == 3  # at τ = 1 there is no embedding
    assert found["likelihood AUC"][0] > 0.95


def test_each_test_is_paired_with_the_papers_method(run) -> None:
    rows = run.numbers["tables"]["2"]["rows"]
    for row in rows:
        own = row["labels"]["method"] == "TADP-RME"
        assert (row["extra"]["p (accuracy)"] == "–") or not own
    # At τ = 1 the paper's method is its noise alone.
    first = next(row for row in rows if row["labels"]["method"] == "Gaussian DP")
    assert first["extra"]["p (accuracy)"] == "1"


@pytest.mark.parametrize("number", FIGURES)
def test_every_figure_is_drawn_and_shown_on_the_page(run, number) -> None:
    from matplotlib.image import imread

    (file,) = (file for file in run.files if file.name == f"tadp-rme-figure-{number}.png")
    picture = imread(file)[:, :, :3]
    assert picture.shape[0] > 400
    assert picture.shape[1] > 600
    ink = (picture < 0.85).any(axis=2)
    assert 0.005 < ink.mean() < 0.6
    # Ink in all four quarters: no panel is empty.
    for rows in np.array_split(ink, 2, axis=0):
        for part in np.array_split(rows, 2, axis=1):
            assert part.any()
    assert f"]({file.name})" in run.files[0].read_text("utf-8")
    assert run.numbers["figures"][str(number)]


def test_the_numbers_survive_json_and_progress_reaches_the_end(run, heard) -> None:
    assert json.loads(json.dumps(run.to_dict()))["numbers"]["seeds"] == [0, 1]
    shares = [share for stage, share in heard if stage.startswith("measuring")]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert heard[-1] == ("drawing", 1.0)


def test_one_table_is_printed_and_nothing_else_is_made(tmp_path) -> None:
    made = regenerate("tadp-rme", tmp_path, tables=[4], data=["digits"], quick=True, seeds=1)
    assert [file.name for file in made.files] == ["tadp-rme.md"]
    assert list(made.numbers["tables"]) == ["4"]
    assert made.numbers["figures"] == {}
    assert "Full pipeline" in str(made)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": [6]}, "of tadp-rme these tables are made: 1, 2, 3, 4, 5; give one with --table."),
        (
            {"figures": [1]},
            "of tadp-rme these figures are drawn: 2, 3, 4, 5, 6, 7, 8, 9, 10; give one with --figure.",
        ),
        ({"seeds": 0}, "--seeds was 0; one or more are accepted."),
        ({"data": ["letters"]}, "there is no data set 'letters' here"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(tmp_path, options, said) -> None:
    with pytest.raises(BadInput) as refusal:
        regenerate("tadp-rme", tmp_path / "out", **options)
    assert said in str(refusal.value)
    assert not (tmp_path / "out").exists()


def test_the_papers_own_data_are_asked_for_unless_others_are_given(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    with pytest.raises(BadInput, match=r"mnist is read from mnist\.npz"):
        regenerate("tadp-rme", tmp_path / "out")
    assert not (tmp_path / "out").exists()
