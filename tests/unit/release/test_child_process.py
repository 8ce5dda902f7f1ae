"""A tied program ends with the process that started it, whatever ends that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.release import child_process

PATIENCE = 20.0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell of the end")
def test_a_tied_program_ends_with_its_parent():
    child = f"[sys.executable, {child_process.__file__!r}, str(os.getpid()), 'sleep', '99']"
    program = (
        f"import os, subprocess, sys, time; print(subprocess.Popen({child}).pid, flush=True); time.sleep(99)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    until = time.monotonic() + PATIENCE
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"):
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.communicate()
    while _runs(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")
    except OSError:
        return False


def test_a_program_whose_parent_has_ended_before_does_not_begin():
    command = [sys.executable, child_process.__file__, "1", "echo", "begun"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_tied_program_is_the_process_itself():
    command = [
        sys.executable,
        child_process.__file__,
        str(os.getpid()),
        sys.executable,
        "-c",
        "import os; print(os.getpid())",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert int(process.stdout.read()) == process.pid
