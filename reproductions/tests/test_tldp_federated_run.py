"""Figure 3 of TLDP, quickly, on the digits of scikit-learn: the chapter, the comparison and the picture."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions import Regenerated, regenerate
from sfumato_reproductions.tldp.whole_page import write_page

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run(made_quickly) -> Regenerated:
    """The figure, without any files of data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SFUMATO_DATA", raising=False)
        found: Regenerated = made_quickly("tldp", figures=[3])
    return found


def test_the_chapter_says_how_it_was_made(run) -> None:
    page = run.files[0].read_text("utf-8")
    assert run.files[0].name == "tldp.md"
    assert run.numbers["command"] in page
    assert run.numbers["command"].startswith("sfumato paper tldp --figure 3 --data digits --quick")
    assert "Table 5 and figures 1 and 2 were not made here." in page
    assert "digits 600 in three clients, 400 tested on, 600 held back, 1,242 parameters" in page
    assert re.search(r"Rounds: 3\. Seeds: 0\. .* One processor was busy for \d+ seconds\. A quick run", page)
    for head in (
        "What holds of figure 3",
        "What does not",
        "What else figure 3 says",
        "Protocol of figure 3",
    ):
        assert f"\n### {head}" in page
    for said in ("NSL-KDD, network traffic", "tests choose nothing", "with 3 clients and the client as the"):
        assert said in page
    assert "Nothing is proven of TLDP-L at δ = 1e-05 at 2 of 2 points" in str(run)
    # All points with a proof are counted before those at which anything is learned.
    assert re.search(
        r"something is proven of TLDP the sound mechanism is at or above it at \d of 1 point", page
    )
    assert re.search(
        r"nothing is proven of TLDP the sound mechanism is at or above it at \d of 3 points", page
    )
    assert "Noised by the server after averaging, something is proven of TLDP at 1 of 4 points" in page


def test_tldp_stands_beside_a_sound_mechanism_at_no_larger_proven_epsilon(run) -> None:
    rows = run.numbers["figures"]["3"]["comparison"]
    assert [(row["tldp"], row["claimed_epsilon"]) for row in rows] == [
        (kind, claim) for kind in ("TLDP-L", "TLDP-G") for claim in (10.0, 1000.0)
    ]
    page = run.files[0].read_text("utf-8")
    for row in rows:
        assert f"| {row['tldp']} | {row['claimed_epsilon']:g} |" in page
        assert 0.0 <= row["sound_proven_epsilon"] <= row["compared_at_epsilon"] * (1 + 1e-9)
        assert row["difference"] == pytest.approx(np.mean(row["sound_f1"]) - np.mean(row["tldp_f1"]))
        if row["tldp"] == "TLDP-L":
            assert row["proven_epsilon"] is None
            kept = 1.0 / (512.0 / row["claimed_epsilon"] + 1.0)
            assert row["log10_nothing_shown"] == pytest.approx(3 * 1242 * math.log10(1.0 - kept))
            # Three rounds of Laplace noise of scale Δ/ε on 1,242 values that are at most 2 apart, composed.
            assert row["compared_at_epsilon"] < 3 * 1242 * 2.0 * row["claimed_epsilon"] / 256.0
    assert rows[3]["proven_epsilon"] == rows[3]["compared_at_epsilon"]


def test_curves_stand_at_claimed_and_at_proven_epsilon(run) -> None:
    panels = run.numbers["figures"]["3"]["data"]["digits"]["curves"]
    assert list(panels) == ["claimed", "proven"]
    assert len(panels["claimed"]) == len(panels["proven"]) == 11
    (sound,) = (kind for kind in panels["proven"] if kind.startswith("sound"))
    for kind, points in panels["claimed"].items():
        assert [x for x, _ in points] == ([30.0, 1000.0] if kind == sound else [10.0, 1000.0])
        assert [y for _, y in points] == [y for _, y in panels["proven"][kind]]
        assert all(0.0 <= y <= 1.0 for _, y in points)
    proven = {kind: [x for x, _ in points] for kind, points in panels["proven"].items()}
    assert proven["TLDP-L"] == proven["DPHSGD"] == proven["TLDP-L, averaged first"] == [None, None]
    # One of three clients moves an average by a third; the server is trusted for it.
    assert proven["TLDP-G, averaged first"][1] < proven["TLDP-G"][1]
    assert proven["Laplace"] == pytest.approx([30.0, 3000.0], rel=1e-3)
    assert proven["LLAGP"] == pytest.approx(proven["Gaussian"])
    assert proven[sound] == [30.0, 1000.0]


def test_the_figure_is_drawn_and_shown_on_the_page(run) -> None:
    from matplotlib.image import imread

    assert [file.name for file in run.files] == ["tldp.md", "tldp-figure-3.png"]
    picture = imread(run.files[1])[:, :, :3]
    ink = (picture < 0.85).any(axis=2)
    assert 0.005 < ink.mean() < 0.6
    for part in np.array_split(ink, 3, axis=1):
        assert part.any()
    assert "](tldp-figure-3.png)" in run.files[0].read_text("utf-8")


def test_the_numbers_survive_json_and_progress_reaches_the_end(run, heard) -> None:
    assert json.loads(json.dumps(run.to_dict(), allow_nan=False))["numbers"]["figures"]["3"]["rounds"] == 3
    shares = [share for _, share in heard]
    assert shares == sorted(shares)
    assert heard[-1] == ("training on digits", 1.0)


def test_again_nothing_is_trained_and_the_rest_of_the_page_stays(run) -> None:
    page = run.files[0]
    before = page.read_text("utf-8")
    front = "# TLDP beside the paper\n\n## Table 5\n\nas it was\n"
    page.write_text(front + "\n## Figure 3: of long ago\n\ngone\n", "utf-8")
    told: list[str] = []
    again = regenerate("tldp", page.parent, lambda stage, _: told.append(stage), figures=[3], quick=True)
    assert not any("choosing" in stage for stage in told)
    assert again.numbers == run.numbers
    chapter = before[before.index("## Figure 3: ") :]
    assert page.read_text("utf-8") == f"{front}\n{chapter}"


def test_a_page_without_figure_three_gets_it_and_keeps_it(tmp_path) -> None:
    file = tmp_path / "page.md"
    write_page(file, "# all else\n", None)
    assert file.read_text("utf-8") == "# all else\n"
    write_page(file, None, "## Figure 3: new\n")
    assert file.read_text("utf-8") == "# all else\n\n## Figure 3: new\n"
    write_page(file, "# other\n\nSee ## Figure 3: below.\n", None)
    assert file.read_text("utf-8") == "# other\n\nSee ## Figure 3: below.\n\n## Figure 3: new\n"
    write_page(file, None, "## Figure 3: newer\n")
    assert file.read_text("utf-8") == "# other\n\nSee ## Figure 3: below.\n\n## Figure 3: newer\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (["darknet"], "choose from mnist, fashion-mnist, cifar-10, digits, imdb, nsl-kdd."),
        (["imdb", "imdb"], "the data set 'imdb' was given twice"),
        (["imdb"], "imdb is read from imdb_train_5000.csv.gz in a folder that the environment variable"),
        (["nsl-kdd"], "nsl-kdd is read from nslkdd_train20pct.csv.gz in a folder"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(tmp_path, monkeypatch, data, said) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    with pytest.raises(BadInput, match=re.escape(said)):
        regenerate("tldp", tmp_path / "new", figures=[3], data=data)
    assert not (tmp_path / "new").exists()
