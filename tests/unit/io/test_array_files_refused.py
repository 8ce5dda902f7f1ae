"""Files that are no arrays of real numbers, or lie about themselves, are refused in one sentence."""

import io
import pathlib
import struct
import time
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.io import open_array


def header(shape="(3, 2)", descr="'<f8'", fortran="False", version=1):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text


def archive(members, compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in members:
            file.writestr(name, data)
    return buffer.getvalue()


def refusal(tmp_path, data, array=None):
    """The sentence with which the bytes are refused, at opening or while being read."""
    path = tmp_path / "secret.bin"
    path.write_bytes(data)
    with pytest.raises(BadInput) as caught:
        for _ in open_array(path, array).blocks():
            pass
    sentence = str(caught.value)
    assert "secret.bin" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


DATA = np.arange(6.0).tobytes()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello, world", "not a NumPy file"),
        (b"\x93NUMPY", "ends inside its header"),
        (header()[:20], "ends inside its header"),
        (header(version=4) + DATA, "version 4.0 of the .npy format"),
        (header() + DATA[:-1], "truncated: its header announces 48 bytes of data, and 47 are there"),
        (header(), "truncated: its header announces 48 bytes of data, and 0 are there"),
        (header() + DATA + b"!", "followed by other bytes"),
        (header(descr="'|O'") + DATA, "pickled Python objects, which are never loaded"),
        (header(descr="[('a', '<f8')]") + DATA, "structured array"),
        (header(descr="[('a', '|O')]") + DATA, "pickled Python objects"),
        (header(descr="('<f8', (2,))") + DATA, "structured array"),
        (header(descr="'<c16'") + DATA, "dtype complex128; integers, booleans and floats"),
        (header(descr="'<U2'") + DATA, "dtype str"),
        (header(descr="'|S8'") + DATA, "dtype bytes"),
        (header(descr="'|V8'") + DATA, "dtype void"),
        (header(descr="'<M8[s]'") + DATA, "dtype datetime64"),
        (header(descr="'<f16'") + DATA, "dtype"),
        (header(descr="'nonsense'") + DATA, "header that cannot be parsed"),
        (header(shape="()") + DATA, "single number"),
        (header(shape="(0, 2)"), "no rows"),
        (header(shape="(3, 0)"), "no columns"),
        (header(shape="(-3, 2)"), "negative length"),
        (header(shape="(3.0, 2)"), "header that cannot be parsed"),
        (header(shape="(1,) * 3"), "header that cannot be parsed"),
        (header(shape=str((1,) * 70)), "70 dimensions"),
        (header(shape=f"({10**30}, 2)") + DATA, "shape that no file could hold"),
        (header(shape=f"({10**12}, {10**12})") + DATA, "shape that no file could hold"),
        (header(shape=f"(1, {10**12})") + DATA, "rows of more than 1 GiB"),
        (header(shape="[3, 2]") + DATA, "header that cannot be parsed"),
        (header(shape="(" * 3000), "header that cannot be parsed"),
        (header(shape=f"({'1' * 5000},)"), "header that cannot be parsed"),
        (header(shape="(3, 2)" + " " * 20_000) + DATA, "header of"),
        (header(version=2)[:8] + struct.pack("<I", 2**32 - 1) + DATA, "header of 4294967295 bytes"),
        (header(shape="(6,)", descr="'|b1'") + b"\0\1\0\1\0\2", "neither 0 nor 1"),
        (b"PK\x05\x06" + bytes(18), "holds no arrays"),
        (b"PK\x03\x04 and then nothing of the kind", "truncated or damaged"),
        (archive([("readme.txt", b"hello")]), "holds no arrays"),
        (archive([("X.npy", b"hello, world")]), "'X' of secret.bin is not a NumPy array"),
        (archive([("X.npy", header() + DATA + b"!")]), "followed by other bytes"),
        (archive([("X.npy", header() + DATA[:-1])]), "truncated"),
        (archive([("X.npy", header(descr="'|O'") + DATA)]), "pickled Python objects"),
        (archive([("X.npy", header() + DATA)], zipfile.ZIP_LZMA), "unusual method"),
        (archive([("X.npy", header() + DATA)]) + b"trailing", "bytes after the end of the archive"),
        (archive([("X.npy", header() + DATA)])[:-30], "truncated or damaged"),
    ],
)
def test_refused(tmp_path, data, reason):
    assert reason in refusal(tmp_path, data)


def test_a_large_array_in_fortran_order_says_how_to_convert_it(tmp_path):
    path = tmp_path / "x.npy"
    head = header(shape=f"({2**20}, 33)", fortran="True")
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + 2**20 * 33 * 8)
    with pytest.raises(BadInput, match=r"larger than 256 MiB.*save np\.ascontiguousarray\(X\) instead"):
        open_array(path)


def test_two_arrays_of_one_name(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = archive([("X.npy", header() + DATA), ("X.npy", header() + DATA)])
    assert "two arrays named 'X'" in refusal(tmp_path, data)


class WritesAFile:
    """Unpickling this creates the file it names."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_pickles_are_never_run(tmp_path, save):
    trap = tmp_path / "ran"
    path = tmp_path / ("x.npy" if save is np.save else "x.npz")
    save(path, np.array([WritesAFile(str(trap))], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match="pickled Python objects, which are never loaded"):
        open_array(path)
    assert not trap.exists()
    np.load(path, allow_pickle=True) if save is np.save else np.load(path, allow_pickle=True)["arr_0"]
    assert trap.exists(), "the trap works: NumPy's own unpickling springs it"


@pytest.mark.parametrize("pack", [bytes, lambda data: archive([("X.npy", data)])])
def test_a_header_that_announces_terabytes_costs_nothing(tmp_path, pack):
    data = pack(header(shape=f"({10**12}, 4)") + DATA)
    tracemalloc.start()
    began = time.perf_counter()
    try:
        assert "announces 32000000000000 bytes" in refusal(tmp_path, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < 5
    assert peak < 5e6


def forged(real, stated, summed):
    """An archive of ``real`` that states the length of ``stated`` and the checksum of ``summed``."""
    packed = archive([("X.npy", real)])
    old = struct.pack("<I", len(real))
    packed = packed.replace(struct.pack("<I", zlib.crc32(real)), struct.pack("<I", zlib.crc32(summed)))
    assert packed.count(old) == 2
    return packed.replace(old, struct.pack("<I", len(stated)))


def test_a_member_longer_than_stated_is_refused_whatever_its_checksum(tmp_path):
    stated = header() + DATA
    longer = stated + b"more"
    assert "damaged" in refusal(tmp_path, forged(longer, stated, stated))
    assert "more data than its header says" in refusal(tmp_path, forged(longer, stated, longer[:-3]))
    assert "damaged" in refusal(tmp_path, forged(longer, stated, longer))


def test_a_member_shorter_than_stated_is_refused(tmp_path):
    stated = header(shape="(300, 2)") + bytes(4800)
    assert "truncated" in refusal(tmp_path, forged(stated[:-1000], stated, stated[:-1000]))


def test_a_wrong_checksum_is_refused_before_the_last_block(tmp_path):
    good = archive([("X.npy", header() + DATA)], zipfile.ZIP_STORED)
    bad = good.replace(DATA[8:16], DATA[16:24], 1)
    assert "truncated or damaged" in refusal(tmp_path, bad)


def test_an_encrypted_member_is_refused(tmp_path):
    data = bytearray(archive([("X.npy", header() + DATA)]))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in refusal(tmp_path, bytes(data))


GOOD = [
    header() + DATA,
    archive([("X.npy", header() + DATA)]),
    archive([("X.npy", header() + DATA)], zipfile.ZIP_STORED),
]


@settings(deadline=None)  # the disk decides how long a file takes
@given(
    good=st.sampled_from(GOOD),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 400),
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_are_read_or_refused_and_never_crash(tmp_path_factory, good, changes, cut):
    data = bytearray(good)
    for position, value in changes:
        data[position % len(data)] = value
    path = tmp_path_factory.mktemp("fuzz") / "x.npz"
    path.write_bytes(data[: max(1, len(data) - max(0, cut - 300))])
    try:
        source = open_array(path)
        rows = sum(len(block) for block in source.blocks(max_bytes=16))
    except BadInput:
        return
    assert rows == source.rows
