"""The errors that Sfumato raises, their exit codes, and how each door spells the parameters they name.

A refusal is written in the language of Python. A parameter stands between backticks, alone (`` `clip` ``) or
with a value (`` `clip=1.0` ``); a remedy is a call (`` `ledger.open('clinic', epsilon=..., delta=...)` ``).
:func:`spell` turns these into options of the command line or fields of the service.

What is not refused, and should be known before it is done, is a :class:`Forewarning`.
"""

from __future__ import annotations

import ast
import copy
import json
import re
import shlex
from typing import Literal, Self

__all__ = [
    "BadInput",
    "Door",
    "Forewarning",
    "RequestReused",
    "SfumatoError",
    "StorageFailed",
    "StorageFull",
    "quoted",
    "spell",
]

#: Who reads a sentence: a caller of the library, of the command line, or of the service (REST, gRPC, pages).
Door = Literal["python", "command line", "service"]


class SfumatoError(Exception):
    """Anything Sfumato refuses to do; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class BadInput(SfumatoError, ValueError):
    """A parameter, file or array that cannot be used; nothing was released and nothing spent.

    Args:
        problem: One sentence: what was given, where, and what is accepted.
        parameter: Name of the parameter that caused the refusal; None where a row, a file or a state did.
        place: Where the problem stands, such as a file or a client; it is written before the problem.
        accepted: What is accepted instead; it is written after the problem.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        parameter: str | None = None,
        place: str | None = None,
        accepted: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem, self.parameter, self.place, self.accepted = problem, parameter, place, accepted

    def __str__(self) -> str:
        """Return the whole sentence, in the language of Python."""
        after = "" if self.accepted is None else f"; accepted: {self.accepted}."
        return ("" if self.place is None else f"{self.place}: ") + self.problem + after

    def at(self, place: str) -> Self:
        """Return the same refusal, said of ``place``."""
        placed = copy.copy(self)
        placed.place = place if self.place is None else f"{place}: {self.place}"
        return placed


class RequestReused(BadInput):
    """A request, or its idempotency key, that was given to something else before; nothing was spent."""


class StorageFailed(SfumatoError):
    """A disk that cannot be written, through no fault of the input; what was paid before stays paid."""

    exit_code = 6


class StorageFull(StorageFailed):
    """There is no room for what is to be written, on the disk or in what a tenant may keep there."""


class Forewarning(UserWarning):
    """Something public that should be known before records are used, such as a δ that promises little."""


_SPAN = re.compile(r"`([^`]+)`")
# Parameters and results of Python that have another name at a door; all others are spelled by rule.
_OPTIONS = {"output": "-o", "then": "--alpha", "timeout": "--wait", "released": "--names-file or --json"}
_FIELDS = {"schema": "columns", "then": "alpha"}
# Remedies: a call of Python as a command, and as an operation of the service.
_COMMANDS = {
    "ledger.open": "sfumato budget open",
    "ledger.check": "sfumato budget check",
    "KeyRing().create": "sfumato key new",
    "KeyRing().trust": "sfumato key trust",
}
_OPERATIONS = {
    "ledger.open": "POST /v1/budgets (OpenBudget in gRPC)",
    "KeyRing().trust": "GET /v1/signing-key",
}


def quoted(name: str) -> str:
    """Return ``name`` between backticks if it can be a parameter's; any other words as they are."""
    return f"`{name}`" if name.isidentifier() else name


def spell(sentence: str | SfumatoError, door: Door) -> str:
    """Return ``sentence`` with its parameters and remedies in the language of ``door``."""
    text = str(sentence)
    return text if door == "python" else _SPAN.sub(lambda span: _spelled(span[0], span[1], door), text)


def _spelled(span: str, code: str, door: Door) -> str:
    """Return the code between backticks as ``door`` writes it; what is no parameter or remedy as it is."""
    try:
        inside = ast.parse(f"_({code})", mode="eval").body
    except (SyntaxError, ValueError):
        return span
    assert isinstance(inside, ast.Call)
    match inside.args, inside.keywords:
        case [ast.Name(name)], []:
            return _option(name) if door == "command line" else f"`{_FIELDS.get(name, name)}`"
        case [], [ast.keyword(arg=str(name), value=value)]:
            return _option(name, value) if door == "command line" else _field(name, value)
        case [ast.Call() as call], []:
            return _remedy(call, span, door)
    return span


def _remedy(call: ast.Call, span: str, door: Door) -> str:
    """Return ``call`` as a command or an operation; a ledger that it opens is an option of the command."""
    name, ledger = ast.unparse(call.func), []
    match call.func:
        case ast.Attribute(value=ast.Call(args=[url]), attr=verb):
            name, ledger = f"ledger.{verb}", ["--ledger", _word(url)]
    if door == "service":
        return f"`{_OPERATIONS[name]}`" if name in _OPERATIONS else span
    if name not in _COMMANDS:
        return span
    given = [value for value in call.args if ast.unparse(value) != "..."]
    options = [_option(word.arg, word.value) for word in call.keywords if word.arg is not None]
    command = " ".join([_COMMANDS[name], *map(_word, given), *options, *ledger])
    return f"`{command}`" if "'" in command else f"'{command}'"


def _option(name: str, value: ast.expr | None = None) -> str:
    """Return a parameter as an option: ``--clip 1.0``; a value of True or False is in the option's name."""
    flag = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    match value:
        case None | ast.Constant(value=True):
            return flag
        case ast.Constant(value=False):
            return f"--no-{flag[2:]}"
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return " ".join([flag, *map(_word, parts)])
    return f"{flag} {_word(value)}"


def _field(name: str, value: ast.expr) -> str:
    """Return a parameter as a field of JSON: ``epsilon: [1, 8]``."""
    try:
        written = json.dumps(ast.literal_eval(value), ensure_ascii=False)
    except (ValueError, TypeError):
        written = "…" if ast.unparse(value) == "..." else ast.unparse(value)
    return f"`{_FIELDS.get(name, name)}: {written}`"


def _word(value: ast.expr) -> str:
    """Return a value as it is typed in a shell; an ellipsis stands for what the reader chooses."""
    match value:
        case ast.Constant(value=str(text)):
            return shlex.quote(text)
        case ast.Constant(value=constant) if constant is ...:
            return "…"
    return ast.unparse(value)
