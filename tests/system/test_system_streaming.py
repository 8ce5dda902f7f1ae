"""Files larger than the memory they may take, the bar that is shown for them, and Ctrl-C in the middle."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS, COLUMNS = 120_000, 1250
OPTIONS = ("--epsilon", "1", "--clip", "1")
LIMIT = 500e6
PARTS_LIMIT = 550e6

# Asked for in a process of its own, since a child starts with the peak of the process that forked it.
PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """600 MB of float32 records, removed afterwards."""
    file = tmp_path_factory.mktemp("large") / "large.npy"
    block = np.random.default_rng(0).random((10_000, COLUMNS), dtype=np.float32)
    with file.open("wb") as out:
        header = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, COLUMNS)}
        np.lib.format.write_array_header_1_0(out, header)
        for _ in range(ROWS // len(block)):
            out.write(block.data)
    yield file
    file.unlink()


def peak_memory(executable, *words, **options):
    """What the command printed, and the most memory it held, in bytes."""
    line = [sys.executable, "-S", "-c", PEAK, executable, "protect", *map(str, words)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, timeout=120, **options)
    printed, _, peak = done.stdout.rstrip("\n").rpartition("\n")
    return printed, int(peak)


def test_a_large_array_takes_little_memory_and_shows_a_bar(executable, folder, large):
    ours, theirs = pty.openpty()
    shown = subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    os.close(ours)
    try:
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        printed, peak = peak_memory(
            executable, large, "-o", "out.npy", *OPTIONS, stderr=theirs, env=environment
        )
    finally:
        os.close(theirs)
    bar = shown.communicate()[0].decode()
    assert peak < LIMIT
    assert f"({ROWS:,} records of {COLUMNS:,} columns)" in printed
    assert "drawing" in bar
    assert "%" in bar
    assert os.path.getsize("out.npy") == large.stat().st_size
    released = np.load("out.npy", mmap_mode="r")
    assert np.isfinite(released[:: ROWS // 50]).all()
    os.unlink("out.npy")


def test_work_that_is_soon_done_shows_no_bar(executable, folder):
    np.save("X.npy", np.eye(4))
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [executable, "protect", "X.npy", "-o", "out.npy", *OPTIONS], stderr=theirs, stdout=subprocess.PIPE
    )
    os.set_blocking(ours, False)
    with pytest.raises(BlockingIOError):
        os.read(ours, 1)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0


def test_a_large_table_takes_little_memory(executable, folder):
    rows = 300_000
    random = np.random.default_rng(0)
    ages = random.integers(18, 90, rows).tolist()
    wards = random.integers(0, 5, rows).tolist()
    with open("t.csv", "w") as file:
        file.write("name,age,ward\n")
        file.writelines(
            f"person number {i},{a},{w}\n" for i, (a, w) in enumerate(zip(ages, wards, strict=True))
        )
    with open("t.toml", "w") as file:
        file.write('[columns.name]\nkind = "identifier"\n')
        file.write('[columns.age]\nkind = "numeric"\nbounds = [0, 110]\n')
        file.write('[columns.ward]\nkind = "categorical"\ncategories = [0, 1, 2, 3, 4]\n')
    printed, peak = peak_memory(
        executable, "t.csv", "-o", "out.csv.gz", "--schema", "t.toml", "--epsilon", "4", "--json"
    )
    assert '"rows": 300000' in printed
    assert peak < LIMIT


def test_a_large_table_that_is_cut_into_parts_takes_little_memory(executable, folder):
    """A table of 600 MB in 96 row groups, cut into parts; all of it in memory would be over the limit."""
    (folder / "schema.toml").write_text(
        "".join(f'[columns.c{column}]\nkind = "numeric"\nbounds = [0, 1]\n' for column in range(50))
    )
    schema = pa.schema([(f"c{column}", pa.float64()) for column in range(50)])
    values = list(np.random.default_rng(0).random((50, 15_625)))
    with pq.ParquetWriter("big.parquet", schema, compression="none", use_dictionary=False) as out:
        for _ in range(96):
            out.write_table(pa.table(values, schema=schema))
    assert os.path.getsize("big.parquet") > PARTS_LIMIT
    words = ("--schema", "schema.toml", "--mechanism", "laplace", "--epsilon", "1", "--workers", "1")
    printed, peak = peak_memory(executable, "big.parquet", "-o", "parts/", *words, "--json")
    assert len(json.loads(printed)["released"]) == 9
    assert peak < PARTS_LIMIT
    os.unlink("big.parquet")


@pytest.mark.parametrize(
    ("number", "code", "cause"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "stopped by SIGTERM")],
)
@pytest.mark.parametrize("older", [False, True])
def test_a_signal_in_the_middle_leaves_nothing_behind(
    executable, heeding, folder, large, number, code, cause, older
):
    kept = {}
    if older:
        kept = {"out.npy": b"older", "out.npy.cert.json": b"its statement"}
        for name, content in kept.items():
            (folder / name).write_bytes(content)
    process = started(heeding(executable, "protect", large, "-o", "out.npy", *OPTIONS, "--overwrite"))
    deadline = time.monotonic() + 60
    # The hidden file is there while noise is drawn; that of the lock is there before.
    while not any(name[0] == "." and not name.endswith(".lock") for name in os.listdir(folder)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert err == f"sfumato: {cause} before it was done; nothing unfinished was left behind.\n"
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == kept


def test_a_signal_while_a_table_is_read_leaves_nothing_behind(executable, heeding, folder):
    (folder / "t.toml").write_text('[columns.a]\nkind = "numeric"\nbounds = [0, 1]\n')
    (folder / "t.csv").write_text("a\n" + "0.5\n" * 6_000_000)
    words = ("t.csv", "-o", "out.csv", "--schema", "t.toml", "--epsilon", "1", "--json")
    process = started(heeding(executable, "protect", *words))
    while not any(name.startswith(".") for name in os.listdir(folder)):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
    assert '"exit_code": 130' in out
    assert sorted(os.listdir(folder)) == ["t.csv", "t.toml"]


def started(command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
