"""A full disk or a folder that cannot be written: one sentence, nothing spent, and no harm afterwards."""

import os
import subprocess
from contextlib import contextmanager, suppress

import pytest
from ledger_workers import spend_under_a_limit, start

from sfumato.ledger import Ledger, LedgerUnavailable
from sfumato.privacy import Guarantee

SPEND = Guarantee.pure(1e-6)


def test_a_full_disk_spends_nothing_and_the_ledger_goes_on_when_there_is_room(disk, capsys):
    with Ledger(f"sqlite:///{disk}/budget.db") as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        paid, sentence = spend_until_refused(ledger)
        assert "could not be used: database or disk is full" in one_sentence(sentence)
        with capsys.disabled():
            print(f"\n  disk full after {len(paid)} spends", end="", flush=True)
        (disk / "ballast").unlink()
        assert ledger.balance("clinic").spends == len(paid)
        assert ledger.history("clinic")[1:] == paid
        assert ledger.check() == []
        assert ledger.spend("clinic", SPEND).number == len(paid) + 2


def test_a_disk_too_full_for_a_ledger_makes_none(disk):
    fill(disk / "more ballast")
    with pytest.raises(LedgerUnavailable, match="could not be used") as full:
        Ledger(f"sqlite:///{disk}/budget.db")
    assert one_sentence(full.value)


def test_a_file_that_may_not_grow_spends_nothing(tmp_path):
    url, report = f"sqlite:///{tmp_path}/budget.db", tmp_path / "report"
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        worker = start(spend_under_a_limit, url, 400_000, str(report))
        worker.join(60)
        paid, sentence = report.read_text().split("\n", 1)
        assert "could not be used" in one_sentence(sentence)
        assert int(paid) > 10
        assert ledger.balance("clinic").spends == int(paid)
        assert ledger.check() == []


def test_a_folder_that_cannot_be_written_spends_nothing(lockable):
    url = f"sqlite:///{lockable}/budget.db"
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
    with read_only(lockable):
        with pytest.raises(LedgerUnavailable, match="could not be used") as new:
            Ledger(f"sqlite:///{lockable}/new.db")
        assert one_sentence(new.value)
        with pytest.raises(LedgerUnavailable, match="could not be used") as refused:
            Ledger(url).spend("clinic", SPEND)
        assert one_sentence(refused.value)
    with Ledger(url) as ledger:
        assert ledger.balance("clinic").spends == 0
        assert ledger.check() == []


@pytest.fixture
def disk(tmp_path):
    """A disk of two megabytes, a quarter of it taken."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted for this, which only root may do")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        (folder / "ballast").write_bytes(b"x" * 2**19)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def lockable(request, tmp_path):
    """A folder that can be made unwritable: for root, to whom permissions mean nothing, a disk of its own."""
    return request.getfixturevalue("disk") if os.geteuid() == 0 else tmp_path


@contextmanager
def read_only(folder):
    lock, unlock = ["chmod", "a-w", folder], ["chmod", "u+w", folder]
    if os.geteuid() == 0:
        lock, unlock = (["mount", "-o", f"remount,{mode}", folder] for mode in ("ro", "rw"))
    subprocess.run(lock, check=True)
    try:
        yield
    finally:
        subprocess.run(unlock, check=True)


def spend_until_refused(ledger):
    """The entries that were paid, and the sentence that ended it."""
    paid = []
    while len(paid) < 5_000:
        try:
            paid.append(ledger.spend("clinic", SPEND, purpose="x" * 1000))
        except LedgerUnavailable as error:
            return paid, error
    pytest.fail("the disk never filled up")


def fill(file):
    """Write to ``file`` until the disk is full."""
    with suppress(OSError), open(file, "wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)


def one_sentence(error):
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert "[SQL" not in text
    return text
