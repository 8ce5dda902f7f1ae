"""``sfumato audit``: attack a release, and say what the attacks achieved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sfumato
from sfumato.cli import terminal
from sfumato.cli.options import JSON
from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.audits import Audit
    from sfumato.release import Compared


_CONFIDENCE = 0.99


def audit(
    original: Annotated[Path | None, typer.Argument(metavar="ORIGINAL", hidden=True)] = None,
    released: Annotated[Path | None, typer.Argument(metavar="RELEASED", hidden=True)] = None,
    *,
    labels: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What to infer: an array or a column of ORIGINAL, or a file."),
    ] = None,
    nonmembers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Records of the same kind that were not released."),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Another release of the same records, to be pooled; repeatable."),
    ] = None,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which array of ORIGINAL, if there are several.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For tables: the schema they were released under.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="δ", help="Of the bounds on ε; else that of the release, at most 1e-5."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", help="Of all intervals and bounds.")
    ] = _CONFIDENCE,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the attackers' random choices.")] = 0,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A report (.html), or the evidence for sfumato report (.json); repeatable.",
        ),
    ] = None,
    show_originals: Annotated[
        int, typer.Option(metavar="N", help="Show N pictures before and after in the report.")
    ] = 0,
    mechanism_only: Annotated[
        bool,
        typer.Option(
            "--mechanism-only",
            help="Draw the mechanism of RELEASED anew on worst-case rows; needs its certificate and no data.",
        ),
    ] = False,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Attack mechanisms known to be broken or sound, and no file."),
    ] = False,
    as_json: JSON = False,
) -> None:
    """Attack RELEASED, a release of ORIGINAL row by row, and say what was achieved.

    Membership, re-identification, reconstruction, attribute inference, exact values, shared noise, and lower
    bounds on ε: on the rows that were released, and of the mechanism on worst-case rows. An attack that fails
    is no proof of privacy. What is computed from originals is for their owner alone: -o files are readable by
    you only. With --mechanism-only RELEASED alone is given (or a certificate, or a statement as JSON), and
    what is found may travel with the release.
    """
    if self_test:
        _self_test(as_json)
        return
    outputs = _outputs(output or [], show_originals)
    if mechanism_only:
        given: dict[str, object] = {
            "--labels": labels,
            "--nonmembers": nonmembers,
            "--also": also,
            "--array": array,
        }
        given |= {"--schema": schema, "--show-originals": show_originals, "ORIGINAL": released}
        for name, value in given.items():
            if value:
                raise BadInput(f"--mechanism-only looks at no data: leave out {name}.")
        if original is None:
            raise BadInput("audit needs RELEASED, as in sfumato audit --mechanism-only out.npz.")
        _mechanism_only(original, confidence, seed, outputs, as_json)
        return
    if original is None or released is None:
        raise BadInput("audit needs ORIGINAL and RELEASED, as in sfumato audit X.npz out.npz.")
    from sfumato.release import Compared, audit_files, command_line

    with terminal.progress(not as_json) as report:
        compared = Compared(original, like=released, labels=labels, array=array, schema=schema)
        found = audit_files(
            compared,
            released,
            nonmembers=nonmembers,
            also=also or [],
            delta=delta,
            confidence=confidence,
            seed=seed,
            report=report,
        )
        for file in outputs:
            if file.suffix == ".json":
                _write_evidence(file, found)
            else:
                command = command_line(
                    *("audit", original, released),
                    labels=labels,
                    nonmembers=nonmembers,
                    also=also,
                    array=array,
                    schema=schema,
                    confidence=None if confidence == _CONFIDENCE else confidence,
                    seed=seed or None,
                    show_originals=show_originals or None,
                    output=file,
                )
                _write_page(file, found, compared, original, released, show_originals, command, report)
    _print(found, outputs, as_json)


def _mechanism_only(released: Path, confidence: float, seed: int, outputs: list[Path], as_json: bool) -> None:
    """Audit the mechanism alone, and write what may travel with the release."""
    from sfumato.release import audit_mechanism_of, command_line
    from sfumato.reports import report as write

    with terminal.progress(not as_json) as report:
        found = audit_mechanism_of(released, confidence=confidence, seed=seed, report=report)
    for file in outputs:
        if file.suffix == ".json":
            _write_evidence(file, found)
            continue
        command = command_line(
            *("audit", released),
            mechanism_only=True,
            confidence=None if confidence == _CONFIDENCE else confidence,
            seed=seed or None,
            output=file,
        )
        write([found], file, names=[released.name], reproduce=[command, f"# Sfumato {sfumato.__version__}"])
    _print(found, outputs, as_json)


def _print(found: Audit, outputs: list[Path], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.to_dict() | {"files": [str(file) for file in outputs]}))
        return
    # The attacks have a table of their own; what bounds ε is what the proven column is held against.
    bounds = tuple(item for item in found.statement.measured if item.epsilon_lower is not None)
    lines = [
        replace(found.statement, measured=bounds).table(terminal.width()),
        "",
        found.table(terminal.width()),
    ]
    lines += [f"Written: {terminal.printable(file)}" for file in outputs]
    print(terminal.in_line("\n".join(lines)))


def _self_test(as_json: bool) -> None:
    from sfumato.audits import self_test

    with terminal.progress(not as_json) as report:
        result = self_test(report=report)
    print(json.dumps(result.to_dict()) if as_json else terminal.in_line(result.table(terminal.width())))
    if not result.passed:
        raise typer.Exit(1)


def _outputs(files: list[Path], show_originals: int) -> list[Path]:
    for file in files:
        if file.suffix not in (".html", ".json"):
            raise BadInput(f"-o {file.name} names neither a report (.html) nor evidence (.json).")
    if show_originals and not any(file.suffix == ".html" for file in files):
        raise BadInput("--show-originals is for a report: add -o report.html.")
    return files


def _write_evidence(file: Path, found: Audit) -> None:
    from sfumato.io import atomic_output

    # What is computed from originals is for their owner alone.
    with atomic_output(file, mode=None if found.mechanism_only else 0o600) as stream:
        stream.write(json.dumps(found.to_dict(), ensure_ascii=False, indent=2).encode())


def _write_page(
    file: Path,
    found: Audit,
    compared: Compared,
    original: Path,
    released: Path,
    show_originals: int,
    command: str,
    report: object,
) -> None:
    from sfumato.reports import report as write

    shape = compared.image_shape
    if show_originals and shape is None:
        raise BadInput(
            f"the records of {original.name} are no pictures: their shape is {compared.records.shape}."
        )
    write(
        [found],
        file,
        original=compared.records.values,
        labels=compared.labels,
        names=[released.name],
        image_shape=shape,
        show_originals=show_originals,
        fields=compared.records.fields,
        reproduce=[command, f"# Sfumato {sfumato.__version__}"],
        progress=report,  # type: ignore[arg-type]
    )
