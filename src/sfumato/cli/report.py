"""``sfumato report``: releases as a page to read, and a dataset's evidence as a pack to hand over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import sfumato
from sfumato.cli import terminal
from sfumato.cli.options import JSON, LedgerUrl, opened_ledger
from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.audits import Audit
    from sfumato.io import Schema
    from sfumato.mechanisms import Release
    from sfumato.release import Compared
    from sfumato.reports import Budget


# How many pictures of media are shown at most.
_MOST_SHOTS = 24
_TITLE = "Privacy report"


class _PageByDefault(TyperGroup):
    """``sfumato report out.npz …`` is ``sfumato report page out.npz …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["page", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="report",
    cls=_PageByDefault,
    help="Releases as one HTML file, or the evidence on a dataset as a signed pack.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(epilog="For example: sfumato report out.npz --original X.npz --labels y -o report.html")
def page(
    released: Annotated[list[Path], typer.Argument(metavar="RELEASED…", help="Released files or folders.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html", help="Where it is written.")],
    original: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What they are releases of, to measure utility. Such a page is readable by you only.",
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="NAME", help="An array or column of the original, or a file.")
    ] = None,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which array of the original, if there are several.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="For tables.")] = None,
    show_originals: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Show N pictures before and after; none unless given. Of media with what detectors see.",
        ),
    ] = None,
    names_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a folder whose files were numbered: what protect wrote there."),
    ] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Whose budget is shown.")] = None,
    ledger: LedgerUrl = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the page.")] = _TITLE,
    as_json: JSON = False,
) -> None:
    """Write one HTML file about RELEASED, with the evidence NAME.audit.json beside each, where there is any.

    The default command: 'page' need not be typed. Evidence comes from sfumato audit -o NAME.audit.json.
    """
    if output.suffix != ".html":
        raise BadInput(f"-o {output.name} must name an .html file.")
    if original is None and (labels or array or show_originals):
        raise BadInput("--labels, --array and --show-originals are about the original: add --original FILE.")
    if names_file is not None and (original is None or not any(_of_media(file) for file in released)):
        raise BadInput("--names-file is for released folders of media beside --original.")
    from sfumato.release import command_line

    command = command_line(
        "report",
        *released,
        original=original,
        labels=labels,
        array=array,
        schema=schema,
        show_originals=show_originals,
        names_file=names_file,
        dataset=dataset if ledger is None else None,  # an address of a ledger may hold a password
        title=None if title == _TITLE else title,
        output=output,
    )
    if any(_of_media(file) for file in released):
        refused = {"--labels": labels, "--array": array, "--schema": schema}
        for flag, given in refused.items():
            if given is not None:
                raise BadInput(f"{flag} is for records, and {released[0].name} holds pictures or sound.")
        if show_originals is not None and not 0 <= show_originals <= _MOST_SHOTS:
            raise BadInput(f"--show-originals was {show_originals}: 0 to {_MOST_SHOTS} are accepted.")
        for file in (*released, *([] if original is None else [original])):
            if not file.exists():
                raise BadInput(f"{file.name} does not exist.")
        with terminal.progress(not as_json) as progress:
            _media_page(
                released,
                original,
                show_originals or 0,
                output,
                title,
                _budget(dataset, ledger),
                progress or (lambda stage, share: None),
                names_file,
                _reproduce(command, released),
            )
        print(json.dumps({"file": str(output)}) if as_json else f"Written: {terminal.printable(output)}")
        return
    from sfumato.io import Schema
    from sfumato.release import Compared
    from sfumato.reports import report as write

    with terminal.progress(not as_json) as progress:
        compared = None
        if original is not None:
            compared = Compared(original, like=released[0], labels=labels, array=array, schema=schema)
        declared = None if schema is None else Schema.load(schema)
        items = [_evidence(file, compared, declared) for file in released]
        write(
            items,
            output,
            original=None if compared is None else compared.records.values,
            labels=None if compared is None else compared.labels,
            names=[file.name for file in released],
            image_shape=None if compared is None else compared.image_shape,
            fields=None if compared is None else compared.records.fields,
            show_originals=show_originals or 0,
            title=title,
            budget=_budget(dataset, ledger),
            reproduce=_reproduce(command, released),
            progress=progress,
        )
    print(json.dumps({"file": str(output)}) if as_json else f"Written: {terminal.printable(output)}")


@app.command(epilog="For example: sfumato report pack clinic -o pack")
def pack(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name of the dataset.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where; made if missing.")],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Write a summary, the record of all spends and the certificates of DATASET, signed."""
    from sfumato.reports import KeyRing, write_pack

    key = KeyRing().signing_or_new()
    with opened_ledger(ledger) as book:
        files = [str(file) for file in write_pack(book, dataset, output, key)]
    print(json.dumps({"files": files}) if as_json else terminal.in_line("\n".join(files)))


def _of_media(file: Path) -> bool:
    """Whether what was released is a folder, or by its name a picture, a sound or a video."""
    from sfumato.io import MEDIA, kind_of

    return file.is_dir() or kind_of(file) in MEDIA


def _media_page(
    released: list[Path],
    original: Path | None,
    shown: int,
    output: Path,
    title: str,
    budget: Budget | None,
    progress: Callable[[str, float | None], None],
    names: Path | None,
    reproduce: list[str],
) -> None:
    """The page of pictures, sounds and videos: what their certificates state, and a contact sheet."""
    from sfumato.release import certified_statement, contact_sheet
    from sfumato.reports import MANIFEST, Entry, write_report

    entries = [
        Entry(
            file.name,
            certified_statement(file / MANIFEST if file.is_dir() else file),
            sheet=None
            if original is None or not shown
            else contact_sheet(original, file, shown, progress, names),
        )
        for file in released
    ]
    write_report(
        entries, output, title=title, budget=budget, reproduce=reproduce, private=original is not None
    )


def _reproduce(command: str, released: list[Path]) -> list[str]:
    """Return the commands that check the certified releases and make the page again."""
    from sfumato.release import command_line
    from sfumato.reports import MANIFEST, certificate_of

    certified = [
        file for file in released if certificate_of(file / MANIFEST if file.is_dir() else file) is not None
    ]
    return [
        *(command_line("verify", file) for file in certified),
        command,
        f"# Sfumato {sfumato.__version__}",
    ]


def _evidence(file: Path, compared: Compared | None, schema: Schema | None) -> Release | Audit:
    """The release in ``file``, or its audit where the evidence stands beside it."""
    from sfumato.audits import Audit, Finding
    from sfumato.release import read_release, released_schema

    if compared is not None:
        release = compared.release(file)
    else:
        release = read_release(file, None if schema is None else released_schema(schema))
    beside = file.with_name(file.name + ".audit.json")
    if not beside.exists():
        return release
    try:
        document = json.loads(beside.read_text("utf-8"))
        findings = [Finding.from_dict(item) for item in document["findings"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(f"{beside.name} is no evidence that sfumato audit wrote; remove it.") from None
    return Audit.of(release, findings)


def _budget(dataset: str | None, ledger: str | None) -> Budget | None:
    from sfumato.reports import Budget

    if dataset is None:
        return None
    with opened_ledger(ledger) as book:
        return Budget(book.balance(dataset), tuple(book.history(dataset)))
