"""Certificates: what was promised, signed and bound to the bytes of a release."""

from sfumato.report.certificate import Certificate, Check, VerificationFailed, certificate_file, file_digest
from sfumato.report.keys import KeyRing, NoKey, PublicKey, SigningKey, default_home
from sfumato.report.verify import Verification, verify

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
    "file_digest",
    "verify",
]
