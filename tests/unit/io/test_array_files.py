"""Arrays come back as they were written, block by block, from every form NumPy writes."""

import io
import resource
import signal
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib import format as npy_format

from sfumato.errors import BadInput, StorageFull
from sfumato.io import ArraySink, array_files, open_array

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint64", "bool"]


def whole(source, **options):
    return np.concatenate(list(source.blocks(**options)))


def same(a, b):
    """Equal in dtype, shape and every bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sink_and_source_agree_with_numpy_both_ways(tmp_path, suffix, dtype):
    x = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, (37, 3, 2)).astype(dtype)
    path = tmp_path / f"x.{suffix}"
    with ArraySink(path, x.shape, x.dtype) as sink:
        sink.write(x[:10])
        sink.write(x[10:10])
        sink.write(x[10:])
    loaded = np.load(path, allow_pickle=False)
    assert same(loaded if suffix == "npy" else loaded["X"], x)
    source = open_array(path)
    assert (source.shape, source.dtype, source.rows) == (x.shape, x.dtype, 37)
    assert source.name == (None if suffix == "npy" else "X")
    assert same(whole(source), x)


@settings(deadline=None)  # the disk decides how long a file takes
@given(
    x=hnp.arrays(
        st.sampled_from(["<f4", ">f4", "<f8", ">f8", "<f2", "<i8", ">i4", "u1", "?"]).map(np.dtype),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=9),
    ),
    order=st.sampled_from("CF"),
    pack=st.sampled_from([None, np.savez, np.savez_compressed]),
    max_bytes=st.integers(1, 400),
)
def test_every_array_numpy_saves_is_read_by_blocks(tmp_path_factory, x, order, pack, max_bytes):
    folder = tmp_path_factory.mktemp("array")
    stored = np.asarray(x, order=order)
    if pack is None:
        path = folder / "x.npy"
        np.save(path, stored)
    else:
        path = folder / "x.npz"
        pack(path, data=stored)
    source = open_array(path)
    native = x.astype(x.dtype.newbyteorder("="))
    for _ in range(2):  # a source can be read again
        blocks = list(source.blocks(max_bytes=max_bytes))
        assert same(np.concatenate(blocks), native)
        for block in blocks:
            assert block.flags.c_contiguous
            assert block.dtype.isnative
            assert block.nbytes <= max_bytes or len(block) == 1
    with ArraySink(folder / "again.npz", source.shape, source.dtype) as sink:
        for block in source.blocks(max_bytes=max_bytes):
            sink.write(block)
    assert same(whole(open_array(folder / "again.npz")), native)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format(tmp_path, version):
    x = np.arange(6.0).reshape(3, 2)
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, x, version=version)
    assert same(whole(open_array(tmp_path / "x.npy")), x)


def test_archive_with_several_arrays_needs_a_name(tmp_path):
    path = tmp_path / "many.npz"
    np.savez(path, x=np.arange(4), y=np.arange(3), z=np.arange(2))
    with pytest.raises(
        BadInput, match=r"many\.npz holds 3 arrays; name one of them by `array`; accepted: 'x', 'y', 'z'"
    ):
        open_array(path)
    with pytest.raises(
        BadInput, match=r"`array` was 'w', which is no array of many.npz; accepted: 'x', 'y', 'z'"
    ):
        open_array(path, "w")
    source = open_array(path, "y")
    assert (source.name, source.others) == ("y", ("x", "z"))
    assert same(whole(source), np.arange(3))


def test_a_plain_file_has_no_name_to_choose(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    with pytest.raises(BadInput, match="leave out `array`"):
        open_array(tmp_path / "x.npy", "X")


def test_equal_arrays_give_equal_archives(tmp_path):
    for name in ("a.npz", "b.npz"):
        with ArraySink(tmp_path / name, (2, 2), np.float32, name="features") as sink:
            sink.write(np.ones((2, 2), np.float32))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    (info,) = zipfile.ZipFile(tmp_path / "a.npz").infolist()
    assert (info.filename, info.date_time) == ("features.npy", (1980, 1, 1, 0, 0, 0))


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("rows", [0, 2])
def test_missing_rows_leave_the_older_output(tmp_path, suffix, rows):
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(b"older")
    with (
        pytest.raises(BadInput, match=f"was to hold 3 rows, and {rows} were written"),
        ArraySink(path, (3, 2), np.float64) as sink,
    ):
        sink.write(np.zeros((rows, 2)))
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_exception_midway_leaves_nothing(tmp_path, suffix):
    def write_and_fail():
        with ArraySink(tmp_path / f"x.{suffix}", (3, 2), np.float64) as sink:
            sink.write(np.zeros((3, 2)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def files_of_4_kib():
    """A limit on the size of files, which stands for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("files_of_4_kib")
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    with (
        pytest.raises(StorageFull, match=rf"^x\.{suffix} cannot be written: File too large\.$"),
        ArraySink(path, (1000, 100), np.float64) as sink,
    ):
        sink.write(np.zeros((1000, 100)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("files_of_4_kib")
def test_a_write_that_failed_is_not_forgotten(tmp_path):
    def write_and_go_on():
        with (
            ArraySink(tmp_path / "x.npy", (1000, 100), np.float64) as sink,
            pytest.raises(StorageFull, match="File too large"),
        ):
            sink.write(np.zeros((1000, 100)))

    with pytest.raises(BadInput, match="incomplete: a write to it failed"):
        write_and_go_on()
    assert list(tmp_path.iterdir()) == []


def test_sink_refuses_blocks_that_do_not_fit(tmp_path):
    with ArraySink(tmp_path / "x.npy", (2, 2), np.float32) as sink:
        with pytest.raises(BadInput, match=r"rows of shape \(2,\), not blocks of \(1, 3\)"):
            sink.write(np.zeros((1, 3), np.float32))
        with pytest.raises(BadInput, match="takes float32, which cannot hold float64"):
            sink.write(np.zeros((1, 2)))
        with pytest.raises(BadInput, match="takes 2 rows, and more were written"):
            sink.write(np.zeros((3, 2), np.float32))
        sink.write(np.zeros((2, 2), np.float16))
    with pytest.raises(BadInput, match="inside its with block"):
        sink.write(np.zeros((0, 2), np.float32))


@pytest.mark.parametrize("name", ["", "../x", "/x", "a/./b", "a\0b", "a\nb"])
def test_sink_refuses_names_that_leave_the_archive(tmp_path, name):
    with pytest.raises(BadInput, match="cannot name an array"):
        ArraySink(tmp_path / "x.npz", (1,), np.float64, name=name)


def test_sink_refuses_what_no_source_would_read(tmp_path):
    for shape, dtype in [((0, 2), "f8"), ((), "f8"), ((2,), "c16"), ((2,), "O"), ((2,), "U3")]:
        with pytest.raises(BadInput):
            ArraySink(tmp_path / "x.npy", shape, dtype)
    with pytest.raises(BadInput, match="suffixes of arrays"):
        ArraySink(tmp_path / "x.csv", (2,), "f8")


def test_a_strongly_packed_member_is_read_in_little_memory(tmp_path):
    path = tmp_path / "zeros.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        np.lib.format.write_array_header_1_0(
            member, {"descr": "<f4", "fortran_order": False, "shape": (50_000, 1000)}
        )
        for _ in range(50):
            member.write(bytes(4_000_000))
    assert path.stat().st_size < 2_000_000
    tracemalloc.start()
    try:
        rows = sum(len(block) for block in open_array(path).blocks())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 50_000
    assert peak < 100e6


def test_a_file_that_changes_between_two_readings_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    source = open_array(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    with pytest.raises(BadInput, match="changed since it was opened"):
        next(source.blocks())
    (tmp_path / "x.npy").unlink()
    with pytest.raises(BadInput, match=r"x\.npy cannot be read: No such file"):
        next(source.blocks())


def test_the_whole_array_is_read_and_reported(tmp_path):
    x = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    shares = []
    assert np.array_equal(open_array(tmp_path / "x.npy").read(shares.append), x)
    assert shares == [1.0]


def test_a_header_is_read_while_other_threads_are_in_pythons_parser():
    """Python 3.11 may raise SystemError then; here it does so by itself, as often as a busy process saw."""
    stream = io.BytesIO()
    np.save(stream, np.zeros((3, 4)))
    text = io.BytesIO(stream.getvalue()[8:])
    failing = iter([True, True, False])

    def read(text, max_header_size):
        if next(failing):
            text.read(7)
            raise SystemError("AST constructor recursion depth mismatch (before=45, after=42)")
        return npy_format.read_array_header_1_0(text, max_header_size)

    assert array_files._parsed(read, text)[0] == (3, 4)
