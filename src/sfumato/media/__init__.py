"""Images, sound and video: what may change in them, what in them is sensitive, and noise that knows both."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.budget_allocation import water_filling as water_filling

__all__ = ["water_filling"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {"water_filling": "budget_allocation"})
