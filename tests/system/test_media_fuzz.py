"""Thousands of mutated media files: each is read or refused in one sentence; none crashes, hangs or prints.

The files are tried in processes of their own, watched from here, so that a crash or a hang names its file.
"""

import os
import selectors
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("media_fuzzer.py")
PICTURES = {
    ".jpg": 3_000,
    ".png": 4_000,
    ".webp": 2_000,
    ".tif": 4_000,
    ".bmp": 2_000,
    ".gif": 2_000,
    ".heic": 1_500,
    ".avif": 1_500,
}
OTHERS = {".wav": 1_000, ".flac": 1_000, ".ogg": 1_000, ".mp4": 800}
# Small files take milliseconds; the machine may be busy.
PATIENCE = 20.0


def tried(suffix, first, last, folder):
    """Outcomes by number, what the process ended with and what it printed besides; killed where it hangs."""
    command = [sys.executable, str(FUZZER), suffix, str(first), str(last), str(folder)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    texts = {process.stdout: b"", process.stderr: b""}
    hung = False
    with selectors.DefaultSelector() as selector:
        for stream in texts:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(3 * PATIENCE if not texts[process.stdout] else PATIENCE)
            if not ready:
                process.kill()
                hung = True
                break
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                texts[key.fileobj] += part
                if not part:
                    selector.unregister(key.fileobj)
    for stream in texts:
        stream.close()
    code = process.wait()
    lines = [line.split() for line in texts[process.stdout].decode().splitlines()]
    return lines, code, texts[process.stderr].decode(), hung


def tell(lines, code, errors, hung):
    """What went wrong, and with which file."""
    last = " ".join(lines[-1]) if lines else "the start"
    return f"{'hung' if hung else f'ended with {code}'} at {last}: {errors[-2000:]}"


@pytest.mark.parametrize("suffix", [*PICTURES, *OTHERS])
def test_mutated_files_are_read_or_refused(suffix, tmp_path):
    count = (PICTURES | OTHERS)[suffix]
    lines, code, errors, hung = tried(suffix, 0, count, tmp_path)
    assert (code, errors, hung) == (0, "", False), tell(lines, code, errors, hung)
    assert [int(line[0]) for line in lines] == list(range(count))
    outcomes = [line[1] for line in lines]
    # Both ends of the road are taken: mutations neither break everything nor nothing.
    for outcome in ("read", "refused"):
        assert outcomes.count(outcome) > count / 50, (suffix, outcome, outcomes.count(outcome))
    assert os.listdir(tmp_path) == []


def test_there_are_thousands_of_them():
    assert sum(PICTURES.values()) >= 15_000


def test_the_watch_sees_a_crash_and_a_hang(tmp_path, monkeypatch):
    """The same watch on a process that aborts, and on one that never answers."""
    aborting, hanging = tmp_path / "aborting.py", tmp_path / "hanging.py"
    aborting.write_text("import os\nprint('7 ', end='', flush=True)\nos.abort()\n")
    hanging.write_text("import time\nprint('8 ', end='', flush=True)\ntime.sleep(60)\n")
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "FUZZER", aborting)
    lines, code, _, hung = tried(".jpg", 0, 1, tmp_path)
    assert (lines, code, hung) == ([["7"]], -6, False)
    monkeypatch.setattr(module, "FUZZER", hanging)
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    lines, code, _, hung = tried(".jpg", 0, 1, tmp_path)
    assert (lines, hung) == ([["8"]], True)
    assert code == -9
