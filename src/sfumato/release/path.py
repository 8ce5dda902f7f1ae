"""The one path every release takes: open, check, (pay, draw)+, judge, write, certify.

A *kind* of release (a file, a folder, an object of the proxy, a model, a publication, a federated run)
supplies the stages; the path alone pays and certifies. From that, for every kind:

1. *A refusal costs nothing.* All that can be refused is refused when the kind is opened, by the budget, or by
   ``check``, which reads everything. After payment nothing about the data can stop a release.
2. *A spend is durable before anything is drawn.* ``draw`` is handed ``pay`` and calls it before its first
   noise: a crash may waste budget, it never leaves an unpaid release.
3. *A paid release appears*, unless ``judge``, an audit, refutes what is stated; the δ that such a silence
   costs was set aside in the price (:mod:`~sfumato.release.audit_slack`).
4. *The certificate stands before the output* (decision 006), and is kept beside the row that paid.
5. *What was interrupted is resumed* where the kind keeps a :mod:`~sfumato.release.checkpoint`: no noised sum
   is drawn twice, and one spend has one output.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

import sfumato
from sfumato.io import First, reserved
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.noise import Keyed
from sfumato.privacy import TEXT_WIDTH, Guarantee, Statement, Unit, printable
from sfumato.release.payment import Content, Paid, Spending, terms_of
from sfumato.reports import (
    Certificate,
    KeyRing,
    SigningKey,
    VerificationFailed,
    certificate_file,
    file_digest,
)

if TYPE_CHECKING:
    from sfumato.release.checkpoint import Checkpoint

__all__ = ["OneFile", "Protected", "Report", "SourceFile", "release", "silent"]

#: Makes the certificate of the bytes in a file, and keeps it beside what was paid.
Certify = Callable[[Path], bytes]
#: Called with the stage of the work and the share of it that is done, None while that is not known.
Report = Callable[[str, float | None], None]


def silent(stage: str, share: float | None) -> None:
    """Progress that nobody is told."""


@dataclass(frozen=True)
class Protected:
    """What ``protect`` wrote, what was left out of it, and the ledger row that paid for it, if one did.

    ``what`` names for people what was released, where it is not a number of records; ``place`` is where it
    stands, where that is not ``output``: in an object store. ``name`` is what its certificate calls it, where
    that is not the name of ``output``.
    """

    output: Path
    statement: Statement
    rows: int
    columns: int
    left_out: tuple[str, ...]
    dataset: str | None = None
    paid: Mapping[str, Any] | None = None
    what: str | None = None
    place: str | None = None
    name: str | None = None

    @property
    def certificate_file(self) -> Path:
        """The file beside the output that binds the statement to its bytes."""
        return certificate_file(self.output)

    @property
    def shown(self) -> str:
        """Where the output stands, for people."""
        return str(self.output) if self.place is None else self.place

    @property
    def shown_certificate(self) -> str:
        """Where the certificate stands, for people."""
        return str(self.certificate_file) if self.place is None else f"{self.place}.cert.json"

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the result for people, its statement in lines of at most ``width`` characters."""
        what = self.what or f"{self.rows:,} records of {self.columns:,} columns"
        lines = [self.statement.table(width), "", f"Released: {printable(self.shown)} ({what})"]
        lines.append(f"Certificate: {printable(self.shown_certificate)}")
        if self.left_out:
            lines.append(f"Left out: {', '.join(map(printable, self.left_out))}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; ``epsilon`` is None where nothing finite is proven."""
        epsilon = self.statement.proven.epsilon()
        finite = math.isfinite(epsilon)
        return {
            "output": self.shown,
            "certificate_file": self.shown_certificate,
            "dataset": self.dataset,
            "paid": None if self.paid is None else dict(self.paid),
            "rows": self.rows,
            "columns": self.columns,
            "left_out": list(self.left_out),
            "what": self.what,
            "epsilon": epsilon if finite else None,
            "delta": self.statement.proven.at_delta if finite else None,
            "warnings": list(self.statement.warnings),
            "statement": self.statement.to_dict(),
        }

    def certified(self, written: Path, signer: SigningKey | None) -> bytes:
        """The certificate of the bytes in ``written``, signed if there is somebody who signs."""
        certificate = Certificate(
            file_name=self.name or self.output.name,
            sha256=file_digest(written),
            statement=self.statement,
            rows=self.rows,
            columns=self.columns,
            dataset=self.dataset,
            ledger=self.paid,
            version=sfumato.__version__,
            left_out=self.left_out,
        )
        return certificate.unsigned() if signer is None else certificate.signed(signer)


_READ_BYTES = 1 << 20


class SourceFile(ABC):
    """One file, or a range of its rows, and the mechanism that it goes through.

    To open one prepares the mechanism: what can be refused from parameters and shape alone is refused there,
    so that a plan, a hold and a payment are only ever made for what can be drawn.

    ``statement`` is what its release will state. ``rows`` is how many records it holds, None where only
    reading tells; ``values`` is how many numbers each has. ``what`` names for people what is released, where
    that is not a number of records; ``left_out`` names what is not. ``declared`` holds as JSON values what
    shapes the noise beside the statement's parameters.
    """

    path: Path
    mechanism: Mechanism
    statement: Statement
    values: int
    rows: int | None = 1
    what: str | None = None
    left_out: tuple[str, ...] = ()
    declared: Mapping[str, Any] | None = None

    @abstractmethod
    def fits(self, output: Path) -> None:
        """Refuse an ``output`` whose format cannot hold the release; nothing has been read or paid yet."""

    @abstractmethod
    def expected(self) -> tuple[ExpectedError, ...]:
        """The error to expect, as far as the mechanism can tell."""

    @abstractmethod
    def check(self, report: Report, content: Content | None = None) -> None:
        """Read all of it, which refuses what cannot be released; draws no noise.

        All that it holds is added to ``content``, where that is asked for.
        """

    @abstractmethod
    def most_bytes(self, output: Path) -> int:
        """An upper bound of the size of the release at ``output``, once all of the file was checked."""

    def alike(self, output: Path) -> object:
        """What files that can be drawn together have in common; None where each is drawn alone."""
        return None

    @abstractmethod
    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Draw the release and let it appear at ``output``, in the format its name says, after ``first``."""


class MediaFile(SourceFile):
    """A picture, a sound or a video; nothing of it but its pixels and samples is released: no metadata."""

    what: str

    @abstractmethod
    def decode(self, report: Report) -> None:
        """Decode all of it, which refuses what cannot be released; draws no noise."""

    def expected(self) -> tuple[ExpectedError, ...]:
        """The error to expect, as far as the mechanism can tell."""
        return self.mechanism.expected_error(self.values)

    def check(self, report: Report, content: Content | None = None) -> None:
        """Decode it; to ``content`` the digest of the file is added."""
        self.decode(report)
        if content is not None:
            content.add(np.frombuffer(digest_of(self.path), np.uint8).reshape(1, -1))


def per_item(statement: Statement) -> Statement:
    """``statement`` of a file that is one clip, with what it proves of the clip said of the item as well.

    So a budget that counts items pays for sounds and videos as it does for pictures.
    """
    stated = {part.unit.name: part for part in (statement.proven, *statement.also_proven)}
    if "item" in stated or "clip" not in stated:
        return statement
    item = replace(stated["clip"], unit=Unit("item"))
    return replace(statement, also_proven=(*statement.also_proven, item))


def digest_of(path: Path) -> bytes:
    """The SHA-256 of the bytes at ``path``."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()


class Pay(Protocol):
    """What pays for one release. The kind calls it, or has it called for each round, before it draws."""

    @property
    def row(self) -> Paid:
        """The ledger row that the certificate names, if there is one."""

    def keep(self, certificate: bytes) -> bytes:
        """Remember ``certificate`` beside what was paid; returns it."""


_Pay = TypeVar("_Pay", bound=Pay)
_Pays = TypeVar("_Pays", bound=Pay, covariant=True)


class Payer(Protocol[_Pays]):
    """A way to pay: a spend, a hold that is committed, a spend for each round, or something paid before."""

    @property
    def dataset(self) -> str | None:
        """The dataset that is charged, or named."""

    def paying(self, kind: Kind[Any], content: Content) -> _Pays:
        """What pays for ``kind``, whose ``content`` is not read yet; refuses what no budget could pay."""


class Kind(ABC, Generic[_Pay]):
    """One release that was opened: names, headers and parameters are known to be good, no record was read.

    ``output`` is the file that the certificate stands beside. ``name`` is what the ledger's row calls the
    release. ``price`` is what it will state, as far as the budget pays for it; ``added`` are the statements
    of the files whose costs add up to it, where it is of many. ``keyed`` is its noise, where that is keyed,
    and ``declared`` what shapes it beside the parameters. Noise that is ``reproducible`` is not signed for.
    ``checkpoint`` is that of a run which can be resumed: its ``check`` adds all data to the content, and its
    ``draw`` draws by the sums of the checkpoint alone, once it has paid.
    """

    output: Path
    name: str
    price: Statement
    added: Sequence[Statement] = ()
    declared: Mapping[str, Any] | None = None
    keyed: Keyed | None = None
    reproducible: bool = False
    checkpoint: Checkpoint | None = None

    @abstractmethod
    def check(self, content: Content, report: Report) -> None:
        """Read all of it, which refuses what cannot be released.

        It is added to ``content`` where the noise is keyed or a checkpoint is kept.
        """

    def promised(self) -> Guarantee | None:
        """What a budget would have to pay, before anything is read; None where that is not known."""
        return self.price.proven

    def forewarn(self) -> None:
        """Warn of what will be stated; a kind that knows it only when it has drawn warns then."""
        self.price.forewarn()

    def room(self) -> AbstractContextManager[None]:
        """Room for the output, while the block lasts; refuses where there is none."""
        return nullcontext()

    @abstractmethod
    def draw(self, pay: _Pay, report: Report) -> None:
        """Pay, then draw; a kind that streams draws as it writes."""

    def judge(self, report: Report) -> None:
        """Raise :class:`~sfumato.reports.VerificationFailed` where an audit refutes what is stated."""

    @abstractmethod
    def write(self, certify: Certify, report: Report) -> None:
        """Let the output appear, after the certificate, which ``certify`` makes of its bytes."""

    @abstractmethod
    def released(self) -> Protected:
        """What was released; asked for once it is written, and completed with what paid for it."""


def release(
    kind: Kind[_Pay], payer: Payer[_Pay], keys: KeyRing | None = None, report: Report = silent
) -> Protected:
    """Take ``kind`` along the path: ``payer`` pays for it, and the key in ``keys`` signs for it.

    Raises :class:`~sfumato.errors.BadInput` or :class:`~sfumato.ledger.BudgetRefused`, having spent nothing
    and left no output, where something is wrong with the input or the budget.
    """
    content = Content()
    pay = payer.paying(kind, content)
    kind.check(content, report)
    # Found or made now: a key that cannot be used must not be noticed after the budget was spent.
    signer = None if kind.reproducible else (keys or KeyRing()).signing_or_new()
    kind.forewarn()

    def done() -> Protected:
        return replace(kind.released(), dataset=payer.dataset, paid=pay.row)

    with kind.room(), kind.checkpoint or nullcontext():
        kind.draw(pay, report)
        before = None if kind.checkpoint is None else kind.checkpoint.kept
        try:
            kind.judge(report)
        except VerificationFailed:
            if before is None:  # otherwise it was judged before its certificate was kept
                raise
        stands = before is not None and kind.output.is_file()
        if not (stands and done().certified(kind.output, signer) == before):
            kind.write(lambda written: pay.keep(done().certified(written, signer)), report)
        return done()


class OneFile(Kind[Spending]):
    """One file, drawn as it is written.

    ``room_for`` is told how many bytes the output has at the most, and refuses by raising. ``shown`` is the
    name that the certificate has, ``price`` what is charged where that is for more than this file (nested
    tiers), ``notes`` what the statement adds.
    """

    def __init__(
        self,
        file: SourceFile,
        output: Path,
        *,
        room_for: Callable[[int], None] | None = None,
        name: str | None = None,
        shown: str | None = None,
        price: Statement | None = None,
        declared: Mapping[str, Any] | None = None,
        keyed: Keyed | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._file, self.output, self._room_for, self._shown = file, output, room_for, shown
        self.name, self.price, self._notes = name or output.name, price or file.statement, notes
        self.declared = file.declared if declared is None else declared
        self.keyed = file.mechanism.keyed if keyed is None else keyed
        self.reproducible = file.mechanism.reproducible
        file.fits(output)

    def check(self, content: Content, report: Report) -> None:
        """Read the file; keyed noise is refused where it was drawn for other content."""
        self._file.check(report, None if self.keyed is None else content)
        if self.keyed is not None:
            # As the noise will tell contents apart when it is drawn: by the mechanism's terms alone.
            terms = json.dumps(terms_of(self.price), sort_keys=True)
            self.keyed.keep_to(terms.encode(), content.digest({"declared": self.declared}))

    @contextmanager
    def room(self) -> Iterator[None]:
        """Room on the disk, taken before anything is paid."""
        size = self._file.most_bytes(self.output)
        if self._room_for is not None:
            self._room_for(size)
        with reserved(self.output, size):
            yield

    def draw(self, pay: Spending, report: Report) -> None:
        """Pay; noise is drawn as the file is written."""
        self._notes += pay()

    def write(self, certify: Certify, report: Report) -> None:
        """Draw the release and let it appear."""
        self._file.write(self.output, (certificate_file(self.output), certify), report)

    def released(self) -> Protected:
        """Asked for once all is written: only then it is known how many rows a CSV had."""
        file = self._file
        statement = replace(file.statement, notes=(*file.statement.notes, *self._notes))
        rows = 0 if file.rows is None else file.rows
        return Protected(
            self.output, statement, rows, file.values, file.left_out, what=file.what, name=self._shown
        )
