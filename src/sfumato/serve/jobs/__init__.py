"""Jobs: life cycle, store, runner and recovery; and the executor of synchronous requests."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.serve.jobs.job_runner import Runner as Runner

__all__ = ["Runner"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {"Runner": "job_runner"})
