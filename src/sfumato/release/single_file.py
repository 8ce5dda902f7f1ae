"""One file: checked, paid for, drawn and certified, as every release is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato.io.atomic import reserved
from sfumato.privacy import Statement
from sfumato.release.payment import Content, Payment, terms_of
from sfumato.release.protected_file import Protected, Report
from sfumato.release.source_file import SourceFile
from sfumato.reports import SigningKey, certificate_file

__all__ = ["Paid", "protect_file", "write_release"]

#: The ledger row that paid, if one did.
Paid = Mapping[str, Any] | None
Keep = Callable[[bytes], bytes]


def protect_file(
    file: SourceFile,
    output: Path,
    *,
    payment: Payment,
    signer: SigningKey | None,
    report: Report,
    room: Callable[[int], None] | None = None,
) -> Protected:
    """Release ``file`` as ``output``.

    Room for the output is taken on the disk before anything is paid. ``room`` is told how many bytes that
    are, at the most, and refuses by raising.
    """
    file.fits(output)
    payment.require_budget(file.statement.proven)
    keyed, content = file.mechanism.keyed, Content()
    noise = payment.noise(keyed)
    file.check(report, None if keyed is None else content)
    if keyed is not None:
        terms = json.dumps(terms_of(file.statement, file.declared), sort_keys=True)
        keyed.keep_to(terms.encode(), content.digest({}))
    size = file.most_bytes(output)
    if room is not None:
        room(size)
    file.statement.forewarn()
    with reserved(output, size):
        statement, paid = payment.pay(file.statement, output.name, content, noise, file.declared)
        return write_release(
            file,
            output,
            statement=statement,
            dataset=payment.dataset,
            paid=paid,
            keep=lambda sealed: payment.keep(paid, sealed),
            signer=signer,
            report=report,
        )


def write_release(
    file: SourceFile,
    output: Path,
    *,
    statement: Statement,
    dataset: str | None,
    paid: Paid,
    keep: Keep,
    signer: SigningKey | None,
    report: Report,
) -> Protected:
    """Draw ``file`` and let it appear at ``output``, its certificate just before it; or neither of them.

    The certificate is kept, by ``keep``, before the output appears: a release without it never stands
    anywhere.
    """

    def done() -> Protected:
        # Asked for once all is written: only then it is known how many rows a CSV had.
        rows = 0 if file.rows is None else file.rows
        return Protected(output, statement, rows, file.values, file.left_out, dataset, paid, what=file.what)

    first = certificate_file(output), lambda written: keep(done().certified(written, signer))
    file.write(output, first, report)
    return done()
