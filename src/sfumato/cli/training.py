"""``sfumato learn``, ``publish`` and ``federate``; their options are those that the verbs declare."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from sfumato import release
from sfumato.cli import terminal
from sfumato.cli.options import (
    AsJson,
    BudgetLedgerUrl,
    charged_ledger,
    flag_of,
    keyword,
    option,
    refuse_idle,
    set_signature,
    url_of,
)
from sfumato.errors import BadInput, spell

# In the order of the help.
_PANELS = (
    "Clients and rounds",
    "Privacy",
    "Training",
    "Dataset",
    "Parameters of some methods",
    "Files",
    "Budget",
)
# Switches that have an option to turn them off.
_BOTH_WAYS = ("audit", "overwrite", "uncharged")


def learn(source: Path, **given: Any) -> None:
    """Train a classifier on SOURCE and write it with a statement of what is guaranteed to each record.

    SOURCE is an .npz with images or features and labels, or a folder with one sub-folder of images for each
    class.
    """
    _run(release.learn, source, given, _charged(given))


def publish(source: Path, **given: Any) -> None:
    """Publish images in place of those of SOURCE, with a statement of what is guaranteed to each record.

    SOURCE is an .npz with images and labels, or a folder with one sub-folder of images for each class. OUT is
    either, whatever SOURCE is.
    """
    _run(release.publish, source, given, _charged(given))


def federate(source: Path, **given: Any) -> None:
    """Train a classifier across clients and write it with a statement of what is guaranteed to each client.

    SOURCE is an .npz with images or features and labels, or a folder with one sub-folder of images for each
    class. Its records are dealt to the clients in turn.
    """
    url, dataset = given.pop("ledger"), given["dataset"]
    refuse_idle(dataset)
    ledger = nullcontext(None if dataset is None else url_of(url))
    _run(release.federate, source, given, ledger)


def _charged(given: dict[str, Any]) -> AbstractContextManager[Any]:
    """Return the ledger that the options ``given`` name, once it is entered."""
    url = given.pop("ledger")
    return charged_ledger(url, given["dataset"], given["uncharged"], neighbours=given["neighbours"])


def _run(
    verb: Callable[..., Any],
    source: Path,
    given: dict[str, Any],
    ledger: AbstractContextManager[Any],
) -> None:
    """Run ``verb`` with the options ``given``, and print its result."""
    as_json, declared = given.pop("as_json"), release.options_of(verb)
    values = {name: _value(declared[name], typed) for name, typed in given.items()}
    with terminal.progress(not as_json) as progress, ledger as book:
        if "warn" in inspect.signature(verb).parameters and not as_json:
            values["warn"] = terminal.complain_of
        result = verb(source, ledger=book, progress=progress, **values)
    terminal.show(result, as_json)


def _typer_parameter(declared: Any) -> inspect.Parameter:
    """Return ``declared`` as a parameter of a command."""
    name, kinds = declared.name, get_args(declared.type) or (declared.type,)
    typed: Any = Path if os.PathLike[str] in kinds else str if str in kinds else kinds[0]
    if name == "epsilon":
        typed = list[float]  # two of them are refused with a sentence
    flags = ("-o", "--output") if name == "output" else (flag_of(name),)
    if name in _BOTH_WAYS:
        flags = (f"--{name}/--no-{name}",)
    help_ = spell(declared.help, "command line")
    made = option(declared.panel, declared.symbol or None, help_, *flags)
    return keyword(name, Annotated[typed if typed is bool else typed | None, made], declared.default)


def _value(declared: Any, typed: Any) -> Any:
    """Return the value of an option for which ``typed`` was given."""
    if isinstance(typed, list):
        if len(typed) != 1:
            sentence = f"`{declared.name}` takes one number, as in `{declared.name}=1`, not {len(typed)}."
            raise BadInput(sentence, parameter=declared.name)
        return typed[0]
    if isinstance(typed, str) and float in get_args(declared.type):
        try:
            return float(typed)
        except ValueError:
            return typed
    return typed


for _command in (learn, publish, federate):
    _own = [
        inspect.Parameter(
            "source",
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=Annotated[Path, typer.Argument(metavar="SOURCE", hidden=True)],
        )
    ]
    _options = release.options_of(getattr(release, _command.__name__)).values()
    _derived = map(_typer_parameter, sorted(_options, key=lambda one: _PANELS.index(one.panel)))
    _shared = [keyword("ledger", BudgetLedgerUrl, None), keyword("as_json", AsJson, False)]
    set_signature(_command, [*_own, *_derived, *_shared])
