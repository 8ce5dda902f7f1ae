"""What somebody meets who has never seen the command before."""

import json
import os
import stat
import subprocess
from importlib.metadata import EntryPoints

import numpy as np
import pytest

from sfumato.mechanisms import MECHANISMS

BOUNDED = ("--epsilon", "1", "--clip", "1")


@pytest.fixture
def data(folder, digits):
    np.savez(folder / "X.npz", X=digits[0][:50])
    return folder


def test_alone_it_shows_help_with_both_commands_and_an_example(called):
    ran = called()
    assert ran.code == 0
    assert ran.err == ""
    for word in ("protect", "audit", "--help", "For example: sfumato protect X.npz"):
        assert word in ran.out


def test_help_groups_every_option_and_names_every_mechanism(command):
    ran = command("protect", "--help", COLUMNS="200")
    assert ran.code == 0
    for panel in ("Privacy", "Bounds", "Parameters of some mechanisms", "Files"):
        assert panel in ran.out
    for name in MECHANISMS:
        assert name in ran.out
    for flag in ("--epsilon", "--delta", "--clip", "--bounds", "--schema", "--distrust", "--array", "--json"):
        assert flag in ran.out


def test_a_project_adds_a_command_by_an_entry_point(called, tmp_path, monkeypatch):
    described = tmp_path / "installed" / "greetings-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[sfumato.commands]\ngreet = greetings:app\n")
    (described.parent / "greetings.py").write_text(
        "import typer\n"
        "app = typer.Typer()\n"
        "@app.command(epilog='For example: sfumato greet Ada')\n"
        "def greet(name: str) -> None:\n"
        "    'Greet somebody.'\n"
        "    print('Good morning,', name)\n"
    )
    monkeypatch.syspath_prepend(described.parent)
    assert called("greet", "Ada").out == "Good morning, Ada\n"
    assert "Greet somebody." in called("--help").out
    assert called("greet").sentence == "greet needs NAME, as in sfumato greet Ada."


def test_a_command_of_a_project_that_is_not_installed_names_the_project(called, monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints())
    said = "sfumato paper needs sfumato-reproductions: pip install ./reproductions in the repository."
    assert called("paper", "tldp").sentence == said
    assert "paper" not in called("--help").out


def test_the_version_is_printed_alone(command):
    ran = command("--version")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.strip().count(".") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["protect"], "protect needs FILE, as in sfumato protect X.npz"),
        (["protect", "X.npz"], "protect needs -o/--output, as in"),
        (["protekt"], "no such command 'protekt'; did you mean 'protect'?"),
        (
            ["protect", "X.npz", "-o", "out.npz", "--epsilom", "1"],
            "no option --epsilom; did you mean --epsilon?",
        ),
        (["protect", "X.npz", "-o", "out.npz", "--epsilon", "one"], "--epsilon: 'one' is not a number;"),
        (
            ["protect", "X.npz", "-o", "out.npz", "--epsilon", "--clip", "1"],
            "--epsilon takes one or more numbers",
        ),
        (["protect", "X.npz", "-o", "out.npz", "--bits", "2.5"], "--bits: '2.5' is not a whole number;"),
        (
            ["protect", "X.npz", "-o", "out.npz", "--clip"],
            "--clip needs a value; see sfumato protect --help.",
        ),
        (["protect", "X.npz", "-o", "out.npz", "--json=1"], "'--json' does not take a value;"),
        (["protect", "X.npz", "Y.npz", "-o", "out.npz"], "unexpected extra argument (Y.npz);"),
    ],
)
def test_a_slip_of_the_keyboard_is_answered_in_one_sentence(called, data, words, said):
    assert said in called(*words).sentence


def test_errors_in_json_stand_on_standard_output(command, called, data):
    bad = ("--epsilon", "0", "--clip", "1")
    for run, words in (
        (command, bad),
        (called, bad),
        (called, ["--epsilom", "1"]),
        (called, ["--epsilon", "1"]),
    ):
        ran = run("protect", "X.npz", "-o", "out.npz", *words, "--json")
        assert (ran.code, ran.err, ran.appeared) == (2, "", frozenset())
        answer = json.loads(ran.out)
        assert set(answer) == {"error", "exit_code"}
        assert answer["exit_code"] == 2
        assert answer["error"].endswith((".", "?"))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], ["--epsilon", "--clip", "--bounds"]),
        (["--epsilon", "1"], ["--clip", "--bounds"]),
        (["--epsilon", "1", "--mechanism", "laplace"], ["--clip", "--bounds"]),
        (["--clip", "1", "--delta", "1e-6"], ["--epsilon 1"]),
        (["--clip", "1", "--mechanism", "trust-adaptive"], ["--epsilon 1 8"]),
        (["--clip", "1", "--mechanism", "personalised"], ["--epsilon", "--epsilon-file"]),
        (["--mechanism", "binary-encoding"], ["--epsilon", "--flip"]),
        (["--mechanism", "randomised-response"], ["--epsilon"]),
    ],
)
def test_nothing_is_released_without_a_budget_and_a_bound_and_the_flags_are_named(called, data, words, named):
    sentence = called("protect", "X.npz", "-o", "out.npz", *words).sentence
    assert " needs " in sentence
    for flag in named:
        assert flag in sentence


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gausian", "gaussian"),
        ("TrustAdaptive", "trust-adaptive"),
        ("randomized_response", "randomised-response"),
    ],
)
def test_a_mistyped_mechanism_is_guessed(called, data, name, near):
    sentence = called("protect", "X.npz", "-o", "out.npz", "--mechanism", name, *BOUNDED).sentence
    assert sentence == f"there is no mechanism {name!r}; did you mean {near}?"


def test_an_unknown_mechanism_is_answered_with_all_of_them(called, data):
    sentence = called("protect", "X.npz", "-o", "out.npz", "--mechanism", "zzz").sentence
    assert all(name in sentence for name in MECHANISMS)


@pytest.mark.parametrize(
    ("mechanism", "words", "refused"),
    [
        ("gaussian", ["--distrust", "0.5"], "--distrust"),
        ("laplace", ["--delta", "1e-6"], "--delta"),
        ("gaussian", ["--epsilon-file", "budgets.npy"], "--epsilon-file"),
        ("additive-noise", ["--epsilon", "1"], "--epsilon"),
        ("random-projection", ["--bounds", "0", "1"], "--bounds"),
        ("randomised-response", ["--calibration", "paper"], "--calibration"),
    ],
)
def test_an_option_of_another_mechanism_is_refused_by_its_spelling(called, data, mechanism, words, refused):
    np.save("budgets.npy", np.ones(50))
    sentence = called("protect", "X.npz", "-o", "out.npz", "--mechanism", mechanism, *words).sentence
    assert sentence.startswith(f"{mechanism} has no {refused}; it takes --")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epsilon", "1", "2", "--clip", "1"], "gaussian takes one number, as in --epsilon 1, not 1 2."),
        (["--epsilon", "1", "--bounds", "1"], "--bounds takes two numbers, as in --bounds 0 255, not 1."),
        (["--epsilon", "1", "--bounds", "0", "1", "--clip", "1"], "--clip"),
        (["--epsilon", "1", "--bounds-from-data", "--clip", "1"], "--bounds-from-data and --clip"),
        (["--epsilon", "1", "--bounds-from-data", "--bounds", "0", "1"], "--bounds-from-data and --bounds"),
        (["--mechanism", "additive-noise", "--bounds-from-data"], "leave out --bounds-from-data"),
        (
            ["--mechanism", "trust-adaptive", "--epsilon", "3", "--clip", "1"],
            "a range, as in --epsilon 1 8, not 3.",
        ),
        (["--schema", "X.npz", *BOUNDED], "--schema declares a table"),
        (["--array", "Y", *BOUNDED], "--array was 'Y', which is no array of X.npz; accepted: 'X'."),
        (["--dataset", " ", *BOUNDED], "--dataset was ' '; accepted: a name in printable characters."),
    ],
)
def test_options_that_do_not_go_together_are_told_so(called, data, words, said):
    assert said in called("protect", "X.npz", "-o", "out.npz", *words).sentence


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("nowhere/out.npz", "the folder nowhere does not exist."),
        ("X.npz/out.npz", "the folder X.npz is not a folder."),
        ("folder.npz", "folder.npz exists and is not a regular file"),
        ("out.csv", "X.npz is read as an array, so the output out.csv must end in one of .npy, .npz."),
        ("out", "'out' has none of the supported suffixes"),
        ("shut/out.npz", "may not write into the folder shut."),
        ("taken.npz", "taken.npz.cert.json exists and is not a regular file"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused(called, data, output, said):
    (data / "folder.npz").mkdir()
    (data / "taken.npz.cert.json").mkdir()
    (data / "shut").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    if output.startswith("shut") and os.access(data / "shut", os.W_OK):
        pytest.skip("this user may write anywhere")
    assert said in called("protect", "X.npz", "-o", output, *BOUNDED).sentence


@pytest.mark.parametrize("way", ["name", "symbolic link", "hard link"])
def test_the_original_is_never_overwritten(called, data, way):
    original = (data / "X.npz").read_bytes()
    output = {"name": "X.npz", "symbolic link": "soft.npz", "hard link": "hard.npz"}[way]
    (data / "soft.npz").symlink_to("X.npz")
    os.link(data / "X.npz", data / "hard.npz")
    assert "would overwrite the input X.npz" in called("protect", "X.npz", "-o", output, *BOUNDED).sentence
    assert (data / "X.npz").read_bytes() == original


def test_other_inputs_are_not_overwritten_either(called, data):
    np.save("budgets.npy", np.ones(50))
    words = ("--mechanism", "personalised", "--epsilon-file", "budgets.npy", "--clip", "1")
    assert "input budgets.npy" in called("protect", "X.npz", "-o", "budgets.npy", *words).sentence
    (data / "t.csv").write_text("a\n1\n2\n")
    (data / "out.csv.cert.json").write_text('{"columns": {"a": {"kind": "numeric", "bounds": [0, 1]}}}')
    words = ("--schema", "out.csv.cert.json", "--epsilon", "1")
    assert "input out.csv.cert.json" in called("protect", "t.csv", "-o", "out.csv", *words).sentence


def test_an_older_output_is_replaced_together_with_its_statement_where_that_is_said(
    called, data, statement_beside
):
    for epsilon in ("1", "2"):
        words = ("--epsilon", epsilon, "--clip", "1", "--overwrite")
        assert called("protect", "X.npz", "-o", "out.npz", *words).code == 0
        assert statement_beside("out.npz")[0].parameters["epsilon"] == float(epsilon)
    assert sorted(os.listdir()) == ["X.npz", "out.npz", "out.npz.cert.json"]


def test_a_refusal_leaves_an_older_output_and_its_statement_alone(called, data):
    called("protect", "X.npz", "-o", "out.npz", *BOUNDED)
    before = {name: (data / name).read_bytes() for name in os.listdir()}
    np.savez("X.npz", X=np.full((4, 2), np.nan))
    assert "exists already" in called("protect", "X.npz", "-o", "out.npz", *BOUNDED).sentence
    assert "NaN" in called("protect", "X.npz", "-o", "out.npz", *BOUNDED, "--overwrite").sentence
    for name in ("out.npz", "out.npz.cert.json"):
        assert (data / name).read_bytes() == before[name]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_the_table_fits_the_terminal_and_never_exceeds_a_hundred_columns(called, data, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = called("protect", "X.npz", "-o", "out.npz", *BOUNDED)
    assert (ran.code, ran.err) == (0, "")
    for word in ("claimed", "proven", "measured", "delta=1e-06", "Released: out.npz", "50 records"):
        assert word in ran.out
    table = ran.out.split("\n\n")[0]
    assert max(len(line) for line in table.splitlines()) <= min(columns, 100)


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}],
)
def test_a_terminal_without_greek_letters_is_spelled_to(command, data, environment):
    ran = command("protect", "X.npz", "-o", "out.npz", *BOUNDED, **environment)
    assert (ran.code, ran.err) == (0, "")
    if "PYTHONIOENCODING" in environment:
        assert ran.out.isascii()
        assert "| eps = 1, delta = 1e-06         |" in ran.out


def test_help_and_refusals_are_spelled_in_ascii_too(command, data):
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    assert command("protect", "--help", **ascii_only).code == 0
    np.save("budgets.npy", np.ones((2, 2)))
    words = ("--mechanism", "personalised", "--epsilon-file", "budgets.npy", "--clip", "1")
    refusal = command("protect", "X.npz", "-o", "out.npz", *words, **ascii_only)
    assert refusal.sentence.startswith("budgets.npy must hold one eps for each record")


def test_json_survives_ascii_and_names_that_are_no_text(command, data, statement_beside):
    name = os.fsdecode(b"r\xff\xc3\xa9.npz")
    os.rename("X.npz", name)
    ran = command("protect", name, "-o", f"out{name}", *BOUNDED, "--json", PYTHONIOENCODING="ascii")
    assert ran.result["output"] == f"out{name}"
    statement_beside(f"out{name}")
    assert command("protect", name, "-o", f"out{name}", *BOUNDED, "--overwrite").code == 0


def test_a_name_cannot_move_the_cursor_or_break_the_sentence(called, folder):
    name = "a\n\x1b[2J.npy"
    assert called("protect", name, "-o", "out.npy", *BOUNDED).sentence == "a\\n\\x1b[2J.npy does not exist."
    np.save(name, np.ones((2, 2)))
    ran = called("protect", name, "-o", f"out{name}", *BOUNDED)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "Released: outa\\n\\x1b[2J.npy" in ran.out


@pytest.mark.parametrize("words", [["--version"], ["protect", "--help"]])
def test_a_reader_that_goes_away_is_no_reason_to_complain(executable, words):
    process = subprocess.Popen([executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1


def test_output_that_cannot_be_printed_is_one_sentence(executable):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([executable, "--version"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr
