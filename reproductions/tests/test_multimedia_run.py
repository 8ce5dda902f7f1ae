"""A quick run on pictures that libraries ship: the page, its tables, its numbers, and what is missing."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from sfumato_reproductions import Regenerated, regenerate

pytest.importorskip("cv2")
pytest.importorskip("skimage")
pytest.importorskip("simplejpeg")
pytest.importorskip("av")

HEADS = [
    *("What holds of the paper", "What does not", "What else the numbers say", "Protocol"),
    *(
        "Table 1",
        "Table 2",
        "Table 4",
        "Table 5",
        "Allocation",
        "Pictures beside DP-Pix",
        "Video",
        "Figure 2",
    ),
]


@pytest.fixture(scope="module")
def run(made_quickly) -> Regenerated:
    """Everything, quickly, without a folder of data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SFUMATO_DATA", raising=False)
        return made_quickly("multimedia-dp")


@pytest.fixture(scope="module")
def page(run) -> str:
    return run.files[0].read_text("utf-8")


def test_the_page_says_how_it_was_made(run, page) -> None:
    assert [file.name for file in run.files] == ["multimedia-dp.md", "multimedia-dp-figure-2.png"]
    assert run.numbers["command"] in page
    assert run.numbers["command"].startswith("sfumato paper multimedia-dp --quick -o ")
    assert re.search(r"It took \d+ seconds\.", page)
    assert "scikit-image and scikit-learn ship" in page
    assert "Left out: speech, since no recordings were at hand." in page
    found = re.findall(r"^## (.+)$", page, flags=re.MULTILINE)
    assert len(found) == len(HEADS)
    for head, line in zip(HEADS, found, strict=True):
        assert line.startswith(head)


def test_every_table_has_full_rows(page) -> None:
    heads = 0
    for head, rule, *rest in (
        block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    ):
        heads += 1
        assert set(rule) <= set("| -")
        assert rest
        assert {line.count(" | ") for line in rest} == {head.count(" | ")}
    assert heads == 12


def test_the_numbers_survive_json_and_progress_reaches_the_end(run, heard) -> None:
    numbers = json.loads(json.dumps(run.to_dict(), allow_nan=False))["numbers"]
    assert list(numbers["tables"]) == ["1", "2", "4", "5"]
    assert list(numbers["measures"]) == ["allocation", "closeness", "video"]
    assert numbers["absent"] == {"speech": "since no recordings were at hand"}
    for stage in dict(heard):
        shares = [share for name, share in heard if name == stage]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1.0)


def test_ranges_prove_a_multiple_of_their_claim(run) -> None:
    ranges = run.numbers["tables"]["1"]["ranges"]
    assert len(ranges) == 5
    for one in ranges.values():
        for claimed, proven in zip(one["claimed"], one["proven"], strict=True):
            assert proven["region(16)"] == pytest.approx(2560 * claimed)
            assert proven["item"] == pytest.approx(501_760 * claimed)


def test_portraits_score_above_textures(run) -> None:
    scores = run.numbers["tables"]["1"]["scores"]
    assert np.mean(scores["facial close-ups"]["detected"]) > np.mean(scores["abstract patterns"]["detected"])


def test_ours_is_closer_at_the_epsilon_that_the_papers_noise_proves(run) -> None:
    loss = run.numbers["tables"]["2"]["loss"]
    for theirs, ours in zip(loss[::2], loss[1::2], strict=True):
        assert ours["proven_epsilon"] <= theirs["proven_epsilon"] * (1 + 1e-9)
        assert ours["delta"] == 0.0 <= theirs["delta"]
        assert ours["psnr"] > theirs["psnr"]


def test_private_thresholds_cost_at_least_the_optimum(run) -> None:
    kinds = run.numbers["tables"]["4"]["kinds"]
    assert [one["kind"] for one in kinds][:2] == ["face detection", "object localisation"]
    for one in kinds:
        assert all(way["cost"] >= one["optimum"] - 1e-12 for way in one["ways"].values())
        proven = {name: way["proven"] for name, way in one["ways"].items()}
        assert list(proven.values()) == ["nothing", "1", "(1, 1e-06)"]
        assert one["ways"]["functional, the paper's"]["shows_a_score"] == 1.0


def test_what_is_chosen_by_content_proves_nothing(run) -> None:
    rows = run.numbers["tables"]["5"]["rows"]
    assert len(rows) == 2 * 6
    for row in rows:
        if row["strategy"] in ("gradient", "attention", "hybrid"):
            assert (row["proven"], row["proven_region"]) == ("nothing", "nothing")
            assert row["shown"] > 0.0
        elif row["strategy"] == "random":
            assert row["proven"] == f"({row['epsilon']:g}, 0.5)"
        else:
            assert row["proven"] == f"{row['epsilon']:g}"


def test_at_equal_worst_case_no_map_saves_modelled_loss(run) -> None:
    allocation = run.numbers["measures"]["allocation"]
    assert allocation["claimed"] == 0.387
    for row in allocation["rows"]:
        assert row["modelled, everywhere, equal worst case"] <= 1e-12
    public, private, unaccounted = (one["proven"] for one in allocation["maps"])
    # No region of the declared map may touch a place with a full share.
    assert 2.0 < float(public) <= 4.0
    assert (private, unaccounted) == ("4", "nothing")


def test_gains_are_over_the_best_dp_pix(run) -> None:
    rows = run.numbers["measures"]["closeness"]["rows"]
    for epsilon in (1.0, 4.0):
        block = [row for row in rows if row["epsilon"] == epsilon]
        best = max(row["psnr"] for row in block if row["gain"] is None)
        for row in block:
            assert row["proven"] == f"{epsilon:g}"
            if row["gain"] is not None:
                assert row["gain"][0] == pytest.approx(row["psnr"] - best)


def test_filters_leave_less_flicker_at_the_same_proven_epsilon(run) -> None:
    rows = {row["release"]: row for row in run.numbers["measures"]["video"]["rows"]}
    for name, row in rows.items():
        assert row["proven"].startswith("(15.0" if "paper" in name else ("4", "(4,"))
        if "filter that" in name or "steady filter" in name:
            assert row["flicker"] < 0.6
    assert rows["independent noise, unfiltered"]["flicker"] == 1.0


def test_a_table_alone_is_printed_and_the_figure_joins_it(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    made = regenerate("multimedia-dp", tmp_path, tables=[2], figures=[2], quick=True)
    assert [file.name for file in made.files] == ["multimedia-dp.md", "multimedia-dp-figure-2.png"]
    assert list(made.numbers["tables"]) == ["2"]
    assert made.numbers["measures"] == {}
    assert made.numbers["figures"]["2"]["compositions"][-1] == 1000
    assert "--table 2 --figure 2 --quick" in made.files[0].read_text("utf-8")
    assert "Table 2: scale factors and utility loss" in str(made)
    assert "## Table 1" not in made.files[0].read_text("utf-8")
