"""Options that several commands share, and the ledger that one of them names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from click.core import ParameterSource

from sfumato.errors import BadInput
from sfumato.privacy import RECORDS

if TYPE_CHECKING:
    from sfumato.ledger import Ledger
    from sfumato.privacy import Unit

PRIVACY, BUDGET, FILES = "Privacy", "Budget", "Files"


def option(panel: str | None, metavar: str | None, help: str, *names: str, **words: Any) -> Any:
    """Return an option in ``panel`` of the help page."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **words)


def ledger_option(panel: str | None = None) -> Any:
    """Return the option ``--ledger``."""
    help_ = "sqlite:///FILE or postgresql://…. Default: a file in the home folder of Sfumato."
    return option(panel, "URL", help_, "--ledger", envvar="SFUMATO_LEDGER")


LedgerUrl = Annotated[str | None, ledger_option()]
BudgetLedgerUrl = Annotated[str | None, ledger_option(BUDGET)]
JSON = Annotated[bool, option(None, None, "Print the result as JSON.", "--json")]
AsJson = Annotated[bool, option(FILES, None, "Print the result as JSON.", "--json")]


def set_signature(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Give ``command`` these ``parameters``, from which Typer makes its options."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that is given by its name."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def flag_of(name: str) -> str:
    """Return the parameter ``name`` as an option."""
    return "--" + name.replace("_", "-")


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


def opened_ledger(url: str | None, *, make: bool = False) -> Ledger:
    """Return the ledger at ``url``, or in the home folder; refuse a missing one unless to ``make`` it."""
    from sfumato.ledger import Ledger

    return Ledger(url_of(url), make=make)


@contextmanager
def charged_ledger(
    url: str | None,
    dataset: str | None,
    uncharged: bool,
    unit: Unit | str = RECORDS.unit,
    neighbours: str | None = None,
) -> Iterator[Ledger | None]:
    """Open the ledger that ``dataset`` is charged in; none if nothing is charged. It is not made here.

    ``unit`` and ``neighbours`` are those of the budget that would be needed, if there is no ledger.
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
    """Refuse a ledger that was typed without a dataset to charge; one from the environment may be unused."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("ledger")
    if dataset is None and source is ParameterSource.COMMANDLINE:
        raise BadInput(
            "`ledger` was given and nothing would be charged in it: name the `dataset` that pays.",
            parameter="dataset",
        )
