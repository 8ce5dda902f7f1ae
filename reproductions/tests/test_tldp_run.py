"""A quick run on the digits of scikit-learn: the page, the comparison, the pictures, and what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions import Regenerated, regenerate

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run(made_quickly) -> Regenerated:
    """Both figures, quickly, on the digits."""
    return made_quickly("tldp", figures=[1, 2], data=["digits"])


def test_the_page_says_how_it_was_made(run) -> None:
    page = run.files[0].read_text("utf-8")
    assert run.files[0].name == "tldp.md"
    assert run.numbers["command"] in page
    assert run.numbers["command"].startswith("sfumato paper tldp --figure 1 --figure 2 --data digits --quick")
    assert "Seeds: 0, 1." in page
    assert re.search(r"It took \d+ seconds; one processor was busy for \d+ seconds\. A quick run", page)
    for head in ("What holds of the paper", "What does not", "What else the numbers say", "Protocol"):
        assert f"\n## {head}" in page
    assert "is chosen on public pictures alone" in page


def test_every_point_is_compared_for_each_unit(run) -> None:
    rows = run.numbers["comparison"]
    # Two ε; four variants in figure 1 and two in figure 2; three units.
    assert len(rows) == 2 * (4 + 2) * 3
    page = run.files[0].read_text("utf-8")
    assert sum(line.startswith("| TLDP-") for line in page.splitlines()) == len(rows)
    for row in rows:
        assert len(row["tldp_f1"]) == len(row["sound_f1"]) == 2
        assert row["difference"] == pytest.approx(np.mean(row["sound_f1"]) - np.mean(row["tldp_f1"]))
        units = ["component", "tensor"] if row["unit"] == "both" else [row["unit"]]
        assert [promise["unit"] for promise in row["proven"]] == units
        for theirs, ours in zip(row["proven"], row["sound_proven"], strict=True):
            assert ours["epsilon"] <= theirs["epsilon"] * (1 + 1e-6)
            assert ours["delta"] <= theirs["delta"]
        if row["unit"] == "component" and row["tldp"] == "TLDP-L":
            assert row["proven"][0]["epsilon"] == pytest.approx(row["claimed_epsilon"])
            assert row["proven"][0]["delta"] == pytest.approx(1 / (512 / row["claimed_epsilon"] + 1))


def test_curves_stand_at_claimed_and_at_proven_epsilon(run) -> None:
    for number in ("1", "2"):
        panels = run.numbers["figures"][number]["digits"]["curves"]
        assert list(panels) == ["claimed", "component", "tensor"]
        assert [x for x, _ in panels["claimed"]["TLDP-L"]] == [0.5, 2.0]
        for panel in ("component", "tensor"):
            for name in ("TLDP-L", "TLDP-G"):
                ours = panels[panel][f"sound, at {name}'s (ε, δ)"]
                assert [x for x, _ in ours] == [x for x, _ in panels[panel][name]]
        assert [x for x, _ in panels["tensor"]["TLDP-L"]] == pytest.approx([32.0, 128.0])


@pytest.mark.parametrize("number", [1, 2])
def test_every_figure_is_drawn_and_shown_on_the_page(run, number) -> None:
    from matplotlib.image import imread

    (file,) = (file for file in run.files if file.name == f"tldp-figure-{number}.png")
    picture = imread(file)[:, :, :3]
    ink = (picture < 0.85).any(axis=2)
    assert 0.005 < ink.mean() < 0.6
    for part in np.array_split(ink, 3, axis=1):
        assert part.any()
    assert f"]({file.name})" in run.files[0].read_text("utf-8")


def test_the_numbers_survive_json_and_progress_reaches_the_end(run, heard) -> None:
    assert json.loads(json.dumps(run.to_dict(), allow_nan=False))["numbers"]["seeds"] == [0, 1]
    shares = [share for _, share in heard]
    assert shares == sorted(shares)
    assert heard[-1] == ("training on digits", 1.0)


def test_the_table_alone_is_printed_and_needs_no_data(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    made = regenerate("tldp", tmp_path, tables=[5], quick=True)
    assert [file.name for file in made.files] == ["tldp.md"]
    assert made.numbers["figures"] == {}
    assert len(made.numbers["tables"]["5"]["blocks"]) == 8
    text, page = str(made), made.files[0].read_text("utf-8")
    assert "PrivUnitG" in text
    for told in (text, page):
        assert "The gain of table 5 is a change of unit" in told
    assert "| nothing | nothing |" in page
    assert "agree in 144 of 144 rows" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": [1]}, "of tldp these tables are made: 5; give one with --table."),
        ({"figures": [4]}, "of tldp these figures are drawn: 1, 2, 3; give one with --figure."),
        ({"data": ["svhn"]}, "there is no data set 'svhn' here"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(tmp_path, options, said) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        regenerate("tldp", tmp_path / "new", quick=True, **options)
    assert not (tmp_path / "new").exists()
