"""``sfumato paper tadp-rme`` makes tables and figures, and says in a sentence what it lacks."""

import json

import pytest

from real_data import real


def test_a_table_and_figures_are_made_on_the_digits(command, folder):
    words = ("--table", "4", "--figure", "2", "6", "--data", "digits", "--quick", "--seeds", "1")
    ran = command("paper", "tadp-rme", *words, "-o", "made")
    assert (ran.code, ran.err) == (0, "")
    assert "Table 4: ablation at τ = 0.5" in ran.out
    assert "written: made/tadp-rme.md" in ran.out
    names = {file.name for file in (folder / "made").iterdir()}
    assert names == {"tadp-rme.md", "tadp-rme-figure-2.png", "tadp-rme-figure-6.png"}
    page = (folder / "made" / "tadp-rme.md").read_text("utf-8")
    said = "sfumato paper tadp-rme --table 4 --figure 2 --figure 6 --data digits --seeds 1 --quick -o made"
    assert said in page


def test_json_holds_every_row(called, folder):
    words = ("--table", "5", "--data", "digits", "--quick", "--seeds", "1", "--json")
    result = json.loads(called("paper", "tadp-rme", *words).out)
    rows = result["numbers"]["tables"]["5"]["rows"]
    assert len(rows) == 11
    proven = {
        row["labels"]["value"]: row["proven_epsilon"]
        for row in rows
        if row["labels"]["parameter"] == "clip C"
    }
    # The noise of the paper does not follow the radius, so a larger one proves less.
    assert proven["0.5"] < proven["1"] < proven["2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--table", "7"], "of tadp-rme these tables are made: 1, 2, 3, 4, 5; give one with --table."),
        (["--figure", "11"], "of tadp-rme these figures are drawn: 2, 3,"),
        (["--data", "letters"], "there is no data set 'letters' here; choose from mnist,"),
        (["--data", "digits", "--data", "digits"], "the data set 'digits' was given twice"),
        (["--seeds", "0", "--data", "digits"], "--seeds was 0; one or more are accepted."),
        (["--table", "one"], "--table: 'one' is not a whole number;"),
        (["--table"], "--table takes one or more numbers"),
    ],
)
def test_what_cannot_be_made_is_refused(called, folder, words, said):
    assert said in called("paper", "tadp-rme", *words).sentence


def test_missing_data_is_answered_in_one_sentence(command, folder):
    empty = folder / "empty"
    empty.mkdir()
    for environment, said in (
        ({"SFUMATO_DATA": ""}, "the environment variable SFUMATO_DATA names, which is not set"),
        ({"SFUMATO_DATA": str(empty)}, "mnist.npz, which is not in the folder that SFUMATO_DATA names"),
    ):
        assert said in command("paper", "tadp-rme", "--data", "mnist", **environment).sentence


def test_on_real_digits_the_papers_numbers_stand_beside_ours(command, folder):
    data = real("mnist.npz").parent
    words = ("--table", "1", "--figure", "4", "--data", "mnist", "--quick", "--seeds", "1", "--json")
    numbers = command("paper", "tadp-rme", *words, SFUMATO_DATA=str(data)).result["numbers"]
    rows = {row["labels"]["τ"]: row for row in numbers["tables"]["1"]["rows"]}
    assert list(rows) == ["0", "0, noise", "0.25", "0.5", "1", "1, α = 1"]
    counted = [row for row in rows.values() if row["agrees"] is not None]
    assert numbers["agreement"]["1"] == {"agree": sum(row["agrees"] for row in counted), "rows": 4}
    half = rows["0.5"]["measures"]
    assert half["accuracy %"]["paper"] == [57.8, 1.0]
    for pair in half.values():
        assert pair["difference"] == pytest.approx(pair["mean"] - pair["paper"][0])
    # A tenth of the records suffices for this much: noise costs accuracy, and less of it costs less.
    accuracy = [rows[trust]["measures"]["accuracy %"]["mean"] for trust in ("0", "0, noise", "0.5", "1")]
    assert accuracy == sorted(accuracy, reverse=True)
    assert [rows[trust]["proven_epsilon"] is None for trust in ("0", "0, noise")] == [True, False]
    noiseless, unembedded = numbers["findings"]
    assert "(90.0, table 4)" in noiseless
    assert f"we measure {accuracy[1]:.1f}." in noiseless
    assert f"{accuracy[3]:.1f} without one" in unembedded
