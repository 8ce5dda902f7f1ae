"""Uploaded files: names, private folders, transfer rates, limits of size and memory; and work on them.

Each process has one folder, with a lock that the system releases when the process ends. Folders left by
killed processes are swept by others. Subfolders are emptied after use and used again, because creating and
removing folders waits for the disk's journal.

Bodies may be bombs: a few kilobytes hold gigabytes of zeros, a picture of a hundred million pixels or hours
of black film. What is counted costs little: lengths that headers state and readers hold them to, packets, and
for a table packed by gzip the unpacked bytes themselves, up to the limit. A file that cannot be read passes
here, and is refused in better words by whoever reads it. Memory is bounded from headers alone: most is
streamed, but one record, one picture, one clip of some mechanisms and what an audit compares are in memory
whole.

A synchronous request works in a thread of its own, a few of each tenant at a time, with a time limit. So no
tenant delays the others, and authentication and readiness, which have other threads, are answered however
long releases take. A thread cannot be stopped: work that nobody waits for any more runs to its end. What it
spends is spent, what it releases is kept, and until then it counts against its tenant.

Small files take turns in a process. Threads that compute at the same time compete for the interpreter, and
each release then takes half as long again. So work on a small file waits for the turn, but not long: if the
present holder takes its time, as a small file that unpacks to a large image does, the next one runs beside
it.
"""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import math
import os
import secrets
import shutil
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato import io as formats
from sfumato.errors import BadInput, SfumatoError
from sfumato.io import Schema, array_names, kind_of, open_archive, open_array, released_suffix, suffix_of
from sfumato.mechanisms import Mechanism
from sfumato.media.audio import BandNoise, SoundMechanism
from sfumato.media.images import PictureMechanism
from sfumato.release import MediaMechanisms, rows_at_once
from sfumato.serve.monitoring import log
from sfumato.serve.parquet_size import parquet_batch, parquet_size
from sfumato.serve.refusals import QuotaRefused, TookTooLong, TooLarge, TooSlow

_LOCK = "lock"
# A folder is locked before it gets its name; what still has no lock after so long was never finished.
_NEW = ".new-"
_OLD_SECONDS = 600.0
#: The longest description or certificate that comes with a file, in characters.
MOST_WORDS = 100_000
_PAUSE_SECONDS = 30.0
_LEAST_RATE = 16 << 10


def file_name(name: str) -> str:
    """Return the last part of ``name``, which a client chose; raise if it could mislead."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = all(character.isalnum() or character in "._- " for character in last) and last.isascii()
    if not last or last.startswith(".") or len(last) > 100 or not plain:
        raise BadInput("the name of the file must be letters, digits, dots, dashes and spaces, at most 100.")
    suffix_of(last)  # one that can be released
    return last


def released_name(file: Path) -> str:
    """Return the name of the release of ``file``, without the client's name, which may identify people."""
    return f"release{released_suffix(file)}"


class WorkFolders:
    """Temporary folders inside ``place``, for any number of threads; created when first needed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._guard = threading.Lock()
        # The process that the folder, its lock and its free subfolders belong to.
        self._process = 0
        self._own, self._lock, self._free = place, -1, list[Path]()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder; its content is removed when the block ends."""
        with self._guard:
            # A forked child has neither its parent's lock nor a right to its folders.
            if self._process != os.getpid():
                self._open()
            free = self._free
            folder = free.pop() if free else self._own / secrets.token_hex(16)
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            yield folder
        finally:
            if _emptied(folder):  # otherwise it is not used again
                free.append(folder)

    def _open(self) -> None:
        """Create the folder of this process, locked before it gets its name."""
        token = secrets.token_hex(16)
        new, self._own = self._place / (_NEW + token), self._place / token
        new.mkdir(mode=0o700)
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self._own)
        self._process, self._free = os.getpid(), []

    def sweep(self) -> None:
        """Remove the folders of processes that have ended."""
        for folder in self._place.iterdir():
            if _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder of this process."""
        with self._guard:
            if self._process == os.getpid():
                shutil.rmtree(self._own, ignore_errors=True)
                os.close(self._lock)
            self._process = 0


def _emptied(folder: Path) -> bool:
    """Empty ``folder`` and return whether that succeeded."""
    try:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry)
            else:
                os.unlink(entry)
    except OSError:
        return False
    return True


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process holds the lock of ``folder``, or one without a lock is old."""
    lock = -1
    try:
        if not folder.name.startswith(_NEW):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        if lock >= 0:
            return False
    finally:
        if lock >= 0:
            os.close(lock)
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > _OLD_SECONDS
    return False


class Pace:
    """The minimum transfer rate: half a minute, plus one second for every 16 KiB received.

    A sender that trickles bytes holds its place no longer than one that sends nothing.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count received bytes."""
        self.bytes += count

    def patience(self) -> float:
        """Return how many seconds to wait for more; 0 if the sender is too slow already."""
        left = self._start + _PAUSE_SECONDS + self.bytes / _LEAST_RATE - self._clock()
        return max(0.0, min(left, _PAUSE_SECONDS))


def require_size(size: int, limit: int) -> None:
    """Raise :class:`TooLarge` if a body of ``size`` bytes exceeds ``limit``."""
    if size > limit:
        raise TooLarge(f"the body is larger than {limit:,} bytes, the most this service takes.")


def private_file(place: Path) -> BinaryIO:
    """Open a new file at ``place`` for writing, readable by its owner only."""
    return open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def require_some(size: int) -> None:
    """Raise if a body is empty."""
    if size == 0:
        raise BadInput("the body is empty; it must be the file to release.")


async def written(chunks: AsyncIterable[bytes], into: Path, limit: int) -> None:
    """Write ``chunks`` to the private file ``into``.

    Raise if there are more than ``limit`` bytes or none, or if the sender does not keep the :class:`Pace`.
    """
    pace = Pace()
    with private_file(into) as file:
        coming = aiter(chunks)
        while True:
            try:
                chunk = await asyncio.wait_for(anext(coming), pace.patience())
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise TooSlow("the body came too slowly; send it again.") from None
            pace.add(len(chunk))
            require_size(pace.bytes, limit)
            file.write(chunk)
    require_some(pace.bytes)


#: The most pixels of one picture or frame: a mechanism has some thirty bytes in memory for each.
MOST_PIXELS = 1 << 25
_STEP = 1 << 20
_SAMPLE_BYTES = 4
# The memory for each value that an audit compares, and the frames of a video that are worked on at a time.
_AUDIT_BYTES = 48
_FRAMES = 4


def require_unpacked(file: Path, most: int) -> None:
    """Refuse a ``file`` that is more than ``most`` bytes once it is unpacked, or too large a picture."""
    size = parquet_size(file, most) if suffix_of(file) == ".parquet" else 0
    measure = _MEASURES.get(suffix_of(file)) or _MEASURES.get(kind_of(file))
    if measure is not None:
        with suppress(BadInput):  # refused in better words by whoever opens it
            size = measure(file, most)
    if size > most:
        raise TooLarge(
            f"{file.name} unpacks to more than {most:,} bytes, the most that is taken this way; "
            "send less at once, or as a job where more is taken."
        )


def require_memory(file: Path, made: Mechanism | MediaMechanisms, array: str | None, most: int) -> None:
    """Refuse a ``file`` whose release by ``made`` takes more than ``most`` bytes of memory.

    The few megabytes that any release takes are not counted.
    """
    with suppress(BadInput):  # refused in better words by whoever opens it
        _require(file, _working_bytes(file, made, array), most)


def require_memory_to_audit(files: Sequence[Path], schema: Schema | None, most: int) -> None:
    """Refuse ``files`` that an audit, which has all of their values in memory, has no room for."""
    if not files:
        return  # refused in better words: there is nothing to compare
    with suppress(BadInput):
        _require(files[0], sum(_AUDIT_BYTES * _values(file, schema, most) for file in files), most)


def _require(file: Path, needed: int, most: int) -> None:
    if needed > most:
        raise TooLarge(
            f"the work on {file.name} takes up to {needed:,} bytes of memory, and {most:,} are the most for "
            "one request; send narrower records, a smaller picture, a shorter clip or fewer rows."
        )


def _working_bytes(file: Path, made: Mechanism | MediaMechanisms, array: str | None) -> int:
    kind = kind_of(file)
    if kind == "table":
        return parquet_batch(file) if suffix_of(file) == ".parquet" else 0
    if isinstance(made, Mechanism):
        source = open_array(file, array)
        shaped = isinstance(made, PictureMechanism | SoundMechanism)
        mechanism = made.shaped(source.shape[1:]) if shaped else made
        # An array in Fortran order is read whole, and turned.
        whole = 2 * math.prod(source.shape) * source.dtype.itemsize if source.fortran else 0
        rows = min(source.rows, rows_at_once(source, mechanism))
        return mechanism.working_bytes(math.prod(source.shape[1:]), rows) + whole
    if kind == "picture" and made.picture is not None:
        shape = formats.picture_header(file).shape
        return made.picture.shaped(shape).working_bytes(math.prod(shape))
    if kind == "sound" and made.sound is not None:
        # Band noise is drawn as the samples come.
        sound = formats.open_sound(file)
        values = sound.samples * sound.channels
        return 0 if isinstance(made.sound, BandNoise) else made.sound.working_bytes(values)
    if kind == "video" and made.picture is not None:
        with formats.video_container(file) as container:
            frames = [stream.codec_context for stream in container.streams.video]
        sizes = [(one.height, one.width) for one in frames if one is not None and one.height and one.width]
        height, width = max(sizes, default=(1, 1), key=math.prod)
        return _FRAMES * made.picture.shaped((height, width, 3)).working_bytes(3 * height * width)
    return 0


def _values(file: Path, schema: Schema | None, most: int) -> int:
    """Return how many numbers an audit makes of ``file`` at most."""
    if kind_of(file) == "array":
        named = array_names(file) or (None,)
        return max(math.prod(open_array(file, name).shape) for name in named)
    if schema is None:
        return 0
    # Every category is a column of zeros and ones.
    columns = len(schema.numeric) + sum(len(column.categories) for column in schema.coded)
    if suffix_of(file) == ".parquet":
        import pyarrow.parquet as pq

        rows = int(pq.read_metadata(str(file)).num_rows)
    else:
        size = _gzip(file, most) if suffix_of(file) == ".csv.gz" else file.stat().st_size
        rows = size // (2 * max(1, len(schema.columns))) + 1  # a cell is a character and a comma at least
    return rows * columns


def _gzip(file: Path, most: int) -> int:
    """Return the unpacked bytes, counted no further than the limit."""
    found = 0
    with gzip.open(file) as unpacked, suppress(OSError, EOFError, zlib.error):
        while found <= most and (chunk := unpacked.read(_STEP)):
            found += len(chunk)
    return found


def _archive(file: Path, most: int) -> int:
    with open_archive(file) as archive:
        return sum(member.file_size for member in archive.infolist())


def _picture(file: Path, most: int) -> int:
    header = formats.picture_header(file)
    _require_pixels(file, header.pixels)
    return header.pixels * header.dtype.itemsize * 4


def _sound(file: Path, most: int) -> int:
    sound = formats.open_sound(file)
    return sound.samples * sound.channels * _SAMPLE_BYTES


def _video(file: Path, most: int) -> int:
    """Return the bytes of all frames, three for each pixel, by counting packets; nothing is decoded."""
    with formats.video_container(file) as container:
        frame = found = 0
        for stream in container.streams.video:
            if stream.codec_context is None:
                return 0
            pixels = stream.codec_context.width * stream.codec_context.height
            _require_pixels(file, pixels)
            frame += 3 * pixels
        for packet in container.demux(container.streams.video):
            found += max(1, frame) if packet.size else 0
            if found > most:
                break
        return found


def _require_pixels(file: Path, pixels: int) -> None:
    if pixels > MOST_PIXELS:
        raise TooLarge(f"{file.name} has {pixels:,} pixels; at most {MOST_PIXELS:,} are taken.")


_MEASURES: Mapping[str, Callable[[Path, int], int]] = {
    ".csv.gz": _gzip,
    ".npz": _archive,
    "picture": _picture,
    "sound": _sound,
    "video": _video,
}


_SMALL_BYTES = 1 << 20
_TURN_PATIENCE_SECONDS = 0.25

_Made = TypeVar("_Made")
_THREADS = 32
_ADMISSION_SECONDS = 10.0
_RETRY_SECONDS = 1.0
#: The advice if a plan took too long; a job is checked in the same way before anything is spent.
LATE_PLAN = "retry, or request a job, which is refused before it spends anything if it cannot be done"


class Turns:
    """A queue of one turn for the threads of a process."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def taken(self, file: Path) -> Iterator[None]:
        """Run the block on ``file``; if that is small, wait for the turn until the patience is over.

        Any of several waiting threads may be next.
        """
        small = file.stat().st_size <= _SMALL_BYTES
        held = small and self._turn.acquire(timeout=_TURN_PATIENCE_SECONDS)
        try:
            yield
        finally:
            if held:
                self._turn.release()


def late_release(request: str | None) -> str:
    """Return the advice if the release under this idempotency key, or under none, took too long."""
    if request is None:
        return (
            "it goes on, and once it is paid it will be among the releases; give such requests an "
            "idempotency key, or request jobs"
        )
    return (
        "it goes on, and is paid once: retry under the same idempotency key in a while; request jobs for "
        "files as large as this"
    )


class Direct:
    """Runs ``at_once`` requests of one tenant at a time, each waited for during ``seconds``.

    A further request waits for ``patience`` seconds and is then refused.
    """

    def __init__(self, at_once: int, seconds: float, *, patience: float = _ADMISSION_SECONDS) -> None:
        self._at_once, self._seconds, self._patience = at_once, seconds, patience
        self._threads = CapacityLimiter(_THREADS)
        self._free: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))

    async def done(
        self, tenant: str, work: Callable[[], _Made], brought: ExitStack, *, late: str | None = None
    ) -> _Made:
        """Run ``work`` in a thread and return its result; close ``brought``, its files, when it has ended.

        Work that takes too long raises :class:`TookTooLong`, whose sentence ends with ``late``, the advice;
        without ``late`` there is no time limit.
        """
        free = self._free[tenant]
        with brought:
            await self._admitted(free)
            kept = brought.pop_all()

        def ended(_: asyncio.Task[Any]) -> None:
            free.release()
            kept.close()

        task = asyncio.ensure_future(to_thread.run_sync(work, limiter=self._threads))
        task.add_done_callback(ended)
        try:
            await asyncio.wait((task,), timeout=None if late is None else self._seconds)
        finally:
            if not task.done():
                task.add_done_callback(_log_error)
        if not task.done():
            raise TookTooLong(f"it takes longer than {self._seconds:g} seconds, the limit here; {late}.")
        return task.result()

    async def _admitted(self, free: asyncio.Semaphore) -> None:
        if not free.locked():
            await free.acquire()
            return
        try:
            await asyncio.wait_for(free.acquire(), self._patience)
        except TimeoutError:
            raise QuotaRefused(
                f"the tenant has {self._at_once:,} synchronous requests under way here; retry when one of "
                "them has ended, or request a job.",
                _RETRY_SECONDS,
            ) from None


def _log_error(task: asyncio.Task[Any]) -> None:
    """Log an unexpected error of work that nobody waits for any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SfumatoError):
        log("unforeseen", level="error", error=error)
