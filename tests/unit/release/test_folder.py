"""A folder as one release: what is in it, what is left out, and what stands there when something fails."""

from __future__ import annotations

import base64
import json
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.io import LocalStore, RemoteStore, cuts_of, write_picture, write_whole
from sfumato.ledger import Ledger
from sfumato.mechanisms import Mechanism
from sfumato.media.images import PlaneMeans
from sfumato.noise import Keyed
from sfumato.privacy import Guarantee, Statement
from sfumato.release.combined_statement import INSIDE_ONE_FILE
from sfumato.release.engines import LocalEngine
from sfumato.release.folder import Folder, Piece, count_of, note_unfinished_files, pieces_of, refuse_foreign
from sfumato.release.manifest import unlisted, verify_folder
from sfumato.release.media_files import MediaFile
from sfumato.release.path import Payment, silent
from sfumato.release.path import release as take
from sfumato.reports import MANIFEST, KeyRing, verify

NOBODY = Payment()
KEYED = Keyed(bytes(32), dataset="album", version="1", release="r1")


class Letter(MediaFile):
    """A file whose first word says where on its way it is refused, if at all."""

    mechanism: Mechanism = PlaneMeans(4.0)

    def __init__(self, path, name, part=None):
        self.path, self.what, self.values = path, f"a letter called {name}", path.stat().st_size
        self.word = path.read_text().split()[0]
        self._fails("header")
        epsilon = float(self.word) if self.word.isdigit() else 4.0
        proven, terms = Guarantee.pure(epsilon, unit="region(16)"), {"mechanism": "Letters", "parameters": {}}
        self.statement = Statement("Letters", {}, None, proven, terms=terms)

    def _fails(self, stage):
        if self.word == stage:
            raise BadInput(f"{self.path.name} is refused by its {stage}.")

    def fits(self, output):
        self._fails("place")

    def decode(self, report):
        self._fails("content")

    def most_bytes(self, output):
        return 100

    def write(self, output, first, report):
        self._fails("content")
        self._fails("disk")
        if self.word == "crash":
            raise RuntimeError("what nobody foresaw")
        write_whole(output, f"released by {threading.get_ident()}".encode(), first=first)


@pytest.fixture
def keys(tmp_path):
    return KeyRing(tmp_path / "keys")


@pytest.fixture
def release(tmp_path, keys):
    """Writes letters and releases their folder."""

    def run(letters, payment=NOBODY, report=silent):
        for name, text in letters.items():
            file = tmp_path / "in" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return _release_of(tmp_path / "in", tmp_path / "out", payment, keys=keys, report=report)

    return run


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as book:
        book.open("album", epsilon=10, delta=1e-6, unit="region(16)")
        yield book


def test_files_are_found_in_order_below_and_hidden_ones_are_not(tmp_path):
    for name in ("b/2.txt", "b/1.txt", "a.txt", ".hidden/x.txt", "b/.hidden.txt", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert LocalStore(tmp_path).names() == ["a.txt", "c.txt", "b/1.txt", "b/2.txt"]


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / ".hidden").write_text("x")
    with pytest.raises(BadInput, match="the folder in holds no files"):
        LocalStore(tmp_path / "in").names()


def test_links_are_left_out_and_named(release, tmp_path):
    (tmp_path / "secret").write_text("4")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("4")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "shelf").symlink_to(tmp_path, target_is_directory=True)
    done = release({"a": "4"})
    assert [one.name for one in done.released] == ["a"]
    assert done.skipped == tuple(
        (name, f"{name} is a link, which is not followed.") for name in ("link", "shelf")
    )


def test_a_link_in_the_output_is_not_written_through(tmp_path, ledger):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text("4")
    (tmp_path / "out" / "a").symlink_to("../in/a")
    with pytest.raises(BadInput, match="out holds files that are not of this run, a; choose another output"):
        _release_of(tmp_path / "in", tmp_path / "out")
    done = _release_of(tmp_path / "in", tmp_path / "out", Payment("album", ledger, "r1"), keyed=KEYED)
    assert [one.name for one in done.released] == ["b"]
    assert "is not followed" in dict(done.skipped)["a"]
    assert (tmp_path / "in" / "a").read_text() == "4"


def test_what_is_refused_on_the_way_is_left_out_and_the_rest_goes_on(release, tmp_path, keys):
    letters = {f"{stage}.txt": stage for stage in ("header", "place", "content", "disk")}
    done = release(letters | {"good.txt": "4", "sub/good.txt": "2"})
    assert [one.name for one in done.released] == ["good.txt", "sub/good.txt"]
    assert dict(done.skipped) == {
        f"{stage}.txt": f"{stage}.txt is refused by its {stage}."
        for stage in ("content", "disk", "header", "place")
    }
    assert done.statement.proven.epsilon() == pytest.approx(4.0)
    output = Path(done.output)
    assert verify_folder(output, keys).holds
    manifest = (output / MANIFEST).read_text("utf-8")
    assert json.loads(manifest)["skipped"] == 4
    assert "refused" not in manifest
    assert "; 4 of the source's could not be released" in verify_folder(output, keys).checks[-1].detail
    written = sorted(p.relative_to(output).as_posix() for p in output.rglob("*") if p.is_file())
    assert written == ["good.txt", MANIFEST, f"{MANIFEST}.cert.json", "sub/good.txt"]
    assert json.loads(json.dumps(done.to_dict()))["released"] == [
        {"file": "good.txt", "source": "good.txt", "what": "a letter called good.txt"},
        {"file": "sub/good.txt", "source": "sub/good.txt", "what": "a letter called sub/good.txt"},
    ]


def test_where_nothing_is_left_the_first_reason_is_told_and_nothing_is_made(release, tmp_path):
    with pytest.raises(BadInput) as refused:
        release({"a": "header", "b": "place"})
    assert str(refused.value) == (
        "nothing in in can be released: a: a is refused by its header (1 more were refused too)."
    )
    assert not (tmp_path / "out").exists()


def test_the_weakest_file_is_paid_for_once(release, ledger, keys):
    done = release({"a": "3", "b": "4", "c": "2"}, Payment("album", ledger))
    assert done.manifest.paid["number"] == 2
    seals = [verify(Path(done.output, one.name), keys, ledger) for one in done.released]
    assert all(seal.holds and seal.certificate.ledger == done.manifest.paid for seal in seals)
    assert ledger.balance("album").used == pytest.approx(0.4, abs=1e-3)
    assert ledger.history("album")[-1].purpose == "out, 3 files"


def test_a_folder_that_nobody_pays_for_says_so_of_each_file(release, ledger, keys):
    done = release({"a": "3"}, Payment("album", ledger, uncharged=True))
    note = "not charged to the budget of the dataset, as was asked for"
    assert done.statement.notes[-1] == note
    assert verify(Path(done.output, "a"), keys).certificate.statement.notes[-1] == note


def test_what_is_refused_by_its_content_is_not_paid_for(release, ledger):
    done = release({"a": "content", "b": "2"}, Payment("album", ledger))
    assert ledger.history("album")[-1].purpose == "out, 1 file"
    assert len(done.released) == 1
    shutil.rmtree(done.output)
    with pytest.raises(BadInput, match="nothing in in can be released"):
        release({"b": "content"}, Payment("album", ledger))
    assert len(ledger.history("album")) == 2


def test_a_crash_leaves_whole_files_and_no_manifest_and_is_paid_for(release, tmp_path, ledger):
    with pytest.raises(RuntimeError, match="what nobody foresaw"):
        release({"a": "4", "b": "crash"}, Payment("album", ledger))
    left = sorted(os.listdir(tmp_path / "out"))
    assert left in ([], ["a"])
    assert len(ledger.history("album")) == 2


def test_progress_ends_at_one_for_each_stage(release, ledger):
    told = []
    release({"a": "4", "b": "4", "c": "4"}, Payment("album", ledger), lambda *step: told.append(step))
    for stage in ("checking", "drawing"):
        shares = [share for name, share in told if name == stage]
        assert shares == [pytest.approx(k / 3) for k in (1, 2, 3)]
    assert [name for name, _ in told] == ["checking"] * 3 + ["drawing"] * 3


def _release_of(folder, output, payment=NOBODY, keys=None, report=silent, keyed=None, engine=None):
    store = LocalStore(folder)
    facts = {"records": False, "apart": INSIDE_ONE_FILE, "headline": None, "keyed": keyed}
    opener = SimpleNamespace(open=Letter, reproducible=keys is None, **facts)
    pieces = pieces_of(store, public_names=True)
    kind = Folder(
        store, LocalStore(output), pieces, opener, payment=payment, public_names=True, engine=engine
    )
    return kind.result(take(kind, payment, keys, report))


@pytest.mark.parametrize("output", ["in", "in/sub", ".", "in/../in"])
def test_output_and_folder_may_not_lie_in_one_another(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("4")
    with pytest.raises(BadInput, match="lie in one another"):
        _release_of(Path("in"), Path(output))
    assert os.listdir(tmp_path / "in") == ["a"]


def test_a_link_to_the_folder_is_the_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("4")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(BadInput, match="lie in one another"):
        _release_of(tmp_path / "in", tmp_path / "link" / "out")


def test_the_files_of_two_runs_are_not_mixed(release, tmp_path, ledger):
    done = release({"a": "4"})
    held = {path: path.read_bytes() for path in Path(done.output).iterdir()}
    with pytest.raises(BadInput, match=r"holds the manifest.json of another run.*remove that release first"):
        release({"b": "4"}, Payment("album", ledger))
    assert {path: path.read_bytes() for path in Path(done.output).iterdir()} == held
    assert len(ledger.history("album")) == 1
    (tmp_path / "out" / MANIFEST).write_text("[")
    with pytest.raises(BadInput, match="of another run"):
        release({"b": "4"})
    (tmp_path / "out" / MANIFEST).unlink()
    with pytest.raises(BadInput, match=r"holds files that are not of this run, a; "):
        release({"b": "4"})
    shutil.rmtree(tmp_path / "out")
    assert len(release({"b": "4"}).released) == 2


def test_a_request_that_was_cut_off_goes_on_where_its_own_files_stand(tmp_path, ledger):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text("4")

    def stop(stage, share):
        if stage == "drawing":
            raise KeyboardInterrupt

    payment, output = Payment("album", ledger, "r1"), tmp_path / "out"
    how = {"keyed": KEYED, "engine": LocalEngine(1)}
    with pytest.raises(KeyboardInterrupt) as stopped:
        _release_of(tmp_path / "in", output, payment, **how, report=stop)
    assert stopped.value.__notes__ == [
        f"1 file stands in {output} without a manifest and belongs to no release"
    ]
    assert len(_release_of(tmp_path / "in", output, payment, **how).released) == 2
    (output / "c").write_text("of another run")
    with pytest.raises(BadInput, match="not of this run, c;"):
        _release_of(tmp_path / "in", output, payment, **how)
    assert len(ledger.history("album")) == 2


def test_files_are_counted_in_words():
    assert [count_of(range(n)) for n in (1, 2, 1_000)] == ["1 file", "2 files", "1,000 files"]


@pytest.fixture
def arrays(tmp_path):
    """A folder of ten arrays."""
    (tmp_path / "arrays").mkdir()
    rng = np.random.default_rng(0)
    for number in range(10):
        np.save(tmp_path / "arrays" / f"{number}.npy", rng.normal(size=(5, 3)))
    return tmp_path / "arrays"


def test_a_folder_of_arrays_is_stated_planned_and_paid_as_all_of_its_files(arrays, tmp_path, keys):
    noise = sf.Laplace(epsilon=0.5, clip=1.0)
    with Ledger(f"sqlite:///{tmp_path / 'records.db'}") as ledger:
        ledger.open("people", epsilon=20, delta=0.0)
        planned = sf.plan(arrays, noise, dataset="people", ledger=ledger)
        done = sf.protect(arrays, tmp_path / "out", noise, dataset="people", ledger=ledger, keys=keys)
        used = ledger.balance("people").used
    assert planned.statement.proven.epsilon() == pytest.approx(5.0)
    assert done.statement == planned.statement
    assert (planned.cost.balance.used, used) == (pytest.approx(0.25), pytest.approx(0.25))
    assert verify(tmp_path / "out" / MANIFEST, keys).certificate.statement == done.statement
    for one in done.released:
        note = verify(tmp_path / "out" / one.name, keys).certificate.statement.notes[0]
        assert "one of 10 files" in note
        assert "all of them: ε=5 at δ=0 per record" in note


def test_a_plan_says_in_which_files_of_a_folder_an_error_is_to_be_expected(arrays):
    """The noise of the Gaussian mechanism is the same in all files; that of pictures grows with them."""
    (error,) = sf.plan(arrays, sf.Gaussian(epsilon=1.0, clip=1.0)).expected
    assert "file" not in error.of
    for number, side in enumerate((16, 64, 64, 128)):
        write_picture(arrays / f"{number}.png", np.full((side, side), number, np.uint8))
    for file in arrays.glob("*.npy"):
        file.unlink()
    write_picture(arrays / "4.png", np.zeros((160, 160, 3), np.uint8))
    planned = sf.plan(arrays, sf.PlaneMeans(epsilon=4.0, unit="item")).expected
    assert {error.of.split(",")[0] for error in planned if "file" not in error.of} == {"blue", "red"}
    pixels = [error for error in planned if error.of.startswith("luma, pixel")]
    where = ["the smallest file", "a file of middle size", "the largest file"]
    assert [error.of.rpartition(", in ")[2] for error in pixels] == where
    assert pixels[0].value < pixels[1].value < pixels[2].value


def test_arrays_that_are_declared_disjoint_cost_what_one_does(arrays, tmp_path, keys):
    noise = sf.Laplace(epsilon=0.5, clip=1.0)
    done = sf.protect(arrays, tmp_path / "out", noise, keys=keys, disjoint=True)
    assert done.statement.proven.epsilon() == pytest.approx(0.5)
    assert any("the owner declares" in note for note in done.statement.notes)
    with pytest.raises(BadInput, match="one file"):
        sf.protect(arrays / "1.npy", tmp_path / "x.npy", noise, keys=keys, disjoint=True)


@pytest.mark.parametrize("paid", [False, True])
@pytest.mark.parametrize("suffix", ["png", "bmp"])
def test_pictures_of_equal_bytes_are_refused_before_anything_is_paid_or_drawn(tmp_path, keys, paid, suffix):
    """Of the same size others may be: only equal bytes give a region away twice at the price of one."""
    place = tmp_path / "album"
    (place / "day").mkdir(parents=True)
    for number in range(3):
        write_picture(place / f"{number}.{suffix}", np.full((16, 16), number, np.uint8))
    for name in ("a.txt", "b.txt"):
        (place / name).write_text("no picture, and left out as before")
    shutil.copy(place / f"1.{suffix}", place / "day" / f"anna.{suffix}")
    out, noise = tmp_path / "out", sf.PlaneMeans(epsilon=4.0, unit="region(16)")
    with Ledger(f"sqlite:///{tmp_path / 'pictures.db'}") as ledger:
        ledger.open("album", epsilon=4, delta=0.0, unit="region(16)")
        payer = {"dataset": "album", "ledger": ledger} if paid else {}
        with pytest.raises(BadInput, match=rf"day/anna\.{suffix} holds the same bytes as 1\.{suffix}"):
            sf.protect(place, out, noise, keys=keys, **payer)
        assert not list(out.rglob("*.*"))
        assert [entry for entry in ledger.history("album") if entry.kind == "spend"] == []
        (place / "day" / f"anna.{suffix}").unlink()
        done = sf.protect(place, out, noise, keys=keys, **payer)
    assert (len(done.released), [name for name, _ in done.skipped]) == (3, ["a.txt", "b.txt"])


@pytest.mark.parametrize("disjoint", [False, True])
def test_arrays_of_equal_content_are_refused_before_anything_is_paid(arrays, tmp_path, keys, disjoint):
    np.savez(arrays / "copy.npz", renamed=np.load(arrays / "3.npy"))
    with Ledger(f"sqlite:///{tmp_path / 'records.db'}") as ledger:
        ledger.open("people", epsilon=20, delta=0.0)
        with pytest.raises(BadInput, match=r"copy\.npz holds the same records as 3\.npy"):
            sf.protect(
                *(arrays, tmp_path / "out", sf.Laplace(epsilon=0.5, clip=1.0)),
                **{"dataset": "people", "ledger": ledger, "keys": keys, "disjoint": disjoint},
            )
        assert ledger.balance("people").used == 0.0
    assert not (tmp_path / "out").exists()


def test_the_parts_of_one_array_are_disjoint_and_may_be_equal(tmp_path, keys, monkeypatch):
    monkeypatch.setattr(cuts_of, "__defaults__", (1 << 10,))
    np.save(tmp_path / "x.npy", np.zeros((2000, 3)))
    done = sf.protect(tmp_path / "x.npy", f"{tmp_path}/out/", sf.Laplace(epsilon=0.5, clip=1.0), keys=keys)
    assert len(done.released) > 1
    assert done.statement.proven.epsilon() == pytest.approx(0.5)


NAMES = [f"{name}_hiv_positive" for name in ("anna", "berta", "clara", "dora", "emma", "frida", "gerda")]


@pytest.fixture
def patients(tmp_path):
    """Arrays whose names give their people away."""
    (tmp_path / "ward 7").mkdir()
    for number, name in enumerate(NAMES):
        np.savez(tmp_path / "ward 7" / f"{name}.npz", **{name: np.full((4, 2), number / 10), "y_ssn": [1]})
    return tmp_path / "ward 7"


def _text_of(folder):
    """Names and contents of all files below ``folder``, and what their certificates say."""
    text = []
    for file in folder.rglob("*"):
        text.append(str(file.relative_to(folder)))
        if file.is_file():
            text.append(file.read_bytes().decode("latin-1"))
        if file.name.endswith(".cert.json"):
            text.append(base64.b64decode(json.loads(file.read_text())["payload"]).decode())
    return "\n".join(text)


def test_no_name_of_a_source_or_of_an_array_is_in_what_is_released(patients, tmp_path, keys):
    for name in NAMES:
        other = np.load(patients / f"{name}.npz")[name]
        np.savez(patients / f"{name}.npz", **{name: other})
    done = sf.protect(patients, tmp_path / "out", sf.Laplace(epsilon=1.0, clip=1.0), keys=keys)
    assert verify_folder(tmp_path / "out", keys).holds
    text = _text_of(tmp_path / "out")
    assert not any(name.split("_")[0] in text for name in NAMES)
    assert "positive" not in text
    assert "ward" not in text
    assert [one.name for one in done.released] == [f"{number:06d}.npz" for number in range(1, 8)]
    assert {one.source for one in done.released} == {f"{name}.npz" for name in NAMES}
    assert any("numbered" in note for note in done.statement.notes)
    for one in done.released:
        assert np.load(tmp_path / "out" / one.name).files == ["X"]
        assert np.array_equal(np.load(patients / one.source).files, [Path(one.source).stem])


def test_numbers_do_not_follow_the_alphabet(patients, tmp_path):
    """Two orders of seven files are equal once in 5,040 times: five equal ones in a row never happen."""
    store = LocalStore(patients)
    orders = {tuple(piece.source for piece in pieces_of(store)) for _ in range(6)}
    assert len(orders) > 1
    keyed = [tuple(piece.source for piece in pieces_of(store, keyed=key)) for key in (KEYED, KEYED)]
    assert keyed[0] == keyed[1]
    other = Keyed(bytes(31) + b"1", dataset="album", version="1", release="r1")
    assert tuple(piece.source for piece in pieces_of(store, keyed=other)) != keyed[0]
    assert keyed[0] != tuple(sorted(keyed[0]))


def test_names_that_are_declared_public_travel_and_the_statement_says_so(patients, tmp_path, keys):
    words = {"array": None, "keys": keys, "public_names": True}
    for name in NAMES[1:]:
        (patients / f"{name}.npz").unlink()
    only = np.load(patients / f"{NAMES[0]}.npz")[NAMES[0]]
    np.savez(patients / f"{NAMES[0]}.npz", faces=only)
    done = sf.protect(patients, tmp_path / "out", sf.Laplace(epsilon=1.0, clip=1.0), **words)
    assert [one.name for one in done.released] == [f"{NAMES[0]}.npz"]
    assert np.load(tmp_path / "out" / f"{NAMES[0]}.npz").files == ["faces"]
    assert any("declares public" in note for note in done.statement.notes)


@pytest.mark.parametrize("public", [False, True])
def test_arrays_that_are_left_out_of_one_archive_are_numbered_unless_declared(tmp_path, keys, public):
    (tmp_path / "out").mkdir()
    np.savez(tmp_path / "x.npz", faces=np.zeros((3, 2)), anna_mueller=np.ones(3), berta=np.ones(3))
    done = sf.protect(
        *(tmp_path / "x.npz", tmp_path / "out" / "x.npz", sf.Laplace(epsilon=1.0, clip=1.0)),
        **{"array": "faces", "keys": keys, "public_names": public},
    )
    found = verify(tmp_path / "out" / "x.npz", keys).certificate
    named = ("anna_mueller", "berta") if public else ("array 1", "array 2")
    assert found.left_out == done.left_out == named
    assert ("anna_mueller" in _text_of(tmp_path / "out")) is public
    assert np.load(tmp_path / "out" / "x.npz").files == ["faces"]
    assert any("declare" in note for note in done.statement.notes)


def test_a_refusal_of_a_part_names_the_object_and_not_its_copy(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    part = Piece("part-00000.txt", "a.txt", range(1))
    with (
        RemoteStore(f"file://{tmp_path}") as store,
        pytest.raises(BadInput) as refused,
        part.at(store) as path,
    ):
        raise BadInput(f"{path.name} is damaged.")
    assert str(refused.value) == "a.txt is damaged."


OWN = ["a.png", "sub/b.png"]


@pytest.fixture(params=["folder", "url"])
def output(request, tmp_path):
    """An output that does not exist yet, and its folder."""
    folder = tmp_path / "out"
    return (LocalStore(folder) if request.param == "folder" else RemoteStore(f"file://{folder}")), folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_an_output_may_hold_what_the_same_request_left(output):
    store, folder = output
    refuse_foreign(store, [])
    put(folder, *OWN, "a.png.cert.json", MANIFEST, f"{MANIFEST}.cert.json", ".hidden")
    refuse_foreign(store, OWN)


def test_files_of_others_are_refused_and_named(output):
    store, folder = output
    put(folder, "a.png", "sub/c.png", "c.png.cert.json")
    with pytest.raises(BadInput, match=r"not of this run, c\.png\.cert\.json, sub/c\.png; choose"):
        refuse_foreign(store, OWN)
    with pytest.raises(BadInput, match=r"not of this run, a\.png, "):
        refuse_foreign(store, [])


@pytest.mark.parametrize(
    ("held", "exact", "left"),
    [
        ([], True, ""),
        (
            ["a.png", "a.png.cert.json"],
            True,
            "1 file stands in {} without a manifest and belongs to no release",
        ),
        (OWN, True, "2 files stand in {} without a manifest and belong to no release"),
        (OWN, False, "2 files or more stand in {} without a manifest and belong to no release"),
        ([*OWN, MANIFEST], True, ""),
    ],
)
def test_a_signal_tells_what_stays(output, held, exact, left):
    store, folder = output
    put(folder, *held)
    with pytest.raises(KeyboardInterrupt) as stop, note_unfinished_files(store, OWN, exact=exact):
        raise KeyboardInterrupt
    assert "; ".join(getattr(stop.value, "__notes__", ())) == left.format(store.shown)


def test_an_error_is_left_as_it_is(output):
    store, folder = output
    put(folder, *OWN)
    with pytest.raises(ValueError, match="own words") as error, note_unfinished_files(store, OWN, exact=True):
        raise ValueError("own words")
    assert not hasattr(error.value, "__notes__")


def test_where_the_manifest_states_every_file_no_other_certificate_belongs():
    held = ["a.png", "a.png.cert.json", "manifest.json", "manifest.json.cert.json"]
    assert unlisted(held, ["a.png"]) == []
    assert unlisted(held, ["a.png"], certified=False) == ["a.png.cert.json"]
