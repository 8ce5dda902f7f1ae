"""The pack of a dataset: complete, signed, and silent about laws."""

import csv
import json

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.reports import Certificate, KeyRing, VerificationFailed, verify_pack, write_pack

NAME = "ward <3> | `north`"


@pytest.fixture
def packed(tmp_path):
    """A key ring, a ledger with two releases and a hold given back, and their pack."""
    ring = KeyRing(tmp_path / "home")
    np.save(tmp_path / "X.npy", np.full((5, 3), 0.2))
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        ledger.open(NAME, epsilon=9, delta=1e-6)
        for epsilon in (1.0, 2.0):
            mechanism = sf.Gaussian(epsilon, 1e-6, 1.0)
            output = tmp_path / f"out{epsilon:g}.npy"
            sf.protect(tmp_path / "X.npy", output, mechanism, dataset=NAME, ledger=ledger, keys=ring)
        held = ledger.hold(NAME, sf.Laplace(0.1, 1.0).guarantee(), "=HYPERLINK(1)")
        ledger.release_hold(NAME, held.number)
        files = write_pack(ledger, NAME, tmp_path / "pack", ring.signing())
        yield ring, ledger, tmp_path / "pack", files


def test_every_release_is_there_with_its_certificate(packed):
    ring, ledger, folder, files = packed
    assert {str(file.relative_to(folder)) for file in files} == {
        "summary.md",
        "record.csv",
        "record.json",
        "certificates/000002.cert.json",
        "certificates/000003.cert.json",
        "pack.cert.json",
    }
    record = json.loads((folder / "record.json").read_text())
    assert [row["hash"] for row in record] == [entry.hash for entry in ledger.history(NAME)]
    with (folder / "record.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == ["open", "spend", "spend", "hold", "release"]
    assert rows[3]["purpose"] == "'=HYPERLINK(1)"
    for number, epsilon in ((2, 1.0), (3, 2.0)):
        envelope = (folder / f"certificates/{number:06}.cert.json").read_bytes()
        certificate = Certificate.read(envelope, ring.trusted())
        assert certificate.statement.proven == sf.Gaussian(epsilon, 1e-6, 1.0).guarantee()
        assert envelope == (folder.parent / f"out{epsilon:g}.npy.cert.json").read_bytes()


def test_the_summary_says_what_is_at_risk_and_claims_no_compliance(packed):
    _, _, folder, _ = packed
    text = (folder / "summary.md").read_text()
    assert text.count("not audited yet") == 2
    assert "Budget: ε = 9 at δ = 1e-06" in text
    assert "HYPERLINK" not in text  # what was given back was never released
    assert "does not state that a law or rule is complied with" in text
    assert not any(word in text for word in ("compliant", "GDPR", "HIPAA", "Safe Harbor"))
    assert "<3>" not in text


def test_every_altered_or_missing_file_is_named(packed):
    ring, _, folder, files = packed
    assert verify_pack(folder, ring) == []
    for file in files[:-1]:
        content = file.read_bytes()
        file.write_bytes(content + b" ")
        assert verify_pack(folder, ring) == [str(file.relative_to(folder))]
        file.unlink()
        assert verify_pack(folder, ring) == [str(file.relative_to(folder))]
        file.write_bytes(content)
    files[-1].write_bytes(files[-1].read_bytes().replace(b"e", b"f", 1))
    with pytest.raises(VerificationFailed):
        verify_pack(folder, ring)


def test_strangers_and_empty_folders_are_refused(packed, tmp_path):
    _, ledger, folder, _ = packed
    with pytest.raises(VerificationFailed, match="not trusted"):
        verify_pack(folder, KeyRing(tmp_path / "other"))
    with pytest.raises(BadInput, match="holds no pack"):
        verify_pack(tmp_path, KeyRing(tmp_path / "other"))
    with pytest.raises(BadInput, match="a pack already"):
        write_pack(ledger, NAME, folder, KeyRing(tmp_path / "home").signing())


def test_the_newest_certificate_of_a_release_is_kept(packed):
    _, ledger, _, _ = packed
    ledger.keep_certificate(NAME, 2, "another")
    assert ledger.certificates(NAME)[2] == "another"
    with pytest.raises(BadInput, match="no entry 99"):
        ledger.keep_certificate(NAME, 99, "lost")
