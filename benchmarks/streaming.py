"""Peak memory of protecting a file that does not fit: 5 GB of float32 records."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from timing import Row

COLUMNS = 1250
GIGABYTES = 5
LIMIT = 500e6
_WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 2.2e9 * GIGABYTES:
            return [Row("5 GB .npy: not enough room on this disk to measure", "skipped", 0.0)]
        source = Path(folder) / "records.npy"
        _write(source, rows=GIGABYTES * 10**9 // (4 * COLUMNS))
        start = time.perf_counter()
        command = [str(Path(sys.executable).with_name("sfumato")), "protect", str(source)]
        options = ["-o", str(source.with_name("out.npy")), "--epsilon", "1", "--clip", "1", "--json"]
        # A small interpreter in between: a child inherits the peak memory of the process that starts it.
        done = subprocess.run(
            [sys.executable, "-c", _WATCH, *command, *options], check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
    peak = 1024 * int(done.stdout.splitlines()[-1])
    name = f"protect a {GIGABYTES} GB .npy in {seconds:.0f} s: peak memory over 500 MB"
    return [Row(name, f"{peak / 1e6:.0f} MB", peak / LIMIT, at_most=1.0)]


def _write(file: Path, rows: int) -> None:
    generator = np.random.default_rng(0)
    block = generator.random((10_000, COLUMNS), dtype=np.float32)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, COLUMNS)}
    with file.open("wb") as out:
        np.lib.format.write_array_header_2_0(out, header)
        for _ in range(rows // len(block)):
            out.write(block.tobytes())
