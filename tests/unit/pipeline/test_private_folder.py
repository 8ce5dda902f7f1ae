"""A private folder and a tied program: both end with the process that made them, whatever ends it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.pipeline import tied
from sfumato.pipeline.private_folder import private_folder

PATIENCE = 20.0


def test_a_folder_is_private_and_gone_after_the_block():
    with private_folder("sfumato-test-") as place:
        assert place.name.startswith("sfumato-test-")
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        (place / "deep" / "er").mkdir(parents=True)
        (place / "deep" / "record").write_text("4711")
    assert not place.exists()


def test_a_folder_is_gone_after_an_error_and_after_an_interrupt():
    places = []

    def ended(error):
        with private_folder("sfumato-test-") as place:
            (place / "record").write_text("4711")
            places.append(place)
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            ended(error)
        gone_soon(places[-1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_folder_of_a_process_that_is_killed_with_all_of_its_group_is_gone_soon(number):
    program = (
        "from sfumato.pipeline.private_folder import private_folder\n"
        "import time\n"
        "with private_folder('sfumato-test-') as place:\n"
        "    (place / 'record').write_text('4711')\n"
        "    print(place, flush=True)\n"
        "    time.sleep(99)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    place = Path(process.stdout.readline().decode().strip())
    assert (place / "record").exists()
    os.killpg(process.pid, number)
    process.communicate()
    gone_soon(place)


def gone_soon(place):
    until = time.monotonic() + PATIENCE
    while place.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell of the end")
def test_a_tied_program_ends_with_its_parent():
    child = f"[sys.executable, {tied.__file__!r}, str(os.getpid()), 'sleep', '99']"
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
    command = [sys.executable, tied.__file__, "1", "echo", "begun"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_tied_program_is_the_process_itself():
    command = [
        sys.executable,
        tied.__file__,
        str(os.getpid()),
        sys.executable,
        "-c",
        "import os; print(os.getpid())",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert int(process.stdout.read()) == process.pid
