"""``sfumato publish`` as people meet it: archives and class folders, statements, refusals in one sentence."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from sfumato.io import write_picture
from sfumato.privacy import Statement

CERTIFIED = ("--epsilon", "1")


@pytest.fixture(scope="session")
def made_once(digits, tmp_path_factory):
    """The digits as an archive and as class folders."""
    place = tmp_path_factory.mktemp("digits")
    pictures = np.rint(digits[0].reshape(-1, 8, 8) * 255).astype(np.uint8)
    np.savez(place / "digits.npz", x=pictures, y=digits[1])
    for number, (picture, label) in enumerate(zip(pictures[:600], digits[1], strict=False)):
        (place / "digits" / str(label)).mkdir(parents=True, exist_ok=True)
        write_picture(place / "digits" / str(label) / f"{number}.png", picture)
    return place


@pytest.fixture
def archive(folder, made_once):
    """The file digits.npz."""
    return shutil.copy(made_once / "digits.npz", folder / "digits.npz").name


@pytest.fixture
def classes(folder, made_once):
    """The folder digits, of 600 pictures; a test may change it."""
    return Path(shutil.copytree(made_once / "digits", folder / "digits"))


def test_a_dataset_is_published_verified_and_read_again(command, archive, statement_beside):
    ran = command("publish", archive, "-o", "out.npz", "--classes", "10", *CERTIFIED)
    assert (ran.code, ran.err, ran.appeared) == (0, "", {"out.npz", "out.npz.cert.json"})
    for words in (
        "ε = 1 at δ = 1e-06",
        "under replace",
        "one-run audit",
        "Published: out.npz (1,618 pictures",
    ):
        assert words in ran.out
    assert command("verify", "out.npz").code == 0
    statement, document = statement_beside("out.npz")
    assert statement.proven.epsilon() <= 1.0
    assert statement.measured == ()
    assert (document["rows"], document["columns"]) == (1618, 64)
    again = command("publish", "out.npz", "-o", "again.npz", "--method", "blur", "--json").result
    assert again["epsilon"] is None


def test_class_folders_are_published_with_a_manifest_and_a_report(called, classes, reproduced):
    arguments = ("-o", "out", "--neighbours", "add/remove", "--report", "page.html", "--json")
    # Of 600 pictures ε = 1 leaves too little to tell which classes there are.
    result = called("publish", "digits", "--epsilon", "30", *arguments).result
    assert result["classes"] == [f"class-{number:02d}" for number in range(1, 11)]
    assert result["certified"] == "out/manifest.json"
    assert result["findings"][0]["attack"] == "one-run audit"
    assert Statement.from_dict(result["statement"]).consistent()
    assert {path.name for path in Path("out").iterdir()} == {
        *result["classes"],
        "manifest.json",
        "manifest.json.cert.json",
    }
    assert called("verify", "out").code == 0
    page = Path("page.html").read_text("utf-8")
    assert "keep this report in-house" in page
    assert "nearest released" in page
    assert reproduced(page) == ["sfumato verify out"]
    next(Path("out").glob("class-03/*.png")).unlink()
    assert called("verify", "out").code == 4


def test_a_folder_becomes_an_archive_and_an_archive_a_folder(called, classes, archive):
    assert called("publish", "digits", "-o", "a.npz", *CERTIFIED, "--no-audit").code == 0
    with np.load("a.npz") as held:
        assert held["images"].shape == (600, 8, 8)
        assert held["images"].dtype == np.uint8
    ran = called("publish", archive, "-o", "b", "--method", "pixelation", "--block", "2", "--json")
    assert len(list(Path("b").rglob("*.png"))) == ran.result["rows"]


@pytest.mark.parametrize(
    ("method", "options", "least"),
    [("pixelation", (), 3.0), ("blur", ("--radius", "1"), 3.0), ("k-anonymity", ("--clusters", "60"), 0.0)],
)
def test_methods_that_prove_nothing_say_so_and_are_measured(called, archive, method, options, least):
    result = called("publish", archive, "-o", "out.npz", "--method", method, *options, "--json").result
    statement = Statement.from_dict(result["statement"])
    assert statement.proven.proves_nothing
    assert result["findings"][0]["epsilon_lower"] >= least
    assert result["findings"][0]["neighbours"] == "replace"


def test_a_budget_is_charged_once_and_then_refuses(called, archive):
    book = ("--ledger", "sqlite:///book.db")
    assert called("budget", "open", "people", "--epsilon", "1.2", "--delta", "2e-5", *book).code == 0
    paid = ("--classes", "10", *CERTIFIED, "--dataset", "people", *book)
    plan = called("publish", archive, "--plan", *paid, "--json").result
    assert plan["cost"]["fits"]
    assert called("publish", archive, "-o", "out.npz", *paid, "--json").result["paid"]["number"] > 0
    ran = called("publish", archive, "-o", "more.npz", *paid)
    assert (ran.code, ran.appeared) == (3, frozenset())
    assert called("verify", "out.npz", *book).code == 0
    shown = called("budget", "show", "people", *book, "--json").result
    assert shown["spends"] == 1 if isinstance(shown, dict) else shown[0]["spends"] == 1


def test_a_plan_writes_nothing_and_needs_no_output(called, archive):
    ran = called("publish", archive, "--classes", "10", *CERTIFIED, "--plan")
    assert (ran.code, ran.appeared) == (0, frozenset())
    assert "Would release: pictures of 8 × 8 in place of 1,797 from digits.npz" in ran.out
    assert "proven for 2 records that change together" in ran.out


REFUSED = [
    (("-o", "x.npz", *CERTIFIED), "certified needs --classes N"),
    (("-o", "x.npz", "--classes", "10"), "certified needs a privacy budget"),
    (("-o", "x.npz", "--classes", "9", *CERTIFIED), "is not one of 0 to 8"),
    (("-o", "x.npz", "--classes", "1", *CERTIFIED), "--classes was 1"),
    (("--classes", "10", *CERTIFIED), "publish needs -o, an .npz file"),
    (("-o", "x.npz", "--method", "certifed", *CERTIFIED), "did you mean certified?"),
    (("-o", "x.npz", "--method", "blur", *CERTIFIED), "blur has no --epsilon; it takes --radius"),
    (("-o", "x.npz", "--method", "blur", "--records", "3"), "one picture for each record"),
    (("-o", "x.npz", "--classes", "10", *CERTIFIED, "--time-budget", "20"), "such as 90s, 20m or 1h30m"),
    (("-o", "x.npz", "--classes", "10", "--epsilon", "1", "8"), "--epsilon takes one number"),
    (("-o", "x.npz", "--classes", "10", *CERTIFIED, "--neighbours", "any"), "accepted are replace"),
    (
        ("-o", "x.npz", "--classes", "10", *CERTIFIED, "--pictures", "z"),
        "--pictures was 'z', which is no array of",
    ),
    (("-o", "x.npz", "--classes", "10", *CERTIFIED, "--report", "x.pdf"), "must name an .html file"),
    (("-o", "digits.npz", "--classes", "10", *CERTIFIED), "lie in one another"),
    (("-o", "x.csv", "--classes", "10", *CERTIFIED), "a dataset is an .npz file, or a folder"),
    (("-o", "no/x.npz", "--classes", "10", *CERTIFIED), "the folder no does not exist"),
    (("-o", "x.npz", "--classes", "10", *CERTIFIED, "--top", "100"), "outside 0 (black) to 100 (white)"),
    (("-o", "x.npz", "--classes", "10", *CERTIFIED, "--top", "300"), "hold numbers up to 255"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_options_are_refused_in_one_sentence(called, archive, arguments, words):
    assert words in called("publish", archive, *arguments).sentence


SPOILED = [
    (lambda x, y: {"x": x}, "name one of its arrays by --labels"),
    (lambda x, y: {"x": x.reshape(len(x), -1), "y": y}, "(n, height, width)"),
    (lambda x, y: {"x": x, "y": y[:-1]}, "one label for each is needed"),
    (lambda x, y: {"x": x, "y": y.astype(float)}, "one whole number for each"),
    (lambda x, y: {"x": x, "y": y - 1}, "is not one of 0 to 9"),
    (
        lambda x, y: {"x": x.astype(np.float32), "y": y},
        "pictures of type float32 need the value of white, as in --top 1",
    ),
    (lambda x, y: {"x": x[:0], "y": y[:0]}, "has no rows"),
    (lambda x, y: {"x": x.astype(object), "y": y}, "holds pickled Python objects"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILED, ids=[words for _, words in SPOILED])
def test_bad_archives_are_refused_in_one_sentence(called, archive, spoil, words):
    with np.load(archive) as held:
        arrays = spoil(held["x"], held["y"])
    np.savez("bad.npz", **arrays)
    assert words in called("publish", "bad.npz", "-o", "x.npz", "--classes", "10", *CERTIFIED).sentence


def test_equal_pictures_are_refused_before_training_where_nothing_is_proven(called, archive):
    with np.load(archive) as held:
        np.savez("same.npz", x=np.zeros_like(held["x"]), y=held["y"])
    for method in ("curvature", "k-anonymity", "blur"):
        given = ("-o", "x.npz", "--classes", "10", "--method", method)
        assert "all pictures are the same" in called("publish", "same.npz", *given).sentence
    ran = called("publish", "same.npz", "-o", "x.npz", "--classes", "10", *CERTIFIED)
    assert (ran.code, "all pictures are the same" in ran.out) == (0, True)


def test_no_sentence_shows_a_private_value(called, archive):
    with np.load(archive) as held:
        pictures, labels = held["x"].astype(np.float32), held["y"]
    pictures[7, 0, 0] = np.inf
    pictures[8, 0, 0] = 54321.0
    np.savez("bad.npz", x=pictures, y=labels)
    given = ("-o", "x.npz", "--classes", "10", *CERTIFIED, "--top", "255")
    assert "picture 7 holds a value that is not finite" in called("publish", "bad.npz", *given).sentence
    pictures[7, 0, 0] = 0.0
    np.savez("bad.npz", x=pictures, y=labels)
    sentence = called("publish", "bad.npz", *given).sentence
    assert "picture 8 holds a value outside 0 (black) to 255 (white)" in sentence
    assert "54321" not in sentence


def test_bad_folders_are_refused_in_one_sentence(called, classes):
    given = ("publish", "digits", "-o", "out", *CERTIFIED)
    assert "lie in one another" in called("publish", "digits", "-o", "digits/out", *CERTIFIED).sentence
    assert "--classes is for an .npz" in called(*given, "--classes", "10").sentence
    odd = classes / "4" / "odd.png"
    write_picture(odd, np.zeros((9, 8), np.uint8))
    assert "4/odd.png is 8 × 9 pixels in 8 bits, grey" in called(*given).sentence
    odd.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "4: odd.png is truncated" in called(*given).sentence
    odd.unlink()
    (classes / "4" / "notes.txt").write_text("by hand")
    assert "4: 'notes.txt' has none of the supported suffixes of pictures" in called(*given).sentence
    (classes / "4" / "notes.txt").unlink()
    (classes / "empty").mkdir()
    assert "the class folder empty holds no pictures" in called(*given).sentence
    (classes / "empty").rmdir()
    (classes / "4").rename(classes / "manifest.json")
    assert "holds a class called 'manifest.json'" in called(*given).sentence


def test_refusals_are_json_for_machines(called, archive):
    ran = called("publish", archive, "-o", "x.npz", "--json")
    assert ran.code == 2
    assert json.loads(ran.out)["exit_code"] == 2


def test_whoever_is_stopped_leaves_nothing_behind(folder, archive, executable):
    command = [executable, "publish", archive, "-o", "out", "--classes", "10", *CERTIFIED]
    running = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60.0
    # The hidden folder appears when pictures begin to be written.
    while running.poll() is None:
        if any(name[0] == "." and not name.endswith(".lock") for name in os.listdir(folder)):
            break
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.send_signal(signal.SIGTERM)
    _, told = running.communicate(timeout=60)
    left = set(os.listdir(folder)) - {archive}
    # Either it was stopped in time, and can be resumed, or it had just finished.
    assert left in (set(), {".out.run"}, {"out"})
    if "out" not in left:
        assert running.returncode == 143
        assert b"nothing unfinished was left behind" in told


def test_a_publication_that_is_killed_is_resumed_by_the_same_command_and_paid_once(
    called, folder, archive, executable
):
    pytest.importorskip("torch")
    book = ("--ledger", "sqlite:///book.db")
    opening = ("--epsilon", "20", "--delta", "1e-4", "--neighbours", "zero-out")
    assert called("budget", "open", "people", *opening, *book).code == 0
    asked = ("publish", archive, "-o", "out.npz", "--classes", "10", "--method", "vaegan-dp")
    command = (*asked, "--epsilon", "4", "--steps", "120", "--rate", "0.05", "--dataset", "people", *book)
    running = subprocess.Popen(
        [executable, *command], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    log, deadline = folder / ".out.npz.run" / "sums", time.monotonic() + 120.0
    while not (log.exists() and log.stat().st_size > 0):
        assert running.poll() is None, running.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.kill()
    running.communicate(timeout=60)
    kept = log.read_bytes()
    assert {path.stat().st_mode & 0o777 for path in log.parent.iterdir()} == {0o600}
    assert not (folder / "out.npz").exists()

    whole = Path(archive).read_bytes()
    with np.load(archive) as held:
        np.savez(archive, x=held["x"][::-1], y=held["y"])
    ran = called(*command)
    assert ran.code == 2
    assert "the data changed since" in ran.err
    Path(archive).write_bytes(whole)
    assert log.read_bytes().startswith(kept)

    assert called(*command).code == 0
    assert called("verify", "out.npz", *book).code == 0
    shown = called("budget", "show", "people", *book, "--json").result
    assert shown["spends"] == 1 if isinstance(shown, dict) else shown[0]["spends"] == 1
    assert not log.parent.exists()


def test_the_commands_of_the_page_run(called, folder, archive, classes):
    page = Path(__file__).parents[2] / "docs" / "how-to-publish.md"
    (block,) = re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    with np.load(archive) as held:
        few = held["y"] < 4
        np.savez("scans.npz", x=held["x"][few], y=held["y"][few])
    classes.rename("scans")
    for line in block.splitlines():
        ran = called(*shlex.split(line.removeprefix("$ sfumato "), comments=True))
        assert ran.code == 0, ran.err
    assert Path("published/manifest.json").exists()
    assert Path("report.html").exists()
