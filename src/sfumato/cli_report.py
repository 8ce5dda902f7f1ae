"""``sfumato report``: what can be handed to whoever assesses a dataset's releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato import terminal
from sfumato.cli_budget import LEDGER, opened

__all__ = ["app"]

app = typer.Typer(name="report", help="Evidence for those who assess releases.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Keep ``pack`` a command of its own while it is the only one."""


@app.command()
def pack(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name of the dataset.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where; made if missing.")],
    ledger: Annotated[str | None, LEDGER] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write a summary, the record of all spends and the certificates of DATASET, signed."""
    from sfumato.report import KeyRing, write_pack

    key = KeyRing().signing_or_new()
    with opened(ledger) as book:
        files = [str(file) for file in write_pack(book, dataset, output, key)]
    print(json.dumps({"files": files}) if as_json else terminal.in_line("\n".join(files)))
