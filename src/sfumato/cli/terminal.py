"""Output of the command line: results in any encoding and width, errors, progress, and signals."""

from __future__ import annotations

import codecs
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sfumato.errors import spell
from sfumato.privacy import printable as printable

__all__ = ["in_line", "progress"]

# A bar that disappears before it can be read only flickers.
_PATIENCE_SECONDS = 2.0

_SPELLED = {
    **dict.fromkeys("─", "-"),
    **dict.fromkeys("│", "|"),
    **dict.fromkeys("┌┬┐├┼┤└┴┘", "+"),
    **{"ε": "eps", "δ": "delta", "σ": "sigma", "τ": "tau", "α": "alpha", "μ": "mu", "Δ": "Delta", "ρ": "rho"},
    **{"−": "-", "–": "-", "…": "...", "≤": "<=", "≥": ">=", "×": "x", "·": "*", "√": "sqrt", "²": "^2"},
    **{"η": "eta", "β": "beta", "γ": "gamma", "±": "+-", "●": "*", "∞": "inf"},
    **{"’": "'", "‘": "'", "“": '"', "”": '"', "é": "e", "ₒ": "o", "₀": "0", "ᵢ": "_i", "Φ": "Phi"},
}


def speak_any_encoding() -> None:
    """Let standard output and error spell characters that their encoding lacks, instead of failing."""
    codecs.register_error("sfumato", _spell)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="sfumato")


def in_line(text: str) -> str:
    """Return ``text`` with its boxes aligned, also if standard output has to spell Greek letters."""
    lines = []
    for line in text.split("\n"):
        cells = [_encodable(cell).rstrip().ljust(len(cell)) for cell in line.split("│")]
        lines.append(_encodable("│").join(cells).rstrip())
    return "\n".join(lines)


def complain(sentence: str) -> None:
    """Print a sentence on standard error, wrapped on a terminal and on one line elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    text = Text.assemble(("sfumato:", "bold red"), " ", printable(sentence))
    console.print(text, soft_wrap=not console.is_terminal)


def complain_of(warning: str) -> None:
    """Print ``warning``, which has no full stop, as a sentence on standard error."""
    complain(f"{warning}.")


@contextmanager
def progress(wanted: bool) -> Iterator[Callable[[str, float | None], None] | None]:
    """Yield a function that shows the stage and the share of it that is done; None if nobody would see it.

    A bar appears on standard error, if that is a terminal, once the work has lasted two seconds, and
    disappears at the end.
    """
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    begun = time.monotonic()
    tasks: dict[str, Any] = {}

    def tell(stage: str, share: float | None) -> None:
        if time.monotonic() - begun < _PATIENCE_SECONDS:
            return
        bar.start()
        # What stands in parentheses, such as losses, changes while the stage stays the same.
        name = stage.partition(" (")[0]
        if name not in tasks:
            for task in tasks.values():
                bar.update(task, visible=False)
            tasks[name] = bar.add_task(stage, total=None)
        done, total = share or 0.0, None if share is None else 1.0
        bar.update(tasks[name], description=stage, completed=done, total=total)

    try:
        yield tell
    finally:
        bar.stop()


class Stopped(BaseException):
    """The process was asked to stop; what was begun is cleaned up on the way out.

    Notes (``add_note``) say what cannot be cleaned up: the whole files of a batch.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        self._cause = (
            "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        )

    @property
    def sentence(self) -> str:
        """Why it ended, and what it left behind."""
        left = "; ".join(getattr(self, "__notes__", ())) or "nothing unfinished was left behind"
        return f"{self._cause} before it was done; {left}."


@contextmanager
def signals() -> Iterator[None]:
    """Raise :class:`Stopped` when Ctrl-C or a signal would end the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # What the caller chose to ignore, as nohup does, stays ignored.
    before = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}

    def stop(number: int, frame: object) -> None:
        # A second signal does not interrupt the cleaning up.
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _encodable(text: str) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "sfumato").decode(encoding)


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SPELLED.get(c, "?") for c in error.object[error.start : error.end]), error.end


def show(result: Any, as_json: bool) -> None:
    """Print ``result`` as JSON or for people, with its parameters as the command line spells them."""
    if as_json:
        print(json_text(result.to_dict()))
    else:
        shown = result.text(width())
        print(in_line(spell(shown, "command line") if "`" in shown else shown))


def answer(as_json: bool, document: Any, text: str) -> None:
    """Print ``document`` as JSON, or ``text`` for people."""
    print(json.dumps(document) if as_json else in_line(text))


def json_text(result: Any) -> str:
    """Return ``result`` as JSON, with refusals as the command line spells them."""

    def spelled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: spelled(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [spelled(inner) for inner in value]
        return spell(value, "command line") if isinstance(value, str) else value

    return json.dumps(spelled(result))


def width() -> int:
    """Return how many columns a table may have."""
    return min(shutil.get_terminal_size((100, 24)).columns, 100)
