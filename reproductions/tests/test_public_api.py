"""The project uses what Sfumato offers at its front doors, and nothing behind them."""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato

ROOT = Path(__file__).parents[1]
LIBRARY = Path(sfumato.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(ROOT)) for file in FILES])
def test_every_import_is_of_a_name_that_a_door_offers(file) -> None:
    for line, module, name in _imported(ast.parse(file.read_text("utf-8"))):
        place = f"{file.name}:{line}"
        assert _is_door(module), f"{place} imports {module}, which is behind a front door"
        offered = (None, "__version__", *importlib.import_module(module).__all__)
        assert name in offered or _is_door(f"{module}.{name}"), f"{place}: {module} does not offer {name}"


def test_an_import_past_a_door_would_be_seen() -> None:
    source = "import sfumato.io\ndef late():\n    from sfumato.media.detect.detectors import Text, Box\n"
    found = list(_imported(ast.parse(source)))
    assert found == [
        (1, "sfumato.io", None),
        (3, "sfumato.media.detect.detectors", "Text"),
        (3, "sfumato.media.detect.detectors", "Box"),
    ]
    assert [_is_door(module) for _, module, _ in found] == [True, False, False]
    assert _is_door("sfumato.media.detect")
    assert _is_door("sfumato.errors")
    assert not _is_door("sfumato.media.images.sensitivity_map")
    assert not _is_door("sfumato.nonsense")


def test_version_and_licence_are_those_of_the_library() -> None:
    own, library = (
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        for folder in (ROOT, ROOT.parent)
    )
    assert (own["version"], own["license"]) == (library["version"], library["license"])
    (needed,) = (each for each in own["dependencies"] if each.startswith("sfumato["))
    assert needed.endswith(f"=={library['version']}")


def _is_door(module: str) -> bool:
    """Whether it is the package, a module directly in it, a room, or a sub-package of a room."""
    parts = module.split(".")[1:]
    path = LIBRARY.joinpath(*parts)
    in_package = len(parts) == 1 and path.with_suffix(".py").exists()
    return in_package or (len(parts) <= 2 and (path / "__init__.py").exists())


def _imported(tree: ast.Module) -> Iterator[tuple[int, str, str | None]]:
    """Line, module and name of every import from the library, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "sfumato":
                    yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sfumato":
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
