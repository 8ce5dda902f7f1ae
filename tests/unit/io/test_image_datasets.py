"""Datasets of labelled pictures, in archives and in class folders: read and written whole, or refused."""

import os
import zipfile

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.io.image_datasets import (
    is_archive,
    open_dataset,
    stored_values,
    write_archive,
    write_class_folders,
)
from sfumato.io.image_files import write_picture

RNG = np.random.default_rng(7)
PICTURES = RNG.integers(0, 256, (6, 4, 5), dtype=np.uint8)
LABELS = np.array([1, 0, 1, 0, 2, 2])


@pytest.fixture
def folder(tmp_path):
    """Three classes of two pictures, each picture at its own place."""
    target = tmp_path / "set"
    write_class_folders(target, PICTURES, LABELS, ("ant", "bee", "cat"))
    return target


@pytest.fixture
def archive(tmp_path):
    """Writes an archive of the arrays given."""

    def write(**arrays):
        np.savez(tmp_path / "set.npz", **arrays)
        return tmp_path / "set.npz"

    return write


def test_class_folders_are_read_back_in_the_order_of_their_names(folder):
    found = open_dataset(folder, public_names=True)
    assert (found.class_names, found.shape, found.dtype) == (("ant", "bee", "cat"), (4, 5), np.uint8)
    pictures, labels = found.read()
    order = np.argsort(LABELS, kind="stable")
    np.testing.assert_array_equal(pictures, PICTURES[order])
    np.testing.assert_array_equal(labels, LABELS[order])


def test_class_folders_are_numbered_unless_their_names_are_declared_public(folder, archive):
    found = open_dataset(folder)
    assert found.class_names == ("class-1", "class-2", "class-3")
    assert found.folders == ("ant", "bee", "cat")
    with pytest.raises(BadInput, match=r"set\.npz is an archive, whose classes are numbers"):
        open_dataset(archive(x=PICTURES, y=LABELS), public_names=True)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    assert names == [f"{name}/000000{k}.png" for name in ("ant", "bee", "cat") for k in (1, 2)]


@pytest.mark.parametrize("names", [("x", "y"), ("X", "labels"), ("images", "y_train"), ("x_train", "y")])
def test_arrays_are_found_by_their_usual_names(archive, names):
    path = archive(**dict(zip(names, (PICTURES, LABELS), strict=True)), more=np.arange(3))
    pictures, labels = open_dataset(path).read()
    np.testing.assert_array_equal(pictures, PICTURES)
    np.testing.assert_array_equal(labels, LABELS)


def test_arrays_are_named_where_names_are_unusual(archive):
    path = archive(a=PICTURES, b=LABELS)
    pictures, labels = open_dataset(path, pictures="a", labels="b").read()
    np.testing.assert_array_equal(pictures, PICTURES)
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize(
    ("arrays", "options", "sentence"),
    [
        (
            {"x": PICTURES, "X": PICTURES, "y": LABELS},
            {},
            "'x' and 'X' of set.npz could each be the pictures",
        ),
        ({"x": PICTURES, "y": LABELS, "labels": LABELS}, {}, "could each be the labels; choose one by"),
        ({"x": PICTURES}, {}, "name one of its arrays by `labels`; accepted: 'x'"),
        ({"a": PICTURES, "y": LABELS}, {}, "name one of its arrays by `pictures`"),
        (
            {"x": PICTURES, "y": LABELS},
            {"labels": "z"},
            "`labels` was 'z', which is no array of set.npz; accepted: 'x', 'y'",
        ),
        ({"x": PICTURES, "y": LABELS}, {"labels": "x"}, "cannot be both"),
        ({"x": PICTURES.reshape(6, 20), "y": LABELS}, {}, r"has the shape \(6, 20\)"),
        ({"x": PICTURES, "y": LABELS[:5]}, {}, "one label for each is needed"),
        ({"x": PICTURES, "y": np.eye(6)}, {}, r"has the shape \(6, 6\)"),
    ],
)
def test_archives_that_are_no_dataset_are_refused(archive, arrays, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        open_dataset(archive(**arrays), **options)


@pytest.mark.parametrize("name", ["../x", "a//b", "/x", "./x", "a\nb"])
def test_arrays_keep_no_name_that_leads_elsewhere(archive, tmp_path, name):
    with pytest.raises(BadInput, match=r"cannot name an array in set\.npz; a plain word is accepted"):
        open_dataset(archive(**{name: PICTURES, "y": LABELS}), pictures=name)
    with pytest.raises(BadInput, match=r"cannot name an array in out\.npz"):
        write_archive(tmp_path / "out.npz", {name: PICTURES})
    assert not (tmp_path / "out.npz").exists()


def test_a_small_archive_cannot_claim_much_memory(tmp_path):
    """128 MiB of zeros, packed a thousandfold without ever being in memory."""
    path = tmp_path / "set.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        with packed.open("x.npy", "w") as member:
            header = {"descr": "|u1", "fortran_order": False, "shape": (2, 8192, 8192)}
            np.lib.format.write_array_header_1_0(member, header)
            for _ in range(128):
                member.write(bytes(1 << 20))
        with packed.open("y.npy", "w") as member:
            np.lib.format.write_array(member, np.zeros(2, np.int64))
    assert path.stat().st_size < 150_000
    with pytest.raises(BadInput, match=r"array 'x' of set.npz unpacks to 0.1 GiB, over 200 times its packed"):
        open_dataset(path)


def test_a_small_dataset_may_shrink_as_much_as_it_does(tmp_path):
    np.savez_compressed(tmp_path / "set.npz", x=np.zeros((2, 1024, 1024), np.uint8), y=np.array([0, 1]))
    assert open_dataset(tmp_path / "set.npz").shape == (1024, 1024)


def test_a_folder_has_no_arrays_to_name(folder):
    with pytest.raises(BadInput, match=r"`labels` names an array of an \.npz, and set is a folder"):
        open_dataset(folder, labels="y")


def test_another_size_names_the_first_file_that_differs(folder):
    write_picture(folder / "bee" / "0000003.png", np.zeros((5, 5), np.uint8))
    write_picture(folder / "cat" / "0000003.png", np.zeros((6, 6), np.uint8))
    with pytest.raises(BadInput, match=r"bee/0000003.png is 5 × 5 pixels in 8 bits, grey, and ant/0000001"):
        open_dataset(folder)


@pytest.mark.parametrize(
    "other", [np.zeros((4, 5, 3), np.uint8), np.zeros((4, 5), np.uint16)], ids=["colour", "16 bits"]
)
def test_other_channels_and_bits_are_another_kind_of_picture(folder, other):
    write_picture(folder / "bee" / "0000003.png", other)
    with pytest.raises(BadInput, match="all pictures of a dataset must be alike"):
        open_dataset(folder)


def test_folders_that_are_no_dataset_are_refused(folder, tmp_path):
    with pytest.raises(BadInput, match="nowhere does not exist"):
        open_dataset(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="the folder empty is empty"):
        open_dataset(tmp_path / "empty")
    (tmp_path / "empty" / "one").mkdir()
    with pytest.raises(BadInput, match="empty holds one class, one"):
        open_dataset(tmp_path / "empty")
    (tmp_path / "empty" / "two").mkdir()
    with pytest.raises(BadInput, match="the class folder one holds no pictures"):
        open_dataset(tmp_path / "empty")
    (folder / "notes.txt").write_text("by hand")
    with pytest.raises(BadInput, match=r"set holds notes.txt beside its classes"):
        open_dataset(folder)


@pytest.mark.parametrize("name", ["manifest.json", "manifest.json.cert.json", "Manifest.json", "a\nb"])
def test_classes_have_no_name_that_stands_for_something_else(folder, name):
    (folder / "bee").rename(folder / name)
    with pytest.raises(BadInput, match=r"set holds a class called .*: a name in printable characters"):
        open_dataset(folder)


def test_a_class_whose_name_is_no_text_is_refused(folder):
    os.rename(os.fsencode(folder / "bee"), os.fsencode(folder / "bee") + b"\xff")
    with pytest.raises(BadInput, match="set holds a class called"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda bee: (bee / "a.txt").write_text("no"),
            "bee: 'a.txt' has none of the supported suffixes of pictures",
        ),
        (lambda bee: (bee / "a.png").write_bytes(b"no"), "bee: a.png is not a PNG picture"),
        (lambda bee: (bee / "more").mkdir(), "bee/more is a folder inside a class"),
        (lambda bee: os.symlink(bee / "0000001.png", bee / "a.png"), "a.png in bee is a link"),
    ],
)
def test_what_is_no_picture_is_named(folder, spoil, sentence):
    spoil(folder / "bee")
    with pytest.raises(BadInput, match=sentence):
        open_dataset(folder)


def test_a_damaged_picture_is_named_when_it_is_read(folder):
    damaged = folder / "bee" / "0000002.png"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(BadInput, match=r"bee: 0000002\.png"):
        open_dataset(folder).read()


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    def fail(inside, files):
        assert len(files) == 6
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_class_folders(tmp_path / "out", PICTURES, LABELS, ("a", "b", "c"), finish=fail)
    assert os.listdir(tmp_path) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("stays")
    with pytest.raises(BadInput, match="out cannot be written"):
        write_class_folders(tmp_path / "out", PICTURES, LABELS, ("a", "b", "c"))
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == ["mine"]


def test_an_archive_has_the_same_bytes_every_time_and_numpy_reads_it(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_archive(tmp_path / name, {"x": PICTURES, "y": LABELS})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as held:
        np.testing.assert_array_equal(held["x"], PICTURES)
        np.testing.assert_array_equal(held["y"], LABELS)


def test_values_are_stored_as_the_originals_were():
    drawn = np.array([[-3.0, 0.4, 7.6, 20.0]], np.float32)
    whole = stored_values(drawn, 16.0, np.dtype(np.int64), as_files=False)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole, [[0, 0, 8, 16]])
    plain = stored_values(drawn, 16.0, np.dtype(np.float64), as_files=False)
    assert plain.dtype == np.float32
    np.testing.assert_allclose(plain, [[0.0, 0.4, 7.6, 16.0]])
    white = stored_values(drawn, 16.0, np.dtype(np.float64), as_files=True)
    assert white.dtype == np.uint8
    np.testing.assert_array_equal(white, [[0, 6, 121, 255]])
    deep = stored_values(drawn, 16.0, np.dtype(np.uint16), as_files=True)
    assert (deep.dtype, deep[0, -1]) == (np.uint16, 65535)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_no_value_wraps_around(kind):
    top = float(np.iinfo(kind).max)
    if top <= np.iinfo(kind).max:
        with pytest.raises(BadInput, match=f"pictures of type {np.dtype(kind)} hold numbers up to"):
            stored_values(np.ones((1, 2), np.float32), top + 0.5, np.dtype(kind), as_files=False)
    top = float(np.nextafter(top, 0.0)) if top > np.iinfo(kind).max else top
    white = stored_values(np.full((1, 2), 2.0 * top, np.float32), top, np.dtype(kind), as_files=False)
    assert white.dtype == kind
    assert (white > 0.99 * top).all()


def test_what_a_dataset_may_be_called(tmp_path):
    assert is_archive("a.npz")
    assert not is_archive("published")
    (tmp_path / "v1.2").mkdir()
    assert not is_archive(tmp_path / "v1.2")
    with pytest.raises(BadInput, match=r"a\.npy ends in \.npy: a dataset is an \.npz file, or a folder"):
        is_archive("a.npy")
