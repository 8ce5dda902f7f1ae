"""Checkpoints, which let interrupted runs of many noised sums be resumed and paid for once.

A checkpoint is a private folder (0700, its files 0600) beside the output, ``.NAME.run``. Its *record* is on
the disk before anything is paid: a secret seed, the id of the request, and digests of the data, of the code
and of the request. Its *log* holds each noised sum, on the disk before it is used; a run of many large sums
keeps its state in their place. The same command, run again, finds all this: it pays nothing, reads the sums
that were kept, and draws the others. When the output stands the folder is removed. Until then it must stay
private: whoever has the seed can remove the noise.

**Theorem.** Let a run release a function of M = (S₁, …, S_T), where Sₙ is drawn from the records and the sums
before it, and let it be interrupted and resumed any number of times. What all its parts use, and the one
output that they leave, is a function of one draw of M: the guarantee of M is that of all of them together.
*Proof.* A sum that the log has is returned, and not drawn. A sum that it does not have was used by nobody,
since none is returned before it is on the disk. It is drawn from streams that the seed and n name, so that
leaving out the others shifts no noise. ∎ Two things are needed. *One seed, one content*: two contents under
one seed would share noise. So a checkpoint is refused for other data, code or parameters, and the row
that paid commits to all three under the seed. *One run at a time*: a lock of the operating system keeps other
processes out of the folder, and a lease in the ledger (:meth:`~sfumato.ledger.Ledger.lease`) those that have
a copy of it. Should a lease be taken over from a run that still goes on, because a clock jumped or a process
stood still, both draw the same sums from the same streams, and the ledger keeps the certificate of the
holder alone: the other one is refused before its output appears.

**Edge cases.** A run may be stopped between any two writes. Before the record: nothing was paid, and the
folder is made anew. Before the spend: it is made under the id in the record. Before a sum is whole in the
log: its torn entry is cut off, and it is drawn again. After the certificate is kept, before the output
stands: the same bytes are written, and others are refused. After that: it is found, and the folder removed. A
full disk is an error that leaves the folder as it was. An audit that withholds the output ends the run in the
ledger for good before it says so, so that no copy of the folder is audited again. A log that is damaged
before its last entry is refused. Runs that no budget pays for have no lease, and are begun anew, under a new
seed, where something changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import stat
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, nullcontext, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.errors import BadInput
from sfumato.io import atomic_output, sync, writing
from sfumato.ledger import BudgetRefused, Ledger, LedgerUnavailable
from sfumato.noise import Keyed, NoisedSums, Randomness
from sfumato.release.path import PRIVATE, claimed
from sfumato.reports import VerificationFailed

if TYPE_CHECKING:
    from sfumato.release.path import Report

_RECORD, _LOG, _STATE = "record.json", "sums", "state"
#: What a record is compared by, and how a refusal names it.
_COMPARED = {"data": "the data", "code": "the code of the package", "request": "the request"}
# Rooms whose code decides what a run draws, and libraries that compute for them.
_COMPUTING = ("io", "learners", "mechanisms", "media", "noise", "privacy", "publishers", "release", "tables")
_LIBRARIES = ("numpy", "scipy", "torch")
# Of one entry of the log: its number, the length of its payload, and the SHA-256 of both with the payload.
_COUNTS, _DIGEST_BYTES = struct.Struct("<QQ"), 32
# The size of a log, in bytes, from which on the state of a run takes the place of its sums.
_MOST_KEPT = 1 << 28
_RENEWAL_SECONDS = Ledger.LEASE_SECONDS / 4


class Checkpoint:
    """The checkpoint of a run whose output is ``output``; a block that ends well removes it.

    A block that ends with a refusal of the budget or of the input, before anything was paid, removes what it
    made; one that ends because an audit withholds the output ends the run for good.
    """

    #: The certificate that the run had before it was interrupted, if it came so far.
    kept: bytes | None = None
    #: Whether :meth:`prepare` found a run that was interrupted.
    found = False

    def __init__(self, output: Path) -> None:
        place = Path(os.path.realpath(output))
        self.folder = place.with_name(f".{place.name}.run")
        self._held, self._record = ExitStack(), dict[str, str]()
        self._leases: list[tuple[Ledger, str, int]] = []
        self._lost: BadInput | None = None
        self._made = self._settled = False

    @property
    def exists(self) -> bool:
        """Whether a run was begun and has not ended."""
        return (self.folder / _RECORD).is_file()

    @property
    def request(self) -> str:
        """The id under which the run is paid."""
        return self._record["id"]

    @property
    def noise(self) -> Keyed:
        """The randomness of the run, a function of the seed."""
        return Keyed(bytes.fromhex(self._record["seed"]), dataset="run", version="1", release=self.request)

    @property
    def commitment(self) -> str:
        """A commitment to data, code and request, under the seed."""
        compared = json.dumps([self._record[name] for name in _COMPARED])
        return self.noise.commitment(hashlib.sha256(compared.encode()).digest())

    @property
    def resumed(self) -> int | None:
        """How many sums were kept when the run was resumed; None of a new run."""
        return None if self._made else self._log.before

    def prepare(self) -> Keyed:
        """Return the randomness of the paid run that was interrupted, or of a new one; write nothing.

        This is for runs that draw names from it too, before anything is read.
        """
        record = self._read()
        self.found = record.get("paid") == "True"
        self._record = record if self.found else {"id": _new_id(), "seed": secrets.token_hex(32)}
        return self.noise.of_one_run()

    def begin(self, data: bytes, request: Mapping[str, Any], *, key: str | None = None, paid: bool) -> None:
        """Find the run of ``data``, a digest, and ``request``, JSON values; or make it, on the disk.

        ``key`` is the id of the request, if one was given, and ``paid`` says that a budget will be charged. A
        run of something else is refused, unless nothing was paid for it: then it is begun anew.
        """
        wanted = json.dumps([request, key, paid], sort_keys=True).encode()
        now = {"data": data.hex(), "code": code_digest(), "request": hashlib.sha256(wanted).hexdigest()}
        self._held.enter_context(claimed(self.folder))
        record = self._read()
        changed = [what for name, what in _COMPARED.items() if record and record[name] != now[name]]
        if changed and record["paid"] == "True":
            raise BadInput(
                f"the run in {self.folder.name} was interrupted, and {' and '.join(changed)} changed since: "
                "give back what it was paid for to resume it, or delete that folder to pay anew."
            )
        if changed or not record:
            self._made = True
            record = {"id": key or _new_id(), "seed": secrets.token_hex(32)} | self._record | now
            record |= {"paid": str(paid)}
            self._write(record)
        elif self._record.get("seed", record["seed"]) != record["seed"]:
            raise BadInput(f"another process began the run in {self.folder.name}: wait until it has ended.")
        self._record, self.holder = record, _holder(self.folder, record["seed"])
        self._log = self._held.enter_context(closing(_Log(self.folder)))

    def settle(self, ledger: Ledger | None = None, dataset: str = "", number: int = 0) -> None:
        """Mark the run as paid, or free of cost, and lease it from the ledger that paid.

        From now on the folder stays until the run has ended. Refused while another process has the lease.
        """
        self._settled = True
        if ledger is None:
            return
        ledger.lease(dataset, number, self.holder)
        self._leases.append((ledger, dataset, number))
        if len(self._leases) == 1:
            stop = threading.Event()
            renewing = threading.Thread(target=self._renew, args=(stop,), daemon=True)
            renewing.start()
            self._held.callback(renewing.join)
            self._held.callback(stop.set)

    def sums(self, randomness: Randomness | None, report: Report) -> NoisedSums:
        """Return the sums of the run, those that were kept first, drawn from ``randomness`` or the seed."""
        if self.resumed is not None:
            rows = [f" that row {number} of {dataset} paid for" for _, dataset, number in self._leases[:1]]
            report(f"resuming the run{''.join(rows)} after {self.resumed:,} noised sums", None)
        return _KeptSums(randomness or self.noise, self._log, self._require_lease)

    def _require_lease(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(_RENEWAL_SECONDS):
            for ledger, dataset, number in list(self._leases):
                try:
                    ledger.lease(dataset, number, self.holder)
                except LedgerUnavailable:
                    continue  # it may come back; a certificate is kept under the lease or not at all
                except BadInput as error:
                    self._lost = error
                    return

    def _read(self) -> dict[str, str]:
        """Return the record; empty if no run was begun."""
        try:
            status = self.folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise BadInput(f"{self.folder} is no private folder of yours: delete it.")
            text = (self.folder / _RECORD).read_text("ascii")
        except FileNotFoundError:
            return {}
        try:
            record = json.loads(text)
            bytes.fromhex(record["seed"])
            return {name: str(record[name]) for name in (*_COMPARED, "id", "seed", "paid")}
        except (ValueError, KeyError, TypeError):
            raise damaged(self.folder / _RECORD) from None

    def _write(self, record: Mapping[str, str]) -> None:
        """Make the folder anew, and let it be on the disk."""
        self._remove()
        with writing(self.folder):
            self.folder.mkdir(mode=0o700)
            with atomic_output(self.folder / _RECORD, mode=PRIVATE) as file:
                file.write(json.dumps(record, indent=2).encode("ascii"))
            sync(self.folder.parent)

    def _remove(self) -> None:
        """Remove the folder; an interruption leaves all of it, or nothing that could be resumed."""
        away = self.folder.with_name(f"{self.folder.name}.gone")
        shutil.rmtree(away, ignore_errors=True)
        with writing(self.folder), suppress(FileNotFoundError):
            self.folder.rename(away)
            shutil.rmtree(away, ignore_errors=True)

    def _end_leases(self, *, for_good: bool = False) -> None:
        for ledger, dataset, number in self._leases:
            # A lease that cannot be given back expires; the end of a run is durable before it is reported.
            with nullcontext() if for_good else suppress(LedgerUnavailable):
                ledger.end_lease(dataset, number, self.holder, for_good=for_good)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        withheld = isinstance(error, VerificationFailed)
        refused = isinstance(error, BadInput | BudgetRefused) and self._made and not self._settled
        with self._held:
            if withheld:
                self._end_leases(for_good=True)
            if self._record and (error is None or withheld or refused):
                self._remove()
        if not withheld:
            self._end_leases()


class _KeptSums(NoisedSums):
    """Sums that are read from ``log`` while it has them, and kept there before they are returned."""

    def __init__(self, randomness: Randomness, log: _Log, require_lease: Callable[[], None]) -> None:
        super().__init__(randomness)
        self._log, self._require_lease = log, require_lease
        self.count, self.state = log.first, log.state

    def save(self, state: Callable[[], bytes]) -> None:
        """Keep ``state`` in the place of all sums so far, once these are many."""
        if self._log.size > _MOST_KEPT and self.count == self._log.next:
            self._log.restart(state())

    def _sum(self, number: int, drawn: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        if number < self._log.next:
            return self._log.read(number)
        self._require_lease()
        found = drawn()
        self._log.append(found)
        return found


class _Log:
    """Arrays in a private file of ``folder``, each on the disk before :meth:`append` returns.

    A last entry that was torn, in the middle of a write or by a power cut, is cut off when the log is opened;
    an entry that is damaged before others is refused. ``state``, in a file of its own, stands for all sums
    before the one with the number ``first``.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._kept = folder / _LOG, folder / _STATE
        self.first, self.state = self._read_state()
        self._starts: list[int] = []
        with writing(self._path):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file: IO[bytes] = os.fdopen(os.open(self._path, flags, PRIVATE), "r+b", buffering=0)
        self.size = 0
        try:
            self._scan(os.fstat(self._file.fileno()).st_size)
        except BaseException:
            self.close()
            raise
        #: How many sums were kept when the log was opened.
        self.before = self.next

    @property
    def next(self) -> int:
        """The number of the sum that is drawn next."""
        return self.first + len(self._starts)

    def read(self, number: int) -> NDArray[Any]:
        """Return the sum ``number``."""
        found = self._entry(self._starts[number - self.first])
        if found is None or found[0] != number:
            raise damaged(self._path)
        return np.asarray(np.load(BytesIO(found[1]), allow_pickle=False))

    def append(self, array: NDArray[Any]) -> None:
        """Write the next sum."""
        payload = BytesIO()
        np.save(payload, array, allow_pickle=False)
        entry = _sealed(self.next, payload.getvalue())
        try:
            with writing(self._path):
                self._file.seek(self.size)
                view = memoryview(entry)
                while view:
                    view = view[self._file.write(view) :]
                os.fsync(self._file.fileno())
        except BaseException:
            with suppress(OSError):
                self._cut(self.size)
            raise
        self._starts.append(self.size)
        self.size += len(entry)

    def restart(self, state: bytes) -> None:
        """Keep ``state`` in the place of all sums so far."""
        with atomic_output(self._kept, mode=PRIVATE) as file:
            file.write(_sealed(self.next, state))
        with writing(self._path):
            self._cut(0)
        self.first, self.state, self._starts, self.size = self.next, state, [], 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _scan(self, size: int) -> None:
        """Find all entries; cut off one that was torn."""
        at, numbers = 0, list[int]()
        while (found := self._entry(at)) is not None and found[0] == (
            numbers[-1] + 1 if numbers else found[0]
        ):
            numbers.append(found[0])
            self._starts.append(at)
            at += _COUNTS.size + _DIGEST_BYTES + len(found[1])
        if at < size and not self._is_torn(at, size):
            raise damaged(self._path)
        old = sum(number < self.first for number in numbers)  # the state was kept, and the log not yet cut
        if old == len(numbers):
            at, self._starts = 0, []
        elif old or numbers[0] != self.first:
            raise damaged(self._path)
        if at < size:
            self._cut(at)
        self.size = at

    def _is_torn(self, start: int, size: int) -> bool:
        """Return whether what is at ``start`` can be a torn last write: nothing follows it, or only zeros."""
        self._file.seek(start)
        head = self._file.read(_COUNTS.size)
        whole = _COUNTS.size + _DIGEST_BYTES + (_COUNTS.unpack(head)[1] if len(head) == _COUNTS.size else 0)
        self._file.seek(start)
        return start + whole >= size or not any(self._file.read(1 << 16))

    def _entry(self, start: int) -> tuple[int, bytes] | None:
        """Return number and payload of the entry at ``start``; None if it is not whole."""
        self._file.seek(start)
        head = self._file.read(_COUNTS.size + _DIGEST_BYTES)
        if len(head) < _COUNTS.size + _DIGEST_BYTES:
            return None
        number, length = _COUNTS.unpack(head[: _COUNTS.size])
        if start + len(head) + length > os.fstat(self._file.fileno()).st_size:
            return None
        payload = self._file.read(length)
        return (number, payload) if _sealed(number, payload)[: len(head)] == head else None

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file.fileno(), size)
        os.fsync(self._file.fileno())

    def _read_state(self) -> tuple[int, bytes | None]:
        try:
            content = self._kept.read_bytes()
        except FileNotFoundError:
            return 0, None
        number, state = int.from_bytes(content[:8], "little"), content[_COUNTS.size + _DIGEST_BYTES :]
        if _sealed(number, state) != content:
            raise damaged(self._kept)
        return number, state


def _sealed(number: int, payload: bytes) -> bytes:
    """Return an entry: number, length, SHA-256 of all, payload."""
    counts = _COUNTS.pack(number, len(payload))
    digest = hashlib.sha256(counts)
    digest.update(payload)
    return counts + digest.digest() + payload


def _holder(folder: Path, seed: str) -> str:
    """Return the holder of a lease: this folder on this machine. A copy of the folder is another holder."""
    boot, status = Path("/proc/sys/kernel/random/boot_id"), folder.stat()
    machine = f"{platform.node()} {boot.read_text() if boot.exists() else ''}"
    return hashlib.sha256(f"{machine} {status.st_dev} {status.st_ino} {seed}".encode()).hexdigest()


def _new_id() -> str:
    return f"run-{secrets.token_hex(16)}"


def damaged(file: Path) -> BadInput:
    """Return the refusal of a checkpoint of which ``file`` is damaged."""
    return BadInput(f"{file.parent.name}/{file.name} is damaged: delete that folder to pay anew.")


@cache
def code_digest() -> str:
    """Return a digest of the code that decides what a run draws, and of the versions of libraries."""
    root, digest = Path(__file__).parents[1], hashlib.sha256(sfumato.__version__.encode())
    for file in sorted(file for room in _COMPUTING for file in (root / room).rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()
