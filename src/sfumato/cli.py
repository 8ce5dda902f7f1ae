"""The command line: ``sfumato protect`` and ``sfumato paper``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import sfumato
from sfumato.errors import BadInput, SfumatoError

__all__ = ["app", "main"]

# Options that take one or more numbers, as in --epsilon 1 8.
_SEVERAL = ("--epsilon", "--bounds")

app = typer.Typer(
    name="sfumato",
    help="Release data so that nobody in it can be singled out, and say exactly how far that promise goes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(sfumato.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def protect(
    source: Annotated[
        Path, typer.Argument(help="A .npy, .npz, .csv, .csv.gz or .parquet file.", metavar="FILE")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the release is written.")],
    mechanism: Annotated[str, typer.Option(help="Such as gaussian, laplace, trust-adaptive.")] = "gaussian",
    epsilon: Annotated[
        list[float] | None, typer.Option(help="ε, or for trust-adaptive a range: --epsilon 1 8.")
    ] = None,
    epsilon_file: Annotated[
        Path | None, typer.Option(help="A .npy with one public ε a record, for personalised.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ, such as 1e-6.")] = None,
    clip: Annotated[float | None, typer.Option(help="Radius that every record is clipped to.")] = None,
    bounds: Annotated[
        list[float] | None, typer.Option(help="Lowest and highest value: --bounds 0 255.")
    ] = None,
    bounds_from_data: Annotated[
        bool, typer.Option("--bounds-from-data", help="Read the bounds off the data; then nothing is proven.")
    ] = False,
    trust: Annotated[float | None, typer.Option(help="Inverse trust τ: 0 most trusted, 1 least.")] = None,
    calibration: Annotated[str | None, typer.Option(help="analytic, paper or paper-tables.")] = None,
    neighbours: Annotated[str | None, typer.Option(help="replace or zero-out.")] = None,
    scale: Annotated[float | None, typer.Option(help="Standard deviation for additive-noise.")] = None,
    categories: Annotated[
        int | None, typer.Option(help="Categories a column, for randomised-response.")
    ] = None,
    components: Annotated[int | None, typer.Option(help="Dimensions kept by random-projection.")] = None,
    bits: Annotated[int | None, typer.Option(help="Bits a value, for binary-encoding.")] = None,
    flip: Annotated[
        float | None, typer.Option(help="Probability of a bit flip, for binary-encoding.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Apply reverse manifold embedding with this α afterwards.")
    ] = None,
    array: Annotated[str | None, typer.Option(help="Which array of an .npz to release.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A .toml or .json file that declares a table's columns.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the dataset, written into the statement.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Release a file so that nobody in it can be singled out, with a statement of what is promised."""
    from sfumato.pipeline import make_mechanism
    from sfumato.pipeline import protect as run
    from sfumato.transforms import ReverseManifold

    made = make_mechanism(
        mechanism,
        {
            "epsilon": _budgets(epsilon, epsilon_file),
            "delta": delta,
            "clip": clip,
            "bounds": _pair(bounds),
            "trust": trust,
            "calibration": calibration,
            "neighbours": neighbours,
            "scale": scale,
            "categories": categories,
            "components": components,
            "bits": bits,
            "flip": flip,
        },
    )
    with _progress(as_json) as report:
        done = run(
            source,
            output,
            made,
            array=array,
            schema=schema,
            then=None if alpha is None else ReverseManifold(alpha),
            dataset=dataset,
            bounds_from_data=bounds_from_data,
            report=report,
        )
    if as_json:
        print(json.dumps(done.to_dict(), ensure_ascii=False))
        return
    print(done.statement)
    print(f"\n{done.rows:,} records of {done.columns:,} columns: {done.output}")
    print(f"the statement, for machines: {done.statement_file}")
    if done.left_out:
        print(f"left out: {', '.join(done.left_out)}")


@app.command()
def paper(
    name: Annotated[str, typer.Argument(help="Such as multimedia-dp.")],
    figure: Annotated[int | None, typer.Option(help="Which figure to draw.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder that the results are written to.")
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Regenerate a paper's figures beside ours."""
    from sfumato.papers import regenerate

    with _progress(as_json) as report:
        result = regenerate(name, figure, output, report)
    print(json.dumps(result.to_dict(), ensure_ascii=False) if as_json else result)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; refusals are one sentence on standard error and an exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(_spread(given), standalone_mode=True)
    except SfumatoError as error:
        _refuse(str(error), error.exit_code, "--json" in given)
    except OSError as error:
        name = error.filename or "a file"
        _refuse(f"{name} could not be used: {error.strerror or error}.", 2, "--json" in given)
    except MemoryError:
        _refuse("there is not enough memory for this; give smaller records.", 2, "--json" in given)


def _refuse(sentence: str, code: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": sentence, "exit_code": code}, ensure_ascii=False))
    else:
        console = Console(stderr=True, highlight=False)
        console.print("sfumato:", style="bold red", end=" ")
        console.print(sentence, soft_wrap=True, markup=False)
    sys.exit(code)


def _spread(arguments: list[str]) -> list[str]:
    """``--epsilon 1 8`` as ``--epsilon=1 --epsilon=8``, which the parser understands."""
    spread: list[str] = []
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        if word not in _SEVERAL or position == len(arguments):
            spread.append(word)
            continue
        spread.append(f"{word}={arguments[position]}")
        position += 1
        while position < len(arguments) and _is_number(arguments[position]):
            spread.append(f"{word}={arguments[position]}")
            position += 1
    return spread


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _budgets(given: list[float] | None, file: Path | None) -> list[Any] | None:
    """The values of --epsilon, or the one array in --epsilon-file as the one value."""
    if file is None:
        return given
    if given is not None:
        raise BadInput("give either --epsilon or --epsilon-file, not both.")
    from sfumato.io import open_array

    source = open_array(file)
    if len(source.shape) != 1:
        raise BadInput(f"{file.name} must hold one ε a record, an array of shape (n,), not {source.shape}.")
    return [next(source.blocks(8 * source.rows))]


def _pair(bounds: list[float] | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    if len(bounds) != 2:
        raise BadInput("--bounds takes two numbers, as in --bounds 0 255.")
    return bounds[0], bounds[1]


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """A bar on standard error that appears once there is something to wait for; None when quiet."""
    if quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, share: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=1.0)
            bar.update(tasks[stage], completed=share)

        yield report
