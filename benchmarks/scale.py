"""Batches on one and on two workers, and a table larger than memory; ``--write FILE`` makes the page of it.

Each run is the command as people type it, in a process of its own. Pictures are worked on by a cluster that
runs already, as clusters do; runs that start one of their own are measured beside it. A worker has one
thread; so has the local run that it is compared with. ``--quick`` tries all of it with figures that say
nothing. All of it takes an hour: ``--keep FILE`` and ``--only PART`` make it a part at a time.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from photographs import DATA, for_tests
from scale_figures import Job, Model, Ran, Table, Video
from scale_page import page
from sfumato.io import encode_picture, open_video, read_picture
from sfumato.release import keep_ray_private
from timing import Row

COLUMNS, GROUP = 200, 32_768
MEMORY = 2e9
ONE_THREAD = dict.fromkeys(
    ("SFUMATO_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"), "1"
)
TOLD = ("--epsilon", "4", "--unit", "region:16")
#: Run -> engine, workers, and whether its cluster runs already.
RUNS = {
    "local": ("local", 1, False),
    "one": ("ray", 1, True),
    "two": ("ray", 2, True),
    "own one": ("ray", 1, False),
    "own two": ("ray", 2, False),
}


@dataclass(frozen=True)
class Size:
    """How much is run: photographs, more of them, small pictures, rounds, and gigabytes of the table."""

    photographs: int
    more: int
    small: int
    rounds: int
    gigabytes: float

    @classmethod
    def of(cls, quick: bool) -> Size:
        return cls(60, 90, 60, 1, 0.2) if quick else cls(2_000, 10_000, 2_000, 3, 20.0)


def copies(folder: Path, count: int) -> Path:
    """Real photographs in their own size, each under many names."""
    source = folder / f"photographs-{count}"
    source.mkdir()
    files = for_tests()
    for number in range(count):
        shutil.copy(files[number % len(files)], source / f"{number:05d}.jpg")
    return source


def crops(folder: Path, count: int, height: int, width: int) -> Path:
    """Pieces of the same photographs, each from a place of its own."""
    source = folder / f"crops-{height}"
    source.mkdir()
    views = [read_picture(path).values for path in for_tests()]
    views = [view for view in views if view.ndim == 3 and view.shape[0] >= height and view.shape[1] >= width]
    generator = np.random.default_rng(0)
    for number in range(count):
        view = views[number % len(views)]
        y = int(generator.integers(0, view.shape[0] - height + 1))
        x = int(generator.integers(0, view.shape[1] - width + 1))
        encoded = encode_picture(np.ascontiguousarray(view[y : y + height, x : x + width]), ".jpg")
        (source / f"{number:05d}.jpg").write_bytes(encoded)
    return source


def pictures(folder: Path, size: Size) -> list[Job]:
    """All runs on pictures; the best time of each over the rounds, in which they take turns."""
    if not for_tests():
        raise SystemExit("scale: photographs are needed in SFUMATO_DATA/photos.")
    whole, tiny = copies(folder, size.photographs), crops(folder, size.small, 224, 224)
    more = copies(folder, size.more)
    few = folder / "few"
    few.mkdir()
    for file in sorted(whole.iterdir())[:2]:
        shutil.copy(file, few / file.name)
    starts = _best(few, tuple(RUNS), size.rounds)
    jobs = (
        (
            "photographs",
            "about 640 × 480",
            size.photographs,
            whole,
            ("local", "one", "two", "own one", "own two"),
        ),
        ("photographs", "about 640 × 480", size.more, more, ("one", "two")),
        ("small crops", "224 × 224", size.small, tiny, ("local", "one", "two")),
    )
    return [
        Job(name, sides, count, _best(source, runs, size.rounds), starts)
        for name, sides, count, source, runs in jobs
    ]


def _best(source: Path, runs: Sequence[str], rounds: int) -> dict[str, Ran]:
    """The best of each run; what they wrote is removed at the end: ext4 is slow just after a removal."""
    best: dict[str, Ran] = {}
    outputs = source.with_name(f"{source.name}-outputs")
    for number, name in enumerate(tuple(runs) * rounds):
        engine, workers, running = RUNS[name]
        output = outputs / str(number)
        with _cluster() if running else nullcontext({}) as address:
            ran = _protect(source, output, *TOLD, "--engine", engine, "--workers", str(workers), **address)
        best[name] = min(best.get(name, ran), ran, key=lambda each: each.seconds)
        print(f"  {source.name}, {name}: {ran.seconds:.1f} s", flush=True)
    shutil.rmtree(outputs)
    return best


def video(folder: Path) -> Video:
    """The longest of the real clips, and its first frame alone."""
    clips = sorted((DATA / "videos").glob("*.mp4")) if (DATA / "videos").is_dir() else []
    if not clips:
        raise SystemExit("scale: clips are needed in SFUMATO_DATA/videos.")
    clip = max(clips, key=lambda each: open_video(each).frames)
    source = open_video(clip)
    inside, first = folder / "clips", folder / "first-frame"
    for place in (inside, first):
        place.mkdir()
    shutil.copy(clip, inside / clip.name)
    _first_frame(clip, first / clip.name)
    start, ran = (
        _protect(place, folder / f"{place.name}-out", *TOLD, "--workers", "1") for place in (first, inside)
    )
    print(f"  video: {ran.seconds:.1f} s, its first frame alone: {start.seconds:.1f} s", flush=True)
    return Video(clip.name, source.duration, source.frames, (source.width, source.height), ran, start)


def _first_frame(clip: Path, target: Path) -> None:
    with av.open(str(clip)) as given, av.open(str(target), "w") as made:
        frame = next(given.decode(video=0))
        stream = made.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, "yuv420p"
        made.mux(stream.encode(frame.reformat(format="yuv420p")))
        made.mux(stream.encode())


def table(folder: Path, gigabytes: float) -> Table:
    """Numbers that nothing can pack, cut into parts."""
    need = 3.2e9 * gigabytes
    if shutil.disk_usage(folder).free < need:
        raise SystemExit(f"scale: the table and its releases need {need / 1e9:.0f} GB of room on the disk.")
    file = folder / "table.parquet"
    generator = np.random.default_rng(0)
    schema = pa.schema([(f"c{column}", pa.float64()) for column in range(COLUMNS)])
    groups = max(1, round(gigabytes * 1e9 / (8 * COLUMNS * GROUP)))
    with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as out:
        for _ in range(groups):
            values = generator.random((COLUMNS, GROUP))
            out.write_table(pa.table(list(values), schema=schema), row_group_size=GROUP)
    columns = (f'[columns.c{column}]\nkind = "numeric"\nbounds = [0, 1]\n' for column in range(COLUMNS))
    (folder / "schema.toml").write_text("".join(columns))
    size = file.stat().st_size / 1e9
    told = ("--schema", str(folder / "schema.toml"), "--mechanism", "laplace", "--epsilon", "1")
    ran = _protect(file, f"{folder / 'parts'}/", *told, "--engine", "ray", "--workers", "2")
    print(f"  table of {size:.1f} GB: {ran.seconds:.0f} s, {ran.memory / 1e9:.2f} GB of memory", flush=True)
    shutil.rmtree(folder / "parts")
    try:
        limited = _protect(file, f"{folder / 'parts'}/", *told, "--workers", "1", limit=int(MEMORY))
    except SystemExit as failed:
        print(f"  within an enforced limit: {failed}", flush=True)
        limited = None
    return Table(size, ran, MEMORY, limited)


def rows(jobs: Sequence[Job], tabled: Table) -> list[Row]:
    """What has a target."""
    first, longest = jobs[0], jobs[1]
    return [
        Row(
            f"{longest.count:,} {longest.name}, 2 workers of a cluster that runs; ratio = speed over 1",
            f"{longest.seconds('two'):.1f} s",
            longest.seconds("one") / longest.seconds("two"),
            1.6,
        ),
        Row(
            f"{first.count:,} {first.name}, 1 worker of a cluster that runs; ratio = time over local",
            f"{first.seconds('one'):.1f} s",
            first.seconds("one") / first.seconds("local"),
            at_most=1.25,
        ),
        Row(
            f"a Parquet table of {tabled.gigabytes:.1f} GB; ratio = sampled peak memory over 2 GB",
            f"{tabled.ran.memory / 1e9:.2f} GB",
            tabled.ran.memory / MEMORY,
            at_most=1.0,
        ),
    ]


@contextmanager
def _cluster() -> Iterator[dict[str, str]]:
    """A cluster that runs, of workers that have worked before, and the variable that names it."""
    os.environ.update(ONE_THREAD | {"RAY_worker_niceness": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"})
    keep_ray_private()
    import ray

    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=128 << 20,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=f"{folder}/ray",
        )
        try:
            address = {"RAY_ADDRESS": str(ray.get_runtime_context().gcs_address)}
            with tempfile.TemporaryDirectory() as place:
                warm = Path(place, "in")
                warm.mkdir()
                shutil.copy(for_tests()[0], warm / "a.jpg")
                words = ("--epsilon", "4", "--unit", "region:16", "--engine", "ray", "--workers", "2")
                _protect(warm, Path(place, "out"), *words, **address)
            yield address
        finally:
            ray.shutdown()


def _protect(
    source: Path, output: Path | str, *words: str, limit: int | None = None, **environment: str
) -> Ran:
    """The command, watched; with a ``limit`` the kernel refuses it more bytes of data than that."""
    command = [str(Path(sys.executable).with_name("sfumato")), "protect", str(source), "-o", str(output)]
    bound = None if limit is None else partial(resource.setrlimit, resource.RLIMIT_DATA, (limit, limit))
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        run = subprocess.Popen(
            [*command, *words, "--json"],
            stdout=errors,
            stderr=errors,
            env=os.environ | ONE_THREAD | environment,
            preexec_fn=bound,
        )
        most, done = [0.0], threading.Event()

        def watch() -> None:
            while not done.wait(0.5):
                most[0] = max(most[0], _held(run.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = run.wait()
        seconds = time.perf_counter() - begun
        done.set()
        watcher.join()
        if code != 0:
            errors.seek(0)
            raise SystemExit(f"scale: {' '.join(command)} failed: {errors.read().decode()[-500:]}")
    return Ran(seconds, most[0])


def _held(root: int) -> float:
    """Bytes of memory of a process and all below it; what several share counts once (proportional sizes)."""
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    held = 0
    for process in parents:
        at = process
        while at > 1 and at != root:
            at = parents.get(at, 0)
        if at == root:
            try:
                rollup = Path("/proc", str(process), "smaps_rollup").read_text()
            except OSError:
                continue
            held += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return 1024.0 * held


def _kept(file: Path | None) -> dict[str, Any]:
    """The figures of parts that were run before."""
    return pickle.loads(file.read_bytes()) if file is not None and file.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="write the page")
    parser.add_argument("--gigabytes", type=float, help="of the table")
    parser.add_argument("--quick", action="store_true", help="few pictures: figures that say nothing")
    parser.add_argument(
        "--keep", type=Path, help="a file for each part's figures; what it has is not run again"
    )
    parser.add_argument("--only", choices=("pictures", "video", "table"), help="run this part, for --keep")
    arguments = parser.parse_args()
    size = Size.of(arguments.quick)
    gigabytes = arguments.gigabytes or size.gigabytes
    parts = {
        "pictures": partial(pictures, size=size),
        "video": video,
        "table": partial(table, gigabytes=gigabytes),
    }
    kept = _kept(arguments.keep)
    with tempfile.TemporaryDirectory() as place:
        for name in [arguments.only] if arguments.only else parts:
            if name not in kept:
                kept[name] = parts[name](Path(place))
                if arguments.keep:
                    arguments.keep.write_bytes(pickle.dumps(kept))
    if arguments.only:
        return 0
    jobs, clip, tabled = (kept[name] for name in parts)
    found = rows(jobs, tabled)
    for row in found:
        print(f"  {row.name:<80}{row.value:>14}{row.ratio:>10.3g}  {row.target}")
    if arguments.write:
        arguments.write.write_text(page(jobs, Model(jobs[1]), clip, tabled, found), encoding="utf-8")
    return 0 if all(row.reached for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
