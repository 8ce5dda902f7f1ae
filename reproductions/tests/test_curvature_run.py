"""A quick run on the digits of scikit-learn: tables, figures, sentences, what is kept, what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions import Regenerated, regenerate

pytest.importorskip("torch")

from sfumato_reproductions.curvature_publication.methods import CURVATURE, METHODS, ORIGINAL


@pytest.fixture(scope="module")
def run(made_quickly) -> Regenerated:
    """Everything, quickly, on the digits."""
    return made_quickly("curvature-publication")


def test_the_page_says_how_it_was_made(run) -> None:
    page = run.files[0].read_text("utf-8")
    assert run.files[0].name == "curvature-publication.md"
    assert run.numbers["command"] in page
    assert run.numbers["command"].startswith("sfumato paper curvature-publication --data digits --quick")
    assert "digits 512 private, 597 tests, 250 public. Seeds: 0." in page
    assert re.search(
        r"This run took [\d.]+ (seconds|minutes); .*took [\d.]+ (seconds|minutes)\. .*A quick run", page
    )
    for head in ("What does not", "What else the numbers say", "Protocol", "Table 1", "Table 2", "Figure 8"):
        assert f"\n## {head}" in page
    assert "so the label alone, without any model, tells membership in 66.6%" in page


def test_every_method_is_measured_and_laid_beside_the_paper(run) -> None:
    table = run.numbers["tables"]["1"]["digits"]
    assert list(table["methods"]) == list(METHODS)
    page = run.files[0].read_text("utf-8")
    for name, (made,) in table["methods"].items():
        assert sum(line.startswith(f"| {name} |") for line in page.splitlines()) == 2
        assert 0.0 <= made["accuracy"] <= 1.0
        assert 1.0 <= made["score"] <= 10.0
        assert (made["frechet"] is None) == (name == ORIGINAL)
        for success in made["membership"].values():
            assert success["interval"][0] <= success["rate"] <= success["interval"][1]
    assert table["methods"][ORIGINAL][0]["membership"]["nearest picture, class-matched"]["rate"] == 1.0


def test_what_is_proven_of_each_method(run) -> None:
    proven = {
        name: made[0]["proven"] for name, made in run.numbers["tables"]["1"]["digits"]["methods"].items()
    }
    for name in (ORIGINAL, "pixelation", "blur", "k-anonymity", "VAEGAN-DP, as the paper", CURVATURE):
        assert proven[name]["epsilon"] is None
    assert proven["certified, ε = 1"]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert proven["certified, ε = 10"]["epsilon"] == pytest.approx(10.0, rel=1e-6)
    assert proven["certified, ε = 1"]["neighbours"] == "replace"
    for name in ("VAEGAN-DP, private", "DPDM"):
        assert 0.0 < proven[name]["epsilon"] < np.inf
        assert proven[name]["neighbours"] == "zero-out"


def test_strategies_share_one_trained_model(run, heard) -> None:
    rows = run.numbers["tables"]["2"]["digits"]
    assert list(rows) == ["linear", "highest", "lowest", "anywhere"]
    assert rows["lowest"] == run.numbers["tables"]["1"]["digits"]["methods"][CURVATURE]
    trained = {stage for stage, _ in heard if stage.startswith("digits: curvature, ") and "bilevel" in stage}
    assert trained == {"digits: curvature, bilevel", "digits: curvature, two dimensions, bilevel"}


@pytest.mark.parametrize("number", range(3, 9))
def test_every_figure_is_drawn_and_shown_on_the_page(run, number) -> None:
    from matplotlib.image import imread

    (file,) = (file for file in run.files if file.name == f"curvature-publication-figure-{number}.png")
    ink = (imread(file)[:, :, :3] < 0.85).any(axis=2)
    assert 0.005 < ink.mean() < 0.99
    assert f"]({file.name})" in run.files[0].read_text("utf-8")
    assert str(number) in run.numbers["figures"]


def test_every_claim_is_judged_once(run) -> None:
    findings = run.numbers["findings"]
    judged = findings["What holds of the paper"] + findings["What does not"]
    assert len(judged) == len(set(judged))
    for about in ("membership by ART, as the paper", "accuracy: curvature", "Fréchet distance: the lowest",
                  "strategies, accuracy"):  # fmt: skip
        assert any(about in sentence for sentence in judged)


def test_the_numbers_survive_json(run) -> None:
    assert json.loads(json.dumps(run.to_dict(), allow_nan=False))["numbers"]["seeds"] == [0]


def test_a_second_run_takes_up_what_the_first_kept(run, tmp_path) -> None:
    folder, told = run.files[0].parent, []
    page = run.files[0].read_bytes()
    again = regenerate(
        "curvature-publication", folder, lambda stage, share: told.append(stage), tables=[1], quick=True
    )
    assert told == []
    assert again.numbers["tables"]["1"] == run.numbers["tables"]["1"]
    assert "digits, attacks in detail" in str(again)
    run.files[0].write_bytes(page)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": [3]}, "of curvature-publication these tables are made: 1, 2; give one with --table."),
        ({"figures": [2]}, "these figures are drawn: 3, 4, 5, 6, 7, 8; give one with --figure."),
        ({"data": ["svhn"]}, "there is no data set 'svhn' here"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(tmp_path, options, said) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        regenerate("curvature-publication", tmp_path / "new", quick=True, **options)
    assert not (tmp_path / "new").exists()


def test_data_without_an_imbalance_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    (tmp_path / "cifar10_20k_5k.npz").write_bytes(b"")
    with pytest.raises(BadInput, match="--data takes mnist, fashion-mnist, digits"):
        regenerate("curvature-publication", tmp_path / "new", data=["cifar-10"], quick=True)
    assert not (tmp_path / "new").exists()
