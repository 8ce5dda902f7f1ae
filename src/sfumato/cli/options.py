"""Options that several commands with many of them share, laid out in panels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.budget import LEDGER_HELP

__all__ = [
    "BUDGET",
    "DATA",
    "FILES",
    "PROMISE",
    "AsJson",
    "Classes",
    "Labels",
    "LedgerUrl",
    "ModelFolder",
    "Overwrite",
    "PicturesOrFeatures",
    "PlanOnly",
    "PublicClassNames",
    "TestFile",
    "Uncharged",
    "White",
    "option",
]

PROMISE, BUDGET, FILES, DATA = "The promise", "The budget", "Files", "The dataset"


def option(panel: str, metavar: str | None, help: str, *names: str) -> Any:
    """An option in ``panel`` of the help page."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel)


LedgerUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", envvar="SFUMATO_LEDGER", help=LEDGER_HELP, rich_help_panel=BUDGET),
]
Overwrite = Annotated[
    bool,
    option(FILES, None, "Replace the file of an earlier release; a folder has to be removed by hand."),
]
Uncharged = Annotated[
    bool,
    option(BUDGET, None, "Charge nothing: the certificate names --dataset and says that it did not pay."),
]
AsJson = Annotated[bool, option(FILES, None, "Print the result as JSON.", "--json")]
PlanOnly = Annotated[
    bool, option(FILES, None, "Say what it would promise and cost; read headers, write nothing.", "--plan")
]
ModelFolder = Annotated[Path | None, option(FILES, "FOLDER", "Where the model is kept.", "-o", "--output")]
TestFile = Annotated[
    Path | None,
    option(FILES, "FILE", "Measure accuracy on these records, which are not protected by the promise."),
]
Classes = Annotated[
    int | None,
    option(DATA, "N", "For an .npz: how many classes there are, labelled 0 … N−1; this is public."),
]
White = Annotated[
    float | None,
    option(DATA, "VALUE", "The value of white: 255 for bytes, 65535 for 16 bits; else it is needed."),
]
PicturesOrFeatures = Annotated[
    str | None,
    option(DATA, "NAME", "Which array of an .npz holds the pictures or features; x unless given."),
]
PublicClassNames = Annotated[
    bool,
    option(
        DATA,
        None,
        "For a folder: declare that the names of its classes are public; otherwise they are numbered.",
        "--public-names",
    ),
]
Labels = Annotated[
    str | None, option(DATA, "NAME", "Which array of an .npz holds the labels; y unless given.")
]
