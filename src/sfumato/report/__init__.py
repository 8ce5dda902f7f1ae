"""Certificates and packs: what was promised, signed and bound to the bytes of a release."""

from sfumato.report.certificate import Certificate, certificate_file
from sfumato.report.envelope import VerificationFailed, file_digest
from sfumato.report.keys import KeyRing, NoKey, PublicKey, SigningKey, default_home
from sfumato.report.pack import entries_csv, verify_pack, write_pack
from sfumato.report.verify import Check, Verification, verify

__all__ = [
    "Certificate",
    "Check",
    "KeyRing",
    "NoKey",
    "PublicKey",
    "SigningKey",
    "Verification",
    "VerificationFailed",
    "certificate_file",
    "default_home",
    "entries_csv",
    "file_digest",
    "verify",
    "verify_pack",
    "write_pack",
]
