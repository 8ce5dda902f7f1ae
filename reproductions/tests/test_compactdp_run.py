"""A quick run on the digits of scikit-learn: tables, figures, sentences, what is kept, what is refused."""

from __future__ import annotations

import json
import math
import re
import stat

import pytest

from sfumato.errors import BadInput
from sfumato_reproductions import Regenerated, regenerate

pytest.importorskip("torch")

from sfumato_reproductions.compactdp.methods import (
    BASELINES,
    CERTIFIED,
    COMBINED,
    COMPACT,
    DP_SGD,
    MAIN,
    METHODS,
    NON_PRIVATE,
    PAPER_NOISE,
)

MAIN_ROWS = [name for name in METHODS if name in MAIN]
SOURCE = "digits by pixels"


@pytest.fixture(scope="module")
def run(made_quickly) -> Regenerated:
    """Everything, quickly, on the digits."""
    return made_quickly("compactdp")


def test_the_page_says_how_it_was_made(run) -> None:
    page = run.files[0].read_text("utf-8")
    assert run.files[0].name == "compactdp.md"
    assert run.numbers["command"] in page
    assert run.numbers["command"].startswith("sfumato paper compactdp --quick -o ")
    assert "digits by pixels (64 features): 600 records, 300 tests" in page
    assert re.search(
        r"This run took [\d.]+ (seconds|minutes); .*takes [\d.]+ (seconds|minutes) of a processor: some", page
    )
    heads = (
        "What does not",
        "What the runs do not tell",
        "Contraction by a constant is a change of ruler",
        "What the paper's own numbers say",
        "Protocol",
        "Classes: what leaks, their profile, and the noise of theorem 3",
    )
    for head in heads:
        assert f"\n## {head}\n" in page
    for number in range(2, 8):
        assert f"\n## Table {number}: " in page
    sentences = (
        "Equation 4 is minimised with a logarithm",
        "every batch makes an update",
        "are made by torch.func",
        "10,000 of the 60,000 training records of Fashion-MNIST",
        "of CompactDP + DP-SGD both stages",
        "for neighbours that add or remove a record, the proofs for zero-out",
    )
    for told in sentences:
        assert told in page


@pytest.mark.parametrize("table", [2, 4, 5, 6])
def test_every_method_is_measured_and_laid_beside_the_paper(run, table) -> None:
    rows = run.numbers["tables"][str(table)][SOURCE]
    expected = [*MAIN_ROWS[:2], *BASELINES, *MAIN_ROWS[2:]] if table == 4 else MAIN_ROWS
    assert list(rows) == expected
    for (made,) in rows.values():
        assert 0.0 <= made["accuracy"] <= 1.0
        assert len(made["attacks"]) == 6
        for attack in made["attacks"]:
            assert attack["low"] <= attack["auc"] <= attack["high"]
            assert attack["tpr_low"] <= attack["tpr"] <= attack["tpr_high"]
            assert 0 <= attack["flagged"] <= attack["members"] == attack["nonmembers"] == 60
        assert set(made["differences"]) == {"accuracy", "confidence", "entropy", "calibration error"}
        assert 0 <= made["one_run"]["correct"] <= made["one_run"]["guesses"] <= made["one_run"]["canaries"]


def test_what_is_proven_of_each_method(run) -> None:
    rows = run.numbers["tables"]["4"][SOURCE]
    for name in (NON_PRIVATE, COMPACT, COMBINED[1.0], PAPER_NOISE):
        assert rows[name][0]["proven"]["epsilon"] is None
        assert f"| {name} |" in run.files[0].read_text("utf-8")
    for name in (DP_SGD[1.0], *BASELINES, *(name for name in CERTIFIED.values() if name in rows)):
        assert 0.9 <= rows[name][0]["proven"]["epsilon"] <= 1.0
        assert rows[name][0]["proven"]["neighbours"] in ("zero-out", "replace")


def test_less_noise_by_eta_is_a_larger_epsilon_and_proves_nothing(run) -> None:
    (paper,), (kept,) = (run.numbers["tables"]["2"][SOURCE][name] for name in (PAPER_NOISE, COMBINED[1.0]))
    assert paper["eta"] == kept["eta"] < 1.0
    assert kept["head"] <= 1.0 < paper["head"]
    assert any("σ = ησ₁" in sentence for sentence in run.numbers["findings"]["What does not"])


def test_budgets_share_one_contraction(run, heard) -> None:
    rows = run.numbers["tables"]["3"][SOURCE]
    assert list(rows)[:3] == [COMPACT, COMBINED[1.0], COMBINED[8.0]]
    assert len({made["eta"] for (made,) in (rows[name] for name in list(rows)[:3])}) == 1
    fitted = [stage for stage, share in heard if stage == f"digits: {COMPACT}" and share == 0.0]
    assert len(fitted) == 3  # table 2's source, and two extractors of table 7


def test_table_7_asks_accuracy_alone(run) -> None:
    table = run.numbers["tables"]["7"]
    assert list(table) == ["digits by pixels, 300 records", "digits by scattering, 300 records"]
    for rows in table.values():
        for (made,) in rows.values():
            assert made["attacks"] == []
            assert made["one_run"] is None


def test_a_constant_contraction_changes_nothing_of_any_learner_by_any_attack(run) -> None:
    checks = run.numbers["scale"]
    assert set(checks) == {COMPACT, COMBINED[1.0], PAPER_NOISE, CERTIFIED[1.0], DP_SGD[1.0]}
    for check in checks.values():
        assert check["eta"] == pytest.approx(0.05)
        assert check["unchanged"]
        assert len(check["attacks"]) == 13
    for name in (DP_SGD[1.0], CERTIFIED[1.0]):
        assert checks[name]["proven"][0] == pytest.approx(1.0)
    told = run.numbers["findings"]["Contraction by a constant is a change of ruler"][0]
    for word in (
        *checks,
        *checks[COMPACT]["attacks"],
        f"{max(one['attack'] for one in checks.values()):.2g}",
    ):
        assert word in told


def test_both_stages_are_in_the_time_of_a_head(run) -> None:
    rows = run.numbers["tables"]["3"][SOURCE]
    (first,) = rows[COMPACT]
    for name in (COMBINED[1.0], COMBINED[8.0]):
        assert rows[name][0]["seconds"] > first["seconds"]


def test_appendix_p_and_section_4_4_stand_beside_table_3(run) -> None:
    page = run.files[0].read_text("utf-8")
    row = "| 0.4995 ± 0.0013 | at most 0.0027 | below 0.0003 | below 0.0035 |"
    assert f"| paper: CompactDP + DP-SGD, ε = 0.5 to 8 {row}" in page
    assert "section 4.4 gives 0.0013 to 0.0025 at 0.1% FPR" in page
    (made,) = run.numbers["tables"]["3"][SOURCE][COMBINED[8.0]]
    assert f"| {made['differences']['accuracy']:.4f} |".replace("-", "−") in page


def test_classes_have_their_leakage_profile_and_both_noises(run) -> None:
    (made,) = run.numbers["tables"]["classes"][SOURCE]
    assert list(made["leakage"]) == [NON_PRIVATE, DP_SGD[1.0], COMPACT]
    assert [len(rows) for rows in made["leakage"].values()] == [10, 10, 10]
    assert max(row["eta"] for row in made["profile"]) == pytest.approx(
        run.numbers["tables"]["2"][SOURCE][COMPACT][0]["eta"]
    )
    printed, corrected = made["allocations"]
    factor = 2.0 * math.log(1.25e5)
    assert corrected["sigma"] == pytest.approx([factor * value for value in printed["sigma"]])


@pytest.mark.parametrize("number", [3, 11, 12, 13, 16])
def test_every_figure_is_drawn_and_shown_on_the_page(run, number) -> None:
    from matplotlib.image import imread

    (file,) = (file for file in run.files if file.name == f"compactdp-figure-{number}.png")
    ink = (imread(file)[:, :, :3] < 0.85).any(axis=2)
    assert 0.005 < ink.mean() < 0.99
    assert f"]({file.name})" in run.files[0].read_text("utf-8")
    assert run.numbers["figures"][str(number)]


def test_figure_16_says_what_is_proven_at_each_budget(run) -> None:
    curves = run.numbers["figures"]["16"]
    combined, plain = (curves[name] for name in ("CompactDP + DP-SGD, proven: nothing", "DP-SGD, proven: ε"))
    assert [row["proven"] for row in combined.values()] == [None, None]
    assert [row["proven"] for row in plain.values()] == pytest.approx([1.0, 8.0])
    assert "proven nothing at any ε" in run.files[0].read_text("utf-8")


def test_conversions_are_called_heuristic(run) -> None:
    page = run.files[0].read_text("utf-8")
    assert "*empirical ε* (heuristic: no bound in either direction)" in page
    assert list(run.numbers["figures"]["13"]) == [COMPACT, DP_SGD[1.0], COMBINED[1.0], CERTIFIED[1.0]]
    for methods in run.numbers["figures"]["13"].values():
        assert [name.split(", ")[1] for name in methods] == ["logistic regression", "random forest"] * 3
        for row in methods.values():
            for kind in ("advantage", "line"):
                low, value, high = (row[kind][end] for end in ("low", "value", "high"))
                assert low <= value <= high
    assert "digits; means over one seed, with bars" in page
    assert "“approximately 0.51” for CompactDP and “nearly 0.0003” for CompactDP with DP-SGD" in page
    assert any(
        "evidence of weak attacks" in said for said in run.numbers["findings"]["What else the numbers say"]
    )


def test_the_numbers_survive_json(run) -> None:
    assert json.loads(json.dumps(run.to_dict(), allow_nan=False))["numbers"]["seeds"] == [0]


def test_features_are_for_their_owner_alone(run) -> None:
    files = list((run.files[0].parent / ".compactdp" / "features").iterdir())
    assert len(files) == 5  # three sources, two of which have the same tests
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_second_run_takes_up_what_the_first_kept(run) -> None:
    folder, told = run.files[0].parent, []
    page = run.files[0].read_bytes()
    again = regenerate("compactdp", folder, lambda stage, share: told.append(stage), tables=[2], quick=True)
    assert told == []
    assert again.numbers["tables"]["2"] == run.numbers["tables"]["2"]
    assert "digits by pixels, beside the paper" in str(again)
    assert not any(math.isnan(made["accuracy"]) for (made,) in again.numbers["tables"]["2"][SOURCE].values())
    run.files[0].write_bytes(page)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": [1]}, "of compactdp these tables are made: 2, 3, 4, 5, 6, 7; give one with --table."),
        ({"figures": [4]}, "these figures are drawn: 3, 11, 12, 13, 16; give one with --figure."),
        ({"data": ["svhn"]}, "there is no data set 'svhn' here"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(tmp_path, options, said) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        regenerate("compactdp", tmp_path / "new", quick=True, **options)
    assert not (tmp_path / "new").exists()
