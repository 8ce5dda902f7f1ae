"""The page about scale, from its figures."""

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
_HOW = """# Scale: what more workers do, and what a lot of data takes

Written by `SFUMATO_DATA=… python benchmarks/scale.py --write docs/explanation-scale.md`. Timings are best times of runs that took turns on two cores of a shared machine: the ratios mean more than the seconds.

## How a batch runs

`sfumato protect SOURCE -o OUTPUT` takes a folder, or a prefix such as `s3://bucket/in`, as one release:

1. The files are listed; one large `.parquet` or `.npy` whose output ends in a slash is cut into parts at its row groups or rows. An output with files of another run is refused.
2. Where a budget pays, and in a folder of records, every piece is read and checked by the workers. What is refused is named with its reason and costs nothing.
3. The budget is charged once, durably, before the first piece is drawn.
4. The workers draw the pieces. The noise of a unit is keyed by a secret, the unit's place and its content: a piece that is drawn again, since its worker was lost, is the same bytes and takes its own place. Each file appears whole.
5. The manifest, which lists the digest of every file and what is stated of it, is written last and signed: the one certificate of the folder. Without a manifest there is no complete release; the manifest of another run is never overwritten, and `verify` fails a folder with files that it does not list.

`--engine local` does this on processes of this machine (on threads, where there are fewer than 256 files), `--engine ray` on the workers of a Ray cluster: one that is started for this run on this machine, or the one that `RAY_ADDRESS` names. It is the same code, and under one `--request` the bytes are equal. The workers of a cluster of your own must reach the same files by the same names, and find the credentials of an object store in their own environment. They are sent the secret that keys the noise, and no key that signs: run it on machines that you trust with the data itself.
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
    yield "## Measured"
    yield ""
    yield (
        "Colour JPEGs, read, protected with the default mechanism at ε = 4 per region(16), written and "
        "certified. One thread a worker. The cluster runs already, unless the run has one of its own, which "
        "it "
        "starts and ends; *to start* is the same run with two pictures, once for all jobs. *Model* is the "
        "formula below."
    )
    yield ""
    yield "| pictures | pixels | run | seconds | to start | a second, all of it | once it runs | model, s |"
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
    yield "| pictures | ratio | whole runs | once they run |"
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
        "Starting a cluster pays off where the work lasts longer than the start: small pictures by the "
        "thousand are done sooner without."
    )
    yield ""
    yield "| what | measured | ratio | must be |"
    yield "|---|---|---:|---|"
    yield from (f"| {row.name} | {row.value} | {row.ratio:.3g} | {row.target} |" for row in found)
    yield ""


def _table(tabled: Table) -> Iterator[str]:
    yield (
        "The table has columns of numbers that nothing can pack; two workers released it in "
        f"{tabled.ran.seconds / 60:.1f} minutes, {1e3 * tabled.gigabytes / tabled.ran.seconds:.0f} MB a "
        "second. Memory is the sum over all processes, Ray's own among them, of their proportional share, "
        "sampled twice a second: a peak between two samples is not seen, and nothing enforces the bound, as "
        "a limit for many processes together needs a control group."
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
            "The two times do not compare the engines: on a cluster a part may be drawn twice, so that its "
            "noise is keyed by row; one process without `--request` draws fresh noise, which takes less."
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
    yield "## The cost model"
    yield ""
    yield (
        "With a start of s seconds, r pieces a second of one worker once it runs, w workers, and e(w), their "
        "speed over w times that of one,"
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
        f"time of what hands out the work. For 2 workers on {first.count:,} {first.name} that says "
        f"{said[0]:.1f} + {first.count:,} / ({said[1]:.1f} · 2 · {two:.2f}) = "
        f"{model.seconds(first, 'two'):.1f} s, and {first.seconds('two'):.1f} s were measured. r is each "
        "job's "
        "own, so lines of 1 worker in the table agree by construction; lines of 2 workers on other jobs than "
        "the longest are predictions. e(w) of more workers was not measured."
    )
    yield ""
    yield (
        "What the formula leaves out: a budget reads every piece once more beforehand; an object is fetched "
        "and put (once more each); a lost worker costs the pieces of its task, at most 256; the last tasks "
        "leave workers idle."
    )
    yield ""


def _day(jobs: Sequence[Job]) -> Iterator[str]:
    chosen = jobs[0], jobs[-1]
    needed = [1e6 / (job.rate("one") * 86_400) for job in chosen]
    yield "## A million pictures a day"
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
    yield f"So {told}. With a budget, which reads everything twice, count twice as many at most."
    yield ""


def _flow(clip: Video) -> Iterator[str]:
    flow = 500 * 3600 / 60
    cores = flow / clip.rate
    more = 1920 * 1080 / (clip.sides[0] * clip.sides[1])
    yield "## 500 hours of video a minute"
    yield ""
    yield (
        "What a large platform is said to receive. The paper on multimedia says that 42 nodes with GPUs "
        "would "
        "do, without saying what one of them does in a second; on cores like these:"
    )
    yield ""
    yield f"    500 h · 3,600 s/h / 60 s = {flow:,.0f} seconds of video in a second"
    yield f"    {flow:,.0f} / {clip.rate:.2f} = {cores:,.0f} cores"
    yield ""
    yield (
        f"at {clip.sides[0]} × {clip.sides[1]} pixels and {clip.frames / clip.length:.0f} frames a second. "
        f"Pixels count: frames of 1920 × 1080 would take {more:.1f} times as many, about {cores * more:,.0f} "
        "cores. This is arithmetic with figures of one machine, not a measurement of a cluster: nobody here "
        "has run one of that size."
    )
    yield ""


def _workers(count: float) -> str:
    whole = math.ceil(count)
    return "one worker" if whole == 1 else f"{whole} workers"
