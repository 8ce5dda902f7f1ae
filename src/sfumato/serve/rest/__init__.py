"""REST, version 1: the operations of the service over HTTP, with JSON, files and problem details."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.serve.rest.rest_app import make_app as make_app

__all__ = ["make_app"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {"make_app": "rest_app"})
