"""Names of a package that are loaded when they are first used, so that importing it stays light."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["when_used"]


def when_used(package: str, module_of: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``: names that stand in its modules, each loaded once.

    None is also the name of a module: importing that would put it in the place of the name.
    """
    taken = set(module_of) & set(module_of.values())
    if taken:
        raise ValueError(f"{package} has modules of the same name as what it offers: {sorted(taken)}.")

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(module_of))}.")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
