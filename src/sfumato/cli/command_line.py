"""The entry point of the command line: its commands, each loaded when it is run, and their errors."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import click
import typer
from typer.core import TyperCommand, TyperGroup

import sfumato
from sfumato.cli import terminal
from sfumato.errors import BadInput, Forewarning, SfumatoError, spell

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["NumbersCommand", "app", "main"]

# Commands that another project of the repository adds, and the folder of that project.
_PROJECTS = {"paper": "reproductions"}


class NumbersCommand(TyperCommand):
    """A command whose repeated options, files aside, take one or more numbers, as in ``--epsilon 1 8``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse ``--epsilon 1 8`` as ``--epsilon=1 --epsilon=8``."""
        repeated = [
            flag
            for one in self.params
            if isinstance(one, click.Option) and one.multiple and not isinstance(one.type, click.Path)
            for flag in one.opts
        ]
        return super().parse_args(ctx, _spread(args, repeated))


class _Deferred(TyperCommand):
    """A command of this package, which is imported when it is run; to list it takes the summary alone.

    ``place`` is the module and the name of a function, or of a :class:`typer.Typer` with several commands.
    """

    def __init__(self, name: str, place: str, summary: str, example: str) -> None:
        super().__init__(name, help=summary, epilog=f"For example: {example}")
        self._place = place

    @cached_property
    def loaded(self) -> click.Command:
        """The command itself."""
        module, _, name = self._place.partition(":")
        found = getattr(import_module(f"sfumato.cli.{module}"), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.name, cls=NumbersCommand)(found)
            found = alone
        command = typer.main.get_command(found)
        command.epilog = command.epilog or self.epilog
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Return the context of the command itself, which is then run in the place of this one."""
        return self.loaded.make_context(*args, **extra)


# In the order of the help.
_COMMANDS = (
    _Deferred(
        "protect",
        "protect:protect",
        "Release a file or folder with noise, a privacy statement and a certificate.",
        "sfumato protect X.npz -o out.npz --epsilon 1 --clip 1.0",
    ),
    _Deferred(
        "plan",
        "protect:plan",
        "Show what protect would guarantee and cost; spend and write nothing.",
        "sfumato plan X.npz --epsilon 1 --clip 1.0",
    ),
    _Deferred(
        "publish",
        "training:publish",
        "Publish images in place of private ones.",
        "sfumato publish digits.npz -o published.npz --classes 10 --epsilon 1",
    ),
    _Deferred(
        "learn",
        "training:learn",
        "Train a classifier on private records.",
        "sfumato learn digits.npz -o model --classes 10 --epsilon 1",
    ),
    _Deferred(
        "federate",
        "training:federate",
        "Train a classifier across clients that keep their records.",
        "sfumato federate digits.npz -o model --classes 10 --epsilon 300 --clip 1",
    ),
    _Deferred("verify", "keys:verify", "Check a release against its certificate.", "sfumato verify out.npz"),
    _Deferred(
        "audit",
        "audit:audit",
        "Attack a release and report what the attacks achieved.",
        "sfumato audit X.npz out.npz --labels y -o report.html",
    ),
    _Deferred(
        "budget",
        "budget:app",
        "Manage the privacy budgets of datasets.",
        "sfumato budget open clinic --epsilon 8 --delta 1e-6",
    ),
    _Deferred("key", "keys:app", "Manage the signing key and the keys to trust.", "sfumato key show"),
    _Deferred(
        "report",
        "report:app",
        "Write a report on releases, or a signed pack of evidence.",
        "sfumato report out.npz -o report.html",
    ),
    _Deferred(
        "serve", "serve:app", "Run the service and manage its tenants.", "sfumato serve --data service"
    ),
)


class _Commands(TyperGroup):
    """The commands of the package, and those that installed projects add.

    A project names a :class:`typer.Typer` with one command in its entry points ``sfumato.commands``. It is
    loaded when that command is run or when commands are listed.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in _COMMANDS:
            self.add_command(command)

    @cached_property
    def _added(self) -> EntryPoints:
        from importlib.metadata import entry_points  # with its import, 20 ms that few commands need

        return entry_points(group="sfumato.commands")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *sorted(self._added.names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        if cmd_name in self._added.names:
            return typer.main.get_command(self._added[cmd_name].load())
        if cmd_name in _PROJECTS:
            # By its folder: nobody has published that project, and a name on an index may be anybody's.
            folder = _PROJECTS[cmd_name]
            raise BadInput(
                f"sfumato {cmd_name} needs sfumato-{folder}: pip install ./{folder} in the repository."
            )
        return None


app = typer.Typer(
    name="sfumato",
    cls=_Commands,
    help="Release data so that nobody in it can be singled out, and state exactly what is guaranteed.",
    epilog=_COMMANDS[0].epilog,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(sfumato.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        context.get_help()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; print a refusal as one sentence on standard error, or as JSON."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    terminal.speak_any_encoding()
    sentence, code = None, 0
    try:
        with terminal.signals(), _forewarnings(printed="--json" not in given):
            # A command that ends early (typer.Exit) is not raised but returned, as its code.
            code = app(given, prog_name="sfumato", standalone_mode=False) or 0
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError:
        pass  # the help was printed
    except click.UsageError as error:
        sentence, code = _usage(error, given), 2
    except SfumatoError as error:
        sentence, code = spell(error, "command line"), error.exit_code
    except click.Abort:
        sentence, code = "nothing was entered, so nothing was done.", 2
    except terminal.Stopped as stopped:
        sentence, code = stopped.sentence, stopped.exit_code
    except BrokenPipeError:
        # Nobody reads on, as with "sfumato … | head", and Python must not complain on its way out either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        sentence, code = f"{error.filename or 'a file'} cannot be used: {error.strerror or error}.", 2
    except MemoryError:
        sentence, code = "there is not enough memory for records of this size.", 2
    except Exception as error:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        name = type(error).__name__
        sentence = (
            f"an unexpected error occurred ({name}: {error}); SFUMATO_DEBUG=1 shows where, please report it."
        )
        code = 1
    if sentence is not None and "--json" in given:
        print(json.dumps({"error": sentence, "exit_code": code}))
    elif sentence is not None:
        terminal.complain(sentence)
    sys.exit(code)


@contextmanager
def _forewarnings(*, printed: bool) -> Iterator[None]:
    """Print each forewarning once, on standard error, unless it stands in a result as JSON."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **how: Any) -> None:
        if not issubclass(category, Forewarning):
            usual(message, category, *place, **how)
        elif printed and str(message) not in seen:
            seen.add(str(message))
            terminal.complain(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", Forewarning)
        usual, warnings.showwarning = warnings.showwarning, show
        yield


def _usage(error: click.UsageError, given: list[str]) -> str:
    """Return in one sentence what is wrong with the words on the command line."""
    named = [word for word in given[:1] if not word.startswith("-")]
    path = error.ctx.command_path if error.ctx else " ".join(["sfumato", *named])
    hint = f"see {path} --help."
    message, _, near = error.message.rstrip(".?").partition(". Did you mean ")
    if isinstance(error, click.NoSuchOption):
        message, near = f"there is no option {error.option_name}", next(iter(error.possibilities or []), "")
    elif isinstance(error, click.MissingParameter) and error.param is not None:
        argument = error.param.param_type_name == "argument"
        name = error.param.human_readable_name if argument else "/".join(error.param.opts)
        example = ((error.ctx and error.ctx.command.epilog) or "").removeprefix("For example: ")
        return f"{path.rpartition(' ')[2]} needs {name}, " + (f"as in {example}." if example else hint)
    elif isinstance(error, click.BadParameter) and error.param is not None:
        for kind, word in (("valid float", "number"), ("valid integer", "whole number")):
            message = message.replace(f"is not a {kind}", f"is not a {word}")
        message = f"{error.param.opts[-1]}: {message}"
    elif isinstance(error, click.BadOptionUsage) and "requires" in message:
        message = f"{error.option_name} needs a value"
    return f"{message[:1].lower()}{message[1:]}; {f'did you mean {near}?' if near else hint}"


def _spread(arguments: list[str], options: Collection[str]) -> list[str]:
    """Return ``--epsilon 1 8`` as ``--epsilon=1 --epsilon=8``, for all ``options``."""
    words: list[str] = []
    rest = list(arguments)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag not in options:
            words.append(flag + equals + value)
            continue
        values = [value] if equals else []
        while rest and (_is_number(rest[0]) or not (values or rest[0].startswith("--"))):
            values.append(rest.pop(0))
        if not values:
            raise BadInput(f"{flag} takes one or more numbers, as in {flag} 1 8.")
        words += [f"{flag}={each}" for each in values]
    return words


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
