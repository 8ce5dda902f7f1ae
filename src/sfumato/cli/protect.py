"""``sfumato protect`` and ``sfumato plan``: their options, and the mechanism that these describe."""

from __future__ import annotations

import gc
import inspect
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sfumato.cli import budget, media_options, terminal
from sfumato.cli import output as cli_shown
from sfumato.cli.options import BUDGET, FILES, PROMISE, AsJson, LedgerUrl, Overwrite, Uncharged, option
from sfumato.errors import BadInput
from sfumato.privacy.defaults import DELTA

if TYPE_CHECKING:
    from sfumato.mechanisms import Mechanism
    from sfumato.mechanisms.transforms import Transform
    from sfumato.privacy import Unit
    from sfumato.release.media_mechanisms import MediaMechanisms

__all__ = ["plan", "protect"]

# Options of protect that are parameters of a mechanism as they stand.
_PARAMETERS = (
    *("epsilon", "delta", "neighbours", "clip", "distrust", "calibration", "categories"),
    *("bits", "flip", "components", "scale"),
    *("unit", "noise", "retain", "levels", "outside", "coordinates"),
)
# The exit code of a release from which files had to be left out.
_SKIPPED = 5
_BOUND, _SOME = "The bound on the records", "For some mechanisms"
_MEDIA = "For pictures, sounds and videos"


def protect(
    source: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    *,
    mechanism: Annotated[
        str | None,
        option(
            PROMISE,
            "NAME",
            "Unless given: gaussian; plane-means for pictures and videos; band-noise for sounds. Or "
            "additive-noise, binary-encoding, duchi, gaussian, grid-tensor-ldp, hybrid, laplace, "
            "personalised, piecewise, priv-unit, priv-unit-g, random-projection, randomised-response, "
            "reconstruction-resistant, tensor-ldp, trust-adaptive or weighted-tensor-ldp; for pictures "
            "blur, content-adaptive, dp-pix, mask, pixelate, plane-bands, scaled-pixels, selective-noise, "
            "spectral-laplace or uniform-pixels; for sounds mel-laplace.",
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        option(PROMISE, "ε [ε]", "The budget of one record; for trust-adaptive a range, --epsilon 1 8."),
    ] = None,
    epsilon_file: Annotated[
        Path | None, option(PROMISE, "FILE", "For personalised: a .npy with one public ε a record.")
    ] = None,
    delta: Annotated[
        float | None, option(PROMISE, "δ", f"Of Gaussian noise; {DELTA:g} unless given.")
    ] = None,
    neighbours: Annotated[
        str | None,
        option(
            PROMISE, "NAME", "What may become of a record: zero-out; replace (by any other) unless given."
        ),
    ] = None,
    clip: Annotated[
        float | None,
        option(_BOUND, "RADIUS", "Longer records are scaled back; length in L2, for laplace in L1."),
    ] = None,
    bounds: Annotated[
        list[float] | None,
        option(_BOUND, "LOW HIGH", "Values beyond are moved to the nearer bound: --bounds 0 255."),
    ] = None,
    schema: Annotated[
        Path | None,
        option(_BOUND, "FILE", "For a table: a .toml or .json with the bounds or categories of its columns."),
    ] = None,
    bounds_from_data: Annotated[
        bool,
        option(_BOUND, None, "Read the bounds off the data; then nothing is proven.", "--bounds-from-data"),
    ] = False,
    distrust: Annotated[
        float | None,
        option(
            _SOME,
            "τ",
            "trust-adaptive: from 0, the most trusted reader with the least noise, to 1, the default.",
        ),
    ] = None,
    calibration: Annotated[
        str | None, option(_SOME, "NAME", "trust-adaptive: paper or paper-tables; analytic unless given.")
    ] = None,
    categories: Annotated[
        int | None, option(_SOME, "K", "randomised-response: values are 0 … K−1; 2 unless given.")
    ] = None,
    bits: Annotated[
        int | None, option(_SOME, "B", "binary-encoding: bits for each value; 8 unless given.")
    ] = None,
    flip: Annotated[
        float | None, option(_SOME, "P", "binary-encoding: probability of a bit flip, instead of --epsilon.")
    ] = None,
    components: Annotated[
        int | None,
        option(_SOME, "K", "random-projection, reconstruction-resistant: dimensions kept; 64 unless given."),
    ] = None,
    scale: Annotated[
        float | None,
        option(_SOME, "σ", "additive-noise: standard deviation of the noise; 0.1 unless given."),
    ] = None,
    unit: Annotated[
        str | None,
        option(
            PROMISE,
            "NAME",
            "Whose ε is meant: region:16, pixels:16 or item for pictures, window:20 (milliseconds) or clip "
            "for sounds, these or frame for videos, component or tensor for tensors.",
        ),
    ] = None,
    sound_unit: Annotated[
        str | None, option(_MEDIA, "NAME", "Whose ε is meant in sounds, where --unit is of pictures.")
    ] = None,
    map: Annotated[
        str | None,
        option(
            _MEDIA,
            "MAP",
            "What the noise follows, or a mask covers: a .json of public boxes; for noise also private "
            "(found by detectors and paid for) or unaccounted (found by detectors; nothing is proven).",
        ),
    ] = None,
    block: Annotated[
        int | None,
        option(_MEDIA, "B", "Side in pixels of what is averaged; chosen by the size unless given."),
    ] = None,
    restore: Annotated[
        str | None, option(_MEDIA, "NAME", "What is made of noisy averages; costs no privacy.")
    ] = None,
    sigma: Annotated[
        float | None, option(_MEDIA, "PIXELS", "blur: how far it reaches; 8 unless given.")
    ] = None,
    strategy: Annotated[
        str | None,
        option(_MEDIA, "NAME", "selective-noise: uniform, random, gradient, attention; hybrid unless given."),
    ] = None,
    noise: Annotated[
        str | None,
        option(_SOME, "NAME", "tensor-ldp, spectral-laplace: laplace or gaussian; laplace unless given."),
    ] = None,
    retain: Annotated[
        str | None, option(_SOME, "NAME", "tensor-ldp: algorithm or proof, the paper's two formulas.")
    ] = None,
    weights: Annotated[
        str | None,
        option(_SOME, "W", "weighted-tensor-ldp: a .npy of numbers from 0 to 1, or grey or saliency."),
    ] = None,
    levels: Annotated[
        int | None, option(_SOME, "K", "grid-tensor-ldp: public levels; 256 unless given.")
    ] = None,
    coordinates: Annotated[
        int | None, option(_SOME, "K", "duchi, piecewise, hybrid: how many values of a record to report.")
    ] = None,
    outside: Annotated[
        str | None, option(_BOUND, "NAME", "For tensors: refuse values beyond the bounds, or clip.")
    ] = None,
    alpha: Annotated[
        float | None,
        option(
            _SOME, "α", "After any of them: reverse manifold embedding (twice the columns; hides nothing)."
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
        str, option(FILES, "NAME", "What works on many files or parts: local (threads) or ray (a cluster).")
    ] = "local",
    workers: Annotated[
        int | None, option(FILES, "N", "How many threads or workers; as many as processors unless given.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Release FILE so that nobody in it can be singled out, with a statement of what is promised.

    FILE is an array whose rows are records (.npy, .npz), with --schema a table (.csv, .csv.gz, .parquet), a
    picture, a sound, a video, a folder of pictures, sounds and videos, or one of arrays or tables. It may
    stand in an object store: s3://bucket/folder. Files of a folder that cannot be released are left out, and
    the exit code is then 5.
    """
    options = dict(locals())
    from sfumato import release

    # The engine first: a cluster gets ready while all that the mechanisms need is loaded.
    with release.opened_engine(engine, workers) as running:
        _check_places(options)
        made = _mechanism(options)
        if request is not None:
            made = _keyed(made, dataset, data_version, request)
        with (
            terminal.progress(not as_json) as report,
            budget.maybe(ledger, dataset, uncharged, *_promised(made)) as book,
            _nothing_loaded_is_garbage(),
            _sources_told(names_file, source, output) as tell,
        ):
            done = release.protect(
                source,
                output,
                made,
                array=array,
                schema=schema,
                then=_then(alpha),
                dataset=dataset,
                ledger=book,
                request=request,
                uncharged=uncharged,
                bounds_from_data=bounds_from_data,
                disjoint=disjoint,
                public_names=public_names,
                overwrite=overwrite,
                engine=running,
                report=report,
            )
            tell(done)
    print(cli_shown.json_text(done.to_dict()) if as_json else terminal.in_line(cli_shown.told(done)))
    if isinstance(done, release.ProtectedFolder) and done.skipped:
        raise typer.Exit(_SKIPPED)


@contextmanager
def _sources_told(file: Path | None, source: str, output: str) -> Iterator[Callable[[Any], None]]:
    """A function that writes to ``file`` which released file is of which source.

    The file is made now, with nobody else allowed to read it: what cannot be written is refused before
    anything is paid. It is removed where the release fails.
    """
    from sfumato.release.locations import located

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

    if options["bounds_from_data"]:
        raise BadInput("--bounds-from-data proves nothing and reads the data; there is nothing to plan.")
    dataset = options["dataset"]
    mechanism = _mechanism(options)
    with budget.maybe(options["ledger"], dataset, options["uncharged"], *_promised(mechanism)) as book:
        made = release.plan(
            options["source"],
            mechanism,
            array=options["array"],
            schema=options["schema"],
            then=_then(options["alpha"]),
            dataset=dataset,
            ledger=book,
            disjoint=options["disjoint"],
            public_names=options["public_names"],
            uncharged=options["uncharged"],
        )
    print(
        cli_shown.json_text(made.to_dict())
        if options["as_json"]
        else terminal.in_line(cli_shown.planned(made))
    )


def _like_protect(command: Callable[..., None]) -> None:
    """Give ``command`` the options of ``protect``, all of them but with no need for an output."""
    signature = inspect.signature(protect, eval_str=True)
    output = signature.parameters["output"]
    _, option = get_args(output.annotation)
    free = output.replace(default=None, annotation=Annotated[str | None, option])
    parameters = [free if p.name == "output" else p for p in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}


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
    from sfumato.release.locations import located

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
    from sfumato.release.locations import located

    source = located(options["source"]).local
    named = [options[name] for name in ("schema", "epsilon_file") if options[name] is not None]
    return [*([] if source is None or source.is_dir() else [source]), *named]


def _mechanism(options: Mapping[str, Any]) -> Mechanism | MediaMechanisms:
    """The mechanism that the options of protect describe, or one for each kind of media."""
    from sfumato import release
    from sfumato.io import file_to_read
    from sfumato.release.locations import located

    source = located(options["source"])
    described = dict(options) | {"source": source}
    with source.store:
        if media_options.is_media(source):
            return media_options.media_mechanisms(described)
    media_options.refuse_for_records(described)
    for file in _inputs(options):
        file_to_read(file)
    if options["bounds_from_data"] and options["bounds"] is not None:
        raise BadInput("--bounds-from-data and --bounds each give bounds; one of them is accepted.")
    given = {name: options[name] for name in _PARAMETERS}
    given |= {"epsilon_file": _budgets(options["epsilon_file"]), "bounds": _pair(options["bounds"])}
    given |= {"weights": _weights(options["weights"])}
    # The bounds of a table stand in its schema.
    bounded = source.kind == "table" or options["schema"] is not None or options["bounds_from_data"]
    return release.make_mechanism(options["mechanism"] or "gaussian", given, bounded=bounded)


def _then(alpha: float | None) -> Transform | None:
    if alpha is None:
        return None
    from sfumato.mechanisms.transforms import ReverseManifold

    return ReverseManifold(alpha)


def _budgets(file: Path | None) -> Any:
    """The array in --epsilon-file."""
    if file is None:
        return None
    from sfumato.io import open_array

    source = open_array(file)
    if len(source.shape) != 1:
        raise BadInput(f"{file.name} must hold one ε a record, an array of shape (n,), not {source.shape}.")
    return next(source.blocks(8 * source.rows))


def _weights(given: str | None) -> Any:
    """The array in --weights, or the name of weights that are read off the data."""
    if given is None or given in ("grey", "saliency"):
        return given
    from sfumato.io import open_array

    source = open_array(given)
    return next(source.blocks(source.rows * max(1, math.prod(source.shape[1:])) * 8))


def _pair(bounds: list[float] | None) -> tuple[float, float] | None:
    if bounds is not None and len(bounds) != 2:
        raise BadInput(f"--bounds takes two numbers, as in --bounds 0 255, not {len(bounds)}.")
    return None if bounds is None else (bounds[0], bounds[1])


def _keyed(
    mechanism: Mechanism | MediaMechanisms, dataset: str | None, version: str, request: str
) -> Mechanism | MediaMechanisms:
    """``mechanism`` with noise that gives the same bytes whenever the same request is made."""
    from sfumato.mechanisms import Mechanism
    from sfumato.noise import Keyed
    from sfumato.reports import KeyRing

    if dataset is None:
        raise BadInput("--request is paid from a budget; name it with --dataset.")
    noise = Keyed(KeyRing().noise_secret(), dataset=dataset, version=version, release=request)
    if not isinstance(mechanism, Mechanism):
        return mechanism.keyed_by(noise)
    if "randomness" not in mechanism.get_params(deep=False):
        raise BadInput(f"--request is not for {type(mechanism).__name__}, whose noise cannot be keyed.")
    return type(mechanism)(**(mechanism.get_params(deep=False) | {"randomness": noise}))
