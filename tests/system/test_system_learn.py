"""``sfumato learn`` as people meet it: archives, features and class folders, statements, refusals."""

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from sfumato.io import write_picture
from sfumato.privacy import Statement
from sfumato.release import load_model

pytestmark = pytest.mark.usefixtures("quick_attackers")

PROVEN = ("--classes", "10", "--epsilon", "4", "--extractor", "pixels")
MODEL = {"model.safetensors", "model.json", "manifest.json", "manifest.json.cert.json"}


@pytest.fixture(scope="session")
def made_once(digits, tmp_path_factory):
    """The digits as archives of pictures and of features, 300 of them as an archive, 600 as class folders."""
    place = tmp_path_factory.mktemp("digits")
    pictures = np.rint(digits[0].reshape(-1, 8, 8) * 255).astype(np.uint8)
    np.savez(place / "digits.npz", x=pictures[:1400], y=digits[1][:1400])
    np.savez(place / "few.npz", x=pictures[:300], y=digits[1][:300])
    np.savez(place / "later.npz", x=pictures[1400:], y=digits[1][1400:])
    np.savez(place / "features.npz", x=digits[0][:1400], y=digits[1][:1400])
    for number, (picture, label) in enumerate(zip(pictures[:600], digits[1], strict=False)):
        (place / "scans" / str(label)).mkdir(parents=True, exist_ok=True)
        write_picture(place / "scans" / str(label) / f"{number}.png", picture)
    return place


@pytest.fixture
def archive(folder, made_once):
    """The files digits.npz, few.npz, later.npz and features.npz."""
    for name in ("digits.npz", "few.npz", "later.npz", "features.npz"):
        shutil.copy(made_once / name, folder / name)
    return "digits.npz"


@pytest.fixture
def classes(folder, made_once):
    """The folder scans, of 600 pictures; a test may change it."""
    return Path(shutil.copytree(made_once / "scans", folder / "scans"))


def test_a_model_is_learned_verified_and_asked(command, called, archive, statement_beside):
    given = (*PROVEN, "--shadows", "0", "--test", "later.npz")
    ran = command("learn", "few.npz", "-o", "model", *given)
    assert (ran.code, ran.err, ran.appeared) == (0, "", {"model"})
    assert {path.name for path in Path("model").iterdir()} == MODEL
    for words in (
        "ε = 4 at δ = 1e-06",
        "under zero-out",
        "one-run audit",
        "measured on later.npz (397 records)",
    ):
        assert words in ran.out
    assert called("verify", "model").code == 0
    statement, document = statement_beside("model/manifest.json")
    assert statement.measured == ()
    assert (document["rows"], document["columns"]) == (10, 64)
    with np.load("later.npz") as held:
        right = load_model("model").predict(held["x"]) == held["y"]
    assert f"Accuracy: {right.mean():.2%}" in ran.out
    (Path("model") / "model.json").write_text("{}")
    assert called("verify", "model").code == 4


def test_a_certified_contraction_is_learned_verified_and_asked(called, archive, statement_beside):
    given = (*PROVEN, "--method", "compact-certified", "--steps", "100", "--test", "later.npz")
    ran = called("learn", archive, "-o", "model", *given)
    assert (ran.code, ran.err, ran.appeared) == (0, "", {"model"})
    assert {path.name for path in Path("model").iterdir()} == MODEL
    assert "ε = 4 at δ = 1e-06" in ran.out
    assert "one-run audit" in ran.out
    assert called("verify", "model").code == 0
    statement, document = statement_beside("model/manifest.json")
    assert (document["rows"], document["columns"]) == (10, 64)
    assert statement.proven.epsilon() <= 4.0
    assert (statement.parameters["method"], statement.parameters["steps"]) == ("compact-certified", 100)
    kept = load_model("model")
    with np.load("later.npz") as held:
        right = kept.predict(held["x"]) == held["y"]
    assert right.mean() > 0.7
    assert f"Accuracy: {right.mean():.2%}" in ran.out
    # What is kept is contraction and head, and nothing else that was computed from records.
    assert set(kept.learner.tensors()) == {"mean", "contraction", "weights"}
    (Path("model") / "model.safetensors").write_bytes(b"")
    assert called("verify", "model").code == 4


def test_class_folders_give_their_names_to_the_classes(called, classes, reproduced):
    given = ("--epsilon", "8", "--extractor", "pixels", "--no-audit", "--public-names", "--json")
    result = called("learn", "scans", "-o", "model", *given, "--report", "page.html").result
    assert result["classes"] == [str(label) for label in range(10)]
    assert result["report"] == "page.html"
    assert reproduced(Path("page.html").read_text("utf-8")) == ["sfumato verify model"]
    assert result["findings"] == []
    assert Statement.from_dict(result["statement"]).parameters["class_names"] == result["classes"]
    assert load_model("model").class_names == tuple(result["classes"])


@pytest.mark.parametrize("command", ["learn", "federate", "publish"])
def test_names_of_class_folders_travel_nowhere_unless_they_are_declared_public(called, classes, command):
    (classes / "9").rename(classes / "anna_hiv_ward")
    shutil.copytree(classes, "later")
    given = {
        "learn": ("--epsilon", "8", "--extractor", "pixels", "--no-audit", "--test", "later"),
        "federate": ("--mechanism", "none", "--rounds", "1", "--test", "later"),
        "publish": ("--epsilon", "8", "--no-audit"),
    }[command]
    ran = called(command, "scans", "-o", "out", *given)
    assert ran.code == 0, ran.err
    assert "class-10 is anna_hiv_ward" in " ".join(ran.out.split())
    for file in Path("out").rglob("*"):
        assert "anna" not in str(file)
        if file.is_file():
            assert b"anna" not in file.read_bytes()
    payload = base64.b64decode(json.loads(Path("out/manifest.json.cert.json").read_text())["payload"])
    assert b"anna" not in payload
    assert b"no name of a class travels" in payload
    result = called(command, "scans", "-o", "named", *given, "--public-names", "--json").result
    assert result["class_folders"]["anna_hiv_ward"] == "anna_hiv_ward"
    payload = base64.b64decode(json.loads(Path("named/manifest.json.cert.json").read_text())["payload"])
    assert b"which the owner declares public" in payload


@pytest.mark.parametrize("method", ["compact", "compact-private"])
def test_methods_that_prove_nothing_say_so(called, archive, method):
    given = ("--classes", "10", "--epsilon", "1", "--epochs", "3", "--test", "digits.npz", "--json")
    with np.load("features.npz") as held:
        features, labels = held["x"], held["y"]
    np.savez("digits.npz", x=features[1000:], y=labels[1000:])
    result = called("learn", "features.npz", "-o", "model", "--method", method, *given).result
    statement = Statement.from_dict(result["statement"])
    assert statement.proven.proves_nothing
    assert result["epsilon"] is None
    assert result["accuracy"]["records"] == 400
    said = any("epsilon cannot be heeded" in note for note in statement.notes)
    assert said == (method == "compact")
    assert {item["attack"] for item in result["findings"]} >= {"loss threshold", "label only"}
    assert len(result["class_by_class"]["leakage"]) == len(result["class_by_class"]["profile"]) == 10
    assert load_model("model").predict_proba(features[:5]).shape == (5, 10)


def test_a_budget_is_charged_once_and_then_refuses(called, archive):
    book = ("--ledger", "sqlite:///book.db")
    opened = ("--epsilon", "5", "--delta", "2e-5", *book)
    assert called("budget", "open", "people", *opened).code == 0
    paid = (*PROVEN, "--no-audit", "--dataset", "people", *book)
    assert called("learn", archive, "--plan", *paid, "--json").result["cost"]["fits"]
    assert called("learn", archive, "-o", "model", *paid, "--json").result["paid"]["number"] > 0
    ran = called("learn", archive, "-o", "more", *paid)
    assert (ran.code, ran.appeared) == (3, frozenset())
    assert called("verify", "model", *book).code == 0


def test_a_plan_writes_nothing_and_needs_no_output(called, archive):
    ran = called("learn", archive, *PROVEN, "--plan")
    assert (ran.code, ran.appeared) == (0, frozenset())
    assert "Would release: a classifier of 10 classes by 64 features of 1,400 pictures of 8 × 8" in ran.out
    # Rounded up, and with the δ that it holds at.
    assert re.search(r"proven for 2 records that change together: ε = [\d.]+ at δ = [\de.-]+\n", ran.out)


def test_warnings_are_said_before_and_stand_in_the_statement(called, archive):
    given = ("--classes", "10", "--epsilon", "0.05", "--delta", "1e-3", "--extractor", "pixels", "--no-audit")
    ran = called("learn", archive, "-o", "model", *given, "--neighbours", "replace", "--steps", "10")
    assert ran.code == 0
    assert "is not below 1/n for n = 1400 records" in ran.err
    assert "Note: δ = 0.001 is not below 1/n" in ran.out
    assert "expect a model that knows next to nothing" in ran.err


REFUSED = [
    (("-o", "m", "--epsilon", "1"), "dp-sgd needs --classes N"),
    (("-o", "m", "--classes", "10"), "dp-sgd needs a privacy budget"),
    (("-o", "m", "--classes", "9", "--epsilon", "1", "--extractor", "pixels"), "is not one of 0 to 8"),
    (PROVEN, "learn needs -o, a folder"),
    (("-o", "m", *PROVEN, "--method", "dpsgd"), "did you mean dp-sgd?"),
    (("-o", "m", *PROVEN, "--bandwidth", "2"), "dp-sgd has no --bandwidth"),
    (("-o", "m", *PROVEN, "--rate", "0.1"), "dp-sgd has no --rate"),
    (("-o", "m", *PROVEN, "--shadows", "2"), "--shadows was 2: give 0 for no shadow models, or 4 or more"),
    (("-o", "m", *PROVEN, "--shadows", "4", "--no-audit"), "--shadows is for an audit"),
    (("-o", "m", *PROVEN, "--spread", "1", "--pace", "1"), "--spread and --pace both set the learning rate"),
    (("-o", "m", *PROVEN, "--reach", "2"), "--reach is for features"),
    (("-o", "m", "--classes", "10", "--epsilon", "1", "8"), "--epsilon takes one number"),
    (("-o", "m", "--classes", "10", "--epsilon", "1", "--extractor", "pixel"), "--extractor was 'pixel'"),
    (("-o", "m", *PROVEN, "--neighbours", "any"), "--neighbours must be"),
    (("-o", "m", *PROVEN, "--delta", "0"), "strictly between 0 and 1"),
    (("-o", "m", *PROVEN, "--test", "nothing.npz"), "nothing.npz does not exist"),
    (("-o", "m", *PROVEN, "--test", "features.npz"), "have the shape (64,)"),
    (("-o", "digits.npz", *PROVEN), "lie in one another"),
    (("-o", "features.npz", *PROVEN), "exists and is not a folder"),
    (("-o", "m", *PROVEN, "--clip", "-1"), "--clip must be a positive number"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_options_are_refused_in_one_sentence(called, archive, arguments, words):
    assert words in called("learn", archive, *arguments).sentence


SPOILED = [
    (lambda x, y: {"x": x}, "name one of its arrays by --labels"),
    (lambda x, y: {"x": x[:, 0], "y": y}, "or features of shape (n, d), are accepted"),
    (lambda x, y: {"x": x, "y": y[:-1]}, "1400 records; one label for each is needed"),
    (lambda x, y: {"x": x, "y": y.astype(float)}, "one whole number for each"),
    (lambda x, y: {"x": x, "y": y - 1}, "is not one of 0 to 9"),
    (
        lambda x, y: {"x": np.where(np.arange(1400) == 7, np.nan, x.T).T, "y": y},
        "record 7 are not all finite",
    ),
    (lambda x, y: {"x": x[:0], "y": y[:0]}, "has no rows"),
    (lambda x, y: {"x": x.astype(object), "y": y}, "holds pickled Python objects"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILED, ids=[words for _, words in SPOILED])
def test_bad_archives_are_refused_in_one_sentence(called, archive, spoil, words):
    with np.load("features.npz") as held:
        arrays = spoil(held["x"], held["y"])
    np.savez("bad.npz", **arrays)
    given = ("-o", "m", "--classes", "10", "--epsilon", "1", "--reach", "5")
    assert words in called("learn", "bad.npz", *given).sentence


def test_equal_records_are_refused_only_where_nothing_is_proven(called, archive):
    """A proven model that does not appear would tell of the records; one that proves nothing may say so."""
    with np.load("features.npz") as held:
        np.savez("same.npz", x=np.ones_like(held["x"]), y=held["y"])
    given = ("--classes", "10", "--epsilon", "1")
    said = called("learn", "same.npz", "-o", "m", *given, "--method", "compact", "--json")
    assert (said.code, "all records are the same" in said.out) == (2, True)
    assert called("learn", "same.npz", "-o", "m", *given, "--reach", "5", "--no-audit").code == 0


def test_a_class_of_one_record_is_no_density_and_no_obstacle_to_noise(called, archive):
    with np.load("features.npz") as held:
        kept = np.flatnonzero((held["y"] != 3) | (np.cumsum(held["y"] == 3) == 1))
        np.savez("rare.npz", x=held["x"][kept], y=held["y"][kept])
    given = ("learn", "rare.npz", "-o", "m", "--classes", "10", "--no-audit")
    assert "class 3 has one record" in called(*given, "--method", "compact").sentence
    assert called(*given, "--epsilon", "1", "--reach", "5").code == 0


# Runs the command where one package is not installed; scipy minds a None in sys.modules.
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None, missing=sys.argv.pop(1)):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
from sfumato.cli import main
main()
"""


@pytest.mark.parametrize(("missing", "what"), [("torch", "learning"), ("safetensors", "keeping a model")])
def test_a_missing_extra_is_named_with_the_line_that_adds_it(folder, archive, missing, what):
    words = ("learn", archive, "-o", "model", *PROVEN, "--no-audit")
    ran = subprocess.run([sys.executable, "-c", WITHOUT, missing, *words], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"sfumato: {what} needs {missing}: pip install 'sfumato[learn]'.\n"
    assert not Path("model").exists()


def test_the_commands_of_the_page_run(called, folder, archive, classes):
    page = Path(__file__).parents[2] / "docs" / "how-to-learn.md"
    text = page.read_text("utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    # Too few to learn much from, and enough for every command.
    for name, few in ((archive, "scans.npz"), ("features.npz", "features.npz")):
        with np.load(name) as held:
            arrays = {key: values[:400] for key, values in held.items()}
        np.savez(few, **arrays)
    for line in block.splitlines():
        ran = called(*shlex.split(line.removeprefix("$ sfumato "), comments=True))
        assert ran.code == 0, ran.err
    code, own = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with np.load("later.npz") as held:
        names = {"pictures": held["x"]}
    exec(compile(code, "how-to-learn.md", "exec"), names)
    assert names["shares"].shape == (397, 10)
    with np.load("features.npz") as held:
        names = {"X": held["x"], "y": held["y"]}
    exec(compile(own, "how-to-learn.md", "exec"), names)
    assert names["answers"].shape == (400, 10)
    assert set(names["leaks"]) == set(range(10))
    assert names["game"].canaries == 200
