"""What a small plan or release loads: nothing that takes longer to load than to use."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

FORBIDDEN = (
    *("dp_accounting", "sklearn", "pandas", "pydantic", "sqlalchemy", "mpmath", "sfumato.media"),
    *("scipy.stats", "scipy.optimize", "scipy.signal", "scipy.linalg"),
)
SCRIPT = f"""
import sys
from sfumato.cli import main

for command in (["plan", "X.npy"], ["protect", "X.npy", "-o", "out.npy"]):
    try:
        main([*command, "--epsilon", "1", "--clip", "1.0", "--json"])
    except SystemExit as ended:
        assert not ended.code, ended.code
    print("loaded", *[name for name in {FORBIDDEN!r} if name in sys.modules])
"""


def test_a_small_release_loads_none_of_the_large_libraries(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(1).random((100, 3)))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("loaded")] == [
        ["loaded"]
    ] * 2
    assert (tmp_path / "out.npy").exists()
