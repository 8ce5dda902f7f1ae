"""Files that are much more than their bytes are refused before anything is done with them."""

import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.io import Schema, open_array
from sfumato.release import ReleaseRequest, protect, rows_at_once
from sfumato.reports import KeyRing
from sfumato.serve.refusals import TooLarge
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings
from sfumato.serve.uploads import MOST_PIXELS, require_memory, require_memory_to_audit, require_unpacked

MOST = 4 << 20


def png(width, height):
    """A picture whose header says so; its pixels are not looked at."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 100)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def packed_table(rows):
    return gzip.compress(b"age\n" + b"31\n" * rows)


def archive(rows):
    out = io.BytesIO()
    np.savez_compressed(out, X=np.zeros((rows, 4)))
    return out.getvalue()


def parquet(rows):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"age": np.zeros(rows)}), out)
    return out.getvalue()


def texts(rows, **options):
    """Rows of one text of 4,500 letters."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    words = pa.array(["x" * 4500, "y"]).take(pa.array(np.zeros(rows, np.int64)))
    pq.write_table(pa.table({"word": words}), out, **options)
    return out.getvalue()


def chained_texts(rows):
    """The same, each told by what it shares with the one before it."""
    return texts(rows, use_dictionary=False, column_encoding={"word": "DELTA_BYTE_ARRAY"})


def listed_texts(rows):
    """The same, all in the list of a single row."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    words = pa.array(["x" * 4500]).take(pa.array(np.zeros(rows, np.int64)))
    pq.write_table(pa.table({"words": pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), words)}), out)
    return out.getvalue()


def lying_texts(rows):
    """A page of a kilobyte for each row, and an end of the file that says that there is next to nothing."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    table = pa.table({"word": ["x" * 1024] * rows})
    pq.write_table(table, out, use_dictionary=False, compression="zstd", data_page_size=1 << 30)
    stated = pq.ParquetFile(out).metadata.row_group(0).column(0).total_uncompressed_size
    return out.getvalue().replace(varint(stated), varint(1, len(varint(stated))))


def varint(number, length=0):
    """A number as Parquet writes it, in at least so many bytes."""
    found, rest = bytearray(), 2 * number
    while rest >= 128 or len(found) + 1 < length:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def flac(samples):
    soundfile = pytest.importorskip("soundfile")
    out = io.BytesIO()
    soundfile.write(out, np.zeros((samples, 2)), 48_000, format="FLAC")
    return out.getvalue()


def film(frames):
    av = pytest.importorskip("av")
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.zeros((240, 320, 3), np.uint8), format="rgb24")
        for number in range(frames):
            picture.pts = number
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "made", "small", "large"),
    [
        ("a.csv.gz", packed_table, 1000, 2_000_000),
        ("a.npz", archive, 1000, 200_000),
        ("a.parquet", parquet, 1000, 1_000_000),
        ("a.parquet", texts, 100, 100_000),
        ("a.parquet", chained_texts, 100, 100_000),
        ("a.parquet", listed_texts, 100, 100_000),
        ("a.parquet", lying_texts, 100, 20_000),
        ("a.flac", flac, 48_000, 1_000_000),
        ("a.mkv", film, 3, 60),
    ],
)
def test_what_unpacks_to_too_much_is_refused_and_what_does_not_is_taken(tmp_path, name, made, small, large):
    file = tmp_path / name
    file.write_bytes(made(small))
    require_unpacked(file, MOST)
    file.write_bytes(made(large))
    assert file.stat().st_size < MOST / 20
    with pytest.raises(TooLarge, match="unpacks to more than"):
        require_unpacked(file, MOST)


def test_a_table_may_be_packed_in_several_members(tmp_path):
    file = tmp_path / "a.csv.gz"
    file.write_bytes(packed_table(700_000) + packed_table(10))
    require_unpacked(file, MOST)
    file.write_bytes(packed_table(700_000) * 3)
    with pytest.raises(TooLarge):
        require_unpacked(file, MOST)


@pytest.mark.parametrize("packing", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_honest_table_of_texts_is_taken_however_it_was_written(tmp_path, packing, version):
    """It is measured as no less than it is in memory, and no more than three times that."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    words = pa.array([f"ward {number}" for number in range(1000)])
    table = pa.table(
        {
            "ward": words.take(pa.array(rng.integers(0, 1000, 20_000))),
            "note": [str(value) for value in rng.normal(size=20_000)],
            "age": rng.normal(size=20_000),
        }
    )
    file = tmp_path / "a.parquet"
    pq.write_table(table, file, compression=packing, data_page_version=version, data_page_size=1 << 14)
    require_unpacked(file, 3 * table.nbytes)
    with pytest.raises(TooLarge):
        require_unpacked(file, table.nbytes - 1)


def test_a_table_with_damaged_pages_is_refused_in_a_sentence(tmp_path):
    file = tmp_path / "a.parquet"
    whole = texts(100)
    file.write_bytes(whole[:4] + b"\xff" * 20 + whole[24:])
    with pytest.raises(BadInput, match=r"^a.parquet has damaged pages; write it again.$"):
        require_unpacked(file, MOST)


def test_pictures_have_a_limit_of_their_own(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(png(500, 500))
    require_unpacked(file, MOST)
    file.write_bytes(png(MOST_PIXELS // 1000 + 1, 1000))
    with pytest.raises(TooLarge, match="pixels"):
        require_unpacked(file, 1 << 40)


@pytest.mark.parametrize(
    "name", ["a.csv.gz", "a.csv", "a.npz", "a.npy", "a.parquet", "a.png", "a.jpg", "a.wav", "a.flac", "a.mp4"]
)
@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x1f\x8b\x08\0\0", b"PAR1PAR1", bytes(range(256)) * 9]
)
def test_what_cannot_be_read_is_left_to_whoever_reads_it(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    require_unpacked(file, MOST)


def test_a_playlist_that_is_called_a_video_leads_to_no_other_file(tmp_path):
    (tmp_path / "other.mkv").write_bytes(film(3))
    with pytest.raises(TooLarge):
        require_unpacked(tmp_path / "other.mkv", 1)
    (tmp_path / "a.mp4").write_bytes(b"ffconcat version 1.0\nfile other.mkv\n")
    require_unpacked(tmp_path / "a.mp4", 1)  # nothing is counted: whoever reads it refuses it


# Memory

ARRAYS = {"epsilon": 1.0, "clip": 1.0}


@pytest.fixture
def owner(tmp_path):
    """A service whose requests may take 64 MiB, and the owner of a tenant with a budget."""
    service = Service(Settings(tmp_path / "service", memory_bytes=64 << 20))
    clinic = service.registry.create_tenant("clinic")
    caller = service.registry.authenticate(service.registry.create_key(clinic.id, name="k", role="owner")[1])
    service.open_budget(caller, "ward", epsilon=8, delta=1e-5)
    yield service, caller
    service.close()


def peak(call):
    """What ``call`` raises, and the most memory it had."""
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge) as raised:
            call()
        return str(raised.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("operation", "mechanism"),
    [
        ("plan", "laplace"),
        ("plan", "randomised-response"),
        ("plan", "weighted-tensor-ldp"),
        ("protect", "laplace"),
        ("submit", "laplace"),
    ],
)
def test_a_record_as_wide_as_memory_is_refused_by_its_header(tmp_path, owner, operation, mechanism):
    """10⁷ columns are 10 KB here; what was drawn of one took 1.3 GB, in a plan too."""
    service, caller = owner
    file = tmp_path / "x.npz"
    np.savez_compressed(file, X=np.zeros((1, 10_000_000), np.uint8))
    parameters = {"epsilon": 1.0} | {
        "laplace": {"clip": 1.0},
        "randomised-response": {},
        "weighted-tensor-ldp": {"bounds": [0, 1]},
    }[mechanism]

    def ask():
        return getattr(service, operation)(caller, ReleaseRequest(mechanism, parameters), file, "ward")

    sentence, most = peak(ask)
    assert "1,600,000,000 bytes of memory, and 67,108,864 are the most" in sentence
    assert most < 4 << 20
    assert [entry["kind"] for entry in service.history(caller, "ward")] == ["open"]


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("gaussian", ARRAYS),
        ("laplace", ARRAYS),
        ("binary-encoding", {"bits": 32, "epsilon": 1.0}),
        ("grid-tensor-ldp", {"epsilon": 1.0, "bounds": [0, 1]}),
        ("random-projection", {"components": 20}),
    ],
)
def test_what_is_taken_stays_within_the_memory_that_was_foretold(tmp_path, mechanism, parameters):
    file, columns, keys = tmp_path / "x.npz", 30_000, KeyRing(tmp_path / "keys")
    np.savez_compressed(file, X=np.zeros((4, columns), np.uint8))
    made = ReleaseRequest(mechanism, parameters).make_mechanism("array")
    foretold = made.working_bytes(columns, min(4, rows_at_once(open_array(file), made)))
    protect(file, tmp_path / "out.npz", made, keys=keys)  # tables that are made once
    tracemalloc.start()
    protect(file, tmp_path / "again.npz", made, keys=keys)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < foretold + (8 << 20)


def test_pictures_sounds_and_films_are_measured_by_their_headers(tmp_path):
    """Noise on every pixel takes far more than noise on blocks of them."""
    picture = tmp_path / "a.png"
    picture.write_bytes(png(2000, 2000))
    on_blocks, on_pixels = (
        ReleaseRequest("plane-means", {"epsilon": 1.0} | block).make_mechanism("picture")
        for block in ({}, {"block": 1})
    )
    require_memory(picture, on_blocks, None, 500 << 20)
    with pytest.raises(TooLarge, match="a smaller picture"):
        require_memory(picture, on_pixels, None, 500 << 20)
    sound = tmp_path / "a.flac"
    sound.write_bytes(flac(1_000_000))
    require_memory(
        sound, ReleaseRequest("band-noise", {"epsilon": 1.0}).make_mechanism("sound"), None, 16 << 20
    )
    with pytest.raises(TooLarge, match="a shorter clip"):
        require_memory(
            sound, ReleaseRequest("mel-laplace", {"epsilon": 1.0}).make_mechanism("sound"), None, 16 << 20
        )
    clip = tmp_path / "a.mkv"
    clip.write_bytes(film(3))
    made = ReleaseRequest(None, {"epsilon": 1.0}).make_mechanism("video")
    require_memory(clip, made, None, 64 << 20)
    with pytest.raises(TooLarge):
        require_memory(clip, made, None, 1 << 20)


def test_an_audit_has_all_that_it_compares_in_memory(tmp_path):
    file, table = tmp_path / "x.npz", tmp_path / "x.csv"
    np.savez_compressed(file, X=np.zeros((1000, 1000), np.uint8), y=np.zeros(1000))
    require_memory_to_audit([file, file], None, 100 << 20)
    with pytest.raises(TooLarge, match="96,000,000 bytes"):
        require_memory_to_audit([file, file], None, 90 << 20)
    # A cell of two characters becomes as many numbers as its column has categories.
    table.write_bytes(b"ward\n" + b"0\n" * 20_000)
    schema = Schema.from_dict(
        {"columns": {"ward": {"kind": "categorical", "categories": [str(i) for i in range(500)]}}}
    )
    with pytest.raises(TooLarge):
        require_memory_to_audit([table], schema, 400 << 20)


def test_an_array_in_columns_is_counted_whole(tmp_path):
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((1000, 1000), order="F"))
    made = ReleaseRequest("gaussian", ARRAYS).make_mechanism("array")
    with pytest.raises(TooLarge):
        require_memory(file, made, None, 170_000_000)
    np.save(file, np.zeros((1000, 1000)))
    require_memory(file, made, None, 170_000_000)


def test_pages_and_texts_of_a_table_are_in_memory_while_it_is_read(tmp_path):
    file = tmp_path / "a.parquet"
    made = ReleaseRequest("gaussian", {"epsilon": 1.0}).make_mechanism("table")
    file.write_bytes(texts(20_000))
    with pytest.raises(TooLarge):
        require_memory(file, made, None, 80 << 20)
    require_memory(file, made, None, 100 << 20)
    file.write_bytes(parquet(2_000_000))  # read by pages, however many there are
    require_memory(file, made, None, 8 << 20)


def test_an_end_of_a_table_that_describes_too_many_columns_is_refused(tmp_path):
    file = tmp_path / "a.parquet"
    file.write_bytes(b"PAR1" + bytes(17 << 20) + struct.pack("<I", 17 << 20) + b"PAR1")
    sentence, most = peak(lambda: require_unpacked(file, 1 << 40))
    assert "17,825,792 bytes that describe its columns" in sentence
    assert most < 1 << 20


def test_an_archive_that_lists_too_many_arrays_is_refused_before_its_list_is_read(tmp_path):
    file = tmp_path / "x.npz"
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(100):
            archive.writestr(f"{number}{'a' * 60_000}.npy", b"")
    tracemalloc.start()
    with pytest.raises(BadInput, match=r"^x.npz lists more arrays than can be looked through.$"):
        open_array(file)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 << 20
    require_unpacked(file, MOST)  # left to whoever reads it
