"""``sfumato report``: an HTML report on releases, and a signed pack of evidence on a dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import sfumato
from sfumato.cli import terminal
from sfumato.cli.options import JSON, LedgerUrl, opened_ledger
from sfumato.errors import BadInput
from sfumato.io import MEDIA, Schema, kind_of

if TYPE_CHECKING:
    from sfumato.reports import Budget


# Most images of media that are shown.
_MOST_SHOTS = 24
_TITLE = "Privacy report"


class _PageByDefault(TyperGroup):
    """``sfumato report out.npz …`` is ``sfumato report page out.npz …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["page", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_PageByDefault,
    help="Write an HTML report on releases, or a signed pack of evidence on a dataset.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command(epilog="For example: sfumato report out.npz --original X.npz --labels y -o report.html")
def page(
    released: Annotated[list[Path], typer.Argument(metavar="RELEASED…", hidden=True)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.html", help="File to write the report to.")
    ],
    original: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Original data, to measure utility. Such a report is readable by you only.",
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="NAME", help="Array or column of the original, or a file.")
    ] = None,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="Array of the original, if it holds several.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Table schema.")] = None,
    show_originals: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Show N images before and after; for media also what detectors find. Default: 0.",
        ),
    ] = None,
    names_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sources of a folder's files, as protect --names-file wrote them."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Dataset whose budget is shown.")
    ] = None,
    ledger: LedgerUrl = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the report.")] = _TITLE,
    as_json: JSON = False,
) -> None:
    """Write an HTML report on RELEASED, with the evidence NAME.audit.json beside each file, if there is any.

    The default command: 'page' need not be typed. Evidence comes from sfumato audit -o NAME.audit.json.
    """
    of_media = any(file.is_dir() or kind_of(file) in MEDIA for file in released)
    data: dict[str, Any] = {"labels": labels, "array": array, "show_originals": show_originals}
    if output.suffix != ".html":
        raise BadInput(f"`output` {output.name} must name an .html file.", parameter="output")
    if original is None and any(data.values()):
        raise BadInput(
            "`labels`, `array` and `show_originals` are about the original: add `original`.",
            parameter="original",
        )
    if names_file is not None and (original is None or not of_media):
        raise BadInput(
            "`names_file` is for released folders of media beside `original`.", parameter="names_file"
        )
    data["schema"] = schema
    from sfumato.release import command_line, media_entry
    from sfumato.reports import MANIFEST, certificate_of, write_report
    from sfumato.reports import report as write_records_report

    command = command_line(
        "report",
        *released,
        original=original,
        **data,
        names_file=names_file,
        dataset=dataset if ledger is None else None,  # an address of a ledger may hold a password
        title=None if title == _TITLE else title,
        output=output,
    )
    certified = [file for file in released if certificate_of(file / MANIFEST if file.is_dir() else file)]
    reproduce = [*(command_line("verify", file) for file in certified), command]
    words: dict[str, Any] = {"title": title, "reproduce": [*reproduce, f"# Sfumato {sfumato.__version__}"]}
    with terminal.progress(not as_json) as progress:
        if of_media:
            shown = _check_media(released, original, data)
            words |= {"budget": _budget(dataset, ledger), "private": original is not None}
            entries = [media_entry(file, original, shown, progress, names_file) for file in released]
            write_report(entries, output, **words)
        else:
            words |= {"budget": _budget(dataset, ledger), "progress": progress}
            _write_records(write_records_report, released, original, output, data, words)
    terminal.answer(as_json, {"file": str(output)}, f"Written: {terminal.printable(output)}")


@app.command(epilog="For example: sfumato report pack clinic -o pack")
def pack(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", hidden=True)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder to write to; made if missing.")
    ],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Write a signed summary, the record of all spends and the certificates of DATASET."""
    from sfumato.reports import KeyRing, write_pack

    key = KeyRing().signing_or_new()
    with opened_ledger(ledger) as book:
        files = [str(file) for file in write_pack(book, dataset, output, key)]
    terminal.answer(as_json, {"files": files}, "\n".join(files))


def _check_media(released: list[Path], original: Path | None, data: dict[str, Any]) -> int:
    """Refuse options of records, and files that do not exist; return how many images to show."""
    for name in ("labels", "array", "schema"):
        if data[name] is not None:
            raise BadInput(
                f"`{name}` is for records, and {released[0].name} holds pictures or sound.", parameter=name
            )
    shown: int = data["show_originals"] or 0
    if not 0 <= shown <= _MOST_SHOTS:
        raise BadInput(
            f"`show_originals` was {shown}: 0 to {_MOST_SHOTS} are accepted.", parameter="show_originals"
        )
    for file in (*released, *([] if original is None else [original])):
        if not file.exists():
            raise BadInput(f"{file.name} does not exist.")
    return shown


def _write_records(
    write: Callable[..., Any],
    released: list[Path],
    original: Path | None,
    output: Path,
    data: dict[str, Any],
    words: dict[str, Any],
) -> None:
    """Write the report of released records, compared with the ``original`` if it is given."""
    from sfumato.release import Compared, read_evidence

    shown = data.pop("show_originals") or 0
    if original is not None:
        words |= Compared(original, like=released[0], **data).for_report()
    schema = None if data["schema"] is None else Schema.load(data["schema"])
    items = [read_evidence(file, schema) for file in released]
    write(items, output, names=[file.name for file in released], show_originals=shown, **words)


def _budget(dataset: str | None, ledger: str | None) -> Budget | None:
    from sfumato.reports import Budget

    if dataset is None:
        return None
    with opened_ledger(ledger) as book:
        return Budget(book.balance(dataset), tuple(book.history(dataset)))
