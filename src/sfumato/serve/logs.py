"""Structured JSON logs that cannot contain private values.

A line has only the fields in ``FIELDS``. Each is a fixed word, a number or an id that the service made.
Records of other packages are logged by their place in the code and the type of their error; their messages
are dropped, because they may quote the data being processed.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack

import structlog

from sfumato.errors import BadInput, Forewarning


class Fields(TypedDict, total=False):
    """What a caller may write besides the event: fixed words, numbers, and ids that the service made."""

    request: str | None
    tenant: str | None
    key: str | None
    job: str | None
    route: str | None
    method: str | None
    status: int | str | None
    refusal: str | None
    ms: float | None
    bytes_in: int | None
    bytes_out: int | None
    worker: int | None
    source: str | None


#: Everything that a line may have.
FIELDS = ("time", "level", "event", *Fields.__annotations__, "error", "place")

_request: ContextVar[dict[str, Any] | None] = ContextVar("sfumato_request", default=None)
# Errors of other packages are placed in this one too: where it called them.
_PACKAGE = Path(__file__).parents[1]


@contextmanager
def noting() -> Iterator[dict[str, Any]]:
    """Let :func:`note` add fields to the log line of this block, also from the threads that work for it."""
    notes: dict[str, Any] = {}
    before = _request.set(notes)
    try:
        yield notes
    finally:
        _request.reset(before)


def note(*, tenant: str | None = None, key: str | None = None, job: str | None = None) -> None:
    """Add the caller's ids to the log line of the current request."""
    notes = _request.get()
    if notes is not None:
        notes |= {
            name: value
            for name, value in (("tenant", tenant), ("key", key), ("job", job))
            if value is not None
        }


def told(
    event: str, *, level: str = "info", error: BaseException | None = None, **fields: Unpack[Fields]
) -> None:
    """Write one log line; an ``error`` is logged by its type and place, never by its message."""
    if unknown := fields.keys() - Fields.__annotations__.keys():
        raise TypeError(f"no line of the log has {', '.join(unknown)}")
    given: dict[str, Any] = {"level": level, **fields}
    if given.get("ms") is not None:
        given["ms"] = round(given["ms"], 3)
    if error is not None:
        given |= {"error": type(error).__name__, "place": place_of(error.__traceback__)}
    _log.info(event, **{name: value for name, value in given.items() if value is not None})


def place_of(trace: TracebackType | None) -> str | None:
    """Return where ``error`` was raised: files and line numbers, without values."""
    frames = traceback.extract_tb(trace)
    if not frames:
        return None
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    named = [frames[-1]] if not ours or ours[-1] is frames[-1] else [frames[-1], ours[-1]]
    return " in ".join(f"{_shortened(frame.filename)}:{frame.lineno}" for frame in named)


def start(file: Path | None = None) -> None:
    """Start logging to ``file``, readable by its owner only, or to standard error.

    Other packages' records are included. Each line is one write to the end of the file, so several processes
    may share it.
    """
    global _log
    if file is None:
        descriptor = sys.stderr.fileno()
    else:
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise BadInput(f"the log {file} cannot be written: {error.strerror}.") from None
    _log = _made(_Lines(descriptor))
    warnings.simplefilter("ignore", Forewarning)  # whoever asks is told in the answer
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _Others)]:
        root.removeHandler(handler)
    root.addHandler(_Others(logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        # Whoever sets up logging by a document switches off the loggers that it does not name.
        logger.handlers, logger.propagate, logger.disabled = [], True, False
        logger.setLevel(logging.NOTSET)
    logging.captureWarnings(True)


class _Lines:
    """A structlog logger that writes each line at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def msg(self, line: str) -> None:
        # A full disk or a closed terminal must not end a release that is paid for.
        try:
            os.write(self._descriptor, line.encode() + b"\n")
        except OSError:
            return

    info = msg


class _Others(logging.Handler):
    """A handler for records of other packages, which drops their messages."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        told(
            "library",
            level=record.levelname.lower(),
            source=f"{record.name} {_shortened(record.pathname)}:{record.lineno}",
            error=error,
        )


def _allowed(_logger: Any, _method: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in FIELDS if name in line}


def _made(lines: _Lines) -> Any:
    return structlog.wrap_logger(
        lines,
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _allowed,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _shortened(file: str) -> str:
    """Return the last parts of a path, without the folder in which this machine keeps its packages."""
    return "/".join(Path(file).parts[-3:])


_log = _made(_Lines(2))
