"""Reports, certificates and packs: what was promised and found, readable, signed, bound to the bytes.

``sf.report([release], "report.html")`` writes one HTML file about releases and their audits.
"""

from sfumato.calls import answer_calls
from sfumato.report.certificate import Certificate, certificate_file
from sfumato.report.contact_sheet import ContactSheet
from sfumato.report.envelope import VerificationFailed, file_digest
from sfumato.report.keys import KeyRing, NoKey, PublicKey, SigningKey, default_home
from sfumato.report.pack import entries_csv, verify_pack, write_pack
from sfumato.report.page import Budget, Entry, Frontier, Pictures, Point, write_report
from sfumato.report.reporting import report
from sfumato.report.verify import Check, Verification, verify

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

answer_calls(__name__, "report")
