"""``sfumato learn`` and ``federate`` are killed in the middle, and the same command resumes them."""

import json
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from sfumato.ledger import Ledger
from sfumato.release import checkpoint


def test_killed_training_is_resumed_by_the_same_command_and_paid_once(
    called, executable, digits, folder, monkeypatch
):
    archive = "digits.npz"
    np.savez(archive, x=np.rint(digits[0].reshape(-1, 8, 8) * 255).astype(np.uint8), y=digits[1])
    book = ("--ledger", "sqlite:///book.db")
    assert called("budget", "open", "people", "--epsilon", "5", "--delta", "2e-5", *book).code == 0
    asked = (
        "--classes",
        "10",
        "--epsilon",
        "4",
        "--extractor",
        "pixels",
        "--no-audit",
        "--steps",
        "1000",
        "--neighbours",
        "replace",
    )
    options = (*asked, "--dataset", "people", *book, "--json")
    words, run = ("learn", archive, "-o", "model", *options), folder / ".model.run"

    def killed(kept, meanwhile=lambda: None):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen([executable, *words], **silent) as started:
            try:
                deadline = time.monotonic() + 100
                while not (run / "sums").exists() or (run / "sums").stat().st_size < kept:
                    assert started.poll() is None, started.stderr.read()
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                started.send_signal(signal.SIGSTOP)
                meanwhile()
            finally:
                started.kill()
        return (run / "sums").read_bytes()

    def refused():
        again = called(*words)
        assert (again.code, again.appeared) == (2, frozenset())
        assert "another run is writing model" in again.out
        shutil.copytree(run, folder / "copy" / ".model.run")  # as another machine would have it
        copy = called("learn", archive, "-o", "copy/model", *options)
        assert copy.code == 2
        assert "another process carries on the run that entry 2 of 'people' paid for" in copy.out
        shutil.rmtree(folder / "copy")

    first = killed(100_000, refused)
    second = killed(2 * len(first))
    assert second.startswith(first[: len(first) // 2])  # the last entry may be torn
    assert {entry.name: oct(entry.stat().st_mode)[-3:] for entry in os.scandir(run)} == {
        "record.json": "600",
        "sums": "600",
    }
    record = json.loads((run / "record.json").read_text())
    other = called(*words, "--clip", "0.5")
    assert (other.code, other.appeared) == (2, frozenset())
    assert "the request changed since" in other.out
    with np.load(archive) as held:
        np.savez("changed.npz", x=255 - held["x"], y=held["y"])
    shutil.move(archive, "original.npz")
    shutil.move("changed.npz", archive)
    assert "the data changed since" in called(*words).out
    shutil.move("original.npz", archive)
    assert (run / "sums").read_bytes()[: len(second) // 2] == second[: len(second) // 2]
    assert called(*words).result["paid"]["number"] == 2
    assert not run.exists()
    assert called("verify", "model", *book).code == 0
    with Ledger("sqlite:///book.db") as ledger:
        assert [entry.kind for entry in ledger.history("people")] == ["open", "spend"]
    # An uninterrupted run with the same seed makes the same model.
    write = checkpoint.Checkpoint._write

    def same_seed(self, made):
        made |= {name: record[name] for name in ("id", "seed")}
        write(self, made)

    monkeypatch.setattr(checkpoint.Checkpoint, "_write", same_seed)
    assert called("learn", archive, "-o", "whole", *asked).code == 0
    names = ("model.safetensors", "model.json")
    assert [Path("whole", name).read_bytes() for name in names] == [
        Path("model", name).read_bytes() for name in names
    ]


def test_a_killed_federated_run_is_resumed_by_the_same_command_and_each_round_is_paid_once(
    called, executable, digits, folder
):
    np.savez("digits.npz", X=digits[0], y=digits[1])
    with Ledger("sqlite:///book.db") as ledger:
        for client in ("client-1", "client-2"):
            ledger.open(f"ward/{client}", 300.0, 1e-5, "client")
    asked = ("--classes", "10", "--clients", "2", "--rounds", "6", "--epsilon", "300", "--clip", "1")
    budgets = ("--dataset", "ward", "--ledger", "sqlite:///book.db")
    words = ("federate", "digits.npz", "-o", "model", *asked, "--epochs", "10", *budgets, "--json")
    kept = folder / ".model.run" / "sums"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen([executable, *words], **silent) as started:
        deadline = time.monotonic() + 100
        while not kept.exists() or kept.stat().st_size < 5_000:
            assert started.poll() is None, started.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        started.send_signal(signal.SIGKILL)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not Path("model").exists()
    done = called(*words).result
    assert (done["rounds"], done["stopped"], done["refused"]) == (6, None, [])
    assert not kept.parent.exists()
    with Ledger("sqlite:///book.db") as ledger:
        for client in ("client-1", "client-2"):
            spends = [entry for entry in ledger.history(f"ward/{client}") if entry.kind == "spend"]
            assert len(spends) == 6
            assert spends[-1].hash == done["spends"][client][-1]["hash"]
    assert called("verify", "model", "--ledger", "sqlite:///book.db").code == 0
