"""A zoo of broken mechanisms, each a mistake that people make, and of sound ones, to try the audit on."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

__all__: list[str] = []

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {})
