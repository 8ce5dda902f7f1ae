"""How long ``import sfumato`` takes, beyond starting the interpreter."""

from __future__ import annotations

import subprocess
import sys

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
    return [Row("import sfumato, over 0.3 s", f"{extra:.3f} s", extra / 0.3, at_most=1.0)]
