"""The command line: one module a command."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.cli.command_line import NumbersCommand as NumbersCommand
    from sfumato.cli.command_line import app as app
    from sfumato.cli.command_line import main as main
    from sfumato.cli.terminal import in_line as in_line
    from sfumato.cli.terminal import progress as progress

__all__ = ["NumbersCommand", "app", "in_line", "main", "progress"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "NumbersCommand": "command_line",
            "app": "command_line",
            "main": "command_line",
            "in_line": "terminal",
            "progress": "terminal",
        },
    )
