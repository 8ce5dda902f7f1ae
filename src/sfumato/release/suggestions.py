"""What people type, against what there is: names with a near miss pointed out, options that are not taken."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfumato.errors import BadInput, quoted

__all__ = ["chosen", "imported", "refuse_foreign"]

# What the extra learn adds.
_LEARN = ("torch", "opacus", "safetensors")


def chosen(name: str, names: Iterable[str], what: str, *, meant: str | None = None) -> str:
    """``name``, if it is one of ``names``; otherwise the nearest is pointed out, or all of them are listed.

    ``meant`` is how somebody would have spelled it who knew the manner of the names.
    """
    known = list(names)
    if name not in known:
        typed = (name.lower() if meant is None else meant).replace("_", "-")
        near = difflib.get_close_matches(typed, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}."
        raise BadInput(f"there is no {what} {name!r}; {hint}", parameter=what)
    return name


def refuse_foreign(
    name: str, given: Iterable[str], taken: Sequence[str], others: Mapping[str, type] | None = None
) -> None:
    """Refuse the first parameter of ``given`` that ``name`` does not take, saying which ones it does.

    ``others`` are classes by name; those that take the parameter are named too.
    """
    for option in given:
        if option not in taken:
            takers = [
                other
                for other, kind in (others or {}).items()
                if option in inspect.signature(kind).parameters
            ]
            known = ", ".join(map(quoted, taken)) or "no parameters"
            theirs = f"; {quoted(option)} is for {', '.join(takers)}" if takers else ""
            raise BadInput(f"{name} has no {quoted(option)}; it takes {known}{theirs}.", parameter=option)


def imported(module: str, attribute: str | None, what: str) -> Any:
    """``attribute`` of ``module`` (or the module), or the pip line that adds what is missing for ``what``."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LEARN:
            raise
        raise BadInput(f"{what} needs {missing}: pip install 'sfumato[learn]'.") from None
    return found if attribute is None else getattr(found, attribute)
