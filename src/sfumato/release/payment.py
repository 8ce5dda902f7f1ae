"""How a release is paid for: the spend is durable before any noise is drawn.

A release that names a dataset is charged to that dataset's budget. A dataset without a budget is refused,
since a misspelt name would otherwise release for nothing. Who names a dataset and wants nothing charged says
so (``uncharged``): the certificate then names the dataset, and the statement says that it did not pay.

A *request* may be repeated: it is paid once, and its noise is keyed, so that it gives the same bytes. Its row
remembers, under the secret of the noise, the content and every parameter that shapes the noise: what would be
drawn anew is refused rather than released for nothing.

A long job sets its price aside when it is accepted (a hold) and pays by committing the hold, which is durable
before any noise is drawn. A hold is settled once, by a commit or by being given back: so one that was given
back never drew, and one that was committed pays for what is drawn.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput, RequestReused
from sfumato.ledger import BudgetRefused, printable_name
from sfumato.noise import Keyed
from sfumato.privacy import Guarantee, Statement
from sfumato.reports import Certificate, KeyRing, VerificationFailed

if TYPE_CHECKING:
    from sfumato.ledger import Entry, Ledger
    from sfumato.release.checkpoint import Checkpoint
    from sfumato.release.path import Kind

__all__ = ["HeldPayment", "Payment", "terms_of"]

#: The ledger row that paid, if one did, as certificates name it.
Paid = Mapping[str, Any] | None

_UNCHARGED = "not charged to the budget of the dataset, as was asked for"


class Content:
    """A digest of what is released; under the secret of the noise it tells contents apart, and no more."""

    def __init__(self) -> None:
        self._digests: list[hashlib._Hash] = []

    def add(self, *parts: NDArray[Any]) -> None:
        """More rows of the content, in order; how the rows are cut into parts makes no difference."""
        if not self._digests:
            # The same bytes are other records when they are cut into columns in another way.
            heads = [f"{part.dtype.str} {part.shape[1:]} " for part in parts]
            self._digests = [hashlib.sha256(head.encode()) for head in heads]
        for digest, part in zip(self._digests, parts, strict=True):
            digest.update(part.tobytes())

    def digest(self, terms: Mapping[str, Any]) -> bytes:
        """One digest of everything that was added and of the JSON values ``terms``.

        Two spellings of one number (1 and 1.0) are the same terms.
        """
        digests = [digest.hexdigest() for digest in self._digests]
        text = json.dumps([_canonical(terms), digests], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    def commitment(self, noise: Keyed, terms: Mapping[str, Any]) -> str:
        """What :meth:`digest` tells apart, and the version of the streams; for nobody without the secret."""
        return noise.commitment(self.digest({**terms, "streams": noise.streams}))


def terms_of(statement: Statement, declared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What shapes the noise of a release, as JSON values: its statement's terms, and what is ``declared``.

    Another version of the package draws the same noise, as long as the mechanism's version stays.
    """
    if statement.terms is None:  # by the names in the statement, a renamed parameter would change digests
        raise ValueError(f"the statement of {statement.mechanism} has no terms to commit to.")
    return {**statement.terms, "declared": declared}


def asked_for(statement: Statement, added: Sequence[Statement] = ()) -> tuple[Guarantee, str]:
    """The guarantee whose ε was typed to get ``statement``, and whose ε that is.

    Where the costs of many files are ``added``, it is that of each file, if they all promise the same, and
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


def under_budget(kind: type[Any], options: Mapping[str, Any], payment: Payment | None) -> dict[str, Any]:
    """Return ``options`` of ``kind`` with the neighbours of the budget that pays, where none are given.

    Nothing is converted: ``kind`` is calibrated to its sensitivity under these neighbours. A sum of clipped
    records moves by one clip at most where a record becomes null, and by two where another takes its place
    (‖g − g′‖ ≤ ‖g‖ + ‖g′‖), so twice the noise proves the same ε under replace as under zero-out. Steps on
    samples are proven under zero-out alone, and a ``kind`` without neighbours has its own: the ledger refuses
    what does not fit, with the command that opens a fitting budget.
    """
    given = dict(options)
    on_samples = (given.get("sampling") or 1.0) < 1.0
    if payment is None or on_samples or "neighbours" not in inspect.signature(kind).parameters:
        return given
    return given | {"neighbours": given.get("neighbours") or payment.neighbours}


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
        """The ledger and the dataset that pay; None where nothing is charged."""
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
        """The neighbours of the budget that pays; None where there is none."""
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
        """Whether this very request paid for the release of ``certificate``, signed by one of ``keys``."""
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
        """The keyed noise of a request; without it a repeated request would draw fresh noise, unpaid."""
        if self.request is None:
            return None
        if keyed is None:
            raise BadInput(
                "a request that may be repeated needs keyed noise: randomness=sf.Keyed(…).",
                parameter="randomness",
            )
        return keyed

    def paying(self, kind: Kind[Any], content: Content) -> Spending:
        """What pays for ``kind``, whose ``content`` is not read yet; refuses what no budget could pay."""
        return Spending(self, kind, content)

    def keep(self, paid: Paid, certificate: bytes, run: Checkpoint | None = None) -> bytes:
        """Remember ``certificate`` beside the row that paid for its release; returns it.

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

    def pay(
        self,
        statement: Statement,
        purpose: str,
        content: Content,
        noise: Keyed | None,
        declared: Mapping[str, Any] | None = None,
        added: Sequence[Statement] = (),
    ) -> Paid:
        """Spend what ``statement`` proves, durably; returns the ledger row that says so, if there is a payer.

        ``declared`` holds as JSON values what shapes the noise beside the statement's parameters; ``added``
        are the statements of the files whose costs add up to it, where it is of many.
        """
        if self.payer is not None and noise is not None:
            purpose = f"{purpose} (content {content.commitment(noise, terms_of(statement, declared))})"
        return self._spend(statement, purpose, self.request, added)

    def pay_run(
        self,
        statement: Statement,
        purpose: str,
        content: Content,
        run: Checkpoint,
        added: Sequence[Statement] = (),
        noise: Keyed | None = None,
    ) -> Paid:
        """Spend what ``statement`` proves for ``run``, durably, or find the row that paid for it before.

        A request whose ``noise`` is keyed finds its row, and gives the same bytes, whether or not there is a
        record of the run: it needs no lease, and a record of something else is begun anew.
        """
        who = None if self.payer is None else [self.payer[0].identity, self.payer[1]]
        asked = {"statement": statement.to_dict(), "name": purpose, "payer": who}
        paid = self.payer is not None and noise is None
        run.begin(content.digest({}), asked, key=self.request, paid=paid)
        told = run.commitment if noise is None else content.commitment(noise, terms_of(statement))
        row = self._spend(statement, f"{purpose} (content {told})", run.request, added)
        if row is None or self.payer is None or noise is not None:
            run.settle()
        else:
            run.settle(*self.payer, row["number"])
            if run.resumed is not None:
                kept = self.payer[0].certificates(self.payer[1]).get(row["number"])
                run.kept = None if kept is None else kept.encode()
        return row

    def _spend(self, statement: Statement, purpose: str, key: str | None, added: Sequence[Statement]) -> Paid:
        if self.payer is None:
            return None
        ledger, dataset = self.payer
        asked = asked_for(statement, added)
        entry = ledger.spend(dataset, self.charged(statement), purpose, key, asked=asked)
        self._require_same(entry, purpose)
        return {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}

    def _require_same(self, entry: Entry, purpose: str) -> None:
        """Refuse a request that was made for another ``purpose``, which its row tells."""
        if entry.purpose != purpose:
            raise RequestReused(
                f"request {entry.key!r} was made from other content, with other parameters or under "
                "another name; give what has changed a new request."
            )

    def charged(self, statement: Statement) -> Guarantee:
        """What the budget has to pay: the guarantee of its own unit, where the statement has several."""
        if self.payer is None or not statement.also_proven:
            return statement.proven
        ledger, dataset = self.payer
        if not ledger.has(dataset):
            return statement.proven  # refused when it is charged
        counted = ledger.counted(dataset)
        for part in (statement.proven, *statement.also_proven):
            if (str(part.unit), str(part.neighbours)) == counted:
                return part
        return statement.proven


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
        """Spend the price, unless the run was paid for before; returns what the statement has to add."""
        payment, kind, content = self._payment, self._kind, self._content
        if kind.checkpoint is not None:
            run, noise = kind.checkpoint, self._noise
            self.row = payment.pay_run(kind.price, kind.name, content, run, kind.added, noise)
        elif payment.payer is not None:
            self.row = payment.pay(kind.price, kind.name, content, self._noise, kind.declared, kind.added)
        return payment.notes

    def keep(self, certificate: bytes) -> bytes:
        """Remember ``certificate`` beside the row that paid; returns it."""
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

    def hold(
        self, statement: Statement, purpose: str, noise: Keyed | None, declared: Mapping[str, Any] | None
    ) -> Entry:
        """Set aside what ``statement`` proves; asked again, the same hold, unless it was given back."""
        assert self.ledger is not None
        assert self.dataset is not None
        if noise is not None:
            told = Content()
            told.add(np.frombuffer(self.body, np.uint8).reshape(1, -1))
            purpose = f"{purpose} (content {told.commitment(noise, terms_of(statement, declared))})"
        asked = asked_for(statement)
        entry = self.ledger.hold(self.dataset, self.charged(statement), purpose, self.key, asked=asked)
        self._require_same(entry, purpose)
        return entry

    def pay(
        self,
        statement: Statement,
        purpose: str,
        content: Content,
        noise: Keyed | None,
        declared: Mapping[str, Any] | None = None,
        added: Sequence[Statement] = (),
    ) -> Paid:
        """Commit the hold, durably; returns the row of the hold, which says what was paid for.

        A hold that was given back meanwhile is refused, and so is one that was for something else.
        """
        assert self.ledger is not None
        assert self.dataset is not None
        entry = self.hold(statement, purpose, noise, declared)
        self.before()
        self.ledger.commit(self.dataset, entry.number)
        return {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _canonical(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
