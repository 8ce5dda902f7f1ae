"""The rooms of the package: imports point one way, every name that is promised exists."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato

ROOT = Path(sfumato.__file__).parent
# In the order in which data flows; a room imports only itself and rooms before it.
ROOMS = [
    *("privacy", "noise", "io", "mechanisms", "media", "learners", "publishers", "audits", "utility"),
    *("ledger", "reports", "release", "serve", "cli"),
]
FILES = sorted(ROOT.rglob("*.py"))
NAMES = [str(file.relative_to(ROOT)) for file in FILES]
# Scripts that a tool runs in its own way, such as database migrations, stand in folders that are no packages.
MODULES = [file for file in FILES if (file.parent / "__init__.py").exists() and file.stem != "__main__"]
PACKAGES = sorted(file.parent for file in FILES if file.name == "__init__.py" and file.parent != ROOT)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_imports_point_upwards(file) -> None:
    room = file.relative_to(ROOT).parts[0]
    if file == ROOT / "__init__.py":
        return  # it opens every room, when asked
    allowed = {"errors", "loading", *(ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else [])}
    for line, imported in _imported_rooms(file):
        assert imported in allowed, f"{file.name}:{line} imports sfumato.{imported}, which comes after {room}"


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_of_the_package_itself_only_the_version_is_used(file) -> None:
    """``import sfumato`` inside the package would otherwise be a door to every room."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "sfumato"
        ):
            assert node.attr == "__version__", f"{file.name}:{node.lineno} reads sfumato.{node.attr}"


def test_the_list_of_rooms_is_complete() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= set(ROOMS)


@pytest.mark.parametrize("name", ["errors.py", "loading.py"])
def test_what_every_room_may_import_imports_nothing(name) -> None:
    assert list(_imported_rooms(ROOT / name)) == []


def test_a_wrong_import_would_be_seen(tmp_path) -> None:
    source = tmp_path / "wrong.py"
    source.write_text(
        "import sfumato.cli\n"
        "import sfumato.io.array_files as arrays, os\n"
        "def late():\n"
        "    from sfumato.release import protect\n"
        "    from sfumato import serve, __version__\n"
        "    if True:\n"
        "        from sfumato import Gaussian\n"
    )
    assert list(_imported_rooms(source)) == [
        (1, "cli"),
        (2, "io"),
        (4, "release"),
        (5, "serve"),
        (7, "Gaussian"),
    ]


@pytest.mark.parametrize("package", PACKAGES, ids=[str(path.relative_to(ROOT)) for path in PACKAGES])
def test_every_room_says_what_it_offers(package) -> None:
    room = importlib.import_module("sfumato." + ".".join(package.relative_to(ROOT).parts))
    assert room.__doc__
    assert len(set(room.__all__)) == len(room.__all__)
    for name in room.__all__:
        assert hasattr(room, name), f"{room.__name__} has no {name}"


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_offers_names_that_exist(file) -> None:
    parts = file.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(("sfumato", *parts)).removesuffix(".__init__"))
    for name in module.__all__:
        assert hasattr(module, name), f"{module.__name__} has no {name}"
    assert module.__doc__


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_every_module_has_a_name_that_says_something(file) -> None:
    parts = file.relative_to(ROOT).with_suffix("").parts
    assert not {"utils", "util", "helpers", "helper", "common", "misc", "manager"} & set(parts)


def _imported_rooms(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the room of every import from the package, also of those inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package, _, rest = alias.name.partition(".")
                if package == "sfumato" and rest:
                    yield node.lineno, rest.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name}:{node.lineno} is a relative import"
            package, _, rest = (node.module or "").partition(".")
            if package == "sfumato" and rest:
                yield node.lineno, rest.partition(".")[0]
            elif package == "sfumato":
                yield from ((node.lineno, alias.name) for alias in node.names if alias.name != "__version__")
