"""Files of media: checked, paid for, drawn and certified, as every release is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.pipeline.media_file import MediaFile
from sfumato.pipeline.payment import Content, Payment
from sfumato.pipeline.protected import Protected, Report
from sfumato.privacy import Statement
from sfumato.report import SigningKey

__all__ = ["Paid", "pay_for", "protect_media", "write_release"]

#: The ledger row that paid, if one did.
Paid = Mapping[str, Any] | None
Keep = Callable[[bytes], bytes]

_READ_BYTES = 1 << 20


def protect_media(
    file: MediaFile, output: Path, *, payment: Payment, signer: SigningKey | None, report: Report
) -> Protected:
    """Release ``file`` as ``output``."""
    file.fits(output)
    file.check(report)
    notes, paid = pay_for([file], file.statement, payment, output.name)
    return write_release(
        file,
        output,
        notes=notes,
        dataset=payment.dataset,
        paid=paid,
        keep=lambda sealed: payment.keep(paid, sealed),
        signer=signer,
        report=report,
    )


def pay_for(
    files: Sequence[MediaFile], statement: Statement, payment: Payment, purpose: str
) -> tuple[tuple[str, ...], Paid]:
    """Spend what ``statement`` proves for all ``files``; what every statement has to add, and the row."""
    noise, content = payment.noise(files[0].mechanism), Content()
    if noise is not None:
        digests = b"".join(_digest(file.path) for file in files)
        content.add(np.frombuffer(digests, np.uint8).reshape(len(files), -1))
    stated, paid = payment.pay(statement, purpose, content, noise)
    return stated.notes[len(statement.notes) :], paid


def write_release(
    file: MediaFile,
    output: Path,
    *,
    notes: tuple[str, ...],
    dataset: str | None,
    paid: Paid,
    keep: Keep,
    signer: SigningKey | None,
    report: Report,
) -> Protected:
    """Draw ``file`` and let it appear at ``output``, its certificate just before it; or neither of them."""
    statement = replace(file.statement, notes=(*file.statement.notes, *notes))
    done = Protected(output, statement, 1, file.values, (), dataset, paid, what=file.what)
    file.write(output, (done.certificate_file, lambda written: keep(done.certified(written, signer))), report)
    return done


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()
