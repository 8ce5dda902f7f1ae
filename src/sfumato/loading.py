"""Names and modules that are loaded when they are first used, so that importing the package stays light."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

__all__ = ["open_cv", "when_used"]

_one_thread = threading.Lock()


def when_used(
    package: str, module_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``: names of its modules, each loaded when used.

    No name is also that of a module: importing the module would put it in the place of the name.
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

    return load, lambda: sorted({*module_of, *sys.modules[package].__all__})


def open_cv() -> ModuleType:
    """Return OpenCV, imported by one thread at a time.

    While it is imported, OpenCV takes itself out of ``sys.modules`` and puts itself back in parts; a second
    thread that imports it meanwhile gets a module without its cascades or its functions.
    """
    with _one_thread:
        return importlib.import_module("cv2")
