"""``sfumato paper``: tables and figures of the papers, made again beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import NumbersCommand, in_line, progress

__all__ = ["app", "paper"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=NumbersCommand, epilog="For example: sfumato paper multimedia-dp --figure 2")
def paper(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    table: Annotated[
        list[int] | None, typer.Option(metavar="N [N]", help="Which tables to make: --table 1 4.")
    ] = None,
    figure: Annotated[
        list[int] | None, typer.Option(metavar="N [N]", help="Which figures to draw: --figure 2 3.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="mnist, fashion-mnist or cifar-10 from the folder SFUMATO_DATA, or digits; may be repeated. "
            "compactdp takes pneumonia-mnist and ham10000 too, figure 3 of tldp imdb and nsl-kdd.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How often it is repeated; 5 for tadp-rme, 3 for compactdp and tldp, 1 for "
            "curvature-publication unless given.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small run that shows that everything works.")
    ] = False,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where the results go; made if it is missing."),
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Regenerate tables and figures of a paper beside ours.

    NAME is compactdp, curvature-publication, multimedia-dp, tadp-rme or tldp. Without --table and --figure
    all of them are made. A run of compactdp, of curvature-publication or of figure 3 of tldp that was stopped
    goes on from what it kept in the output folder.
    """
    from sfumato_reproductions import regenerate

    wanted: dict[str, Any] = {"tables": table or (), "figures": figure or (), "data": data or ()}
    with progress(not as_json) as report:
        result = regenerate(name, output, report, **wanted, seeds=seeds, quick=quick)
    print(json.dumps(result.to_dict()) if as_json else in_line(str(result)))
