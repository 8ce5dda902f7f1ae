"""Write the tables of docs/reference-mechanisms.md from the declarations of the mechanisms.

``make index`` calls it. A table stands between two marks of the page; all other text is written by hand. What
a mechanism proves is the paragraph **Guarantee.** of its class's docstring.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

PAGE = Path(__file__).parent.parent / "docs" / "reference-mechanisms.md"
# A class, with its kinds of data.
Row = tuple[Any, tuple[str, ...]]
_SECTION = re.compile(r"(<!-- make index: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WORDS = {float: "number", int: "whole number", str: "word", bytes: "bytes"}
_TENSORS = {"component", "tensor", "client"}


def imported(module: str) -> Any:
    """Return a module of the package that is written about, which is first on the path."""
    return importlib.import_module(module)


def page(classes: Sequence[tuple[str, str, tuple[str, ...]]]) -> str:
    """Return the text of the page, with the mechanisms of ``classes``."""
    rows = [(getattr(imported(module), name), kinds) for module, name, kinds in classes]
    sections: dict[str, Callable[[Row], bool]] = {
        "media": lambda row: ".media." in row[0].__module__,
        "tensors": lambda row: bool(_TENSORS & {*row[0].units}) or row[0].__module__.endswith("tensors"),
        "records": lambda row: True,
    }
    tables: dict[str, str] = {}
    for name, belongs in sections.items():
        tables[name] = _tables([row for row in rows if belongs(row)])
        rows = [row for row in rows if not belongs(row)]
    return _SECTION.sub(
        lambda found: found[1] + tables[found[2]] + found[3], PAGE.read_text(encoding="utf-8")
    )


def _tables(rows: Sequence[Row]) -> str:
    lines = ["| name | for | units | proven |", "|---|---|---|---|"]
    for kind, kinds in rows:
        cells = (f"`{_call(kind)}`", ", ".join(kinds) or "Python", ", ".join(kind.units), _guarantee(kind))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    lines += ["", "| parameter | of | accepted | default | what it is |", "|---|---|---|---|---|"]
    merged: dict[tuple[str, ...], list[str]] = {}
    for kind, _ in rows:
        for parameter in _declared(kind):
            if not parameter.help:
                continue  # a dataclass, whose docstring says it
            door = " (Python alone)" if parameter.doors == ("python",) else ""
            key = (
                parameter.name,
                accepted_values(parameter),
                _default(parameter),
                parameter.help.rstrip(".") + door + ".",
            )
            merged.setdefault(key, []).append(kind.__name__)
    for (name, accepted, default, help_), kinds_ in sorted(merged.items()):
        lines.append(f"| `{name}` | {', '.join(kinds_)} | {accepted} | {default} | {help_} |")
    return "\n".join(lines) + "\n"


def _declared(kind: type) -> list[Any]:
    return list(imported("sfumato.mechanisms.registry").parameters_of(kind).values())


def _call(kind: type) -> str:
    """Return a class with its parameters; ``a | b`` are two of which one is given."""
    declared = {one.name: one for one in _declared(kind) if one.name != "randomness"}
    bounds = " | ".join(name for name, one in declared.items() if one.bound)
    shown = [bounds if one.bound else name for name, one in declared.items()]
    for name, one in declared.items():
        if one.instead_of:
            shown.remove(one.instead_of)
            shown[shown.index(name)] = f"{name} | {one.instead_of}"
    return f"{kind.__name__}({', '.join(dict.fromkeys(shown))})"


def _guarantee(kind: type) -> str:
    found = re.search(r"\*\*Guarantee\.\*\*\s+(.*?)(?:\n\n|$)", inspect.getdoc(kind) or "", re.DOTALL)
    if found is None:
        raise SystemExit(f"the docstring of {kind.__name__} has no paragraph **Guarantee.**")
    plain = re.sub(r":\w+:`(\w+)`", r"`\1`", " ".join(found[1].split()))
    return plain.replace("``", "`")


def types_of(parameter: Any) -> tuple[str, ...]:
    """Return in words the types of a parameter's values; what may be anything is a number."""
    kinds = {parameter.type, *get_args(parameter.type)}
    if parameter.choices:
        return ("word",)
    return ("number",) if Any in kinds else tuple(word for kind, word in _WORDS.items() if kind in kinds)


def accepted_values(parameter: Any) -> str:
    """Return in words what a parameter accepts."""
    if parameter.choices:
        return ", ".join(parameter.choices)
    if parameter.arity == 2:
        return "two numbers"
    words = list(types_of(parameter))
    if parameter.arity is None:
        words = [f"{word}s" for word in words or ["word"]]
    if parameter.array or parameter.file:
        words.append("array")
    return " or ".join(words)


def _default(parameter: Any) -> str:
    empty = parameter.default is None or parameter.default is inspect.Parameter.empty
    return "" if empty else f"`{parameter.default!r}`"
