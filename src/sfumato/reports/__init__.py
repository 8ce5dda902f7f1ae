"""Reports, certificates and packs: what was promised and found, readable, signed, bound to the bytes.

``sf.report([release], "report.html")`` writes one HTML file about releases and their audits.

Names are loaded when they are first used: a worker that signs certificates needs no pages and no ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.reports.certificate import Certificate, certificate_file
    from sfumato.reports.compliance_pack import entries_csv, verify_pack, write_pack
    from sfumato.reports.contact_sheet import ContactSheet
    from sfumato.reports.envelope import VerificationFailed, file_digest
    from sfumato.reports.page import Budget, Entry, Frontier, Pictures, Point, write_report
    from sfumato.reports.report_page import report
    from sfumato.reports.signing_keys import KeyRing, NoKey, PublicKey, SigningKey, default_home
    from sfumato.reports.verification import Check, Verification, verify

__all__ = [
    "Budget",
    "Certificate",
    "Check",
    "ContactSheet",
    "Entry",
    "Frontier",
    "KeyRing",
    "NoKey",
    "Pictures",
    "Point",
    "PublicKey",
    "SigningKey",
    "Verification",
    "VerificationFailed",
    "certificate_file",
    "default_home",
    "entries_csv",
    "file_digest",
    "report",
    "verify",
    "verify_pack",
    "write_pack",
    "write_report",
]

__getattr__ = when_used(
    __name__,
    {
        "Budget": "page",
        "Certificate": "certificate",
        "Check": "verification",
        "ContactSheet": "contact_sheet",
        "Entry": "page",
        "Frontier": "page",
        "KeyRing": "signing_keys",
        "NoKey": "signing_keys",
        "Pictures": "page",
        "Point": "page",
        "PublicKey": "signing_keys",
        "SigningKey": "signing_keys",
        "Verification": "verification",
        "VerificationFailed": "envelope",
        "certificate_file": "certificate",
        "default_home": "signing_keys",
        "entries_csv": "compliance_pack",
        "file_digest": "envelope",
        "report": "report_page",
        "verify": "verification",
        "verify_pack": "compliance_pack",
        "write_pack": "compliance_pack",
        "write_report": "page",
    },
)
