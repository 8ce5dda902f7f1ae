"""Write docs/explanation-scale.md from measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scale_figures import WORKERS, Job, Model, Table, Video
from timing import Row

__all__ = ["page"]

_SHOWN = {
    "local": "local, 1 thread",
    "one": "Ray, 1 worker",
    "two": "Ray, 2 workers",
    "own one": "Ray, 1 worker, a cluster of its own",
    "own two": "Ray, 2 workers, a cluster of its own",
}
_HOW = """# Explanation: scale

Written by `SFUMATO_DATA=… python benchmarks/scale.py --write docs/explanation-scale.md`. Timings are the best of runs that took turns on two cores of a shared machine: the ratios mean more than the seconds.

## How a batch runs

`sfumato protect SOURCE -o OUTPUT` releases a folder, or a prefix such as `s3://bucket/in`, as one release:

1. The files are listed. If the output ends in a slash, one large `.parquet` or `.npy` is cut into parts at its row groups or rows. An output with files of another run is refused.
2. With a budget, and in a folder of records, the workers read and check every piece. Refused pieces are named with the reason and cost nothing.
3. The budget is charged once, durably, before the first piece is drawn.
4. The workers draw the pieces. The noise of a unit is keyed by a secret, the position of the unit and its content. So a piece that is drawn again, because its worker was lost, has the same bytes and replaces the first one. Each file appears whole.
5. The manifest, which lists the digest and the statement of every file, is written last and signed: it is the one certificate of the folder. Without a manifest there is no complete release. The manifest of another run is never overwritten, and `verify` fails a folder with files that it does not list.

## Engines

| `--engine` | where a batch runs |
|---|---|
| `local` | on processes of this machine (on threads, if there are fewer than 256 files) |
| `ray` | on the workers of a Ray cluster: the one that `RAY_ADDRESS` names, or one that is started for this run on this machine |

Both engines run the same code, and with the same `--request` they write the same bytes. The workers of your own cluster must reach the same files by the same names, and need the credentials of an object store in their own environment. They receive the secret that keys the noise, and no signing key: use machines that you trust with the data itself.
"""  # noqa: E501 (lines of the page)


def page(jobs: Sequence[Job], model: Model, clip: Video, tabled: Table, found: Sequence[Row]) -> str:
    """All of it; the first of ``jobs`` has local runs to compare with, the second is the longest."""
    parts = [
        _HOW,
        "\n".join(_measured(jobs, model, found)),
        "\n".join(_table(tabled)),
        "\n".join(_video(clip)),
        "\n".join(_model(jobs, model)),
        "\n".join(_day(jobs)),
        "\n".join(_flow(clip)),
    ]
    return "\n".join(parts)


def _measured(jobs: Sequence[Job], model: Model, found: Sequence[Row]) -> Iterator[str]:
    yield "## Measurements"
    yield ""
    yield (
        "Colour JPEGs are read, protected with the default mechanism at ε = 4 per region(16), written and "
        "certified, with one thread in each worker. The cluster is already running, unless the run has one "
        "of its own, which it starts and stops. *Start* is the time of the same run with two images, "
        "measured once for all jobs. *Model* is the formula below."
    )
    yield ""
    yield (
        "| images | pixels | run | seconds | start, s | images/s, whole run | images/s, without start | "
        "model, s |"
    )
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    for job in jobs:
        for run, ran in job.runs.items():
            said = f"{model.seconds(job, run):.1f}" if run in WORKERS else ""
            yield (
                f"| {job.count:,} {job.name} | {job.sides} | {_SHOWN[run]} | {ran.seconds:.1f} | "
                f"{job.starts[run].seconds:.1f} | {job.count / ran.seconds:.0f} | {job.rate(run):.1f} | "
                f"{said} |"
            )
    yield ""
    yield "| images | ratio | whole runs | without start |"
    yield "|---|---|---:|---:|"
    for job in jobs:
        for told, slow, fast in (
            ("speed of 2 workers over 1", "one", "two"),
            ("the same, clusters of their own", "own one", "own two"),
            ("time of 1 worker over local", "one", "local"),
            ("the same, a cluster of its own", "own one", "local"),
        ):
            whole, running = job.ratio(slow, fast), job.running_ratio(slow, fast)
            if whole is not None and running is not None:
                yield f"| {job.count:,} {job.name} | {told} | {whole:.2f} | {running:.2f} |"
    yield ""
    yield (
        "Starting a cluster is worthwhile if the work takes longer than the start: a few thousand small "
        "images are released sooner without one."
    )
    yield ""
    yield "| what | measured | ratio | must be |"
    yield "|---|---|---:|---|"
    yield from (f"| {row.name} | {row.value} | {row.ratio:.3g} | {row.target} |" for row in found)
    yield ""


def _table(tabled: Table) -> Iterator[str]:
    yield (
        "The table has columns of numbers that do not compress. Two workers released it in "
        f"{tabled.ran.seconds / 60:.1f} minutes, {1e3 * tabled.gigabytes / tabled.ran.seconds:.0f} MB a "
        "second. Memory is the sum of the proportional shares of all processes, including Ray's own, "
        "sampled twice a second. A peak between two samples is not seen, and nothing enforces the limit, "
        "since a limit for many processes together needs a control group."
    )
    yield ""
    limit = f"{tabled.limit / 1e9:.1f} GB"
    if tabled.limited is None:
        yield f"In one process that is refused memory beyond {limit} (RLIMIT_DATA), `--engine local` failed."
    else:
        yield (
            f"One process that is refused any memory beyond {limit} (RLIMIT_DATA, which the kernel "
            "enforces), "
            f"`--engine local` with one thread, released it in {tabled.limited.seconds / 60:.1f} minutes. "
            "The two times do not compare the engines: on a cluster a part may be drawn twice, so its "
            "noise is keyed by row; one process without `--request` draws fresh noise, which takes less "
            "time."
        )
    yield ""


def _video(clip: Video) -> Iterator[str]:
    pixels = 1e-6 * clip.sides[0] * clip.sides[1] * (clip.frames - 1) / clip.worked
    yield (
        f"One core took {clip.ran.seconds:.1f} s for the clip `{clip.name}`: {clip.length:.1f} s, "
        f"{clip.frames} frames of {clip.sides[0]} × {clip.sides[1]} pixels, and {clip.start.seconds:.1f} s "
        "for "
        f"its first frame alone, which is the start. That is {clip.beyond:.2f} s of video in "
        f"{clip.worked:.1f} s, {clip.rate:.2f} seconds of video in a second, or {pixels:.2f} million pixels."
    )
    yield ""


def _model(jobs: Sequence[Job], model: Model) -> Iterator[str]:
    first, longest = jobs[0], model.longest
    two = model.efficiency(2)
    yield "## Cost model"
    yield ""
    yield (
        "Let s be the start in seconds, r the pieces per second of one running worker, w the number of "
        "workers, and e(w) their speed divided by w times that of one worker. Then"
    )
    yield ""
    yield "    seconds(n) = s + n / (r · w · e(w))    w · e(w) for n pieces in T seconds = n / (r · (T − s))"
    yield ""
    said = first.starts["two"].seconds, first.rate("one")
    yield (
        f"Here e(1) = 1, and e(2) = {longest.rate('two'):.1f} / (2 · {longest.rate('one'):.1f}) = {two:.2f} "
        "by "
        f"the {longest.count:,} {longest.name}: two workers on two cores share memory, disk and the "
        "processor "
        f"time of the scheduler. For 2 workers on {first.count:,} {first.name} the formula gives "
        f"{said[0]:.1f} + {first.count:,} / ({said[1]:.1f} · 2 · {two:.2f}) = "
        f"{model.seconds(first, 'two'):.1f} s, and {first.seconds('two'):.1f} s were measured. Each job "
        "has its own r, so rows of 1 worker in the table agree by construction; rows of 2 workers on other "
        "jobs than the longest are predictions. e(w) of more workers was not measured."
    )
    yield ""
    yield (
        "The formula omits that a budget reads every piece once more before, that an object is downloaded "
        "and uploaded (once more each), that a lost worker costs the pieces of its task, at most 256, and "
        "that the last tasks leave workers idle."
    )
    yield ""


def _day(jobs: Sequence[Job]) -> Iterator[str]:
    chosen = jobs[0], jobs[-1]
    needed = [1e6 / (job.rate("one") * 86_400) for job in chosen]
    yield "## A million images a day"
    yield ""
    for job, workers in zip(chosen, needed, strict=True):
        yield (
            f"    10⁶ / ({job.rate('one'):.1f} a second · 86,400 s) = {workers:.2f} workers for {job.name} "
            "of "
            f"{job.sides} pixels"
        )
    yield ""
    first, last = (_workers(count) for count in needed)
    told = (
        f"{first} of this machine's is enough for either"
        if first == last == "one worker"
        else (f"it takes {first} of this machine's for {chosen[0].name}, {last} for {chosen[1].name}")
    )
    yield f"So {told}. A budget reads everything twice, so plan for at most twice as many."
    yield ""


def _flow(clip: Video) -> Iterator[str]:
    flow = 500 * 3600 / 60
    cores = flow / clip.rate
    more = 1920 * 1080 / (clip.sides[0] * clip.sides[1])
    yield "## 500 hours of video a minute"
    yield ""
    yield (
        "This is what a large platform is said to receive. The paper on multimedia says that 42 nodes with "
        "GPUs are enough, without the throughput of one of them. On cores like these:"
    )
    yield ""
    yield f"    500 h · 3,600 s/h / 60 s = {flow:,.0f} seconds of video in a second"
    yield f"    {flow:,.0f} / {clip.rate:.2f} = {cores:,.0f} cores"
    yield ""
    yield (
        f"at {clip.sides[0]} × {clip.sides[1]} pixels and {clip.frames / clip.length:.0f} frames a second. "
        f"The cost grows with the pixels: frames of 1920 × 1080 would take {more:.1f} times as many, about "
        f"{cores * more:,.0f} cores. This is arithmetic with figures of one machine, not a measurement of a "
        "cluster: nobody here has run one of that size."
    )
    yield ""


def _workers(count: float) -> str:
    whole = math.ceil(count)
    return "one worker" if whole == 1 else f"{whole} workers"
