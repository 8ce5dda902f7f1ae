"""The command line: one module a command."""

from sfumato.cli import terminal
from sfumato.cli.command_line import app, main, spread

__all__ = [
    "app",
    "main",
    "spread",
    "terminal",
]
