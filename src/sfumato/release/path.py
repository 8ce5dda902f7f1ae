"""The one path every release takes: open, check, (pay, draw)+, judge, write, certify.

A *kind* of release (a file, a folder, an object of the proxy, a model, a publication, a federated run)
supplies the stages; the path alone pays and certifies. This gives, for every kind:

1. *A refusal costs nothing.* All that can be refused is refused when the kind is opened, by the budget, or by
   ``check``, which reads everything. After payment nothing about the data can stop a release.
2. *A spend is durable before anything is drawn.* ``draw`` is handed ``pay`` and calls it before its first
   noise: a crash may waste budget, it never leaves an unpaid release.
3. *A paid release appears*, unless ``judge``, an audit, refutes what is stated; the δ that such a silence
   costs was reserved in the price (:mod:`~sfumato.release.audit_slack`).
4. *The certificate stands before the output* (decision 006), and is kept beside the row that paid.
5. *What was interrupted is resumed* if the kind keeps a :mod:`~sfumato.release.checkpoint`: no noised sum is
   drawn twice, and one spend has one output.

**Payment.** A release that names a dataset is charged to that dataset's budget. A dataset without a budget is
refused, since a misspelt name would otherwise release for nothing. Whoever names a dataset and wants nothing
charged says so (``uncharged``): the certificate then names the dataset, and the statement says that it did
not pay. A *request* may be repeated: it is paid once, and its noise is keyed, so that it gives the same
bytes. Its row remembers, under the secret of the noise, the content and every parameter that shapes the
noise: what would be drawn anew is refused rather than released for nothing. A long job sets its price aside
when it is accepted (a hold) and pays by committing the hold, which is durable before any noise is drawn. A
hold is settled once, by a commit or by being given back: one that was given back never drew, and one that was
committed pays for what is drawn.

**One run at a time.** A run holds a lock of the operating system (``flock``) on a hidden file beside its
output from before it pays until its output stands. A second run is refused at once, before it pays. The lock
ends with the process that holds it, however that ends, so that a file which a killed process left behind
keeps nobody out.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.errors import BadInput, RequestReused
from sfumato.io import writing
from sfumato.ledger import BudgetRefused, printable_name
from sfumato.noise import Keyed
from sfumato.privacy import TEXT_WIDTH, Guarantee, Statement, printable
from sfumato.reports import (
    Certificate,
    KeyRing,
    SigningKey,
    VerificationFailed,
    certificate_file,
    file_digest,
)

if TYPE_CHECKING:
    from sfumato.ledger import Entry, Ledger
    from sfumato.release.checkpoint import Checkpoint

__all__ = [
    "HeldPayment",
    "Payment",
    "Protected",
    "Report",
    "check_output",
    "release",
    "silent",
]

#: The ledger row that paid, if one did, as certificates name it.
Paid = Mapping[str, Any] | None
#: Makes the certificate of the bytes in a file, and keeps it beside what was paid.
Certify = Callable[[Path], bytes]
#: Called with the stage of the work and the share of it that is done, None while that is not known.
Report = Callable[[str, float | None], None]

#: The mode of files that are for their owner alone.
PRIVATE = 0o600

_Run = TypeVar("_Run", bound=Callable[..., Any])
_UNCHARGED = "not charged to the budget of the dataset, as was asked for"


def silent(stage: str, share: float | None) -> None:
    """Report progress to nobody."""


def check_output(output: Path, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse an ``output`` that cannot be written, or would overwrite one of ``inputs``."""
    folder = output.parent
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise BadInput(f"{output.name} cannot be written: the folder {folder} {fault}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"{output.name} cannot be written: you may not write into the folder {folder}.")
    for place in (output, certificate_file(output)):
        for given in inputs:
            if place.exists() and os.path.exists(given) and os.path.samefile(given, place):
                raise BadInput(f"{place.name} would overwrite the input {given}; choose another output.")
        if place.exists() and not place.is_file():
            raise BadInput(f"{place.name} exists and is not a regular file, so nothing can take its place.")


def refuse_existing(shown: str) -> None:
    """Refuse an output that is there already."""
    raise BadInput(f"{shown} exists already; choose another output, or replace it with `overwrite=True`.")


@contextmanager
def claimed(output: Path, *, parents: bool = False, wait: bool = False) -> Iterator[None]:
    """Keep every other run out of ``output``, a file or a folder, until the block ends.

    ``parents`` makes folders that are missing above it, which are removed again if they stay empty. Without a
    folder around it nothing is locked: writing is refused later. With ``wait``, a run waits until another one
    has ended instead of being refused; this is for requests, which are paid once and give the same bytes.
    """
    target = Path(os.path.realpath(output))
    made = [folder for folder in target.parents if parents and not folder.exists()]
    if parents:
        with writing(output):
            target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.is_dir():
        yield
        return
    lock = target.with_name(f".sfumato-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}.lock")
    descriptor = _locked(lock, output, wait)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()  # refused where anything stands in it


def one_run_at_a_time(run: _Run) -> _Run:
    """Lock the output, the second argument, while ``run`` runs."""

    @functools.wraps(run)
    def alone(subject: Any, output: str | os.PathLike[str], *rest: Any, **words: Any) -> Any:
        with claimed(Path(output)):
            return run(subject, output, *rest, **words)

    return cast(_Run, alone)


def _locked(lock: Path, output: Path, wait: bool) -> int:
    """Return a descriptor of the file ``lock``, locked; refuse if another run has it."""
    while True:
        with writing(output):
            descriptor = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BadInput(
                f"another run is writing {output.name} at this moment; wait until it has ended, or choose "
                "another output."
            ) from None
        except OSError:
            return descriptor  # a file system without locks
        # Whoever had it before may have removed the file between our opening and locking it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)


class Content:
    """A digest of what is released; under the secret of the noise it tells contents apart, and no more."""

    def __init__(self) -> None:
        self._digests: list[hashlib._Hash] = []

    def add(self, *parts: NDArray[Any]) -> None:
        """Add more rows of the content, in order; how the rows are cut into parts makes no difference."""
        if not self._digests:
            # The same bytes are other records when they are cut into columns in another way.
            heads = [f"{part.dtype.str} {part.shape[1:]} " for part in parts]
            self._digests = [hashlib.sha256(head.encode()) for head in heads]
        for digest, part in zip(self._digests, parts, strict=True):
            digest.update(part.tobytes())

    def digest(self, terms: Mapping[str, Any]) -> bytes:
        """Return one digest of everything that was added and of the JSON values ``terms``.

        Two spellings of one number (1 and 1.0) are the same terms.
        """
        digests = [digest.hexdigest() for digest in self._digests]
        text = json.dumps([_canonical(terms), digests], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    def commitment(self, noise: Keyed, terms: Mapping[str, Any]) -> str:
        """Return what :meth:`digest` tells apart, and the stream version; for nobody without the secret."""
        return noise.commitment(self.digest({**terms, "streams": noise.streams}))


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _canonical(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def terms_of(statement: Statement, declared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what shapes the noise of a release, as JSON values: the statement's terms, and ``declared``.

    Another version of the package draws the same noise, as long as the mechanism's version stays.
    """
    if statement.terms is None:  # by the names in the statement, a renamed parameter would change digests
        raise ValueError(f"the statement of {statement.mechanism} has no terms to commit to.")
    return {**statement.terms, "declared": declared}


def asked_for(statement: Statement, added: Sequence[Statement] = ()) -> tuple[Guarantee, str]:
    """Return the guarantee whose ε was typed to get ``statement``, and in words whose ε that is.

    If the costs of many files are ``added``, it is that of each file, if they all promise the same, and
    otherwise no single ε. A mechanism that makes an ε of its own of what is typed, such as a range, says so.
    """
    each = {one.proven for one in added} if len(added) > 1 else {statement.proven}
    if len(each) > 1:
        return statement.proven, f"of all {len(added)} files together"
    (headline,) = each
    typed = statement.parameters.get("epsilon", headline.epsilon())
    as_typed = isinstance(typed, int | float) and math.isclose(typed, headline.epsilon(), rel_tol=1e-3)
    whose = f"in each of the {len(added)} files" if len(added) > 1 else "of this kind"
    return headline, whose if as_typed else f"{whose}, as it is proven and not as it is typed,"


@dataclass(frozen=True)
class Payment:
    """Where a release is charged: to nobody, or to ``dataset`` in ``ledger``, once for each ``request``.

    ``uncharged`` says that the dataset is named and does not pay.
    """

    dataset: str | None = None
    ledger: Ledger | None = None
    request: str | None = None
    uncharged: bool = False

    def __post_init__(self) -> None:
        name = self.dataset
        if isinstance(self.ledger, str | os.PathLike):
            raise BadInput(
                "`ledger` was given as text: give the open ledger, as in `ledger=sf.Ledger(url)`.",
                parameter="ledger",
            )
        if name is not None:
            printable_name(name)
        if self.request is not None and self.payer is None:
            raise BadInput(
                "`request` is paid from a budget: name its `dataset` and `ledger`.", parameter="request"
            )
        if name is not None and self.ledger is None and not self.uncharged:
            raise BudgetRefused(
                f"the dataset {name!r} came without a ledger whose budget could pay; give the ledger, or say "
                "that nothing is charged with uncharged=True.",
                0.0,
            )

    @property
    def payer(self) -> tuple[Ledger, str] | None:
        """The ledger and the dataset that pay; None if nothing is charged."""
        if self.ledger is None or self.dataset is None or self.uncharged:
            return None
        return self.ledger, self.dataset

    @property
    def notes(self) -> tuple[str, ...]:
        """What the statement of a release says about its payment."""
        return (_UNCHARGED,) if self.dataset is not None and self.payer is None else ()

    @property
    def lacks_budget(self) -> bool:
        """Whether a dataset is to pay that has no budget."""
        return self.payer is not None and not self.payer[0].has(self.payer[1])

    @property
    def neighbours(self) -> str | None:
        """The neighbours of the budget that pays; None if there is none."""
        if self.payer is None or self.lacks_budget:
            return None
        ledger, dataset = self.payer
        return ledger.counted(dataset)[1]

    def require_budget(self, guarantee: Guarantee | None = None) -> None:
        """Refuse a dataset without a budget, before anything is read; ``guarantee`` is what it has to pay."""
        if self.payer is not None:
            ledger, dataset = self.payer
            ledger.require_open(dataset, guarantee)

    def paid_for(self, certificate: bytes, keys: KeyRing) -> bool:
        """Return whether this request paid for the release of ``certificate``, signed by one of ``keys``."""
        if self.payer is None or self.request is None:
            return False
        ledger, dataset = self.payer
        try:
            row = Certificate.read(certificate, keys.trusted()).ledger
        except VerificationFailed:
            return False
        entry = None if row is None else ledger.find(row["hash"])
        return entry is not None and (entry.dataset, entry.key) == (dataset, self.request)

    def noise(self, keyed: Keyed | None) -> Keyed | None:
        """Return the keyed noise of a request; repeated with fresh noise, it would draw anew, unpaid."""
        if self.request is None:
            return None
        if keyed is None:
            raise BadInput(
                "a request that may be repeated needs keyed noise: randomness=sf.Keyed(…).",
                parameter="randomness",
            )
        return keyed

    def charged(self, statement: Statement) -> Guarantee:
        """Return what the budget has to pay: the guarantee of its unit, if the statement has several."""
        if self.payer is None or not statement.also_proven or self.lacks_budget:
            return statement.proven  # a missing budget is refused when it is charged
        ledger, dataset = self.payer
        counted = ledger.counted(dataset)
        parts = (statement.proven, *statement.also_proven)
        fitting = (part for part in parts if (str(part.unit), str(part.neighbours)) == counted)
        return next(fitting, statement.proven)

    def paying(self, kind: Kind[Any], content: Content) -> Spending:
        """Return what pays for ``kind``, whose ``content`` is not read yet; refuse what no budget can pay."""
        return Spending(self, kind, content)

    def pay(self, kind: Kind[Any], content: Content, noise: Keyed | None) -> Paid:
        """Spend the price of ``kind``, durably, and return the ledger row that says so, if there is a payer.

        The row of a run with a checkpoint is found if the run was paid for before. A request whose ``noise``
        is keyed finds its row, and gives the same bytes, whether or not there is a record of the run: it
        needs no lease, and a record of something else is begun anew.
        """
        run, row = kind.checkpoint, None
        if run is not None:
            who = None if self.payer is None else [self.payer[0].identity, self.payer[1]]
            wanted = {"statement": kind.price.to_dict(), "name": kind.name, "payer": who}
            leased = self.payer is not None and noise is None
            run.begin(content.digest({}), wanted, key=self.request, paid=leased)
        if self.payer is not None:
            ledger, dataset = self.payer
            commitment = None if run is None else run.commitment
            if noise is not None:
                commitment = content.commitment(noise, terms_of(kind.price, None if run else kind.declared))
            key = self.request if run is None else run.request
            row = _row(self._entry(ledger.spend, kind, commitment, key))
            if run is not None and noise is None:
                run.settle(ledger, dataset, row["number"])
                kept = None if run.resumed is None else ledger.certificates(dataset).get(row["number"])
                run.kept = None if kept is None else kept.encode()
                return row
        if run is not None:
            run.settle()
        return row

    def _entry(
        self, add: Callable[..., Entry], kind: Kind[Any], commitment: str | None, key: str | None
    ) -> Entry:
        """Return the ledger entry that ``add`` makes of the price of ``kind``, with its ``commitment``.

        Raises :class:`~sfumato.errors.RequestReused` if ``key`` was used for something else.
        """
        purpose = kind.name if commitment is None else f"{kind.name} (content {commitment})"
        asked = asked_for(kind.price, kind.added)
        entry = add(self.dataset, self.charged(kind.price), purpose, key, asked=asked)
        if entry.purpose != purpose:
            raise RequestReused(
                f"request {entry.key!r} was made from other content, with other parameters or under "
                "another name; give what has changed a new request."
            )
        return entry

    def keep(self, paid: Paid, certificate: bytes, run: Checkpoint | None = None) -> bytes:
        """Keep ``certificate`` beside the row that paid for its release, and return it.

        Of a ``run`` the first one stays, and another one is refused.
        """
        if paid is not None and self.payer is not None:
            ledger, dataset = self.payer
            holder = None if run is None else run.holder
            kept = ledger.keep_certificate(dataset, paid["number"], certificate.decode(), holder)
            if kept != certificate.decode():
                raise BadInput(
                    f"row {paid['number']} of {dataset!r} paid for another output before, whose certificate "
                    "the ledger keeps: one spend has one output."
                )
        return certificate


class Spending:
    """``pay`` of one release: spends its price at once, durably, when it is called."""

    def __init__(self, payment: Payment, kind: Kind[Any], content: Content) -> None:
        if payment.lacks_budget:
            payment.require_budget(kind.promised())
        self._payment, self._kind, self._content = payment, kind, content
        without = kind.checkpoint is not None and kind.keyed is None
        self._noise = None if without else payment.noise(kind.keyed)
        self.row: Paid = None

    def __call__(self) -> tuple[str, ...]:
        """Spend the price, unless the run was paid for before; return what the statement has to add."""
        self.row = self._payment.pay(self._kind, self._content, self._noise)
        return self._payment.notes

    def keep(self, certificate: bytes) -> bytes:
        """Keep ``certificate`` beside the row that paid, and return it."""
        run = self._kind.checkpoint if self._noise is None else None
        return self._payment.keep(self.row, certificate, run)


@dataclass(frozen=True)
class HeldPayment(Payment):
    """A payment that was, or is to be, set aside as the hold with this ``key`` of the ledger.

    ``body`` is a digest of the file that is released, which stands for its content: a hold is made before the
    file was read. ``before`` is called just before the hold is committed, and refuses by raising.
    """

    key: str = ""
    body: bytes = b""
    before: Callable[[], None] = lambda: None

    def hold(self, kind: Kind[Any]) -> Entry:
        """Set the price of ``kind`` aside; asked again, return the same hold, unless it was given back."""
        assert self.ledger is not None
        noise, commitment = self.noise(kind.keyed), None
        if noise is not None:
            content = Content()
            content.add(np.frombuffer(self.body, np.uint8).reshape(1, -1))
            commitment = content.commitment(noise, terms_of(kind.price, kind.declared))
        return self._entry(self.ledger.hold, kind, commitment, self.key)

    def pay(self, kind: Kind[Any], content: Content, noise: Keyed | None) -> Paid:
        """Commit the hold, durably, and return its row, which says what was paid for.

        A hold that was given back meanwhile is refused, and so is one that was for something else.
        """
        assert self.payer is not None
        ledger, dataset = self.payer
        entry = self.hold(kind)
        self.before()
        ledger.commit(dataset, entry.number)
        return _row(entry)


def _row(entry: Entry) -> dict[str, Any]:
    """Return ``entry`` as certificates name it."""
    return {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}


@dataclass(frozen=True)
class Protected:
    """What ``protect`` wrote, what was left out of it, and the ledger row that paid for it, if one did.

    ``what`` names for people what was released, if it is not a number of records; ``place`` is where it
    stands, if that is not ``output``: in an object store. ``name`` is what its certificate calls it, if that
    is not the name of ``output``.
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
    #: One file is released or refused; of a folder, files may be left out.
    skipped: ClassVar[tuple[tuple[str, str], ...]] = ()

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
        """Return JSON values; ``epsilon`` is None if nothing finite is proven."""
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
        """Return the certificate of the bytes in ``written``, signed if there is a ``signer``."""
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


class Pay(Protocol):
    """What pays for one release. The kind calls it, or has it called for each round, before it draws."""

    @property
    def row(self) -> Paid:
        """The ledger row that the certificate names, if there is one."""

    def keep(self, certificate: bytes) -> bytes:
        """Keep ``certificate`` beside what was paid, and return it."""


_Pay = TypeVar("_Pay", bound=Pay)
_Pays = TypeVar("_Pays", bound=Pay, covariant=True)


class Payer(Protocol[_Pays]):
    """A way to pay: a spend, a hold that is committed, a spend for each round, or something paid before."""

    @property
    def dataset(self) -> str | None:
        """The dataset that is charged, or named."""

    def paying(self, kind: Kind[Any], content: Content) -> _Pays:
        """Return what pays for ``kind``, whose ``content`` is not read yet; refuse what no budget can pay."""


class Kind(ABC, Generic[_Pay]):
    """One release that was opened: names, headers and parameters are known to be good, no record was read.

    ``output`` is the file that the certificate stands beside. ``name`` is what the ledger's row calls the
    release. ``price`` is what it will state, as far as the budget pays for it; ``added`` are the statements
    of the files whose costs add up to it, if it is of many. ``keyed`` is its noise, if that is keyed, and
    ``declared`` what shapes it beside the parameters. Noise that is ``reproducible`` is not signed for.
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

        It is added to ``content`` if the noise is keyed or a checkpoint is kept.
        """

    def promised(self) -> Guarantee | None:
        """Return what a budget would have to pay, before anything is read; None if that is not known."""
        return self.price.proven

    def forewarn(self) -> None:
        """Warn of what will be stated; a kind that knows it only when it has drawn warns then."""
        self.price.forewarn()

    def room(self) -> AbstractContextManager[None]:
        """Reserve room for the output while the block lasts; refuse if there is none."""
        return nullcontext()

    @abstractmethod
    def draw(self, pay: _Pay, report: Report) -> None:
        """Pay, then draw; a kind that streams draws as it writes."""

    def judge(self, report: Report) -> None:
        """Raise :class:`~sfumato.reports.VerificationFailed` if an audit refutes what is stated."""

    @abstractmethod
    def write(self, certify: Certify, report: Report) -> None:
        """Let the output appear, after the certificate, which ``certify`` makes of its bytes."""

    @abstractmethod
    def released(self) -> Protected:
        """Return what was released; called once it is written, and completed with what paid for it."""


def release(
    kind: Kind[_Pay], payer: Payer[_Pay], keys: KeyRing | None = None, report: Report = silent
) -> Protected:
    """Take ``kind`` along the path: ``payer`` pays for it, and the key in ``keys`` signs for it.

    Raises :class:`~sfumato.errors.BadInput` or :class:`~sfumato.ledger.BudgetRefused`, having spent nothing
    and left no output, if something is wrong with the input or the budget.
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
