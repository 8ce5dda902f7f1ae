"""``sfumato audit``: attack a release, and report what the attacks achieved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sfumato
from sfumato.cli import terminal
from sfumato.cli.options import JSON
from sfumato.errors import BadInput
from sfumato.io import atomic_output

if TYPE_CHECKING:
    from sfumato.audits import Audit

_CONFIDENCE = 0.99


def audit(
    original: Annotated[Path | None, typer.Argument(metavar="ORIGINAL", hidden=True)] = None,
    released: Annotated[Path | None, typer.Argument(metavar="RELEASED", hidden=True)] = None,
    *,
    labels: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Labels to infer: an array or column of ORIGINAL, or a file."),
    ] = None,
    nonmembers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Records of the same kind that were not released.")
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Another release of the same records, to pool; repeatable."),
    ] = None,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="Array of ORIGINAL, if it holds several.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Table schema of the release.")] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="δ", help="δ of the bounds on ε. Default: that of the release, at most 1e-5."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", help="Confidence of all intervals and bounds.")
    ] = _CONFIDENCE,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the attacks.")] = 0,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Report (.html), or evidence for sfumato report (.json); repeatable.",
        ),
    ] = None,
    show_originals: Annotated[
        int, typer.Option(metavar="N", help="Show N images before and after in the report.")
    ] = 0,
    mechanism_only: Annotated[
        bool,
        typer.Option(
            "--mechanism-only",
            help="Run the mechanism of RELEASED on worst-case rows; needs its certificate and no data.",
        ),
    ] = False,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Attack mechanisms known to be broken or sound, and no file."),
    ] = False,
    as_json: JSON = False,
) -> None:
    """Attack RELEASED, a release of ORIGINAL row by row, and report what the attacks achieved.

    Attacks: membership inference, re-identification, reconstruction, attribute inference, exact values,
    shared noise, and lower bounds on ε, on the released rows and of the mechanism on worst-case rows. An
    attack that fails is no proof of privacy. What is computed from originals is for their owner alone: -o
    files are readable by you only. With --mechanism-only give RELEASED alone, a certificate, or a statement
    as JSON; what is found may be published with the release.
    """
    if self_test:
        _self_test(as_json)
        return
    outputs, data = output or [], dict[str, Any](labels=labels, nonmembers=nonmembers, also=also)
    data |= {"array": array, "schema": schema}
    _check_options(original, released, outputs, data, show_originals, mechanism_only)
    from sfumato.release import Compared, audit_files, audit_mechanism_of, command_line
    from sfumato.reports import report as write_report

    images, files = dict[str, Any](), [file for file in (original, released) if file]
    words: dict[str, Any] = {"confidence": confidence, "seed": seed}
    with terminal.progress(not as_json) as report:
        if mechanism_only:
            found = audit_mechanism_of(files[0], report=report, **words)
        else:
            compared = Compared(files[0], like=files[1], labels=labels, array=array, schema=schema)
            if show_originals and compared.image_shape is None:
                shape = compared.records.shape
                raise BadInput(f"the records of {compared.path.name} are no images: their shape is {shape}.")
            images = {"show_originals": show_originals, "progress": report} | compared.for_report()
            members: dict[str, Any] = {"nonmembers": nonmembers, "also": also or [], "delta": delta}
            found = audit_files(compared, files[1], report=report, **members, **words)
        for file in outputs:
            if file.suffix == ".json":
                # What is computed from originals is for their owner alone.
                with atomic_output(file, mode=None if mechanism_only else 0o600) as stream:
                    stream.write(json.dumps(found.to_dict(), ensure_ascii=False, indent=2).encode())
                continue
            command = command_line(
                "audit",
                *files,
                **data,
                mechanism_only=mechanism_only,
                confidence=None if confidence == _CONFIDENCE else confidence,
                seed=seed or None,
                show_originals=show_originals or None,
                output=file,
            )
            lines = [command, f"# Sfumato {sfumato.__version__}"]
            write_report([found], file, names=[files[-1].name], reproduce=lines, **images)
    _print(found, outputs, as_json)


def _check_options(
    original: Path | None,
    released: Path | None,
    outputs: list[Path],
    data: dict[str, Any],
    show_originals: int,
    mechanism_only: bool,
) -> None:
    """Refuse outputs and options that do not go together."""
    for file in outputs:
        if file.suffix not in (".html", ".json"):
            raise BadInput(
                f"`output` {file.name} names neither a report (.html) nor evidence (.json).",
                parameter="output",
            )
    if show_originals and not any(file.suffix == ".html" for file in outputs):
        raise BadInput(
            "`show_originals` is for a report: add `output='report.html'`.", parameter="show_originals"
        )
    if not mechanism_only:
        if original is None or released is None:
            raise BadInput("audit needs ORIGINAL and RELEASED, as in sfumato audit X.npz out.npz.")
        return
    for name, value in (data | {"show_originals": show_originals}).items():
        if value:
            raise BadInput(f"`mechanism_only` reads no data: leave out `{name}`.", parameter=name)
    if released is not None:
        raise BadInput("`mechanism_only` reads no data: leave out ORIGINAL.", parameter="mechanism_only")
    if original is None:
        raise BadInput("audit needs RELEASED, as in sfumato audit --mechanism-only out.npz.")


def _print(found: Audit, outputs: list[Path], as_json: bool) -> None:
    # The attacks have a table of their own; the proven column is compared with bounds on ε.
    bounds = tuple(item for item in found.statement.measured if item.epsilon_lower is not None)
    statement, width = replace(found.statement, measured=bounds), terminal.width()
    lines = [statement.table(width), "", found.table(width)]
    lines += [f"Written: {terminal.printable(file)}" for file in outputs]
    document = found.to_dict() | {"files": [str(file) for file in outputs]}
    terminal.answer(as_json, document, "\n".join(lines))


def _self_test(as_json: bool) -> None:
    from sfumato.audits import self_test

    with terminal.progress(not as_json) as report:
        result = self_test(report=report)
    terminal.answer(as_json, result.to_dict(), result.table(terminal.width()))
    if not result.passed:
        raise typer.Exit(1)
