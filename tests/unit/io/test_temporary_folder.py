"""Folders that are gone with the process that needs them, whatever ends it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.io.temporary_folder import private_folder

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
        "from sfumato.io.temporary_folder import private_folder\n"
        "import time\n"
        "with private_folder('sfumato-test-') as place:\n"
        "    (place / 'record').write_text('4711')\n"
        "    print(place / 'record', flush=True)\n"
        "    time.sleep(99)\n"
    )
    killed_and_gone(program, number)


def test_copies_of_objects_are_gone_soon_where_the_process_that_reads_them_is_killed(tmp_path):
    (tmp_path / "a.txt").write_text("4711")
    killed_and_gone(
        "from sfumato.io.stores import RemoteStore\n"
        "import time\n"
        f"with RemoteStore('file://{tmp_path}') as store, store.reading('a.txt') as path:\n"
        "    print(path, flush=True)\n"
        "    time.sleep(99)\n",
        signal.SIGKILL,
    )


def killed_and_gone(program, number):
    """The folder of the file that ``program`` prints is gone soon after it is killed with its group."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    record = Path(process.stdout.readline().decode().strip())
    assert record.read_text() == "4711"
    os.killpg(process.pid, number)
    process.communicate()
    gone_soon(record.parent)


def gone_soon(place):
    until = time.monotonic() + PATIENCE
    while place.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
