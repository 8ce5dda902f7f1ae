"""A mechanism is one file: added to a copy of the package, it is found at every door and in the reference."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

ROOT = Path(sfumato.__file__).parent.parent.parent
TOY = '''"""A toy mechanism.

**Guarantee.** That of ``gaussian``.
"""

from __future__ import annotations

from typing import Annotated

from sfumato.mechanisms.parameters import Clip, Epsilon, RandomSource
from sfumato.mechanisms.registry import Parameter
from sfumato.mechanisms.additive import Gaussian
from sfumato.privacy import REQUIRED

__all__ = ["ToyNoise"]


class ToyNoise(Gaussian):
    """Gaussian noise with a toy beside it.

    **Guarantee.** That of the Gaussian mechanism, with a toy.
    """

    kinds = ("array",)
    units = ("record",)

    def __init__(
        self,
        epsilon: Epsilon = REQUIRED,
        clip: Clip = None,
        *,
        toy_size: Annotated[int, Parameter("How large the toy is.", symbol="T")] = 7,
        randomness: RandomSource = None,
    ) -> None:
        super().__init__(epsilon, 1e-6, clip, randomness=randomness)
        self.toy_size = toy_size
'''
SCRIPT = """
import json

import numpy as np
import typer.main

import sfumato as sf
from sfumato.cli import app
from sfumato.release import ReleaseRequest
from sfumato.serve.pages.release_pages import offered, other_fields
from sfumato.serve.service import Description

made = sf.mechanism("toy-noise", epsilon=1.0, clip=1.0, toy_size=3)
requested = ReleaseRequest("toy-noise", {"epsilon": 1.0, "clip": 1.0, "toy_size": 5}).make_mechanism("array")
options = {one.name: one for one in typer.main.get_command(app).commands["plan"].loaded.params}
print(json.dumps({
    "class": type(made).__name__,
    "at the door": type(made) is sf.ToyNoise,
    "sizes": [made.toy_size, requested.toy_size],
    "statement": made.statement(3).parameters["toy_size"],
    "mechanism": options["mechanism"].help,
    "option": options["toy_size"].help,
    "schema": Description.model_json_schema()["properties"],
    "form": {name: fields for group in offered().values() for name, fields in group}["toy-noise"],
    "field": other_fields()["parameter-toy_size"],
}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with a toy mechanism, after ``make index``."""
    root = tmp_path_factory.mktemp("copy")
    for part in ("src", "tools", "docs/reference-mechanisms.md", "pyproject.toml"):
        into = root / part
        into.parent.mkdir(exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, into)
        else:
            shutil.copy(ROOT / part, into)
    (root / "src" / "sfumato" / "mechanisms" / "toy_noise.py").write_text(TOY, encoding="utf-8")
    run(root, "tools/make_index.py")
    return root


def run(root, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src"), "HOME": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_toy_mechanism_in_one_file_is_found_at_every_door(copy):
    found = json.loads(run(copy, "-c", SCRIPT))
    assert found["class"] == "ToyNoise"
    assert found["at the door"]
    assert found["sizes"] == [3, 5]
    assert found["statement"] == 3
    assert "toy-noise" in found["mechanism"]
    assert found["option"] == "toy-noise: How large the toy is. 7 unless given."
    assert "toy-noise" in found["schema"]["mechanism"]["examples"]
    assert "How large the toy is." in found["schema"]["parameters"]["properties"]["toy_size"]["description"]
    assert "parameter-toy_size" in found["form"].split()
    assert "epsilon" in found["form"].split()
    assert found["field"] == ["toy size", "toy-noise: How large the toy is. 7 unless given."]


def test_a_toy_mechanism_is_planned_on_the_command_line_by_its_own_option(copy):
    run(copy, "-c", "import numpy as np; np.save('X.npy', np.zeros((10, 3)))")
    words = [
        "plan",
        "X.npy",
        "--mechanism",
        "toy-noise",
        "--epsilon",
        "1",
        "--clip",
        "1",
        "--toy-size",
        "9",
        "--json",
    ]
    planned = json.loads(run(copy, "-c", f"from sfumato.cli import main; main({words!r})"))
    assert planned["statement"]["mechanism"] == "ToyNoise"
    assert planned["statement"]["parameters"]["toy_size"] == 9


def test_a_toy_mechanism_is_in_the_reference_and_in_the_interface_of_grpc(copy):
    page = (copy / "docs" / "reference-mechanisms.md").read_text(encoding="utf-8")
    guarantee = "That of the Gaussian mechanism, with a toy."
    assert f"| `ToyNoise(epsilon, clip, toy_size)` | array | record | {guarantee} |" in page
    assert "| `toy_size` | ToyNoise | whole number | `7` | How large the toy is. |" in page
    proto = (copy / "src" / "sfumato" / "serve" / "grpc" / "sfumato.proto").read_text(encoding="utf-8")
    assert "//   toy_size: toy-noise: How large the toy is. 7 unless given.\n" in proto


def test_nothing_but_generated_files_changed(copy):
    changed = set()
    for file in [*copy.glob("src/**/*"), *copy.glob("tools/*"), *copy.glob("docs/*")]:
        name = str(file.relative_to(copy))
        if file.is_file() and "__pycache__" not in name and "egg-info" not in name:
            before = ROOT / name
            if not before.exists() or before.read_bytes() != file.read_bytes():
                changed.add(name)
    assert changed == {
        "src/sfumato/mechanisms/toy_noise.py",
        "src/sfumato/__init__.pyi",
        "src/sfumato/mechanisms/__init__.pyi",
        "src/sfumato/mechanisms/index.py",
        "src/sfumato/serve/grpc/sfumato.proto",
        "docs/reference-mechanisms.md",
    }
