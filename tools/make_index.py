"""Write what is derived from the modules: front doors, the index of mechanisms, the reference of mechanisms.

A room is a package of ``src/sfumato``; its door is its ``__init__``. A module lists in ``__all__`` what its
room offers to others; names that only the same room uses stay out of it. This script writes the stub of each
door, ``__init__.pyi``, which the door reads its names from. A mechanism is a class that names the ``kinds``
of data it serves; the index says which module has it, and ``make_reference`` writes its rows of the
reference::

    python tools/make_index.py            # write all of it (make index)
    python tools/make_index.py --check    # name the first file that is stale, and fail if there is one
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from make_reference import PAGE, imported, page, types_of

SOURCE = Path(__file__).parent.parent / "src" / "sfumato"
# What people call as `sf.NAME`, beside the mechanisms.
VERBS = (
    *("audit", "federate", "learn", "load_model", "mechanism", "plan", "protect", "publish", "report"),
    *("fit_private", "verify"),
)
TYPES = (
    *("BadInput", "Claim", "Evidence", "Guarantee", "Keyed", "Ledger", "MediaMechanisms", "Neighbours"),
    *("Release", "Seeded", "SensitivityMap", "SfumatoError", "Statement", "Unit"),
)
PUBLISHERS = (
    *("BlurPublisher", "CertifiedPublisher", "KAnonymityPublisher", "PixelationPublisher"),
    "RefinedPublisher",
)
# The module, the class and its kinds of data.
Declared = tuple[str, str, tuple[str, ...]]
_INDEX_HEAD = '''"""Index of the mechanisms that doors offer, written by `make index` from their classes."""

from __future__ import annotations

from sfumato.mechanisms.registry import Option, Place

# fmt: off
# ruff: noqa: E501
#: By name.
'''
PROTO = SOURCE / "serve" / "grpc" / "sfumato.proto"
_WRITTEN = "Written by `make index`:\n"
INDEX = SOURCE / "mechanisms" / "index.py"


def offered_names(module: Path) -> list[str]:
    """Return the ``__all__`` of a module; none if it has none."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return list(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return []


@cache
def offers_of(package: Path) -> dict[str, str]:
    """Return the module of every name that the modules of ``package`` offer."""
    found: dict[str, str] = {}
    for module in sorted(package.glob("*.py")):
        if module.stem == "__init__" or "_pb2" in module.stem:
            continue
        for name in offered_names(module):
            if name in found:
                raise SystemExit(f"{package.name} offers {name} twice: in {found[name]} and {module.stem}.")
            found[name] = module.stem
    clashes = set(found) & {file.stem for file in package.iterdir()}
    if clashes:
        raise SystemExit(f"{package.name} offers names that are also modules: {sorted(clashes)}.")
    return found


def front_door() -> dict[str, str]:
    """Return the room of every name at the front door of the package, such as ``sf.protect``."""
    rooms = dict.fromkeys(offered_names(SOURCE / "errors.py"), "errors")
    for door in sorted(SOURCE.rglob("__init__.py")):
        if door.parent != SOURCE:
            room = ".".join(door.parent.relative_to(SOURCE).parts)
            rooms |= dict.fromkeys(offers_of(door.parent), room)
    # A verb is the whole release; other rooms offer parts of it by the same name, such as `reports.verify`.
    rooms |= dict.fromkeys(offers_of(SOURCE / "release"), "release")
    mechanisms = {name for _, name, _ in mechanisms_declared()}
    if mechanisms - set(rooms):
        raise SystemExit(f"not listed in the __all__ of their modules: {sorted(mechanisms - set(rooms))}.")
    return {name: rooms[name] for name in sorted({*VERBS, *TYPES, *PUBLISHERS, *mechanisms})}


@cache
def mechanisms_declared() -> list[Declared]:
    """Return every class that names the ``kinds`` of data it serves, as ``kinds = ("array",)``.

    Those without a kind are for Python alone. The base class, which declares the attribute, names none.
    """
    found: list[Declared] = []
    for module in sorted(SOURCE.rglob("*.py")):
        text = module.read_text(encoding="utf-8")
        if "    kinds" not in text:
            continue
        dotted = ".".join(("sfumato", *module.relative_to(SOURCE).with_suffix("").parts))
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and node.name != "Mechanism":
                kinds = _kinds(node)
                if kinds is not None:
                    found.append((dotted, node.name, kinds))
    return sorted(found, key=lambda one: one[1])


def _kinds(node: ast.ClassDef) -> tuple[str, ...] | None:
    """Return the ``kinds`` that the body of a class assigns."""
    for statement in node.body:
        target = (
            statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        )
        if isinstance(target, ast.Name) and target.id == "kinds" and statement.value:  # type: ignore[attr-defined]
            kinds: tuple[str, ...] = ast.literal_eval(statement.value)  # type: ignore[attr-defined]
            return kinds
    return None


def kebab(name: str) -> str:
    """Return the name of a class as it is typed; a capital begins a word: TensorLDP is tensor-ldp."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def index() -> str:
    """Return the text of the index of mechanisms, with the parameters that a door beside Python has."""
    places = {kebab(one[1]): one for one in mechanisms_declared() if one[2]}
    classes = {name: getattr(imported(one[0]), one[1]) for name, one in sorted(places.items())}
    options = options_of(classes)
    lines = [_INDEX_HEAD + "PLACES: dict[str, Place] = {"]
    for name, one in sorted(places.items()):
        default_for = vars(classes[name]).get("default_for")
        lines += [f"    {name!r}: Place{(*one, default_for) if default_for else one!r},"]
    lines += ["}", "", "#: What is declared of a parameter, once for all mechanisms that declare the same."]
    lines += ["OPTIONS: dict[str, tuple[Option, ...]] = {"]
    for name, found in sorted(options.items()):
        lines += [f"    {name!r}: ("]
        for option, of in found:
            given = "".join(f", {field}={value!r}" for field, value in option.items() if _said(value))
            lines += [f"        Option({tuple(of)!r}{given}),"]
        lines += ["    ),"]
    return "\n".join([*lines, "}", ""])


def _said(value: Any) -> bool:
    """Return whether a field of an ``Option`` is not at its default."""
    return value is not None and value is not False and value not in ("", ())


def options_of(classes: Mapping[str, type]) -> dict[str, list[tuple[dict[str, Any], list[str]]]]:
    """Return by parameter the fields of every ``Option`` of the index and the mechanisms that have it.

    Those of a request are of all mechanisms that serve the same kinds of data.
    """
    found: dict[str, list[tuple[dict[str, Any], list[str]]]] = {}
    requested = imported("sfumato.release.request").PARAMETERS
    for mechanism, kind in classes.items():
        shared = [one for one in requested.values() if not one.of_kinds or {*one.of_kinds} & {*kind.kinds}]
        for one in [*imported("sfumato.mechanisms.registry").parameters_of(kind).values(), *shared]:
            plain = isinstance(one.default, bool | int | float | str | None)
            own = {
                "help": one.help,
                "symbol": one.symbol,
                "types": types_of(one),
                "several": one.arity != 1,
                "array": one.array,
                "choices": one.choices,
                "default": one.default if plain and not one.bound else None,
                "bound": bool(one.bound),
                "doors": tuple(door for door in one.doors if door != "python"),
            }
            file = {
                "help": f"A .npy file with one {one.symbol} a record.",
                "symbol": "FILE",
                "types": ("file",),
            }
            options = {one.name: own} | ({one.file: file | {"doors": ("command line",)}} if one.file else {})
            for name, option in options.items():
                if option["doors"]:
                    same = next((of for other, of in found.get(name, []) if other == option), None)
                    if same is None:
                        found.setdefault(name, []).append((option, [mechanism]))
                    else:
                        same.append(mechanism)
    return found


def stub(door: Path) -> str:
    """Return the text of the stub beside ``door``: a line for each name that it offers."""
    top = door.parent == SOURCE
    offers = front_door() if top else offers_of(door.parent)
    lines = ["# Written by `make index` from the `__all__` of every module."]
    lines += [
        f"from .{module} import {name} as {name}"
        for name, module in sorted(offers.items(), key=lambda one: (one[1], _import_order(one[0])))
    ]
    lines += ["", "__version__: str"] if top else []
    return "\n".join([*lines, ""])


def _import_order(name: str) -> tuple[int, str]:
    """Return where ruff sorts ``name`` among imports: constants, classes, functions."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name


def proto() -> str:
    """Return the text of the gRPC interface, with the names of mechanisms and parameters in its comments."""
    sys.modules.pop("sfumato.mechanisms.index", None)  # it was written a moment ago
    options = imported("sfumato.mechanisms.registry")
    lines = [
        f"  //   {name}: {options.describe_parameter(found)}"
        for name, found in options.options_at("service").items()
    ]
    head, _, rest = PROTO.read_text(encoding="utf-8").partition(_WRITTEN)
    _, end, rest = rest.partition("  // End of what")
    return head + _WRITTEN + "\n".join(lines) + "\n" + end + rest


def main() -> None:
    """Write the index, every door and the reference, or check them all."""
    sys.path.insert(0, str(SOURCE.parent))
    makers: dict[Path, Callable[[], str]] = {
        door.with_suffix(".pyi"): partial(stub, door) for door in sorted(SOURCE.rglob("__init__.py"))
    }
    # Last: these import the mechanisms through the doors.
    makers |= {INDEX: index, PROTO: proto, PAGE: partial(page, mechanisms_declared())}
    for file, text_of in makers.items():
        text = text_of()
        if not file.exists() or text != file.read_text(encoding="utf-8"):
            if "--check" in sys.argv:
                raise SystemExit(f"stale, run `make index`: {file.relative_to(SOURCE.parent.parent)}")
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
