"""Rooms that are also verbs: ``sf.audit(…)`` and ``sf.report(…)`` work although both are folders."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["answer_calls"]


def answer_calls(room: str, function: str) -> None:
    """Let the package ``room`` be called as its own ``function``.

    Importing a room sets its name on the package to the folder itself, whatever stood there before; so the
    folder has to answer.
    """

    class Room(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(self, function)(*arguments, **options)

    sys.modules[room].__class__ = Room
