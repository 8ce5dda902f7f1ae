"""Options that several commands share: in panels, of mechanisms, and the ledger that one of them names.

Options of ``protect`` and ``plan`` that are parameters of mechanisms come from the index of mechanisms. Each
is a number, a text, or either repeated; whether a value fits is for the mechanism to say.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from click.core import ParameterSource

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    Option,
    describe_defaults,
    describe_parameter,
    mechanism_places,
    options_at,
    typed_value,
)
from sfumato.privacy import RECORDS

if TYPE_CHECKING:
    from sfumato.ledger import Ledger
    from sfumato.privacy import Unit

LEDGER_HELP = "sqlite:///FILE or postgresql://…; a file in the home folder of Sfumato unless given."
LEDGER = typer.Option("--ledger", metavar="URL", envvar="SFUMATO_LEDGER", help=LEDGER_HELP)
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


BOUND, SOME = "The bound on the records", "For some mechanisms"
MEDIA = "For pictures, sounds and videos"
# What a guarantee is made of.
_GUARANTEE = ("epsilon", "epsilon_file", "delta", "neighbours", "unit")
_TYPES = {"number": float, "whole number": int}
_METAVARS = {"number": "NUMBER", "whole number": "N", "word": "NAME"}


def mechanism_help() -> str:
    """Return the help of ``--mechanism``: the names of all mechanisms, by the kinds of data they serve."""
    by_kinds: dict[tuple[str, ...], list[str]] = {}
    for name, place in mechanism_places().items():
        by_kinds.setdefault(place.kinds, []).append(name)
    served = "; ".join(
        f"for {' and '.join(f'{kind}s' for kind in kinds)} {', '.join(names)}"
        for kinds, names in sorted(by_kinds.items())
    )
    return f"Unless given: {describe_defaults()}. {served[:1].upper()}{served[1:]}."


def several() -> tuple[str, ...]:
    """Return the options that take one or more values, as ``--epsilon 1 8``."""
    return tuple(
        _flag(name) for name, found in options_at("command line").items() if any(one.several for one in found)
    )


def signature_with(command: inspect.Signature) -> inspect.Signature:
    """Return the signature of a command with an option for each parameter, not ``**parameters``."""
    own = [one for one in command.parameters.values() if one.kind is not one.VAR_KEYWORD]
    derived = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _typed(found), option(_panel(name, found), _metavar(found), describe_parameter(found))
            ],
        )
        for name, found in options_at("command line").items()
    ]
    # In the order of the panels, each with the promise first.
    return command.replace(parameters=[*own, *sorted(derived, key=_order)])


def given_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters among ``options`` that were given, each as its value; .npy files are read."""
    return {
        name: _value(found, options[name])
        for name, found in options_at("command line").items()
        if options.get(name) not in (None, [])
    }


def _order(parameter: inspect.Parameter) -> tuple[bool, int]:
    promised = parameter.name in _GUARANTEE
    return not promised, _GUARANTEE.index(parameter.name) if promised else 0


def _typed(found: Sequence[Option]) -> Any:
    """Return the type of an option: a number where every mechanism means one, so that a slip is told."""
    types = {kind for one in found for kind in one.types}
    text = any(one.array or not one.types for one in found) or len(types) > 1
    kind = str if text else _TYPES.get(next(iter(types)), str)
    return list[kind] | None if any(one.several for one in found) else kind | None  # type: ignore[valid-type]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _panel(name: str, found: Sequence[Option]) -> str:
    if name in _GUARANTEE:
        return PROMISE
    if any(one.bound for one in found):
        return BOUND
    media, places = {"picture", "sound"}, mechanism_places()
    return MEDIA if all(media & {*places[of].kinds} for one in found for of in one.of) else SOME


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
    from sfumato.io import open_array

    return open_array(file).read()


def url_of(given: str | None) -> str:
    """Return the URL ``given``, or that of the ledger in the home folder."""
    if given is not None:
        return given
    file = home_ledger()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{file}"


def home_ledger() -> Path:
    """Return the file of the ledger in the home folder."""
    from sfumato.reports import default_home

    return default_home() / "ledger.db"


@contextmanager
def opened_ledger(url: str | None, *, make: bool = False) -> Iterator[Ledger]:
    """Open the ledger at ``url``, or the one in the home folder; refuse a missing one unless to ``make``."""
    from sfumato.ledger import Ledger

    with Ledger(url_of(url), make=make) as ledger:
        yield ledger


@contextmanager
def charged_ledger(
    url: str | None,
    dataset: str | None,
    uncharged: bool,
    unit: Unit | str = RECORDS.unit,
    neighbours: str | None = None,
) -> Iterator[Ledger | None]:
    """Open the ledger that ``dataset`` is charged in; none where nothing is charged. It is not made here.

    ``unit`` and ``neighbours`` are those of the budget that would be needed, where there is no ledger.
    """
    refuse_idle(dataset)
    if dataset is None or uncharged:
        yield None
        return
    from sfumato.ledger import Ledger

    under = RECORDS.neighbours if neighbours is None else neighbours
    with Ledger(url_of(url), charging=dataset, unit=unit, neighbours=under) as ledger:
        yield ledger


def refuse_idle(dataset: str | None) -> None:
    """Refuse a ledger that was typed without a dataset to charge; one from the environment may be idle."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("ledger")
    if dataset is None and source is ParameterSource.COMMANDLINE:
        raise BadInput("--ledger was given and nothing would be charged in it: name the --dataset that pays.")
