"""A compliance pack: all spends and guarantees of a dataset in one signed folder.

It lists evidence for an assessment. It never says that a law is complied with, because no ε does that.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sfumato
from sfumato.errors import BadInput
from sfumato.io import atomic_output
from sfumato.ledger import Balance, Entry, Ledger
from sfumato.privacy import Statement, format_lower
from sfumato.reports.certificate import (
    Certificate,
    KeyRing,
    PublicKey,
    SigningKey,
    VerificationFailed,
    file_digest,
    seal,
    unseal,
)

__all__ = ["entries_csv", "verify_pack", "write_pack"]

_KIND = "urn:sfumato:pack:v1"
#: The signed list of the files of a pack.
PACK_FILE = "pack.cert.json"
_COLUMNS = ("number", "at", "kind", "epsilon", "delta", "purpose", "key", "refers_to", "previous", "hash")
# Spreadsheets run what follows one of these; white space of this kind they skip first.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_pack(ledger: Ledger, dataset: str, folder: Path, key: SigningKey) -> list[Path]:
    """Write the pack of ``dataset`` into the new ``folder``; return the files, the signed list last.

    ``summary.md`` says what was promised and what remains at risk, ``record.csv`` and ``record.json`` list
    all spends, ``certificates/`` holds the certificate of each release.
    """
    balance, entries = ledger.balance(dataset), ledger.history(dataset)
    certificates = ledger.certificates(dataset)
    rows = [entry.to_dict() for entry in entries]
    contents = {
        "summary.md": summary(balance, entries, _statements(certificates, key.public)),
        "record.csv": entries_csv(rows),
        "record.json": json.dumps(rows, indent=2) + "\n",
    }
    contents |= {f"certificates/{n:06}.cert.json": text for n, text in certificates.items()}
    if (folder / PACK_FILE).exists():
        raise BadInput(f"{folder} holds a pack already; choose a new folder.")
    (folder / "certificates").mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in contents]
    for file, text in zip(files, contents.values(), strict=True):
        with atomic_output(file) as out:
            out.write(text.encode())
    digests = {name: file_digest(folder / name) for name in contents}
    head = {"dataset": dataset, "ledger": ledger.identity, "newest": entries[-1].hash}
    with atomic_output(folder / PACK_FILE) as out:
        out.write(seal(_KIND, digests, head | {"sfumato": sfumato.__version__}, key))
    return [*files, folder / PACK_FILE]


def verify_pack(folder: Path, keys: KeyRing) -> list[str]:
    """Return the files of a pack whose bytes differ from the signed ones; raise if the list itself fails."""
    try:
        envelope = (folder / PACK_FILE).read_bytes()
    except OSError:
        raise BadInput(f"{folder} holds no pack: there is no {PACK_FILE} in it.") from None
    digests, _ = unseal(_KIND, envelope, keys.trusted())
    return [
        name
        for name, digest in digests.items()
        if not (folder / name).is_file() or file_digest(folder / name) != digest
    ]


def entries_csv(rows: list[dict[str, Any]]) -> str:
    """Return entries as CSV; a text that a spreadsheet would run as a formula gets a leading apostrophe."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return out.getvalue()


def summary(balance: Balance, entries: list[Entry], statements: Mapping[int, Statement]) -> str:
    """Return the privacy impact summary as Markdown."""
    lines = [
        f"# Privacy impact summary: {_inline(balance.dataset)}",
        "",
        "This page lists evidence for an assessment. It does not state that a law or rule is complied with.",
        "",
        "## Protection",
        "",
        f"- What is protected: one {balance.unit}, under {balance.neighbours} neighbours.",
        f"- Budget: ε = {balance.epsilon:g} at δ = {balance.delta:g}.",
        f"- Used: {balance.used:.1%}, {balance.state}.",
        f"- Releases paid for: {balance.spends}, of which {balance.open_holds} are not finished.",
        "",
        "## Releases and residual risk",
        "",
        "| entry | time | purpose | proven | residual risk, as measured |",
        "|---|---|---|---|---|",
    ]
    given_back = {entry.refers_to for entry in entries if entry.kind == "release"}
    for entry in entries:
        if entry.kind in ("spend", "hold") and entry.number not in given_back and entry.guarantee is not None:
            risk = _measured(statements.get(entry.number))
            cells = (str(entry.number), entry.at[:19], _inline(entry.purpose), str(entry.guarantee), risk)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _measured(statement: Statement | None) -> str:
    if statement is None:
        return "no certificate is kept"
    if not statement.measured:
        return "not audited yet"
    found = (
        f"{_inline(e.attack)}: ε ≥ {format_lower(e.epsilon_lower, 3)}"
        for e in statement.measured
        if e.epsilon_lower is not None and math.isfinite(e.epsilon_lower)
    )
    return "; ".join(found) or "audited, no lower bound found"


def _statements(certificates: Mapping[int, str], key: PublicKey) -> dict[int, Statement]:
    """Return the statements of the readable certificates that ``key`` signed."""
    statements = {}
    for number, envelope in certificates.items():
        try:
            statements[number] = Certificate.read(envelope.encode(), {key.id: key}).statement
        except VerificationFailed:
            continue
    return statements


def _inline(text: str) -> str:
    """Return ``text``, which may come from anywhere, escaped as one cell of a table."""
    plain = "".join(c if c.isprintable() else " " for c in text).replace("|", "¦").replace("`", "'")
    return plain.replace("<", "‹").replace(">", "›")


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
