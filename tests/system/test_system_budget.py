"""A release that names a dataset is paid for once, before anything is drawn; what does not fit is refused."""

import csv
import gzip
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from small_media import png

import sfumato as sf

CLIP = ("--clip", "1")
DELTA = 1e-6


@pytest.fixture(autouse=True)
def fresh_home(tmp_path_factory, monkeypatch):
    """Keys and a ledger of this test's own."""
    home = tmp_path_factory.mktemp("home") / "of" / "sfumato"
    monkeypatch.setenv("SFUMATO_HOME", str(home))
    return home


@pytest.fixture
def records(folder):
    """A small file of records."""
    np.save("X.npy", np.random.default_rng(0).random((50, 4)))
    return "X.npy"


@pytest.fixture
def opened(called, records):
    """A budget of ε = 4 for the dataset "clinic"."""
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", DELTA).code == 0
    return "clinic"


@pytest.fixture
def protect(called):
    """Releases X.npy, or another file, for 'clinic' unless told otherwise."""

    def run(output, epsilon, *options, source="X.npy", dataset="clinic", bound=CLIP):
        words = ("--epsilon", epsilon, *bound, "--dataset", dataset, *options)
        return called("protect", source, "-o", output, *words)

    return run


@pytest.fixture
def balance(called):
    """What 'budget show' says of 'clinic', as JSON."""
    return lambda: called("budget", "show", "clinic", "--json").result


def test_a_dataset_without_a_budget_is_refused_unless_nothing_is_to_be_charged(
    protect, called, records, statement_beside, fresh_home
):
    opens = r"open one with 'sfumato budget open clinic --epsilon … --delta …( --ledger \S+)?'\."
    for command in ("protect", "plan"):
        words = (command, "X.npy", "-o", "out.npy", "--epsilon", 1, *CLIP, "--dataset", "clinic")
        refused = called(*words)
        assert (refused.code, refused.out, refused.appeared) == (3, "", frozenset())
        assert re.search(f"no budget was opened for dataset 'clinic', and .* {opens}", refused.err)
    assert not (fresh_home / "ledger.db").exists()
    assert called("budget", "open", "other", "--epsilon", 4, "--delta", DELTA).code == 0
    refused = protect("out.npy", 1)
    assert refused.code == 3
    assert re.fullmatch(f"sfumato: no budget was opened for dataset 'clinic'; {opens}\n", refused.err)
    done = protect("free.npy", 1, "--uncharged", "--json").result
    assert done["paid"] is None
    statement, document = statement_beside("free.npy")
    assert "not charged to the budget of the dataset, as was asked for" in statement.notes
    assert (document["dataset"], document["ledger"]) == ("clinic", None)
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", DELTA).code == 0
    assert protect("paid.npy", 1, "--json").result["paid"]["number"] == 2
    assert not any("not charged" in note for note in statement_beside("paid.npy")[0].notes)
    wrong = protect("out.npy", 1, "--ledger", "sqlite:///misspelt.db")
    assert (wrong.code, wrong.out, wrong.appeared) == (3, "", frozenset())
    assert "there is no ledger at sqlite:///misspelt.db; open one with" in wrong.err


def test_what_does_not_fit_is_refused_and_the_largest_that_fits_is_named_and_fits(
    protect, balance, opened, command
):
    assert protect("first.npy", 3).code == 0
    before = balance()
    refused = protect("out.npy", 3.5)
    assert (refused.code, refused.out, refused.appeared) == (3, "", frozenset())
    found = re.fullmatch(
        r"sfumato: ε=3\.5 at δ=1e-06 was asked of 'clinic', whose budget of ε=4 at δ=1e-06 is (\d+\.\d)% "
        r"used: the largest ε of this kind that would still fit is ([0-9.]+) at δ = 1e-06\.\n",
        refused.err,
    )
    assert float(found[1]) == pytest.approx(100 * before["used"], abs=0.051)
    assert balance() == before
    in_process = command("protect", "X.npy", "-o", "out.npy", "--epsilon", 3.5, *CLIP, "--dataset", "clinic")
    assert (in_process.code, in_process.err) == (3, refused.err)
    answer = protect("out.npy", 3.5, "--json")
    assert answer.code == 3
    assert json.loads(answer.out)["exit_code"] == 3
    assert protect("out.npy", found[2]).code == 0
    assert protect("more.npy", found[2]).code == 3
    assert balance()["spends"] == 2


def test_a_budget_without_delta_takes_laplace_noise_until_it_is_gone(called, records, protect, balance):
    assert called("budget", "open", "clinic", "--epsilon", 1, "--delta", 0).code == 0
    laplace = ("--mechanism", "laplace")
    assert protect("a.npy", 0.75, *laplace).code == 0
    refused = protect("b.npy", 0.5, *laplace)
    assert refused.code == 3
    assert "would still fit is 0.25." in refused.err
    assert protect("b.npy", 0.25, *laplace).code == 0
    assert balance()["left_pure"] == pytest.approx(0, abs=1e-9)
    assert protect("c.npy", 0.01, *laplace).code == 3
    gaussian = protect("c.npy", 0.01)
    assert (gaussian.code, gaussian.appeared) == (3, frozenset())


@pytest.mark.parametrize("fault", ["NaN", "truncated", "one axis", "missing"])
def test_bad_input_spends_nothing(protect, balance, opened, fault):
    values = np.zeros((2000, 100))
    if fault == "NaN":
        values[-1, -1] = np.nan
    np.save("bad.npy", values[:, 0] if fault == "one axis" else values)
    if fault == "truncated":
        os.truncate("bad.npy", os.path.getsize("bad.npy") - 8)
    if fault == "missing":
        os.unlink("bad.npy")
    before = balance()
    assert protect("out.npy", 1, source="bad.npy").sentence
    assert balance() == before
    assert before["spends"] == 0


def test_a_table_with_a_bad_last_cell_spends_nothing(protect, balance, opened, folder):
    table(folder, ["0.5"] * 2000 + ["x"])
    refused = protect("out.csv", 1, "--schema", "t.toml", source="t.csv", bound=())
    assert "row 2001" in refused.sentence or "line 2002" in refused.sentence
    assert balance()["spends"] == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--mechanism", "additive-noise", *CLIP),
        ("--mechanism", "additive-noise"),
        ("--epsilon", 1, "--bounds-from-data"),
        ("--mechanism", "random-projection", "--components", 2),
    ],
)
def test_what_proves_nothing_cannot_be_charged(called, balance, opened, options):
    refused = called("protect", "X.npy", "-o", "out.npy", *options, "--dataset", "clinic")
    assert refused.sentence
    assert balance()["spends"] == 0


def test_another_neighbouring_relation_is_not_charged(called, protect, records, fresh_home):
    assert (
        called("budget", "open", "clinic", "--epsilon", 4, "--delta", DELTA, "--neighbours", "zero-out").code
        == 0
    )
    assert protect("out.npy", 1).sentence == (
        "the budget of 'clinic' counts per record under zero-out; a guarantee per record under replace "
        "cannot be charged to it; open one for it with 'sfumato budget open NAME --epsilon … --delta … "
        f"--ledger sqlite:///{fresh_home}/ledger.db'."
    )
    assert protect("out.npy", 1, "--neighbours", "zero-out").code == 0


def test_another_unit_is_not_charged(called, protect, records):
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", DELTA, "--unit", "client").code == 0
    assert "per record" in protect("out.npy", 1).sentence


def test_releases_of_arrays_and_tables_compose(protect, balance, opened, folder):
    table(folder, ["0.25"] * 40)
    assert protect("a.npy", 1).code == 0
    assert protect("b.npz", 0.5, "--mechanism", "laplace", source=archive("X.npz")).code == 0
    assert protect("c.csv", 0.75, "--schema", "t.toml", source="t.csv", bound=()).code == 0
    shown = balance()
    parts = [
        sf.Gaussian(epsilon=1, delta=DELTA, clip=1).guarantee(),
        sf.Laplace(epsilon=0.5, clip=1).guarantee(),
        sf.Gaussian(epsilon=0.75, delta=DELTA, bounds=(0, 1)).guarantee(1),
    ]
    assert shown["spends"] == 3
    assert shown["fixed_plan_epsilon"] == pytest.approx(sf.Guarantee.compose(parts).epsilon(DELTA), rel=1e-6)
    assert max(part.epsilon(DELTA) for part in parts) < shown["fixed_plan_epsilon"] < 2.25


def test_the_row_is_there_before_the_noise(executable, called, balance, opened, folder):
    np.save("large.npy", np.zeros((20_000, 1250), np.float32))
    kill_while_drawing(executable, folder, "large.npy", "-o", "out.npy", "--epsilon", 1)
    assert not os.path.exists("out.npy")
    assert not os.path.exists("out.npy.cert.json")
    assert balance()["spends"] == 1
    (_, spend) = called("budget", "history", "clinic", "--json").result
    assert (spend["kind"], spend["purpose"]) == ("spend", "out.npy")
    assert called("budget", "check").out == "The chain holds.\n"


def test_a_killed_request_can_be_repeated_and_is_paid_once(
    executable, command, called, balance, opened, folder
):
    np.save("large.npy", np.random.default_rng(1).random((30_000, 100), np.float32))
    words = ("large.npy", "-o", "out.npy", "--epsilon", 1, "--request", "r", "--data-version", "v")
    kill_while_drawing(executable, folder, *words)
    assert not os.path.exists("out.npy")
    (_, spend) = called("budget", "history", "clinic", "--json").result
    done = command("protect", *words, *CLIP, "--dataset", "clinic", "--json").result
    assert done["paid"]["hash"] == spend["hash"]
    assert np.load("out.npy").shape == (30_000, 100)
    assert balance()["spends"] == 1
    assert called("verify", "out.npy").code == 0


def test_a_request_is_paid_once_and_gives_the_same_bytes(protect, balance, opened):
    first = protect("out.npy", 1, "--request", "r", "--json").result["paid"]
    content = read("out.npy")
    assert protect("out.npy", 1, "--request", "r", "--json").result["paid"] == first
    assert read("out.npy") == content
    assert balance()["spends"] == 1
    another = protect("out.npy", 1, "--request", "another", "--overwrite", "--json").result
    assert another["paid"]["number"] == 3
    assert read("out.npy") != content
    assert balance()["spends"] == 2


CHANGES = {
    "epsilon": {"epsilon": 2},
    "clip, at the same ε": {"bound": ("--clip", "2")},
    "bounds, at the same ε": {"bound": ("--bounds", "0", "1")},
    "delta": {"options": ("--delta", "1e-7")},
    "mechanism": {"options": ("--mechanism", "laplace")},
    "version": {"options": ("--data-version", "2")},
    "one value": {"source": "changed.npy"},
    "columns of the same bytes": {"source": "narrow.npy"},
    "numbers of the same bytes": {"source": "whole.npy"},
    "output": {"output": "another.npy"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_request_is_not_for_anything_else(protect, balance, opened, change):
    values = np.load("X.npy")
    np.save("narrow.npy", values.reshape(-1, 2))
    np.save("whole.npy", values.view(np.int64) >> 40)
    np.save("X.npy", np.load("whole.npy").view(np.float64) if "numbers" in change else values)
    values[7, 3] += 1e-9
    np.save("changed.npy", values)
    given = {"output": "out.npy", "epsilon": 1, "options": (), "source": "X.npy", "bound": CLIP}
    assert ask(protect, given).code == 0
    os.unlink("out.npy")
    os.unlink("out.npy.cert.json")
    assert "request" in ask(protect, given | CHANGES[change]).sentence
    assert balance()["spends"] == 1
    # What was paid for is still to be had.
    assert ask(protect, given).code == 0


def test_no_format_puts_the_time_into_a_repeated_request(protect, balance, opened, folder):
    table(folder, ["0.25"] * 40)
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    pyarrow.parquet.write_table(pyarrow.csv.read_csv("t.csv"), "t.parquet")
    sources = {"out.npz": archive("X.npz"), "out.csv.gz": "t.csv.gz", "out.parquet": "t.parquet"}

    def all_of_them():
        for output, source in sources.items():
            bound = CLIP if output == "out.npz" else ("--schema", "t.toml")
            assert protect(output, 0.5, "--request", output, source=source, bound=bound).code == 0
        return [(read(output), read(f"{output}.cert.json")) for output in sources]

    first = all_of_them()
    time.sleep(2.1)  # archives tell the time in steps of two seconds
    assert all_of_them() == first
    assert balance()["spends"] == 3


def test_a_request_for_a_table_is_not_for_another_schema(protect, balance, opened, folder):
    table(folder, ["0.25"] * 40)
    words = ("--schema", "t.toml", "--request", "r")
    assert protect("out.csv", 1, *words, source="t.csv", bound=()).code == 0
    content = read("out.csv")
    assert protect("out.csv", 1, *words, source="t.csv", bound=()).code == 0
    assert read("out.csv") == content
    table(folder, ["0.25"] * 40, bounds="[0, 2]")
    assert "request 'r' was made" in protect("out.csv", 1, *words, source="t.csv", bound=()).sentence
    assert read("out.csv") == content
    assert balance()["spends"] == 1


def test_a_request_needs_a_budget_that_remembers_it(called, protect, records):
    without = called("protect", "X.npy", "-o", "out.npy", "--epsilon", 1, *CLIP, "--request", "r")
    assert without.sentence == "--request is paid from a budget; name it with --dataset."
    refused = protect("out.npy", 1, "--request", "r")
    assert (refused.code, refused.appeared) == (3, frozenset())
    assert "no budget was opened for dataset 'clinic'" in refused.err


def test_show_draws_a_bar_for_every_dataset(called, protect, opened, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert (
        called("budget", "open", "school", "--epsilon", 1, "--delta", 0, "--neighbours", "zero-out").code == 0
    )
    assert protect("out.npy", 2).code == 0
    both = called("budget", "show").out
    one = called("budget", "show", "clinic").out
    assert both.startswith(one)
    assert "school: ε = 1 at δ = 0 per record under zero-out\n" in both
    assert "clinic: ε = 4 at δ = 1e-06 per record under replace\n" in one
    ((full, empty, used),) = re.findall(r"^  (█+)(░+) (\d+\.\d)% used, open$", one, re.MULTILINE)
    assert len(full + empty) == 40
    assert len(full) == pytest.approx(40 * float(used) / 100, abs=1)
    assert "had the plan been fixed in advance: ε = 2\n" in one
    listed = called("budget", "show", "--json").result
    assert [each["dataset"] for each in listed] == ["clinic", "school"]


def test_show_says_when_there_is_nothing_to_show(called):
    assert called("budget", "show").out == "No budget was opened yet; see sfumato budget open --help.\n"
    assert called("budget", "show", "--json").result == []
    assert "there is no ledger at sqlite:///" in called("budget", "show", "x").sentence
    assert called("budget", "open", "y", "--epsilon", 4, "--delta", DELTA).code == 0
    assert "no budget was opened for dataset 'x'" in called("budget", "show", "x").sentence


def test_only_opening_a_budget_makes_a_ledger(called, records):
    missing = ("--ledger", "sqlite:///misspelt.db")
    for words in (("show",), ("show", "x"), ("history", "x"), ("check",), ("export", "x"), ("close", "x")):
        told = called("budget", *words, *missing).sentence  # nothing appeared
        assert told == "there is no ledger at sqlite:///misspelt.db; 'sfumato budget open' makes one."
    assert called("budget", "open", "x", "--epsilon", 1, "--delta", 0, *missing).appeared == {"misspelt.db"}


def test_a_ledger_that_is_typed_without_a_dataset_is_refused(called, opened, fresh_home, monkeypatch):
    url = f"sqlite:///{fresh_home / 'ledger.db'}"
    for words in (("protect", "X.npy", "-o", "out.npy"), ("plan", "X.npy")):
        told = called(*words, "--epsilon", 1, *CLIP, "--ledger", url).sentence
        assert told == "--ledger was given and nothing would be charged in it: name the --dataset that pays."
    monkeypatch.setenv(
        "SFUMATO_LEDGER", url
    )  # stands there for every command, also for those that do not pay
    assert called("protect", "X.npy", "-o", "out.npy", "--epsilon", 1, *CLIP).code == 0


def test_a_ledger_as_text_is_refused_in_python(records):
    with pytest.raises(sf.BadInput, match=r"ledger=sf\.Ledger\(url\)"):
        sf.protect("X.npy", "o.npy", sf.Gaussian(clip=1.0, epsilon=1.0), dataset="d", ledger="sqlite:///x.db")
    assert not os.path.exists("x.db")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("unit", ["region:16", "item"])
def test_the_hint_opens_a_budget_that_pays_for_a_folder_of_pictures(called, folder, there, unit):
    os.mkdir("photos")
    png("photos/a.png")
    if there:
        assert called("budget", "open", "other", "--epsilon", 4, "--delta", DELTA).code == 0
    words = ("protect", "photos", "-o", "o", "--unit", unit, "--epsilon", 4, "--dataset", "album")
    refused = called(*words)
    assert (refused.code, refused.appeared) == (3, frozenset())
    hinted = re.search(r"open one with 'sfumato (.*)'\.", refused.err)[1]
    typed = shlex.split(hinted.replace("--epsilon … --delta …", "--epsilon 9 --delta 1e-6"))
    assert typed[typed.index("--unit") + 1] == unit
    assert called(*typed).code == 0
    assert called(*words).code == 0


CHARGED = {
    "protect": ("protect", "X.npy", "-o", "out.npy", *CLIP, "--epsilon", 1, "--dataset", "my clinic"),
    "learn": ("learn", "D.npz", "--classes", 2, "--epsilon", 1, "--plan", "--dataset", "clinik"),
    "publish": (
        *("publish", "D.npz", "--pictures", "X", "--labels", "y", "--classes", 2, "--epsilon", 1),
        *("--plan", "--dataset", "clinik"),
    ),
    "federate": (
        *("federate", "D.npz", "--classes", 2, "--rounds", 1, "--clip", 1, "--clients", 2, "--epsilon", 1),
        *("--plan", "--dataset", "clinik"),
    ),
}


@pytest.mark.parametrize("verb", CHARGED)
def test_the_hint_opens_a_budget_in_the_ledger_that_was_named(called, records, verb):
    """As typed, also where that ledger is there already and the default one is another."""
    rng = np.random.default_rng(0)
    np.savez("D.npz", X=rng.integers(0, 256, (40, 8, 8), dtype=np.uint8), y=np.arange(40) % 2)
    book = ("--ledger", "sqlite:///existing.db")
    assert called("budget", "open", "other", "--epsilon", 4, "--delta", DELTA, *book).code == 0
    for _ in range(2 if verb == "federate" else 1):
        refused = called(*CHARGED[verb], *book)
        assert (refused.code, refused.out, refused.appeared) == (3, "", frozenset())
        hinted = re.search(r"open one with ['`]sfumato (.*)['`]\.", refused.err)[1]
        typed = shlex.split(hinted.replace("--epsilon … --delta …", "--epsilon 9 --delta 1e-5"))
        assert typed[-2:] == list(book)
        assert called(*typed).code == 0
    assert called(*CHARGED[verb], *book).code == 0


def test_what_is_there_is_replaced_by_the_option_that_the_refusal_names(called, records):
    words = ("protect", "X.npy", "-o", "out.npy", "--epsilon", 1, *CLIP)
    assert called(*words).code == 0
    assert "or replace it with --overwrite" in called(*words).sentence
    assert called(*words, "--overwrite").code == 0


@pytest.mark.parametrize(
    ("name", "epsilon", "delta", "options"),
    [
        ("x", -1, 1e-6, ()),
        ("x", 0, 1e-6, ()),
        ("x", "inf", 1e-6, ()),
        ("x", "nan", 1e-6, ()),
        ("x", 1, 1, ()),
        ("x", 1, -1e-6, ()),
        ("x", 1, "nan", ()),
        ("x", 1, 1e-6, ("--neighbours", "strangers")),
        ("x", 1, 1e-6, ("--unit", "household")),
        ("", 1, 1e-6, ()),
        ("x" * 10_001, 1, 1e-6, ()),
    ],
)
def test_what_is_no_budget_is_not_opened(called, folder, name, epsilon, delta, options):
    assert called("budget", "open", name, "--epsilon", epsilon, "--delta", delta, *options).sentence
    assert called("budget", "show", "--json").result == []


@pytest.mark.parametrize("name", ['o\'clock "x"; DROP TABLE entries', "a/b/../c", "🩺 Klinik", "n" * 10_000])
def test_any_printable_name_can_be_charged(called, protect, records, name):
    assert called("budget", "open", name, "--epsilon", 4, "--delta", DELTA).code == 0
    assert protect("out.npy", 1, dataset=name).code == 0
    assert called("budget", "show", name, "--json").result["spends"] == 1
    assert called("budget", "show").out.startswith(name[:57])
    assert called("verify", "out.npy").code == 0


def test_a_budget_never_changes_and_can_be_closed(called, protect, balance, opened):
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", DELTA).code == 0
    other = called("budget", "open", "clinic", "--epsilon", 5, "--delta", DELTA)
    assert other.sentence.endswith("a budget never changes.")
    assert protect("out.npy", 1).code == 0
    assert called("budget", "close", "clinic", "--json").result["state"] == "closed"
    refused = protect("more.npy", 1)
    assert (refused.code, refused.appeared) == (3, frozenset())
    assert refused.err == "sfumato: dataset 'clinic' is closed and admits no further release.\n"
    assert balance()["left"] == 0


def test_a_hold_is_given_back(called, balance, opened, fresh_home):
    with sf.Ledger(f"sqlite:///{fresh_home / 'ledger.db'}") as ledger:
        held = ledger.hold("clinic", sf.Guarantee.gaussian(2.0), purpose="a long job").number
    assert balance()["open_holds"] == 1
    assert balance()["used"] > 0
    given_back = called("budget", "release", "clinic", held, "--json").result
    assert (given_back["open_holds"], given_back["used"]) == (0, 0)
    assert "is not a hold" in called("budget", "release", "clinic", 1).sentence
    assert "has no entry 99" in called("budget", "release", "clinic", 99).sentence
    lines = called("budget", "history", "clinic").out.splitlines()
    assert [line.split()[2] for line in lines] == ["open", "hold", "release"]
    assert "a long job" in lines[1]
    assert f"of {held}" in lines[2]


def test_history_and_exports_agree_and_no_cell_is_a_formula(called, protect, opened, fresh_home):
    assert protect("=cmd.npy", 1, "--request", "@r").code == 0
    with sf.Ledger(f"sqlite:///{fresh_home / 'ledger.db'}") as ledger:
        for purpose in ("+1", "-1", "\t=1", "harmless, with a comma"):
            ledger.spend("clinic", sf.Guarantee.gaussian(20.0), purpose=purpose)
    history = called("budget", "history", "clinic", "--json").result
    assert called("budget", "export", "clinic", "--format", "json", "-o", "h.json").code == 0
    assert json.loads(read("h.json")) == history
    assert json.loads(called("budget", "export", "clinic", "--format", "json").out) == history
    assert called("budget", "export", "clinic", "-o", "h.csv").code == 0
    assert read("h.csv").decode() == called("budget", "export", "clinic").out
    with open("h.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["hash"] for row in rows] == [entry["hash"] for entry in history]
    assert [row["epsilon"] for row in rows] == [
        "" if entry["epsilon"] is None else str(entry["epsilon"]) for entry in history
    ]
    assert rows[1]["purpose"].startswith("'=cmd.npy")
    assert rows[1]["key"] == "'@r"
    assert [row["purpose"] for row in rows[2:]] == ["'+1", "'-1", "'\t=1", "harmless, with a comma"]
    assert not any(cell.startswith(tuple("=+-@\t\r")) for row in rows for cell in row.values())
    assert "csv or json" in called("budget", "export", "clinic", "--format", "xml").sentence


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("UPDATE entries SET purpose = 'other' WHERE number = 2", "'clinic', entry 2: the row was altered"),
        ("UPDATE entries SET guarantee = NULL WHERE number = 3", "'clinic', entry 3: the row was altered"),
        ("DELETE FROM entries WHERE number = 2", "'clinic', entry 3: rows before this one are missing"),
        ("UPDATE accounts SET spends = 0", "'clinic': the running totals were altered (spends)"),
    ],
)
def test_check_names_what_was_tampered_with(called, command, protect, opened, fresh_home, edit, named):
    for name in ("a.npy", "b.npy"):
        assert protect(name, 1).code == 0
    assert called("budget", "check", "clinic", "--json").result == {"holds": True, "damages": []}
    tamper(fresh_home, edit)
    found = called("budget", "check")
    assert (found.code, found.out) == (4, "")
    assert found.err == f"sfumato: the ledger was altered: {named}.\n"
    answer = command("budget", "check", "--json")
    assert answer.code == 4
    assert json.loads(answer.out) == {"holds": False, "damages": [named]}


def test_another_ledger_is_charged_by_its_url(called, protect, records, monkeypatch, fresh_home):
    url = "sqlite:///elsewhere.db"
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", DELTA, "--ledger", url).code == 0
    assert protect("out.npy", 1, "--ledger", url, "--json").result["paid"]["number"] == 2
    monkeypatch.setenv("SFUMATO_LEDGER", url)
    assert protect("more.npy", 1, "--json").result["paid"]["number"] == 3
    assert called("verify", "more.npy").code == 0
    assert not (fresh_home / "ledger.db").exists()


def ask(protect, given):
    words = ("--request", "r", *given["options"])
    return protect(given["output"], given["epsilon"], *words, source=given["source"], bound=given["bound"])


def kill_while_drawing(executable, folder, *words):
    """Start a release and kill it as soon as its hidden file holds anything: noise is drawn from then on.

    The file itself, empty, is there before the release is paid: it takes the room that is needed.
    """
    line = [executable, "protect", *map(str, words), *CLIP, "--dataset", "clinic"]
    process = subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(file.name[0] == "." and file.stat().st_size for file in os.scandir(folder)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL


def tamper(home, statement):
    """Run a statement on the ledger behind its back."""
    with closing(sqlite3.connect(home / "ledger.db")) as connection, connection:
        assert connection.execute(statement).rowcount > 0


def table(folder, values, bounds="[0, 1]"):
    (folder / "t.csv").write_text("\n".join(["a", *values]) + "\n")
    (folder / "t.toml").write_text(f'[columns.a]\nkind = "numeric"\nbounds = {bounds}\n')


def archive(name):
    np.savez(name, X=np.load("X.npy"))
    return name


def read(name):
    with open(name, "rb") as file:
        return file.read()
