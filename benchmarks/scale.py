"""Batches on one and on two workers, and a table larger than memory; ``--write FILE`` makes the page of it.

Each run is the command as people type it, in a process of its own. Pictures are worked on by a cluster that
runs already, as clusters do; what it takes to start one is measured beside it. A worker has one thread; so
has the local run that it is compared with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from photographs import DATA, for_tests
from sfumato.io.pictures import encode_picture, read_picture
from sfumato.io.videos import open_video
from sfumato.pipeline.ray_privacy import keep_ray_private, ray_folder
from timing import Row

PICTURES, SIDE = 2_000, 224
GIGABYTES, COLUMNS, GROUP = 20, 200, 32_768
MEMORY = 2e9
ONE_THREAD = dict.fromkeys(
    ("SFUMATO_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"), "1"
)


@dataclass(frozen=True)
class Ran:
    """Seconds by the clock and the most memory, in bytes, that the command and all below it held at once."""

    seconds: float
    memory: float


@dataclass(frozen=True)
class Pictures:
    """Seconds for all pictures of ``sides``, and for two of them, which is starting up.

    ``alone`` is the run of two pictures that starts a cluster of its own, and ends it.
    """

    sides: str
    local: Ran
    one: Ran
    two: Ran
    start_local: Ran
    start_one: Ran
    start_two: Ran
    alone: Ran

    @property
    def rate(self) -> float:
        """Pictures a second of one worker once it runs."""
        return (PICTURES - 2) / (self.one.seconds - self.start_one.seconds)

    @property
    def rate_of_two(self) -> float:
        """The same of two."""
        return (PICTURES - 2) / (self.two.seconds - self.start_two.seconds)


@dataclass(frozen=True)
class Video:
    """Of one clip: its name, seconds, frames and sides, and the seconds that one core took for it."""

    name: str
    length: float
    frames: int
    sides: tuple[int, int]
    took: float

    @property
    def rate(self) -> float:
        """Seconds of video that one core protects in a second."""
        return self.length / self.took


@dataclass(frozen=True)
class Table:
    """A table of so many gigabytes, and its run on two workers."""

    gigabytes: float
    ran: Ran


def photographs(folder: Path) -> Pictures:
    """Real photographs in their own size, each under many names."""
    files = for_tests()
    if not files:
        raise SystemExit("scale: photographs are needed in SFUMATO_DATA/photos.")
    source = folder / "photographs"
    source.mkdir()
    for number in range(PICTURES):
        shutil.copy(files[number % len(files)], source / f"{number:05d}.jpg")
    return _pictures(source, "about 640 × 480", rounds=3)


def small(folder: Path) -> Pictures:
    """Small pieces of the same photographs."""
    source = folder / "small"
    source.mkdir()
    views = [read_picture(path).values for path in for_tests()]
    views = [view for view in views if view.ndim == 3 and min(view.shape[:2]) >= SIDE]
    generator = np.random.default_rng(0)
    for number in range(PICTURES):
        view = views[number % len(views)]
        y, x = (int(generator.integers(0, side - SIDE + 1)) for side in view.shape[:2])
        encoded = encode_picture(np.ascontiguousarray(view[y : y + SIDE, x : x + SIDE]), ".jpg")
        (source / f"{number:05d}.jpg").write_bytes(encoded)
    return _pictures(source, f"{SIDE} × {SIDE}", rounds=1)


def _pictures(source: Path, sides: str, rounds: int) -> Pictures:
    """All runs on the same pictures, taking turns; the best time of each over ``rounds`` rounds."""
    few = source.with_name(f"few-{source.name}")
    few.mkdir()
    for file in sorted(source.iterdir())[:2]:
        shutil.copy(file, few / file.name)
    told = ("--epsilon", "4", "--unit", "region:16")
    runs: dict[str, Ran] = {}
    plan = (
        ("alone", few, "ray", 1, False),
        ("start_local", few, "local", 1, False),
        ("start_one", few, "ray", 1, True),
        ("start_two", few, "ray", 2, True),
        ("local", source, "local", 1, False),
        ("one", source, "ray", 1, True),
        ("two", source, "ray", 2, True),
    )
    for name, place, engine, workers, running in plan * rounds:
        output = source.with_name(f"{source.name}-{name}")
        words = ("--engine", engine, "--workers", str(workers))
        with _cluster() if running else nullcontext({}) as address:
            ran = _protect(place, output, *told, *words, **address)
        runs[name] = min(runs.get(name, ran), ran, key=lambda each: each.seconds)
        print(f"  {source.name}, {name}: {ran.seconds:.1f} s", flush=True)
        shutil.rmtree(output)
    return Pictures(sides, **runs)


def video(folder: Path) -> Video:
    """The longest of the real clips."""
    clips = sorted((DATA / "videos").glob("*.mp4")) if (DATA / "videos").is_dir() else []
    if not clips:
        raise SystemExit("scale: clips are needed in SFUMATO_DATA/videos.")
    clip = max(clips, key=lambda each: open_video(each).frames)
    source = open_video(clip)
    inside = folder / "clips"
    inside.mkdir()
    shutil.copy(clip, inside / clip.name)
    ran = _protect(inside, folder / "clips-out", "--epsilon", "4", "--unit", "region:16", "--workers", "1")
    print(f"  video: {ran.seconds:.1f} s", flush=True)
    length = source.duration
    return Video(clip.name, length, source.frames, (source.width, source.height), ran.seconds)


def table(folder: Path, gigabytes: float) -> Table:
    """Numbers that nothing can pack, cut into parts."""
    need = 2.2e9 * gigabytes
    if shutil.disk_usage(folder).free < need:
        raise SystemExit(f"scale: the table and its release need {need / 1e9:.0f} GB of room on the disk.")
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
    return Table(size, ran)


def rows(pictured: Pictures, tabled: Table) -> list[Row]:
    """What has a target."""
    one, local = pictured.one.seconds, pictured.local.seconds
    two = pictured.rate_of_two
    return [
        Row(
            f"{PICTURES:,} photographs, Ray, 2 workers once they run; ratio = speed over 1",
            f"{two:.0f} a second",
            two / pictured.rate,
            1.6,
        ),
        Row(
            "the same, Ray, 1 worker, all of the run; ratio = time over local",
            f"{one:.1f} s",
            one / local,
            at_most=1.25,
        ),
        Row(
            f"a Parquet table of {tabled.gigabytes:.1f} GB; ratio = peak memory over 2 GB",
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

    with ray_folder() as folder:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=128 << 20,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
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


def _protect(source: Path, output: Path | str, *words: str, **environment: str) -> Ran:
    """The command, watched."""
    command = [str(Path(sys.executable).with_name("sfumato")), "protect", str(source), "-o", str(output)]
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        run = subprocess.Popen(
            [*command, *words, "--json"],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=os.environ | ONE_THREAD | environment,
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


def page(sets: Sequence[Pictures], clip: Video, tabled: Table, found: Sequence[Row]) -> str:
    """The page about scale; the first of ``sets`` has targets."""
    pictured, tiny = sets
    rate, start = pictured.rate, pictured.start_one.seconds
    day, tiny_day = (1e6 / each.rate / 86_400 for each in sets)
    flow = 500 * 3600 / 60
    lines = [
        "# Scale: what more workers do, and what a lot of data takes",
        "",
        "Written by `SFUMATO_DATA=… python benchmarks/scale.py --write docs/explanation-scale.md`. Timings "
        "are "
        "best times of runs that took turns on two cores of a shared machine: the ratios mean more than the "
        "seconds.",
        "",
        "## How a batch runs",
        "",
        "`sfumato protect SOURCE -o OUTPUT` takes a folder, or a prefix such as `s3://bucket/in`, as one "
        "release:",
        "",
        "1. The files are listed; one large `.parquet` or `.npy` whose output ends in a slash is cut into "
        "parts "
        "at its row groups or rows.",
        "2. Where a budget pays, every piece is read and checked by the workers. What is refused is named "
        "with "
        "its reason and costs nothing.",
        "3. The budget is charged once, durably, before the first piece is drawn.",
        "4. The workers draw the pieces. The noise of a unit is keyed by a secret, the unit's place and its "
        "content: a piece that is drawn again, since its worker was lost, is the same bytes and takes its "
        "own "
        "place. Its certificate appears just before it.",
        "5. The manifest, which lists the digest of every file, is written last and signed. Without a "
        "manifest "
        "there is no complete release; the manifest of another run is never overwritten.",
        "",
        "`--engine local` does this on threads, `--engine ray` on the workers of a Ray cluster: one that is "
        "started for this run on this machine, or the one that `RAY_ADDRESS` names. It is the same code, and "
        "under one `--request` the bytes are equal. The workers of a cluster of your own must reach the same "
        "files by the same names, and find the credentials of an object store in their own environment. They "
        "are sent the secret that keys the noise and the key that signs: run it on machines that you trust "
        "with the data itself.",
        "",
        "## Measured",
        "",
        f"{PICTURES:,} colour JPEGs, read, protected with the default mechanism at ε = 4 per region(16), "
        "written and certified. One thread a worker. The cluster runs already; *to start* is the same run "
        "with two pictures. A run that has to start a cluster of its own, and to end it, takes "
        f"{pictured.alone.seconds:.1f} s with two pictures.",
        "",
        "| pixels | run | seconds | pictures a second, all of it | to start |",
        "|---|---|---:|---:|---:|",
        *(
            f"| {each.sides} | {name} | {ran.seconds:.1f} | {PICTURES / ran.seconds:.0f} | "
            f"{begun.seconds:.1f} |"
            for each in sets
            for name, ran, begun in (
                ("local, 1 thread", each.local, each.start_local),
                ("Ray, 1 worker", each.one, each.start_one),
                ("Ray, 2 workers", each.two, each.start_two),
            )
        ),
        "",
        "Starting a cluster pays off where the work lasts longer than the start: small pictures by the "
        "thousand are done sooner without.",
        "",
        "| what | measured | ratio | must be |",
        "|---|---|---:|---|",
        *(f"| {row.name} | {row.value} | {row.ratio:.3g} | {row.target} |" for row in found),
        "",
        f"The table has {COLUMNS} columns of numbers that nothing can pack, in row groups of {GROUP:,}; two "
        f"workers released it in {tabled.ran.seconds / 60:.1f} minutes, "
        f"{1e3 * tabled.gigabytes / tabled.ran.seconds:.0f} MB a second. Memory is the sum over all "
        "processes, "
        "Ray's own among them, of their proportional share, looked at twice a second.",
        "",
        f"One core took {clip.took:.1f} s for the clip `{clip.name}`: {clip.length:.1f} s, {clip.frames} "
        "frames "
        f"of {clip.sides[0]} × {clip.sides[1]} pixels, that is {clip.rate:.3g} seconds of video in a second, "
        f"or {1e-6 * clip.sides[0] * clip.sides[1] * clip.frames / clip.took:.2f} million pixels.",
        "",
        "## The cost model",
        "",
        "With a start of s seconds, r pieces a second and worker, and w workers that do not wait for the "
        "disk or "
        "the network,",
        "",
        "    seconds(n) = s + n / (r · w)        workers for n pieces in T seconds = n / (r · (T − s))",
        "",
        f"Here s = {start:.1f} and r = {rate:.1f}. What the formula leaves out: a budget reads every piece "
        "once "
        "more beforehand; an object is fetched and put (once more each); a lost worker costs the pieces of "
        "its "
        "task, at most 256; the last tasks leave workers idle.",
        "",
        "## A million pictures a day",
        "",
        f"    10⁶ / ({rate:.1f} a second · 86,400 s) = {day:.2f} workers for photographs",
        f"    10⁶ / ({tiny.rate:.1f} a second · 86,400 s) = {tiny_day:.2f} workers for {tiny.sides} pixels",
        "",
        f"That is {_workers(day)} of this machine's, or {_workers(tiny_day)}. With a budget, which reads "
        "everything twice, count twice as many at most.",
        "",
        "## 500 hours of video a minute",
        "",
        "What a large platform is said to receive. The paper on multimedia says that 42 nodes with GPUs "
        "would "
        "do, without saying what one of them does in a second; on cores like these:",
        "",
        f"    500 h · 3,600 s/h / 60 s = {flow:,.0f} seconds of video in a second",
        f"    {flow:,.0f} / {clip.rate:.3g} = {flow / clip.rate:,.0f} cores",
        "",
        f"at {clip.sides[0]} × {clip.sides[1]} pixels and {clip.frames / clip.length:.0f} frames a second. "
        "Pixels count: frames of 1920 × 1080 would take "
        f"{1920 * 1080 / (clip.sides[0] * clip.sides[1]):.1f} times as many, "
        f"about {flow / clip.rate * 1920 * 1080 / (clip.sides[0] * clip.sides[1]):,.0f} cores. This is "
        "arithmetic with figures of one machine, not a measurement of a cluster: nobody here has run one of "
        "that size.",
        "",
    ]
    return "\n".join(lines)


def _workers(count: float) -> str:
    whole = int(np.ceil(count))
    return "one worker" if whole == 1 else f"{whole} workers"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="write the page")
    parser.add_argument("--gigabytes", type=float, default=GIGABYTES, help="of the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sets, clip = (photographs(folder), small(folder)), video(folder)
        tabled = table(folder, arguments.gigabytes)
    found = rows(sets[0], tabled)
    for row in found:
        print(f"  {row.name:<64}{row.value:>14}{row.ratio:>10.3g}  {row.target}")
    if arguments.write:
        arguments.write.write_text(page(sets, clip, tabled, found), encoding="utf-8")
    return 0 if all(row.reached for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
