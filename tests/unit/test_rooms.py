"""The rooms of the package: imports point one way, every name that is promised exists."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato

ROOT = Path(sfumato.__file__).parent
REPOSITORY = Path(__file__).parents[2]
# In the order in which data flows; a room imports only itself and rooms before it.
ROOMS = [
    *("privacy", "noise", "io", "mechanisms", "media", "learners", "publishers", "audits", "utility"),
    *("ledger", "reports", "release", "serve", "cli"),
]
FILES = sorted(ROOT.rglob("*.py"))
NAMES = [str(file.relative_to(ROOT)) for file in FILES]
# Scripts that a tool runs in its own way, such as database migrations, stand in folders that are no packages.
MODULES = [file for file in FILES if (file.parent / "__init__.py").exists() and file.stem != "__main__"]
TESTS = [
    file for kind in ("tests", "reproductions/tests") for file in sorted((REPOSITORY / kind).rglob("*.py"))
]
# Rooms whose unit tests have the names of modules.
MIRRORED = ROOMS
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
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name), f"{module.__name__} has no {name}"
    assert module.__doc__


def test_no_import_goes_past_a_front_door() -> None:
    """Rooms import each other through their packages alone, so that each can change behind its door."""
    past = [found for file in FILES for found in _past_a_door(file, file.relative_to(ROOT).parts[0])]
    assert not past, past


def test_tests_import_inside_the_room_they_mirror_and_otherwise_through_doors() -> None:
    """A test of ``tests/KIND/ROOM`` may use the modules of that room; no other test knows what is behind."""
    past = []
    for file in TESTS:
        folders = file.relative_to(REPOSITORY).parts[2:-1]
        past += _past_a_door(file, folders[0] if folders else "")
    assert not past, past


def test_no_two_test_files_share_a_name() -> None:
    shared = Counter(file.name for file in TESTS if file.name != "conftest.py")
    assert [name for name, count in shared.items() if count > 1] == []


@pytest.mark.parametrize("room", MIRRORED)
def test_unit_tests_are_named_after_the_modules_they_test(room) -> None:
    modules = {file.stem for file in (ROOT / room).rglob("*.py")}
    for file in (REPOSITORY / "tests" / "unit" / room).rglob("test_*.py"):
        words = file.stem.split("_")[1:]
        about = {"_".join(words[:end]) for end in range(1, len(words) + 1)}
        assert about & modules, f"{file.name} is called test_<module>.py or test_<module>_<aspect>.py"


def test_an_import_past_a_door_would_be_seen(tmp_path) -> None:
    source = tmp_path / "wrong.py"
    source.write_text(
        "import sfumato.io.array_files as arrays\n"
        "from sfumato.io import cuts_of, table_files\n"
        "from sfumato.media.images import Mask\n"
        "def late():\n"
        "    from sfumato.media.images.redaction import Mask\n"
        "from sfumato.serve.grpc import sfumato_pb2\n"
    )
    expected = [(1, "io.array_files"), (2, "io.table_files"), (5, "media.images.redaction")]
    assert list(_past_a_door(source, "")) == [
        f"wrong.py:{line} imports sfumato.{name}" for line, name in expected
    ]
    assert [found.split(":")[1] for found in _past_a_door(source, "io")] == [
        "5 imports sfumato.media.images.redaction"
    ]


def test_the_doors_are_what_make_index_writes() -> None:
    script = ROOT.parent.parent / "tools" / "make_index.py"
    checked = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


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


def _past_a_door(file: Path, room: str) -> Iterator[str]:
    """Name every import of an inner module of a room other than ``room``, but for generated messages."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    for line, name in sorted(set(found)):
        package, _, inner = name.partition(".")
        parts = inner.split(".")
        if package != "sfumato" or parts[0] not in ROOMS or parts[0] == room or "_pb2" in inner:
            continue
        modules = [parts[:end] for end in range(2, len(parts) + 1)]
        past = [path for path in modules if ROOT.joinpath(*path).with_suffix(".py").is_file()]
        if past:
            yield f"{file.name}:{line} imports sfumato.{'.'.join(past[0])}"
