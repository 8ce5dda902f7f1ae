"""Certificates: what was signed is what is read back, and nothing else passes."""

import base64
import json
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.reports import (
    Certificate,
    KeyRing,
    PublicKey,
    SigningKey,
    VerificationFailed,
    certificate_file,
    file_digest,
    verify,
)
from sfumato.reports.certificate import NoKey

MECHANISM = sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0)


def test_a_certificate_reads_back_as_it_was_signed():
    key = SigningKey.new()
    certificate = example()
    assert Certificate.read(certificate.signed(key), {key.public.id: key.public}) == certificate


def test_the_envelope_is_dsse_around_an_in_toto_statement():
    key = SigningKey.new()
    envelope = json.loads(example().signed(key))
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(envelope["payload"])
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "out.npz", "digest": {"sha256": "ab" * 32}}]
    kind = b"application/vnd.in-toto+json"
    message = b"DSSEv1 28 " + kind + b" " + str(len(payload)).encode() + b" " + payload
    assert key.public.signed(message, base64.b64decode(envelope["signatures"][0]["sig"]))


def test_no_altered_byte_of_the_payload_or_signature_passes():
    key = SigningKey.new()
    envelope = json.loads(example().signed(key))
    keys = {key.public.id: key.public}
    payload = bytearray(base64.b64decode(envelope["payload"]))
    for position in range(len(payload)):
        altered = payload.copy()
        altered[position] ^= 1
        with pytest.raises(VerificationFailed, match="envelope"):
            Certificate.read(json.dumps(envelope | {"payload": text(altered)}).encode(), keys)
    signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    for position in range(len(signature)):
        altered = signature.copy()
        altered[position] ^= 1
        signed = [{"keyid": key.public.id, "sig": text(altered)}]
        with pytest.raises(VerificationFailed, match="signature"):
            Certificate.read(json.dumps(envelope | {"signatures": signed}).encode(), keys)


@pytest.mark.parametrize(
    "envelope", [b"", b"{}", b"[]", b"nonsense", b'{"payload": 1}', b'{"payload": "*", "signatures": []}']
)
def test_what_is_no_envelope_is_named(envelope):
    with pytest.raises(VerificationFailed, match="envelope"):
        Certificate.read(envelope, {})


def test_another_key_is_not_trusted():
    key, other = SigningKey.new(), SigningKey.new()
    with pytest.raises(VerificationFailed, match="key: it was signed with key"):
        Certificate.read(example().signed(key), {other.public.id: other.public})


def test_a_key_under_another_name_does_not_pass():
    key, other = SigningKey.new(), SigningKey.new()
    with pytest.raises(VerificationFailed, match="signature"):
        Certificate.read(example().signed(key), {key.public.id: other.public})


def test_the_private_key_is_readable_by_its_owner_only(tmp_path):
    ring = KeyRing(tmp_path / "home")
    made = ring.create()
    assert stat.S_IMODE(ring.signing_file.stat().st_mode) == 0o600
    assert ring.signing().public.id == made.public.id
    assert list(ring.trusted()) == [made.public.id]
    with pytest.raises(BadInput, match="already"):
        ring.create()


def test_an_encrypted_key_needs_its_passphrase(tmp_path, monkeypatch):
    ring = KeyRing(tmp_path)
    monkeypatch.delenv("SFUMATO_PASSPHRASE", raising=False)
    made = ring.create("correct horse")
    assert b"ENCRYPTED" in ring.signing_file.read_bytes()
    with pytest.raises(BadInput, match="SFUMATO_PASSPHRASE"):
        ring.signing()
    monkeypatch.setenv("SFUMATO_PASSPHRASE", "wrong")
    with pytest.raises(BadInput, match="passphrase is wrong"):
        ring.signing()
    monkeypatch.setenv("SFUMATO_PASSPHRASE", "correct horse")
    assert ring.signing().public.id == made.public.id
    with pytest.raises(BadInput, match="empty passphrase"):
        KeyRing(tmp_path / "other").create("")


def test_there_is_no_key_before_one_is_made(tmp_path):
    with pytest.raises(NoKey, match=r"`KeyRing\(\)\.create\(\)`"):
        KeyRing(tmp_path).signing()


def test_public_keys_of_other_kinds_are_refused(tmp_path):
    file = tmp_path / "key.pem"
    file.write_bytes(b"not a key")
    with pytest.raises(BadInput, match="does not hold a public key"):
        PublicKey.read(file)
    other = generate_private_key(SECP256R1()).public_key()
    file.write_bytes(
        other.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(BadInput, match="another kind"):
        PublicKey.read(file)
    with pytest.raises(BadInput, match="cannot be read"):
        PublicKey.read(tmp_path / "missing.pem")


def test_a_certified_file_verifies_and_one_altered_byte_of_it_is_named(tmp_path):
    ring, output, ledger = certified(tmp_path)
    with ledger:
        found = verify(output, ring, ledger)
        assert [(c.what, c.outcome) for c in found.checks] == [
            ("envelope", "holds"),
            ("key", "holds"),
            ("file", "holds"),
            ("ledger", "holds"),
        ]
        content = bytearray(output.read_bytes())
        content[3] ^= 1
        output.write_bytes(content)
        found = verify(output, ring, ledger)
        assert not found.holds
        assert [c.what for c in found.checks if c.outcome == "fails"] == ["file"]


def test_a_missing_ledger_row_is_named(tmp_path):
    ring, output, ledger = certified(tmp_path)
    ledger.__exit__()
    with Ledger(f"sqlite:///{tmp_path / 'other.db'}") as other:
        checks = {check.what: check for check in verify(output, ring, other).checks}
        assert checks["ledger"].outcome == "not checked"
        assert "another ledger" in checks["ledger"].detail
    assert verify(output, ring).holds


def test_a_certificate_for_another_payment_fails(tmp_path):
    ring, output, ledger = certified(tmp_path)
    with ledger:
        paid = ledger.spend("clinic", sf.Laplace(epsilon=0.1, clip=1.0).guarantee())
        row = {"ledger": ledger.identity, "number": paid.number, "hash": paid.hash}
        forged = Certificate(
            output.name, file_digest(output), MECHANISM.statement(), 3, 2, "clinic", row, sf.__version__
        )
        certificate_file(output).write_bytes(forged.signed(ring.signing()))
        checks = {check.what: check for check in verify(output, ring, ledger).checks}
        assert checks["ledger"].outcome == "fails"
        assert "another release" in checks["ledger"].detail


def test_no_certificate_is_said_plainly(tmp_path):
    (tmp_path / "out.npy").write_bytes(b"x")
    with pytest.raises(BadInput, match=r"no certificate out\.npy\.cert\.json"):
        verify(tmp_path / "out.npy", KeyRing(tmp_path))


def example() -> Certificate:
    return Certificate("out.npz", "ab" * 32, MECHANISM.statement(), 3, 2, "clinic", None, sf.__version__)


def certified(folder):
    """A key ring, a released file with its certificate, and the ledger that was charged."""
    ring = KeyRing(folder / "home")
    key = ring.create()
    ledger = Ledger(f"sqlite:///{folder / 'budget.db'}")
    ledger.open("clinic", epsilon=4, delta=1e-6)
    paid = ledger.spend("clinic", MECHANISM.guarantee())
    output = folder / "out.npy"
    output.write_bytes(b"released bytes")
    row = {"ledger": ledger.identity, "number": paid.number, "hash": paid.hash}
    certificate = Certificate(
        output.name, file_digest(output), MECHANISM.statement(), 3, 2, "clinic", row, sf.__version__
    )
    certificate_file(output).write_bytes(certificate.signed(key))
    return ring, output, ledger


def text(content: bytes) -> str:
    return base64.b64encode(bytes(content)).decode()
