"""How long ``import sfumato`` takes beyond the interpreter, and the processor time of a small plan."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from timing import Row, interleaved


def measure() -> list[Row]:
    seconds = interleaved(
        {
            "bare": lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
            "import": lambda: subprocess.run([sys.executable, "-c", "import sfumato"], check=True),
        },
        rounds=7,
    )
    extra = seconds["import"] - seconds["bare"]
    planned = min(_plan_seconds() for _ in range(5))
    return [
        Row("import sfumato, over 0.3 s", f"{extra:.3f} s", extra / 0.3, at_most=1.0),
        Row("sfumato plan of 100 × 3 values, over 0.8 s", f"{planned:.3f} s", planned / 0.8, at_most=1.0),
    ]


def _plan_seconds() -> float:
    """Processor time, of user and system, of one ``sfumato plan``."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", np.zeros((100, 3)))
        before = os.times()
        command = "from sfumato.cli import main; main(['plan', 'X.npy', '--epsilon', '1', '--clip', '1'])"
        subprocess.run([sys.executable, "-c", command], cwd=folder, check=True, capture_output=True)
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
