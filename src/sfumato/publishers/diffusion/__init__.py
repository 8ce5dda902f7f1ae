"""Diffusion models small enough for private training without a graphics card, from network to sampler."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this package may count on it)
except ImportError:
    raise BadInput("diffusion models need torch: pip install 'sfumato[learn]'.") from None

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

__all__: list[str] = []

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {})
