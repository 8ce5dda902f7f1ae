"""Protected photographs a second by the command on a folder, beside the kernel alone, in one run.

``sfumato protect in/ -o out/ --unit region:16 --epsilon 4`` on 224×224 colour JPEGs of quality 90, with one
worker process for each core. What it costs after its start-up is the difference of two runs on folders of
different size, in seconds of the processor, which others on the same machine do not take away, and by the
clock. The kernel decodes, draws and encodes the same files in batches in one process: see ``throughput``.
``python benchmarks/folder_command.py`` prints them.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sfumato.media.images import PlaneMeans
from throughput import FILES, PAPER, PROCESSES, SHAPE, in_batches, one_thread_each, photographs, protected
from timing import Row

SMALL, LARGE = 512, 2560
ROUNDS = 3


def measure() -> list[Row]:
    with one_thread_each(), multiprocessing.get_context("spawn").Pool(1) as pool:
        kernel = pool.apply(kernel_seconds)
    processor, clock = command_seconds()
    return [
        Row("kernel, one process, by its processor time", f"{1e3 * kernel:.3f} ms", 1.0),
        Row(
            "command after start-up, by processor time; ratio = over the kernel",
            f"{1e3 * processor:.3f} ms",
            processor / kernel,
            at_most=2.1,
        ),
        Row(
            f"command after start-up, {PROCESSES} cores by processor time; ratio = over {PAPER}",
            f"{PROCESSES / processor:,.0f} /s",
            PROCESSES / processor / PAPER,
            1.0,
        ),
        Row(
            f"command after start-up, by the clock, beside what else the machine did; ratio = over {PAPER}",
            f"{1.0 / clock:,.0f} /s",
            1.0 / clock / PAPER,
        ),
    ]


def kernel_seconds() -> float:
    """Processor seconds an image of decoding, drawing and encoding in batches."""
    batches, mechanism = in_batches(photographs()), PlaneMeans(epsilon=4.0, unit="region(16)")
    mechanism = mechanism.shaped(SHAPE)
    best = float("inf")
    for _ in range(2 * ROUNDS):
        began = time.process_time()
        for batch in batches:
            protected(batch, mechanism)
        best = min(best, time.process_time() - began)
    return best / FILES


def command_seconds() -> tuple[float, float]:
    """Seconds of the processor and of the clock an image of the command, beyond its start."""
    files = photographs()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for count in (SMALL, LARGE):
            inside = Path(folder, f"in{count}")
            inside.mkdir()
            for number in range(count):
                # A comment behind the end of the picture: no two files may have the same bytes.
                (inside / f"{number:05d}.jpg").write_bytes(files[number % FILES] + b"%d" % number)
        runs = {count: [_run(Path(folder), count) for _ in range(ROUNDS)] for count in (SMALL, LARGE)}
    best = {count: [min(times) for times in zip(*found, strict=True)] for count, found in runs.items()}
    processor, clock = (
        (large - small) / (LARGE - SMALL) for small, large in zip(best[SMALL], best[LARGE], strict=True)
    )
    return processor, clock


def _run(folder: Path, count: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        command = [
            str(Path(sys.executable).with_name("sfumato")),
            *("protect", str(folder / f"in{count}"), "-o", f"{place}/out"),
            *("--unit", "region:16", "--epsilon", "4", "--workers", str(PROCESSES)),
        ]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            command,
            env=os.environ | {"SFUMATO_HOME": str(folder / "home")},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), clock


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name:<80}{row.value:>12}{row.ratio:>9.3g}")
