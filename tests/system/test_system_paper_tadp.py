"""``sfumato paper tadp-rme`` makes tables and figures, and says in a sentence what it lacks."""

import json

import pytest


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
