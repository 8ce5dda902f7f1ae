"""The package as a whole: light to import, honest about its names."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import sfumato

HEAVY = ("torch", "ray", "flwr", "fastapi", "sklearn", "matplotlib", "pandas")
EXTRAS = ("torch", "ray", "flwr", "fastapi", "uvicorn", "grpc", "cv2", "av", "soundfile")

# Notes every attempt to import one of the names given, whether or not it is installed, and who made it.
WATCH = """
import sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            print(name)

sys.meta_path.insert(0, Watch())
"""


def test_importing_sfumato_takes_less_than_a_third_of_a_second() -> None:
    def best(code: str) -> float:
        return min(_seconds(code) for _ in range(5))

    assert best("import sfumato") - best("pass") < 0.3


def test_importing_sfumato_imports_nothing_heavy() -> None:
    assert _attempts("import sfumato", HEAVY) == []


def test_the_watch_sees_what_is_imported_installed_or_not() -> None:
    code = (
        "import sfumato, sklearn.base\ntry:\n    import torch.no_such_module\nexcept ImportError:\n    pass"
    )
    attempts = _attempts(code, HEAVY)
    assert "torch" in attempts
    assert "sklearn" in attempts


def test_no_public_name_needs_an_extra() -> None:
    assert _attempts("import sfumato\nfor name in sfumato.__all__: getattr(sfumato, name)", EXTRAS) == []


def test_the_package_ships_its_licence() -> None:
    described = metadata.metadata("sfumato")
    assert described["License-Expression"] == "Apache-2.0"
    assert described.get_all("License-File") == ["LICENSE"]
    text = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_public_name_is_there() -> None:
    assert len(set(sfumato.__all__)) == len(sfumato.__all__)
    for name in sfumato.__all__:
        assert getattr(sfumato, name) is not None
    assert dir(sfumato) == sorted([*sfumato.__all__, "fit_private"])
    names: dict[str, object] = {}
    exec("from sfumato import *", names)
    assert set(sfumato.__all__) <= set(names)


def test_the_pinned_names_are_public() -> None:
    pinned = "TrustAdaptive Gaussian Laplace Seeded Keyed Release Statement Guarantee protect ReverseManifold"
    assert set(pinned.split()) <= set(sfumato.__all__)


@pytest.mark.parametrize("rooms_first", [True, False])
def test_verbs_are_functions_whatever_is_imported_first(rooms_first) -> None:
    rooms = "import sfumato.audits, sfumato.reports, sfumato.release"
    verbs = "import sfumato as sf; verbs = sf.audit, sf.load_model, sf.plan, sf.protect, sf.report"
    lines = [rooms, verbs] if rooms_first else [verbs, rooms, verbs]
    check = "import types; assert all(type(verb) is types.FunctionType for verb in verbs)"
    subprocess.run([sys.executable, "-c", "\n".join([*lines, check])], check=True)


def test_fit_private_stands_at_the_top() -> None:
    pytest.importorskip("torch")
    from sfumato.learners import fit_private

    assert sfumato.fit_private is fit_private


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"sfumato has no 'Gausian'; it has .*Gaussian.*TrustAdaptive"):
        sfumato.Gausian  # noqa: B018


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert sfumato.__version__ == project["project"]["version"]


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def _attempts(code: str, names: tuple[str, ...]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCH + code, *names], check=True, capture_output=True, text=True
    )
    return done.stdout.split()
