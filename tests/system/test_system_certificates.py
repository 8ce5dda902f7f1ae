"""Every release has a certificate that 'sfumato verify' checks; whatever was tampered with is named."""

import base64
import json
import os
import pty
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Barrier

import numpy as np
import pytest

import sfumato as sf
from sfumato.ledger import Ledger
from sfumato.reports import KeyRing, verify

PROTECT = ("protect", "X.npy", "-o", "out.npy", "--epsilon", 1, "--clip", 1, "--overwrite")
OUTPUT, CERTIFICATE = "out.npy", "out.npy.cert.json"
ALL = ["envelope", "key", "file", "ledger"]


@pytest.fixture(autouse=True)
def fresh_home(tmp_path_factory, monkeypatch):
    """Keys and a ledger of this test's own."""
    home = tmp_path_factory.mktemp("home") / "sfumato"
    monkeypatch.setenv("SFUMATO_HOME", str(home))
    return home


@pytest.fixture
def records(folder):
    np.save("X.npy", np.random.default_rng(0).random((50, 4)))


@pytest.fixture
def opened(called, records):
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", 1e-6).code == 0


@pytest.fixture
def released(called, opened):
    """out.npy, paid for by entry 2 of "clinic"."""
    return called(*PROTECT, "--dataset", "clinic", "--json").result


@pytest.fixture
def failing(called):
    """Verifies out.npy, which must fail, and returns the checks that fail with what they say."""

    def run():
        for_people, for_machines = called("verify", OUTPUT), called("verify", OUTPUT, "--json")
        assert (for_people.code, for_people.err) == (4, "")
        assert (for_machines.code, for_machines.err) == (4, "")
        answer = json.loads(for_machines.out)
        assert answer["holds"] is False
        failed = {c["what"]: c["detail"] for c in answer["checks"] if c["outcome"] == "fails"}
        for what, detail in failed.items():
            assert f"{what:<9} fails: {detail}\n" in for_people.out
        return failed

    return run


def test_an_untouched_release_verifies(command, released):
    found = command("verify", OUTPUT)
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines()[:5] == [
        "envelope  holds: the signature fits the statement",
        "key       holds: it was signed with a trusted key",
        "file      holds: its bytes are those that were certified",
        "ledger    holds: entry 2 of 'clinic' paid for it",
        "",
    ]
    assert "ε = 1 at δ = 1e-06" in found.out
    answer = command("verify", OUTPUT, "--json").result
    assert (answer["file"], answer["holds"]) == (OUTPUT, True)
    assert [(c["what"], c["outcome"]) for c in answer["checks"]] == [(what, "holds") for what in ALL]
    assert answer["statement"] == released["statement"]


def test_what_was_not_charged_or_has_no_ledger_here_is_said(called, records, fresh_home):
    assert called(*PROTECT).code == 0
    assert "ledger    not checked: the release was not charged to a budget\n" in called("verify", OUTPUT).out
    assert not (fresh_home / "ledger.db").exists()
    elsewhere = ("--ledger", "sqlite:///elsewhere.db")
    assert called("budget", "open", "clinic", "--epsilon", 4, "--delta", 1e-6, *elsewhere).code == 0
    assert called(*PROTECT, "--dataset", "clinic", *elsewhere).code == 0
    assert "ledger    not checked: no ledger was given\n" in called("verify", OUTPUT).out
    assert "ledger    holds" in called("verify", OUTPUT, *elsewhere).out
    another = called("verify", OUTPUT, "--ledger", "sqlite:///another.db")
    assert (another.code, another.appeared) == (2, frozenset())
    assert another.err == (
        "sfumato: there is no ledger at sqlite:///another.db; 'sfumato budget open' makes one.\n"
    )
    opened = ("budget", "open", "clinic", "--epsilon", 4, "--delta", 1e-6)
    assert called(*opened, "--ledger", "sqlite:///another.db").code == 0
    another = called("verify", OUTPUT, "--ledger", "sqlite:///another.db")
    assert another.code == 0
    assert "ledger    not checked: the release was charged to another ledger\n" in another.out


@pytest.mark.parametrize("position", [0, 100, -1])
def test_one_byte_of_the_output_is_found(failing, released, position):
    flip(OUTPUT, position)
    assert failing() == {"file": "its bytes are not those that were certified; the file was altered"}


def test_a_longer_or_older_output_is_found(called, failing, released):
    older = read(OUTPUT)
    with open(OUTPUT, "ab") as file:
        file.write(b"\0")
    assert list(failing()) == ["file"]
    assert called(*PROTECT, "--dataset", "clinic").code == 0
    assert called("verify", OUTPUT).code == 0
    with open(OUTPUT, "wb") as file:
        file.write(older)
    assert list(failing()) == ["file"]


def test_an_edited_statement_is_found(failing, released):
    envelope = json.loads(read(CERTIFICATE))
    payload = base64.b64decode(envelope["payload"])
    assert payload.count(b'"epsilon": 1.0') > 0
    edited = base64.b64encode(payload.replace(b'"epsilon": 1.0', b'"epsilon": 0.1')).decode()
    write_json(CERTIFICATE, envelope | {"payload": edited})
    assert failing() == {"envelope": "the signature does not fit the statement; one of them was altered."}


@pytest.mark.parametrize(
    ("sig", "says"),
    [
        (base64.b64encode(bytes(64)).decode(), "the signature does not fit"),
        (base64.b64encode(b"short").decode(), "the signature does not fit"),
        ("", "the signature does not fit"),
        ("not base64!", "it was damaged"),
        (None, "it was damaged"),
    ],
)
def test_an_edited_signature_is_found(failing, released, sig, says):
    envelope = json.loads(read(CERTIFICATE))
    envelope["signatures"][0]["sig"] = sig
    write_json(CERTIFICATE, envelope)
    failed = failing()
    assert list(failed) == ["envelope"]
    assert says in failed["envelope"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"signatures": []}, "not signed"),
        ({"payloadType": "text/plain"}, "of another kind"),
        ({"payload": None}, "damaged"),
        ({"signatures": [7]}, "damaged"),
        ({"signatures": None}, "damaged"),
    ],
)
def test_an_envelope_of_another_kind_is_found(failing, released, change, says):
    write_json(CERTIFICATE, json.loads(read(CERTIFICATE)) | change)
    failed = failing()
    assert list(failed) == ["envelope"]
    assert says in failed["envelope"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{", b"[" * 100_000])
def test_what_is_no_envelope_at_all_is_found(failing, released, content):
    with open(CERTIFICATE, "wb") as file:
        file.write(content)
    assert list(failing()) == ["envelope"]


def test_the_certificate_of_another_release_is_found(called, failing, released):
    assert called(*PROTECT[:3], "more.npy", *PROTECT[4:], "--dataset", "clinic").code == 0
    os.replace("more.npy.cert.json", CERTIFICATE)
    assert list(failing()) == ["file"]


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entries SET guarantee = replace(guarantee, 'replace', 'zero-out') WHERE number = 2",
        "UPDATE entries SET purpose = 'other' WHERE number = 2",
        "UPDATE entries SET hash = previous WHERE number = 2",
        "UPDATE entries SET prices = '[]' WHERE number = 2",
        "UPDATE entries SET at = 'x' WHERE number = 2",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM datasets",
    ],
)
def test_an_edited_or_deleted_ledger_row_is_found(failing, released, fresh_home, edit):
    with closing(sqlite3.connect(fresh_home / "ledger.db")) as connection, connection:
        assert connection.execute(edit).rowcount > 0
    assert failing() == {"ledger": "entry 2 is missing or was altered"}


def test_a_missing_certificate_or_output_is_refused(called, released):
    assert called("verify", "X.npy").sentence == "there is no certificate X.npy.cert.json beside X.npy."
    answer = called("verify", "X.npy", "--json")
    assert answer.code == 2
    assert json.loads(answer.out)["exit_code"] == 2
    os.unlink(OUTPUT)
    assert called("verify", OUTPUT).sentence == "out.npy cannot be read: No such file or directory."


def test_another_home_trusts_the_key_only_once_it_was_told_to(
    called, records, failing, monkeypatch, fresh_home
):
    assert called(*PROTECT).code == 0
    shown = called("key", "show").out
    told = called("key", "show", "--json").result
    assert shown.startswith(told["pem"])
    assert f"Key {told['id']}\nTrusted: {told['id']}\n" in shown
    with open("key.pem", "w") as file:
        file.write(shown)
    monkeypatch.setenv("SFUMATO_HOME", str(fresh_home.with_name("another")))
    assert failing() == {
        "key": f"it was signed with key {told['id'][:16]}…, which is not trusted; see 'sfumato key trust'."
    }
    assert called("key", "show").sentence == "there is no signing key yet; make one with 'sfumato key new'."
    assert called("key", "trust", "key.pem").out == f"Trusted: {told['id']}\n"
    assert called("key", "trust", "key.pem", "--json").result == {"id": told["id"]}
    assert called("verify", OUTPUT).code == 0
    assert "does not hold a public key" in called("key", "trust", "X.npy").sentence


def test_a_key_that_claims_a_trusted_name_is_found(called, records, failing, monkeypatch, fresh_home):
    assert called(*PROTECT).code == 0
    ours = called("key", "show", "--json").result["id"]
    monkeypatch.setenv("SFUMATO_HOME", str(fresh_home.with_name("another")))
    assert called(*PROTECT).code == 0
    monkeypatch.setenv("SFUMATO_HOME", str(fresh_home))
    envelope = json.loads(read(CERTIFICATE))
    envelope["signatures"][0]["keyid"] = ours
    write_json(CERTIFICATE, envelope)
    assert list(failing()) == ["envelope"]


def test_a_reproducible_run_is_certified_by_nobody(folder, records):
    mechanism = sf.Gaussian(epsilon=1, delta=1e-6, clip=1, randomness=sf.Seeded(3))
    with Ledger("sqlite:///budget.db") as ledger:
        ledger.open("clinic", 4, 1e-6)
        sf.protect("X.npy", OUTPUT, mechanism, dataset="clinic", ledger=ledger)
        assert json.loads(read(CERTIFICATE))["signatures"] == []
        found = verify(folder / OUTPUT, KeyRing(), ledger)
    assert not found.holds
    assert [(c.what, c.outcome) for c in found.checks] == [("envelope", "fails")]
    assert "not signed" in found.checks[0].detail
    assert not KeyRing().signing_file.exists()


def test_a_reproducible_run_fails_the_command(failing, records):
    mechanism = sf.Gaussian(epsilon=1, delta=1e-6, clip=1, randomness=sf.Seeded(3))
    sf.protect("X.npy", OUTPUT, mechanism)
    assert failing() == {"envelope": "it is of another kind or not signed."}


def test_secrets_are_readable_by_their_owner_only(called, opened, fresh_home):
    before = os.umask(0)
    try:
        assert called(*PROTECT, "--dataset", "clinic", "--request", "r").code == 0
    finally:
        os.umask(before)
    for name in ("signing.key", "noise.key"):
        assert stat.S_IMODE((fresh_home / name).stat().st_mode) == 0o600
    assert len((fresh_home / "noise.key").read_bytes()) == 32


def test_a_new_key_does_not_replace_an_older_one(called, fresh_home):
    made = called("key", "new", "--json").result
    assert made["encrypted"] is False
    assert made["file"] == str(fresh_home / "signing.key")
    assert stat.S_IMODE(os.stat(made["file"]).st_mode) == 0o600
    content = read(made["file"])
    assert "there is a signing key already" in called("key", "new").sentence
    assert read(made["file"]) == content
    assert called("key", "show", "--json").result["id"] == made["id"]


@pytest.mark.parametrize("by", ["pipe", "environment"])
def test_an_encrypted_key_signs_only_with_its_passphrase(
    executable, called, opened, fresh_home, monkeypatch, by
):
    piped = {"input": "correct horse\n"} if by == "pipe" else {"stdin": subprocess.DEVNULL}
    given = {} if by == "pipe" else {"SFUMATO_PASSPHRASE": "correct horse"}
    line = [executable, "key", "new", "--encrypt", "--json"]
    made = subprocess.run(line, text=True, capture_output=True, env=os.environ | given, **piped)
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(made.stdout)["encrypted"] is True
    assert b"ENCRYPTED" in read(fresh_home / "signing.key")
    assert stat.S_IMODE((fresh_home / "signing.key").stat().st_mode) == 0o600
    paid = (*PROTECT, "--dataset", "clinic")
    assert called(*paid).sentence == "the signing key is encrypted: set SFUMATO_PASSPHRASE."
    monkeypatch.setenv("SFUMATO_PASSPHRASE", "wrong")
    assert "the passphrase is wrong" in called(*paid).sentence
    assert called("budget", "show", "clinic", "--json").result["spends"] == 0
    monkeypatch.setenv("SFUMATO_PASSPHRASE", "correct horse")
    assert called(*paid).code == 0
    monkeypatch.delenv("SFUMATO_PASSPHRASE")
    # Whoever verifies needs no secret.
    assert called("verify", OUTPUT).code == 0


@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [
        ([b"correct horse\n", b"correct horse\n"], 0, "Private, for you alone"),
        ([b"\x04"], 2, "nothing was entered, so nothing was done."),
    ],
)
def test_a_passphrase_is_asked_for_at_a_terminal(executable, fresh_home, typed, code, says):
    ours, theirs = pty.openpty()
    owning = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    at_terminal = [sys.executable, "-c", f"{owning}; os.execv(sys.argv[1], sys.argv[1:])"]
    process = subprocess.Popen(
        [*at_terminal, executable, "key", "new", "--encrypt"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    with open(ours, "r+b", buffering=0) as terminal:
        for words, prompt in zip(typed, (b"Passphrase", b"confirmation"), strict=False):
            while prompt not in shown:
                shown += terminal.read(1000)
            terminal.write(words)
        with suppress(OSError):  # how the end of a terminal reads
            while more := terminal.read(1000):
                shown += more
    assert process.wait(30) == code
    assert says in " ".join(shown.decode().split())
    assert b"horse" not in shown
    assert (fresh_home / "signing.key").exists() == (code == 0)


def test_no_passphrase_is_no_encryption(command, fresh_home):
    refused = command("key", "new", "--encrypt")
    assert refused.sentence == "an empty passphrase protects nothing; give one or none."
    assert not (fresh_home / "signing.key").exists()


def test_a_key_made_on_the_way_is_encrypted_if_there_is_a_passphrase(
    called, records, monkeypatch, fresh_home
):
    monkeypatch.setenv("SFUMATO_PASSPHRASE", "correct horse")
    assert called(*PROTECT).code == 0
    assert b"ENCRYPTED" in read(fresh_home / "signing.key")
    assert called(*PROTECT).code == 0


def test_whoever_comes_first_makes_the_keys_of_all(fresh_home):
    crowd = 8
    for attempt in range(20):
        ring, start = KeyRing(fresh_home / str(attempt)), Barrier(crowd)

        def first_use(ring=ring, start=start):
            start.wait()
            return ring.noise_secret(), ring.signing_or_new().public.id

        with ThreadPoolExecutor(crowd) as pool:
            (made,) = {future.result() for future in [pool.submit(first_use) for _ in range(crowd)]}
        assert made == (ring.noise_secret(), ring.signing().public.id)
        assert sorted(os.listdir(ring.home)) == ["noise.key", "signing.key", "trusted"]


def test_one_request_made_four_times_at_once_is_one_release(executable, called, opened):
    line = [executable, *map(str, PROTECT), "--dataset", "clinic", "--request", "r", "--json"]
    crowd = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    answers = [process.communicate(timeout=60) for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 4, answers
    assert len({json.loads(out)["paid"]["hash"] for out, _ in answers}) == 1
    assert called("budget", "show", "clinic", "--json").result["spends"] == 1
    assert called("verify", OUTPUT).code == 0


def flip(name, position):
    content = bytearray(read(name))
    content[position] ^= 1
    with open(name, "wb") as file:
        file.write(content)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def write_json(name, value):
    with open(name, "w") as file:
        json.dump(value, file)
