"""Ray is told to keep others out before it is imported, or is not started."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

if find_spec("ray") is None:
    pytest.skip("Ray is missing", allow_module_level=True)

ASK = "from sfumato.release.ray_engine import keep_ray_private; keep_ray_private(); import os; "
TELL = "print(os.environ['RAY_AUTH_MODE'], len(os.environ['RAY_AUTH_TOKEN']))"


@pytest.mark.parametrize(
    ("before", "own", "code", "said"),
    [
        ("", {}, 0, "token 64"),
        ("import ray; ", {}, 1, "Ray was imported before it could be told to keep others out"),
        ("import ray; ", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-one's-own"}, 0, "token 12"),
    ],
)
def test_ray_is_told_before_it_is_imported(monkeypatch, before, own, code, said):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    ran = subprocess.run(
        [sys.executable, "-c", before + ASK + TELL], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, said in ran.stdout + ran.stderr) == (code, True)
