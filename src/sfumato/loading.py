"""Names and modules that are loaded when they are first used, so that importing the package stays light."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["names_of_stub", "open_cv"]

_one_thread = threading.Lock()


def names_of_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of ``package``, whose ``__init__.py`` is ``file``.

    The stub beside it has a line ``from .module import name as name`` for each name of the package, which
    `make index` writes. A name is loaded when it is first used. Type checkers read the same stub, and so
    refuse any other name.
    """
    with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.startswith("from .")]
    module_of = {name: module for _, module, _, name, *_ in lines}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(module_of))}.")
        value = getattr(importlib.import_module(module_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*module_of, *sys.modules[package].__all__}), sorted(module_of)


def open_cv() -> ModuleType:
    """Return OpenCV, imported by one thread at a time.

    While it is imported, OpenCV takes itself out of ``sys.modules`` and puts itself back in parts; a second
    thread that imports it meanwhile gets a module without its cascades or its functions.
    """
    with _one_thread:
        return importlib.import_module("cv2")
