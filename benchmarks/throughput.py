"""Protected photographs a second: 224×224 colour JPEG in, protected JPEG out, one process for each core.

The mechanism is the default one with a public map. Photographs come from SFUMATO_DATA where it is at hand,
else from scikit-image. Stages are in seconds of the processor, which others on the same machine do not take
away; the rate that has a target is by the clock. ``python benchmarks/throughput.py`` prints them.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.io import encode_many, encode_picture, read_picture, write_whole
from sfumato.io.image_files import decode_picture
from sfumato.media.images import PlaneMeans
from sfumato.media.images.planes import block_sums, levels_of
from sfumato.media.images.restoration import jpeg_planes
from timing import Row

# Images a second on eight A100 GPUs, as the paper says; on one commodity machine it says 312.
PAPER = 1_247
SHAPE = (224, 224, 3)
QUALITY = 90
BATCH = 8
FILES = 64
PROCESSES = 2
ROUNDS, SECONDS = 5, 1.5
DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "photos"


def measure() -> list[Row]:
    with one_thread_each():
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(PROCESSES)
        with context.Pool(PROCESSES, begin, (barrier,)) as pool:
            rounds = [pool.map(rates, [SECONDS] * PROCESSES, chunksize=1) for _ in range(ROUNDS)]
        with context.Pool(1) as pool:
            seconds = pool.apply(stages)
    clock, processor = (max(sum(pair[place] for pair in each) for each in rounds) for place in (0, 1))
    whole = seconds["all of it"]
    return [
        Row(
            f"{PROCESSES} processes, by the clock; ratio = over {PAPER}",
            f"{clock:,.0f} /s",
            clock / PAPER,
            1.0,
        ),
        Row(f"{PROCESSES} processes, by their processor time", f"{processor:,.0f} /s", processor / PAPER),
        *(
            Row(f"{name}; ratio = share of all", f"{1e3 * t:.3f} ms", t / whole)
            for name, t in seconds.items()
        ),
    ]


def decoded(files: list[bytes]) -> NDArray[np.uint8]:
    """The pictures of one batch."""
    return np.stack([decode_picture(file, f"{place}.jpg").values for place, file in enumerate(files)])


def protected(files: list[bytes], mechanism: PlaneMeans) -> list[bytes]:
    """What is measured: the files of one batch, protected."""
    pictures = decoded(files)
    return encode_many(mechanism.soften_planes(pictures, 255.0), QUALITY)


def rates(seconds: float) -> tuple[float, float]:
    """Images a second and a processor second in this process, while the others do the same."""
    batches, mechanism = in_batches(photographs()), default()
    for batch in batches[:2]:
        protected(batch, mechanism)
    START.wait()
    began, processor, done = time.perf_counter(), time.process_time(), 0
    while (passed := time.perf_counter() - began) < seconds:
        protected(batches[done // BATCH % len(batches)], mechanism)
        done += BATCH
    return done / passed, done / (time.process_time() - processor)


def stages() -> dict[str, float]:
    """Processor seconds an image of each stage alone, in one process, and of other ways."""
    files, mechanism = photographs(), default()
    design, batches = mechanism.design(SHAPE), in_batches(files)
    pictures = [decoded(batch) for batch in batches]
    sums = [block_sums(levels_of(batch, 255), design.blocks, 255) for batch in pictures]
    means = [mechanism._noisy(design, batch, 255.0, 0) for batch in pictures]
    planes = [jpeg_planes(each, design.noise, design.blocks, mechanism.restore) for each in means]
    released = [encode_many(each, QUALITY) for each in planes]

    def over(parts: list, run: Callable[..., object]) -> Callable[[], object]:
        return lambda: [run(part) for part in parts]

    with tempfile.TemporaryDirectory() as folder:
        inputs = [Path(folder, f"{place}.jpg") for place in range(FILES)]
        for path, data in zip(inputs, files, strict=True):
            path.write_bytes(data)
        work = {
            "decode": over(batches, decoded),
            "block sums": over(pictures, lambda part: block_sums(levels_of(part, 255), design.blocks, 255)),
            "noise": over(sums, lambda part: drawn(mechanism, part)),
            "restore": over(
                means, lambda part: jpeg_planes(part, design.noise, design.blocks, mechanism.restore)
            ),
            "encode": over(planes, lambda part: encode_many(part, QUALITY)),
            "all of it": over(batches, lambda part: protected(part, mechanism)),
            "one at a time": over(files, lambda part: protected([part], mechanism)),
            "one at a time, each with a map of its own": over(
                files, lambda part: protected([part], default(part))
            ),
            "through red, green and blue": over(files, lambda part: pixel_by_pixel(part, mechanism)),
            "read from a file and decode": over(inputs, read_picture),
            "write to a file that appears whole": over(
                [data for part in released for data in part],
                lambda data: write_whole(Path(folder, "out.jpg"), data),
            ),
        }
        best = dict.fromkeys(work, float("inf"))
        for _ in range(ROUNDS):
            for name, run in work.items():
                began = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - began)
    return {name: seconds / FILES for name, seconds in best.items()}


def pixel_by_pixel(file: bytes, mechanism: PlaneMeans) -> bytes:
    """The way of any other format: pixels out of the file, released pixels into one."""
    values = mechanism.shaped(SHAPE).perturb(decode_picture(file, "a.jpg").values.reshape(1, -1))
    return encode_picture(values.reshape(SHAPE), ".jpg", quality=QUALITY)


def drawn(mechanism: PlaneMeans, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise for the block sums of a batch, as the mechanism draws it."""
    design = mechanism.design(SHAPE)
    stream = mechanism._stream(0, sums)
    return design.rounded(255).draw(stream, sums.size, relative=np.tile(design.relative, len(sums)))[0]


def default(file: bytes = b"") -> PlaneMeans:
    """The default mechanism for pictures, half of ε in a public region; another map for each ``file``."""
    shares = np.ones((8, 8))
    shares[2:6, 3:6] = 0.5
    if file:
        shares[0, 0] = 0.5 + 0.4 * np.random.default_rng().random()
    return PlaneMeans(epsilon=4.0, unit="region(16)", shares=shares)


def photographs() -> list[bytes]:
    """JPEG files of the middle of photographs, or of parts of them where there are few."""
    import cv2

    cv2.setNumThreads(1)
    sources: list[NDArray[np.uint8]] = [read_picture(file).values for file in sorted(DATA.glob("*.jpg"))]
    if not sources:
        from skimage import data

        known = (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())
        sources = [
            picture[y : y + 288, x : x + 288] for picture in known for y in (0, 12) for x in (0, 90, 160)
        ]
    files = []
    for place in range(FILES):
        picture = sources[place % len(sources)]
        side = min(picture.shape[:2])
        top, left = ((length - side) // 2 for length in picture.shape[:2])
        square = np.ascontiguousarray(picture[top : top + side, left : left + side])
        if square.ndim == 2:
            square = np.repeat(square[:, :, None], 3, axis=2)
        small = cv2.resize(square, SHAPE[:2], interpolation=cv2.INTER_AREA)
        files.append(encode_picture(small, ".jpg", quality=QUALITY))
    return files


def in_batches(files: list[bytes]) -> list[list[bytes]]:
    return [files[place : place + BATCH] for place in range(0, len(files), BATCH)]


def begin(barrier: Barrier) -> None:
    """Let the processes of a pool start together."""
    global START
    START = barrier


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that start inside use one thread: each core has a process."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    for row in measure():
        print(
            f"{row.name:<60}{row.value:>12}{row.ratio:>9.3g}  {row.target}{'' if row.reached else '  MISSED'}"
        )
