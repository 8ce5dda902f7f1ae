"""A release is verified: every kind of payment is looked up, and certificates beside files are compared."""

import json
from dataclasses import replace

import pytest

import sfumato as sf
from sfumato.ledger import Ledger
from sfumato.privacy import Guarantee
from sfumato.reports import MANIFEST, Certificate, KeyRing, certificate_file, file_digest, verify

ONE = Guarantee.gaussian(4.0, unit="client", at_delta=1e-5)
ROUNDS = 3


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as made:
        yield made


@pytest.fixture
def told(tmp_path, ledger):
    """What is said of the ledger when a file with this statement, dataset and row is verified."""
    keys = KeyRing(tmp_path / "keys")
    file = tmp_path / "model.bin"
    file.write_bytes(b"a model")

    def check(statement, dataset, row=None, book=ledger):
        certificate = Certificate(file.name, file_digest(file), statement, 1, 1, dataset, row, "0")
        certificate_file(file).write_bytes(certificate.signed(keys.signing_or_new()))
        (found,) = [each for each in verify(file, keys, book).checks if each.what == "ledger"]
        return found.outcome, found.detail

    return check


def row(entry):
    return {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}


def federated(last, rounds=ROUNDS):
    return sf.Statement(
        mechanism="Federated gaussian",
        parameters={"last_spends": last, "rounds_paid": rounds},
        claimed=None,
        proven=replace(ONE.times(rounds), at_delta=1e-5),
    )


@pytest.fixture
def clients(ledger):
    """The last rows of two clients, of which the second has paid for one round less."""
    last = {}
    for number, rounds in ((1, ROUNDS), (2, ROUNDS - 1)):
        name = f"ward/client-{number}"
        ledger.open(name, 20.0, 1e-5, "client")
        ledger.spend(name, ONE, "another run round 1")
        for each in range(1, rounds + 1):
            last[f"client-{number}"] = row(ledger.spend(name, ONE, f"model-0a1b round {each}"))
    return last


def test_the_rounds_of_every_client_are_looked_up_and_counted(told, clients):
    outcome, detail = told(federated(clients), "ward")
    assert outcome == "holds"
    assert detail == "client-1 paid for 3 of 3 rounds; client-2 paid for 2 of 3 rounds"
    assert told(federated(clients), "ward", book=None) == ("not checked", "no ledger was given")


def test_rows_that_did_not_pay_for_the_rounds_fail(told, clients):
    assert told(federated(clients), "school") == ("fails", "client-1: entry 5 paid for another release")
    more = replace(federated(clients), proven=replace(ONE.times(30), at_delta=1e-5))
    assert told(more, "ward") == ("fails", "client-1: entry 5 paid for another release")
    gone = clients | {"client-2": clients["client-2"] | {"hash": "0" * 64}}
    assert told(federated(gone), "ward") == ("fails", "client-2: entry 4 is missing or was altered")
    elsewhere = clients | {"client-2": clients["client-2"] | {"ledger": "another"}}
    said = "client-1 paid for 3 of 3 rounds; client-2 paid in another ledger"
    assert told(federated(elsewhere), "ward") == ("not checked", said)


def test_a_hold_pays_once_it_is_committed(told, ledger):
    ledger.open("clinic", 8.0, 1e-5)
    mechanism = sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0)
    statement = mechanism.statement(4)
    for settle in ("release_hold", "commit"):
        hold = ledger.hold("clinic", mechanism.guarantee(), settle)
        unpaid = ("fails", f"entry {hold.number} set a price aside that was not paid")
        assert told(statement, "clinic", row(hold)) == unpaid
        getattr(ledger, settle)("clinic", hold.number)
        paid = ("holds", f"entry {hold.number} of 'clinic' paid for it")
        assert told(statement, "clinic", row(hold)) == (paid if settle == "commit" else unpaid)
    assert told(statement, "clinic") == ("not checked", "the release was not charged to a budget")


@pytest.fixture
def folder(tmp_path):
    """A certified folder of one file, and how a file is certified by itself."""
    keys = KeyRing(tmp_path / "keys")
    statement = sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0).statement(4)
    place = tmp_path / "out"
    place.mkdir()

    def certify(file):
        certificate = Certificate(file.name, file_digest(file), statement, 1, 1, None, None, "0")
        certificate_file(file).write_bytes(certificate.signed(keys.signing_or_new()))

    (place / "a.png").write_bytes(b"released")
    (place / MANIFEST).write_text(json.dumps({"files": {"a.png": file_digest(place / "a.png")}}))
    certify(place / MANIFEST)
    return place / "a.png", keys, certify


def outcomes(file, keys):
    found = verify(file, keys)
    return found.holds, [(check.what, check.outcome) for check in found.checks if check.what != "ledger"][2:]


def test_a_certificate_beside_a_file_must_agree_with_the_manifest_that_lists_it(folder):
    file, keys, certify = folder
    assert outcomes(file, keys) == (True, [("file", "holds")])
    certify(file)
    assert outcomes(file, keys) == (True, [("file", "holds"), ("folder", "holds")])
    # A file of another release, with its own certificate, in the place of the one that was released.
    file.write_bytes(b"another release")
    certify(file)
    assert outcomes(file, keys) == (False, [("file", "holds"), ("folder", "fails")])
    assert verify(file, keys).checks[-1].detail == (
        "the manifest.json in out lists other bytes: the certificate beside it is stale or of another release"
    )
    # The certificate of other bytes beside the file that was released.
    file.write_bytes(b"released")
    assert outcomes(file, keys) == (False, [("file", "fails"), ("folder", "holds")])


def test_a_manifest_that_was_altered_vouches_for_no_certificate_beside_a_file(folder):
    file, keys, certify = folder
    certify(file)
    manifest = file.with_name(MANIFEST)
    manifest.write_text(manifest.read_text() + " ")
    assert outcomes(file, keys) == (False, [("file", "holds"), ("folder", "fails")])
    assert "was altered" in verify(file, keys).checks[-1].detail
