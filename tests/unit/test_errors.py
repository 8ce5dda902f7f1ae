"""Refusals: what they carry, how each door spells them, and that none names an option of the command line."""

import ast
import pickle
import re
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import BadInput, RequestReused, quoted, spell

SOURCES = Path(sf.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")
# Words for other programs (Flower, pip, protoc), the table of spellings, and the command in a report.
NOT_SENTENCES = {
    "errors.py",
    "learners/backbones.py",
    "release/file_audit.py",
    "release/federation_processes.py",
    "serve/grpc/generate.py",
}


def sources():
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES).as_posix()
        if not name.startswith("cli/"):
            yield name, ast.parse(file.read_text("utf-8"))


def texts(tree):
    """String literals that are not docstrings."""
    skipped = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node


def test_outside_the_command_line_no_text_names_an_option():
    found = [
        f"{name}:{text.lineno}: {text.value}"
        for name, tree in sources()
        if name not in NOT_SENTENCES
        for text in texts(tree)
        if OPTION.search(text.value) or re.search(r"(?<![\w-])--$", text.value)
    ]
    assert not found


def test_a_refusal_that_begins_with_a_parameter_carries_it():
    """The first words of a sentence are its subject: "`rate` was 2" is caused by ``rate``."""
    found, seen = [], 0
    for name, tree in sources():
        for call in ast.walk(tree):
            if (
                not isinstance(call, ast.Call)
                or getattr(call.func, "id", None) != "BadInput"
                or not call.args
            ):
                continue
            first = call.args[0].values[0] if isinstance(call.args[0], ast.JoinedStr) else call.args[0]
            if isinstance(first, ast.Constant) and str(first.value).startswith("`"):
                seen += 1
                carried = [word.value for word in call.keywords if word.arg == "parameter"]
                said = re.match(r"`(\w+)", first.value)
                if not carried or (
                    said and isinstance(carried[0], ast.Constant) and carried[0].value not in first.value
                ):
                    found.append(f"{name}:{call.lineno}")
    assert not found
    assert seen > 200


def test_a_refusal_is_one_sentence_with_its_place_and_what_is_accepted():
    error = BadInput("`rate` was 2", parameter="rate", accepted="a number from 0 to 1")
    assert str(error) == "`rate` was 2; accepted: a number from 0 to 1."
    placed = error.at("a.npz").at("folder")
    assert str(placed) == "folder: a.npz: `rate` was 2; accepted: a number from 0 to 1."
    assert (placed.parameter, placed.place, placed.exit_code) == ("rate", "folder: a.npz", 2)
    assert (str(BadInput("row 3 is empty.")), BadInput("row 3 is empty.").parameter) == (
        "row 3 is empty.",
        None,
    )
    assert isinstance(RequestReused("x", parameter="request").at("y"), RequestReused)
    copy = pickle.loads(pickle.dumps(placed))
    assert (str(copy), copy.parameter) == (str(placed), "rate")


@pytest.mark.parametrize(
    ("python", "command_line", "service"),
    [
        ("give `clip`.", "give --clip.", "give `clip`."),
        ("give `clip=1.0`.", "give --clip 1.0.", "give `clip: 1.0`."),
        ("give `epsilon=(1, 8)`.", "give --epsilon 1 8.", "give `epsilon: [1, 8]`."),
        ("`time_budget` was 'x'", "--time-budget was 'x'", "`time_budget` was 'x'"),
        ("`overwrite=True`", "--overwrite", "`overwrite: true`"),
        ("`audit=False`", "--no-audit", "`audit: false`"),
        ("`classes=N`", "--classes N", "`classes: N`"),
        ("`mechanism='none'`", "--mechanism none", '`mechanism: "none"`'),
        ("`output`, `then`, `timeout`", "-o, --alpha, --wait", "`output`, `alpha`, `timeout`"),
        ("`schema`", "--schema", "`columns`"),
        (
            "`ledger.open('my clinic', epsilon=..., delta=..., unit='region:16')`",
            "`sfumato budget open 'my clinic' --epsilon … --delta … --unit region:16`",
            "`POST /v1/budgets (OpenBudget in gRPC)`",
        ),
        (
            "`sf.Ledger('sqlite:///b.db').open('clinic', epsilon=..., delta=...)`",
            "'sfumato budget open clinic --epsilon … --delta … --ledger sqlite:///b.db'",
            "`POST /v1/budgets (OpenBudget in gRPC)`",
        ),
        (
            "`sf.Ledger(...).open('clinic', epsilon=..., delta=...)`",
            "'sfumato budget open clinic --epsilon … --delta … --ledger …'",
            "`POST /v1/budgets (OpenBudget in gRPC)`",
        ),
        ("`KeyRing().create()`", "'sfumato key new'", "`KeyRing().create()`"),
        ("`KeyRing().trust(...)`", "'sfumato key trust'", "`GET /v1/signing-key`"),
        (
            "no `code` `x y` `a.b(1)` `=` here",
            "no --code `x y` `a.b(1)` `=` here",
            "no `code` `x y` `a.b(1)` `=` here",
        ),
        ("ends in a ` and {braces}", "ends in a ` and {braces}", "ends in a ` and {braces}"),
    ],
)
def test_each_door_spells_parameters_and_remedies_in_its_own_language(python, command_line, service):
    assert spell(python, "python") == python
    assert spell(BadInput(python), "command line") == command_line
    assert spell(python, "service") == service


def test_words_that_can_be_no_parameter_are_not_quoted():
    assert (quoted("clip"), quoted("a side")) == ("`clip`", "a side")


def test_a_missing_bound_is_asked_for_in_python():
    with pytest.raises(BadInput, match=r"`clip=1\.0`.*`bounds=\(0, 255\)`") as raised:
        sf.Gaussian(epsilon=1).release([[1.0], [2.0]])
    assert raised.value.parameter == "clip"
