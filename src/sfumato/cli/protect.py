"""``sfumato protect`` and ``sfumato plan``: their options, and the mechanism that these describe."""

from __future__ import annotations

import gc
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sfumato.cli import terminal
from sfumato.cli.options import (
    BOUND,
    BUDGET,
    FILES,
    PROMISE,
    SOME,
    AsJson,
    LedgerUrl,
    Overwrite,
    Uncharged,
    charged_ledger,
    given_parameters,
    mechanism_help,
    option,
    signature_with,
)
from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.mechanisms import Mechanism
    from sfumato.privacy import Unit
    from sfumato.release import Located, MediaMechanisms, ReleaseRequest


# Options that are said in a request as they stand.
_WORDS = (
    *("array", "alpha", "bounds_from_data", "disjoint", "public_names", "dataset", "request"),
    *("data_version", "engine"),
)
# The exit code of a release from which files had to be left out.
_SKIPPED = 5


def protect(
    source: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    *,
    mechanism: Annotated[str | None, option(PROMISE, "NAME", mechanism_help())] = None,
    schema: Annotated[
        Path | None,
        option(BOUND, "FILE", "For a table: a .toml or .json with the bounds or categories of its columns."),
    ] = None,
    bounds_from_data: Annotated[
        bool,
        option(BOUND, None, "Read the bounds off the data; then nothing is proven.", "--bounds-from-data"),
    ] = False,
    alpha: Annotated[
        float | None,
        option(
            SOME, "α", "After any of them: reverse manifold embedding (twice the columns; hides nothing)."
        ),
    ] = None,
    output: Annotated[
        str,
        option(
            FILES,
            "FILE",
            "Where the release is written, with its certificate beside it; a folder for a folder and, ending "
            "in a slash, for the parts that one large array or table is cut into.",
            "-o",
            "--output",
        ),
    ],
    array: Annotated[
        str | None, option(FILES, "NAME", "Which array of an .npz, if there are several.")
    ] = None,
    dataset: Annotated[
        str | None, option(BUDGET, "NAME", "Whose budget is charged; see sfumato budget --help.")
    ] = None,
    ledger: LedgerUrl = None,
    uncharged: Uncharged = False,
    request: Annotated[
        str | None,
        option(BUDGET, "ID", "May be repeated: charged once, the same bytes every time (keyed noise)."),
    ] = None,
    data_version: Annotated[
        str, option(BUDGET, "NAME", "Public name of this snapshot of the data, for --request.")
    ] = "1",
    disjoint: Annotated[
        bool,
        option(
            FILES,
            None,
            "Declare that no record is in two files of a folder of arrays or tables; otherwise the costs of "
            "its files add up.",
            "--disjoint",
        ),
    ] = False,
    public_names: Annotated[
        bool,
        option(
            FILES,
            None,
            "Declare that the names of files in a folder, and of arrays in an archive, are public; otherwise "
            "released files are numbered.",
            "--public-names",
        ),
    ] = False,
    names_file: Annotated[
        Path | None,
        option(FILES, "FILE", "Of a folder: write which released file is of which source, for you alone."),
    ] = None,
    engine: Annotated[
        str,
        option(FILES, "NAME", "What works on many files or parts: local (here) or ray (a cluster)."),
    ] = "local",
    workers: Annotated[
        int | None, option(FILES, "N", "How many workers; as many as processors unless given.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    **parameters: Any,
) -> None:
    """Release FILE so that nobody in it can be singled out, with a statement of what is promised.

    FILE is an array whose rows are records (.npy, .npz), with --schema a table (.csv, .csv.gz, .parquet), a
    picture, a sound, a video, a folder of pictures, sounds and videos, or one of arrays or tables. It may
    stand in an object store: s3://bucket/folder. Files of a folder that cannot be released are left out, and
    the exit code is then 5.
    """
    options = dict(locals()) | parameters
    from sfumato import release

    # The engine first: a cluster gets ready while all that the mechanisms need is loaded.
    with release.opened_engine(engine, workers, source) as running:
        _check_places(options)
        wanted, made = _made(options)
        with (
            terminal.progress(not as_json) as report,
            charged_ledger(ledger, dataset, uncharged, *_promised(made)) as book,
            _nothing_loaded_is_garbage(),
            _sources_told(names_file, source, output) as tell,
        ):
            done = release.protect(
                source,
                output,
                wanted,
                ledger=book,
                uncharged=uncharged,
                overwrite=overwrite,
                engine=running,
                report=report,
            )
            tell(done)
    terminal.show(done, as_json)
    if isinstance(done, release.ProtectedFolder) and done.skipped:
        raise typer.Exit(_SKIPPED)


@contextmanager
def _sources_told(file: Path | None, source: str, output: str) -> Iterator[Callable[[Any], None]]:
    """A function that writes to ``file`` which released file is of which source.

    The file is made now, with nobody else allowed to read it: what cannot be written is refused before
    anything is paid. It is removed where the release fails.
    """
    from sfumato.release import located

    if file is None:
        yield lambda done: None
        return
    if located(source).name is not None:
        raise BadInput(f"--names-file is for folders, and {source} is one file.")
    target = located(output, folder=True).local
    if target is not None and file.resolve().is_relative_to(target.resolve()):
        raise BadInput(f"--names-file {file} lies in the output {output}, with which it would be given away.")
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"--names-file {file} exists; name a new file.") from None
    except OSError as error:
        raise BadInput(f"--names-file {file} cannot be written: {error.strerror}.") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        try:
            yield lambda done: json.dump({one.name: one.source for one in done.released}, opened, indent=2)
        except BaseException:
            file.unlink(missing_ok=True)
            raise


@contextmanager
def _nothing_loaded_is_garbage() -> Iterator[None]:
    """What is loaded by now stays: nobody has to look for garbage in it again with every thousand files."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def plan(**options: Any) -> None:
    """Say what protect with the same options would promise and cost; nothing is spent or written.

    Of FILE only shapes and types are read.
    """
    from sfumato import release

    dataset = options["dataset"]
    wanted, mechanism = _made(options)
    with charged_ledger(options["ledger"], dataset, options["uncharged"], *_promised(mechanism)) as book:
        made = release.plan(options["source"], wanted, ledger=book, uncharged=options["uncharged"])
    terminal.show(made, options["as_json"])


def _with_parameters(command: Callable[..., None]) -> None:
    """Give ``command`` an option for each parameter of a mechanism."""
    signature = signature_with(inspect.signature(command, eval_str=True))
    _set_signature(command, signature)


def _set_signature(command: Callable[..., None], signature: inspect.Signature) -> None:
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": None}


def _like_protect(command: Callable[..., None]) -> None:
    """Give ``command`` the options of ``protect``, all of them but with no need for an output."""
    signature = inspect.signature(protect)
    output = signature.parameters["output"]
    _, option = get_args(output.annotation)
    free = output.replace(default=None, annotation=Annotated[str | None, option])
    parameters = [free if p.name == "output" else p for p in signature.parameters.values()]
    _set_signature(command, signature.replace(parameters=parameters))


_with_parameters(protect)
_like_protect(plan)


def _promised(made: Mechanism | MediaMechanisms) -> tuple[Unit | str, str | None]:
    """The unit and the neighbours that a release by ``made`` is about."""
    from sfumato.mechanisms import Mechanism

    part: Any = made if isinstance(made, Mechanism) else made.picture or made.sound
    asked = None if isinstance(made, Mechanism) else made.unit
    unit: Unit | str = getattr(part, "unit", "record") if asked is None else asked
    return unit, getattr(part, "neighbours", None)


def _check_places(options: Mapping[str, Any]) -> None:
    """Refuse what cannot be written, before anything is made."""
    from sfumato import release
    from sfumato.io import same_kind
    from sfumato.release import located

    source, output = located(options["source"]), options["output"]
    if source.name is None or output.endswith("/"):
        return
    target = located(output, folder=False)
    if target.local is not None and target.local.is_dir() and not target.local.suffix:
        named = target.local / source.word
        raise BadInput(f"-o {output} is a folder: name the file in it, as in -o {named}.")
    same_kind(source.word, target.word)
    if target.local is not None:
        release.check_output(target.local, _inputs(options))


def _inputs(options: Mapping[str, Any]) -> list[Path]:
    """The local files that are read."""
    from sfumato.release import located

    source = located(options["source"]).local
    named = [Path(options[name]) for name in ("schema", "epsilon_file") if options[name] is not None]
    return [*([] if source is None or source.is_dir() else [source]), *named]


def _request(options: Mapping[str, Any], source: Located) -> ReleaseRequest:
    """Return the request that the options of protect describe; the files that they name are read."""
    from sfumato.io import MEDIA, Schema, file_to_read
    from sfumato.release import ReleaseRequest, kind_at, refuse_schema

    kind = kind_at(source)
    given = given_parameters(options)
    if options["schema"] is not None:
        refuse_schema(kind, source.word)  # before the file is read, which need not even exist
    if kind in MEDIA or kind == "media":
        if given.get("map", "private") not in ("private", "unaccounted"):
            from sfumato.release import DeclaredMaps

            given["map"] = DeclaredMaps.load(given["map"])
    else:
        for file in _inputs(options):
            file_to_read(file)
        if "epsilon_file" in given:
            given["epsilon_file"] = _budgets(Path(given["epsilon_file"]))
    return ReleaseRequest(
        options["mechanism"],
        given,
        None if options["schema"] is None else Schema.load(options["schema"]),
        source=options["source"],
        **{name: options[name] for name in _WORDS},
    )


def _made(options: Mapping[str, Any]) -> tuple[ReleaseRequest, Mechanism | MediaMechanisms]:
    """Return the request that the options describe, and its mechanism."""
    from sfumato.release import kind_at, located

    source = located(options["source"])
    with source.store:
        request = _request(options, source)
        return request, request.make_mechanism(kind_at(source), source.word)


def _budgets(file: Path) -> Any:
    """Return the array in --epsilon-file."""
    from sfumato.io import open_array

    source = open_array(file)
    if len(source.shape) != 1:
        raise BadInput(f"{file.name} must hold one ε a record, an array of shape (n,), not {source.shape}.")
    return source.read()
