"""Real data sets, where they are at hand: in the folder ``SFUMATO_DATA``, or else beside the project."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).parents[2] / "shared" / "data")


def real(name: str) -> Path:
    """The file or folder ``name`` of the real data sets; the test that asks skips where it is not there."""
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in {DATA}; SFUMATO_DATA names another folder")
    return DATA / name
