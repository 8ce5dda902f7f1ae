"""The path of a publication: nothing is paid before all is checked, nothing is written before all is done."""

import base64
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee, Statement
from sfumato.publishers import CertifiedPublisher
from sfumato.release import publication
from sfumato.release.catalogue import METHODS, make_publisher, seconds_of
from sfumato.release.labelled_release import PublicFacts
from sfumato.release.manifest import verify_folder
from sfumato.release.path import Payment
from sfumato.release.publication import open_publication
from sfumato.reports import KeyRing, VerificationFailed, verify

DIGITS = load_digits()
PICTURES = np.rint(DIGITS.images * 255 / 16).astype(np.uint8)
LABELS = DIGITS.target.astype(np.int64)
FACTS = PublicFacts((8, 8), 255.0, 10, 1797)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with the digits."""
    monkeypatch.chdir(tmp_path)
    np.savez("digits.npz", x=PICTURES, y=LABELS)
    return tmp_path


def publish(made, output, *, dataset=None, ledger=None, **words):
    return publication.publish(charged(made, dataset, ledger), output, **words)


def charged(made, dataset, ledger):
    return replace(made, payment=Payment(dataset, ledger))


def opened(method="certified", source="digits.npz", classes=10, top=None, **options):
    declared = ("audited", "public_names", "randomness")
    facts = {name: options.pop(name) for name in declared if name in options}
    if method == "certified":
        options = {"epsilon": 1.0} | options
    return open_publication(source, method, options, classes=classes, top=top, **facts)


def certificate(path):
    """What the certificate beside ``path`` says."""
    envelope = json.loads(Path(f"{path}.cert.json").read_text("utf-8"))
    return json.loads(base64.b64decode(envelope["payload"]))["predicate"]


def test_an_archive_becomes_an_archive_that_its_certificate_describes(place):
    done = publish(opened(), "out.npz")
    with np.load("out.npz") as held:
        pictures, labels = held["x"], held["y"]
    assert (pictures.dtype, pictures.shape) == (np.uint8, (1618, 8, 8))
    assert labels.shape == (1618,)
    assert set(np.unique(labels)) <= set(range(10))
    assert verify(Path("out.npz"), KeyRing()).holds
    said = certificate("out.npz")
    assert (said["rows"], said["columns"]) == (1618, 64)
    assert done.to_dict()["epsilon"] == pytest.approx(1.0)
    assert sorted(os.listdir()) == ["digits.npz", "out.npz", "out.npz.cert.json"]


def test_what_was_measured_of_proven_publications_stays_at_home(place):
    done = publish(opened(), "out.npz")
    assert done.statement.measured[0].attack == "one-run audit"
    assert done.statement.consistent()
    said = Statement.from_dict(certificate("out.npz")["statement"])
    assert said.measured == ()
    assert any(note.endswith("stays with whoever published") for note in said.notes)
    assert said.proven == done.statement.proven


def test_what_was_measured_stands_in_the_certificate_where_nothing_is_proven(place):
    done = publish(opened("pixelation"), "out.npz")
    said = Statement.from_dict(certificate("out.npz")["statement"])
    assert said.proven.proves_nothing
    assert said == done.statement
    assert said.measured[0].epsilon_lower > 3.0


def test_a_folder_becomes_a_folder_with_a_manifest(place):
    # So little noise that no class of 180 pictures can get lost in it.
    publish(opened(epsilon=20.0), "classes")
    assert verify_folder(Path("classes"), KeyRing()).holds
    assert sorted(os.listdir("classes")) == [*map(str, range(10)), "manifest.json", "manifest.json.cert.json"]
    again = publish(opened(source="classes", classes=None, public_names=True), "again.npz")
    with np.load("again.npz") as held:
        assert held["images"].shape[1:] == (8, 8)
    assert again.class_names == tuple(map(str, range(10)))
    assert again.statement.parameters["class_names"] == list(again.class_names)
    assert "the classes have the names of their folders, which the owner declares public" in (
        again.statement.notes
    )
    (Path("classes") / "3" / "0000001.png").write_bytes(b"altered")
    assert not verify_folder(Path("classes"), KeyRing()).holds


def test_a_run_that_can_be_repeated_is_the_same_and_is_not_signed(place):
    for name in ("a.npz", "b.npz"):
        publish(opened(randomness=Seeded(3)), name)
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()
    assert json.loads(Path("a.npz.cert.json").read_text())["signatures"] == []
    assert certificate("a.npz")["statement"]["notes"][0] == "reproducible run: not for release"


def test_without_an_audit_every_record_is_fitted(place):
    done = publish(opened(audited=False), "out.npz")
    assert (done.findings, done.statement.measured, done.certified.rows) == ((), (), 1797)


def test_as_many_as_asked_for_are_published(place):
    assert publish(opened(), "out.npz", records=25).certified.rows == 25
    with pytest.raises(BadInput, match="leave out `records`"):
        publish(opened("blur"), "blurred.npz", records=25)
    with pytest.raises(BadInput, match="`records` was 0"):
        publish(opened(), "none.npz", records=0)


def test_the_number_of_zeroed_out_records_does_not_show(place):
    assert publish(opened(neighbours="zero-out"), "out.npz").certified.rows == 1797


def test_a_publication_is_paid_for_before_the_fit_and_each_time(place):
    with Ledger("sqlite:///book.db") as book:
        book.open("digits", epsilon=2.0, delta=3e-5)
        done = publish(opened(), "out.npz", dataset="digits", ledger=book)
        assert done.certified.paid["number"] == book.history("digits")[-1].number
        assert certificate("out.npz")["ledger"]["hash"] == book.history("digits")[-1].hash
        assert book.balance("digits").spends == 1
        with pytest.raises(BudgetRefused):
            publish(opened(epsilon=1.9), "more.npz", dataset="digits", ledger=book)
        assert book.balance("digits").spends == 1
        with pytest.raises(BadInput, match="a release that proves nothing"):
            publish(opened("blur"), "more.npz", dataset="digits", ledger=book)
    assert not Path("more.npz").exists()


def test_a_proven_publication_appears_whatever_the_pictures_are(place):
    """A refusal would tell of them; whoever publishes is told, and the certificate says nothing of it."""
    np.savez("flat.npz", x=np.full_like(PICTURES, 9), y=LABELS)
    done = publish(opened(source="flat.npz"), "out.npz")
    assert any("all pictures are the same" in note for note in done.statement.notes)
    assert "all pictures are the same" not in Path("out.npz.cert.json").read_text("utf-8")
    assert not any("all pictures are the same" in note for note in done.certified.statement.notes)


def test_bad_input_spends_nothing_and_writes_nothing(place):
    spoiled = PICTURES.astype(np.float32)
    spoiled[5, 2, 2] = np.nan
    np.savez("nan.npz", x=spoiled, y=LABELS)
    np.savez("flat.npz", x=np.full_like(PICTURES, 9), y=LABELS)
    np.savez("one.npz", x=PICTURES, y=np.zeros_like(LABELS))
    np.savez("wide.npz", x=PICTURES.astype(np.float32), y=LABELS)
    np.savez("float.npz", x=PICTURES, y=LABELS.astype(np.float32))
    with Ledger("sqlite:///book.db") as book:
        book.open("digits", epsilon=2.0, delta=3e-5)
        before = sorted(os.listdir())
        for source, options, sentence in (
            ("nan.npz", {"top": 255.0}, "picture 5 holds a value that is not finite"),
            ("wide.npz", {"top": 1.0}, "picture 0 holds a value outside 0"),
            ("digits.npz", {"classes": 5}, "the label of picture 5 is not one of 0 to 4"),
            ("float.npz", {}, "one whole number for each"),
        ):
            with pytest.raises(BadInput, match=sentence):
                publish(opened(source=source, **options), "out.npz", dataset="digits", ledger=book)
        with pytest.raises(BadInput, match="all pictures have one label"):
            publish(opened("blur", source="one.npz", classes=None), "out.npz")
        with pytest.raises(BadInput, match="all pictures are the same"):
            publish(opened("blur", source="flat.npz", classes=None), "out.npz")
        assert book.balance("digits").spends == 0
        assert sorted(os.listdir()) == before


def test_types_without_a_white_of_their_own_must_declare_it(place):
    np.savez("real.npz", x=DIGITS.images, y=LABELS)
    with pytest.raises(BadInput, match="pictures of type float64 need the value of white, as in `top=1`"):
        opened(source="real.npz")
    publish(opened(source="real.npz", top=16.0), "out.npz")
    with np.load("out.npz") as held:
        assert held["x"].dtype == np.float32
        assert 8.0 < held["x"].max() <= 16.0


class Boastful(CertifiedPublisher):
    """Copies records, and says that nothing can be told of them."""

    def guarantee(self):
        return Guarantee.pure(0.01)

    def fit(self, X, y, *, report=None, sums=None):
        self._copies = np.asarray(X, np.float32), np.asarray(y)
        return self

    def publish(self, n=None):
        return self._release(*self._copies)


def test_what_the_audit_contradicts_is_not_written(place):
    boastful = replace(opened(), fitted=Boastful(1.0, shape=(8, 8)))
    with pytest.raises(VerificationFailed, match="more than is proven; nothing was written"):
        publish(boastful, "out.npz")
    assert os.listdir() == ["digits.npz"]


def test_a_plan_reads_no_picture_and_costs_nothing(place):
    whole = Path("digits.npz").read_bytes()
    spoiled = bytearray(whole)
    spoiled[5000:5400] = bytes(400)  # in the middle of the pictures
    Path("digits.npz").write_bytes(spoiled)
    with Ledger("sqlite:///book.db") as book:
        book.open("digits", epsilon=2.0, delta=3e-5)
        made = charged(opened(), "digits", book).plan()
        assert made.cost.fits
        assert book.balance("digits").spends == 0
    assert (made.rows, made.columns) == (1797, 64)
    assert made.groups[1] == pytest.approx(1.0)
    with pytest.raises(BadInput, match="damaged"):
        publish(opened(), "out.npz")
    assert sorted(os.listdir()) == ["book.db", "digits.npz"]


@pytest.mark.parametrize(
    ("output", "page", "checkpoint", "sentence"),
    [
        ("digits.npz", None, None, "lie in one another"),
        ("nowhere/out.npz", None, None, "the folder nowhere does not exist"),
        ("full", None, None, "full holds files already"),
        ("out.npz", "page.pdf", None, "must name an .html file"),
        ("out", "out/page.html", None, "is private, and would be published"),
        ("out", None, "out/state.pt", "is private, and would be published"),
        ("out.npz", None, "full", "is a folder: name a file"),
        ("out.npz", None, "digits.npz", "would be inside the input"),
        ("out.npz", "x.html", "x.html", "would be one file; name two"),
        ("out.npz", "x.html", "full/../x.html", "would be one file; name two"),
        ("out.npz", None, "out.npz", "is private, and would be published"),
        ("taken.coins", None, "taken", "is private, and would be published"),
        ("out.csv", None, None, "a dataset is an .npz file, or a folder"),
    ],
)
def test_places_are_checked_before_anything_is_done(place, output, page, checkpoint, sentence):
    Path("full").mkdir()
    Path("full/mine").write_text("stays")
    Path("taken.coins").mkdir()
    with pytest.raises(BadInput, match=sentence):
        publish(opened(), output, page=page, checkpoint=checkpoint)
    assert sorted(os.listdir()) == ["digits.npz", "full", "taken.coins"]


def test_the_records_that_are_left_out_are_those_of_the_checkpoint(place):
    kept = [publish(opened("blur"), f"{name}.npz", checkpoint="state").output for name in "ab"]
    assert kept[0].read_bytes() == kept[1].read_bytes()
    assert Path("state.coins").stat().st_mode & 0o077 == 0
    other = publish(opened("blur"), "c.npz").output
    assert other.read_bytes() != kept[0].read_bytes()


def test_the_report_shows_originals_and_says_so(place):
    done = publish(opened("blur"), "out.npz", page="page.html")
    text = Path("page.html").read_text("utf-8")
    for word in ("Shows original images", "nearest released", "original", "class 7", "linear-probe accuracy"):
        assert word in text
    assert text.count("<img") == 36
    assert Path("page.html").stat().st_mode & 0o777 == 0o600
    assert done.to_dict()["report"] == "page.html"


def test_every_method_is_known_by_its_name_and_takes_its_options():
    for name in METHODS["publish"]:
        options = {"epsilon": 1.0} if name == "certified" else {}
        if name in ("vaegan-dp", "dpdm"):
            options = {"multiplier": 2.0, "steps": 2}
        if name not in ("certified", "pixelation", "blur", "k-anonymity"):
            pytest.importorskip("torch")
        made = make_publisher(name, options, FACTS)
        assert made.parameters()["top"] == 255.0
        assert made.guarantee().proves_nothing == (not options)


@pytest.mark.parametrize(
    ("name", "options", "facts", "sentence"),
    [
        ("blurr", {}, FACTS, "there is no method 'blurr'; did you mean blur?"),
        ("nothing", {}, FACTS, "choose one of certified, curvature"),
        ("blur", {"epsilon": 1.0, "radius": None}, FACTS, "blur has no `epsilon`; it takes `radius`"),
        ("certified", {}, FACTS, "certified needs a privacy budget"),
        ("certified", {"epsilon": 1.0}, PublicFacts((8, 8), 255.0, None, 9), "certified needs `classes=N`"),
    ],
)
def test_what_a_method_does_not_take_is_refused(name, options, facts, sentence):
    with pytest.raises(BadInput, match=sentence):
        make_publisher(name, options, facts)


def test_a_missing_extra_is_named_with_the_line_that_adds_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "sfumato.publishers.curvature_publisher", raising=False)
    with pytest.raises(BadInput, match=r"the method curvature needs torch: pip install 'sfumato\[learn\]'\."):
        make_publisher("curvature", {}, FACTS)


def test_a_time_budget_limits_what_trains_and_goes_with_what_does_not():
    assert make_publisher("certified", {"epsilon": 1.0, "time_budget": 60.0}, FACTS)
    pytest.importorskip("torch")
    assert make_publisher("curvature", {"time_budget": 60.0}, FACTS).parameters()["time_budget"] == 60.0
    with pytest.raises(BadInput, match="it takes `steps`, which its guarantee depends on"):
        make_publisher("dpdm", {"multiplier": 2.0, "time_budget": 60.0}, FACTS)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("20m", 1200.0), ("1h", 3600.0), ("1h30m", 5400.0), ("0.5m", 30.0)]
)
def test_durations_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "soon", "0s", "-5m", "m", "5m1h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(BadInput, match="a time such as 90s, 20m or 1h30m"):
        seconds_of(text)
