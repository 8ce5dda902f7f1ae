"""``sfumato protect`` and ``sfumato plan``: their options, and the request that these describe.

Options that are parameters of mechanisms come from the index of mechanisms. Each is a number, a text, or
either repeated; whether a value fits is for the mechanism to say.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from sfumato.cli import terminal
from sfumato.cli.options import (
    BUDGET,
    FILES,
    PRIVACY,
    AsJson,
    BudgetLedgerUrl,
    charged_ledger,
    keyword,
    option,
    set_signature,
)
from sfumato.errors import BadInput
from sfumato.io import MEDIA, Schema, open_array
from sfumato.mechanisms import (
    Mechanism,
    Option,
    describe_defaults,
    describe_parameter,
    mechanism_places,
    options_at,
    typed_value,
)
from sfumato.release import (
    ReleaseRequest,
    check_output,
    located,
    opened_engine,
    refuse_schema,
)
from sfumato.release import plan as plan_release
from sfumato.release import protect as release_file

_BOUNDS, _MECHANISMS, _MEDIA = "Bounds", "Parameters of some mechanisms", "Images, audio and video"
# What a guarantee is made of, in the order of the help.
_GUARANTEE = ("epsilon", "epsilon_file", "delta", "neighbours", "unit")
_TYPES = {"number": float, "whole number": int}
_METAVARS = {"number": "NUMBER", "whole number": "N", "word": "NAME"}
# Parameters of mechanisms, by name.
_PARAMETERS = options_at("command line")
# The exit code of a release from which files had to be left out.
_SKIPPED = 5


def _describe_mechanisms() -> str:
    """Return the help of ``--mechanism``: the names of all mechanisms, by the kinds of data they serve."""
    by_kinds: dict[tuple[str, ...], list[str]] = {}
    for name, place in mechanism_places().items():
        by_kinds.setdefault(place.kinds, []).append(name)
    served = "; ".join(
        f"for {' and '.join(f'{kind}s' for kind in kinds)}: {', '.join(names)}"
        for kinds, names in sorted(by_kinds.items())
    )
    return f"Default: {describe_defaults()}. {served[:1].upper()}{served[1:]}."


def protect(
    source: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    *,
    mechanism: Annotated[str | None, option(PRIVACY, "NAME", _describe_mechanisms())] = None,
    schema: Annotated[
        Path | None,
        option(_BOUNDS, "FILE", "Table schema (.toml or .json): bounds or categories of the columns."),
    ] = None,
    bounds_from_data: Annotated[
        bool,
        option(_BOUNDS, None, "Read the bounds off the data; then nothing is proven.", "--bounds-from-data"),
    ] = False,
    alpha: Annotated[
        float | None,
        option(
            _MECHANISMS,
            "α",
            "Any: Reverse manifold embedding of the release (twice the columns; adds no privacy).",
        ),
    ] = None,
    output: Annotated[
        str,
        option(
            FILES,
            "FILE",
            "File to write the release to, with its certificate beside it. A folder if FILE is one; a name "
            "that ends in a slash cuts one large array or table into parts there.",
            "-o",
            "--output",
        ),
    ],
    array: Annotated[
        str | None, option(FILES, "NAME", "Array of an .npz to release, if it holds several.")
    ] = None,
    dataset: Annotated[
        str | None, option(BUDGET, "NAME", "Dataset whose budget is charged; see sfumato budget.")
    ] = None,
    ledger: BudgetLedgerUrl = None,
    uncharged: Annotated[
        bool, option(BUDGET, None, "Charge nothing; the certificate names --dataset and says so.")
    ] = False,
    request: Annotated[
        str | None,
        option(BUDGET, "ID", "Repeatable request: charged once, the same bytes each time (keyed noise)."),
    ] = None,
    data_version: Annotated[
        str, option(BUDGET, "NAME", "Public name of this snapshot of the data, for --request.")
    ] = "1",
    disjoint: Annotated[
        bool,
        option(
            FILES,
            None,
            "Declare that no record is in two files of a folder of arrays or tables. By default the costs of "
            "its files add up.",
            "--disjoint",
        ),
    ] = False,
    public_names: Annotated[
        bool,
        option(
            FILES,
            None,
            "Declare the names of files in a folder, and of arrays in an archive, public and keep them. By "
            "default released files are numbered.",
            "--public-names",
        ),
    ] = False,
    names_file: Annotated[
        Path | None,
        option(FILES, "FILE", "Write the source of each released file of a folder here, for you alone."),
    ] = None,
    engine: Annotated[
        str, option(FILES, "NAME", "Engine for many files or parts: local, or ray (a cluster).")
    ] = "local",
    workers: Annotated[
        int | None, option(FILES, "N", "Number of workers. Default: one for each processor.")
    ] = None,
    overwrite: Annotated[
        bool, option(FILES, None, "Replace an existing file; a folder has to be removed by hand.")
    ] = False,
    as_json: AsJson = False,
    **parameters: Any,
) -> None:
    """Release FILE so that nobody in it can be singled out, with a statement of what is guaranteed.

    FILE is an array whose rows are records (.npy, .npz), a table with --schema (.csv, .csv.gz, .parquet), an
    image, audio or video file, or a folder of such files. It may be in an object store: s3://bucket/folder.
    Files of a folder that cannot be released are left out, and the exit code is then 5.
    """
    options = dict(locals()) | parameters
    # An engine for many files comes first: its workers start while this process loads what mechanisms need.
    one_file = engine == "local" and workers is None and not os.path.isdir(source)
    with nullcontext() if one_file else opened_engine(engine, workers, source) as running:
        files = [Path(options[name]) for name in ("schema", "epsilon_file") if options[name] is not None]
        if files and located(source).name is not None and not output.endswith("/"):
            target = located(output, folder=False).local
            if target is not None and not target.is_dir():
                check_output(target, files)
        with (
            terminal.progress(not as_json) as report,
            _opened(options) as (wanted, book),
            _frozen_heap(),
            _names_written(names_file, source, output) as write_names,
        ):
            done = release_file(
                source,
                output,
                wanted,
                ledger=book,
                uncharged=uncharged,
                overwrite=overwrite,
                engine=running,
                report=report,
            )
            write_names(done)
    terminal.show(done, as_json)
    if done.skipped:
        raise typer.Exit(_SKIPPED)


def plan(**options: Any) -> None:
    """Show what protect with the same options would guarantee and cost; nothing is spent or written.

    Of FILE only shapes and types are read.
    """
    with _opened(options) as (wanted, book):
        made = plan_release(options["source"], wanted, ledger=book, uncharged=options["uncharged"])
    terminal.show(made, options["as_json"])


@contextmanager
def _opened(options: Mapping[str, Any]) -> Iterator[tuple[ReleaseRequest, Any]]:
    """Yield the request that ``options`` describe, and the ledger that it is charged in, if any."""
    source = located(options["source"])
    with source.store:
        kind = source.holds
        if options["schema"] is not None:
            refuse_schema(kind, source.word)  # before the file is read, which need not even exist
        request = _request(options, of_media=kind in MEDIA or kind == "media")
        counted = [] if request.dataset is None else _counted(request.make_mechanism(kind, source.word))
    if request.dataset is None and options["ledger"] is None:
        yield request, None
        return
    with charged_ledger(options["ledger"], request.dataset, options["uncharged"], *counted) as ledger:
        yield request, ledger


def _counted(made: Any) -> Sequence[Any]:
    """Return the unit and the neighbours of a budget that pays for a release by ``made``."""
    part = made if isinstance(made, Mechanism) else made.picture or made.sound
    wanted = None if isinstance(made, Mechanism) else made.unit
    return getattr(part, "unit", "record") if wanted is None else wanted, getattr(part, "neighbours", None)


def _request(options: Mapping[str, Any], *, of_media: bool) -> ReleaseRequest:
    """Return the request that the options of protect describe; the files that they name are read."""
    given = {
        name: _value(found, options[name])
        for name, found in _PARAMETERS.items()
        if options.get(name) not in (None, [])
    }
    if of_media and given.get("map", "private") not in ("private", "unaccounted"):
        from sfumato.release import DeclaredMaps

        given["map"] = DeclaredMaps.load(given["map"])
    if not of_media and "epsilon_file" in given:
        file, given["epsilon_file"] = given["epsilon_file"], _array(given["epsilon_file"])
        if given["epsilon_file"].ndim != 1:
            shape = given["epsilon_file"].shape
            raise BadInput(
                f"{Path(file).name} must hold one ε for each record, an array of shape (n,), not {shape}.",
                parameter="epsilon_file",
            )
    named = {one.name: options[one.name] for one in fields(ReleaseRequest) if one.name in options}
    schema = None if options["schema"] is None else Schema.load(options["schema"])
    return ReleaseRequest(**named | {"parameters": given, "schema": schema})


@contextmanager
def _names_written(file: Path | None, source: str, output: str) -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes to ``file`` which released file is of which source.

    The file is made now, with nobody else allowed to read it: what cannot be written is refused before
    anything is paid. It is removed if the release fails.
    """
    if file is None:
        yield lambda done: None
        return
    problem = ""
    if located(source).name is not None:
        problem = f"is for folders, and {source} is one file"
    target = located(output, folder=True).local
    if target is not None and file.resolve().is_relative_to(target.resolve()):
        problem = f"{file} is inside the output {output} and would be given away with it"
    try:
        descriptor = -1 if problem else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        problem = f"{file} exists; name a new file"
    except OSError as error:
        problem = f"{file} cannot be written: {error.strerror}"
    if problem:
        raise BadInput(f"`names_file` {problem}.", parameter="names_file")
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        try:
            yield lambda done: json.dump({one.name: one.source for one in done.released}, opened, indent=2)
        except BaseException:
            file.unlink(missing_ok=True)
            raise


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Exclude what is loaded by now from garbage collection, which runs again with every thousand files."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _derived_options() -> list[inspect.Parameter]:
    """Return an option for each parameter of a mechanism, those of the guarantee first."""
    found = [
        keyword(
            name,
            Annotated[_type(found), option(_panel(name, found), _metavar(found), describe_parameter(found))],
            None,
        )
        for name, found in _PARAMETERS.items()
    ]
    return sorted(found, key=lambda one: (*_GUARANTEE, one.name).index(one.name))


def _type(found: Sequence[Option]) -> Any:
    """Return the type of an option: a number if every mechanism means one, so that a slip is refused."""
    types = {kind for one in found for kind in one.types}
    text = any(one.array or not one.types for one in found) or len(types) > 1
    kind: Any = str if text else _TYPES.get(next(iter(types)), str)
    return list[kind] | None if any(one.several for one in found) else kind | None


def _panel(name: str, found: Sequence[Option]) -> str:
    if name in _GUARANTEE:
        return PRIVACY
    if any(one.bound for one in found):
        return _BOUNDS
    media, places = {"picture", "sound"}, mechanism_places()
    return _MEDIA if all(media & {*places[of].kinds} for one in found for of in one.of) else _MECHANISMS


def _metavar(found: Sequence[Option]) -> str:
    if any(one.array for one in found):
        return "FILE.npy"
    first = found[0]
    symbol = first.symbol or _METAVARS.get(next(iter(first.types), "word"), "NAME")
    return f"{symbol} [{symbol}]" if any(one.several for one in found) and " " not in symbol else symbol


def _value(found: Sequence[Option], typed: Any) -> Any:
    values = typed if isinstance(typed, list) else [typed]
    if not all(isinstance(value, str) for value in values):
        return typed
    if any(one.array for one in found) and len(values) == 1 and values[0].endswith(".npy"):
        return _array(values[0])
    return typed_value(found, values)


def _array(file: str) -> Any:
    """Return the array in ``file``."""
    return open_array(file).read()


def _set_signatures() -> None:
    """Give both commands an option for each parameter of a mechanism; a plan needs no output."""
    own = inspect.signature(protect, eval_str=True).parameters.values()
    options = [one for one in own if one.kind is not one.VAR_KEYWORD] + _derived_options()
    set_signature(protect, options)
    output = next(one for one in options if one.name == "output")
    free = output.replace(default=None, annotation=Annotated[str | None, get_args(output.annotation)[1]])
    set_signature(plan, [free if one is output else one for one in options])


_set_signatures()
