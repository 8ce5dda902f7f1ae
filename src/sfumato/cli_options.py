"""Options that several commands with many of them share, laid out in panels."""

from __future__ import annotations

from typing import Any

import typer

from sfumato.cli_budget import LEDGER_HELP

__all__ = ["BUDGET", "FILES", "PROMISE", "ledger_option", "option"]

PROMISE, BUDGET, FILES = "The promise", "The budget", "Files"


def option(panel: str, metavar: str | None, help: str, *names: str) -> Any:
    """An option in ``panel`` of the help page."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel)


def ledger_option() -> Any:
    """Which ledger is charged, in the panel of the budget."""
    return typer.Option(metavar="URL", envvar="SFUMATO_LEDGER", help=LEDGER_HELP, rich_help_panel=BUDGET)
