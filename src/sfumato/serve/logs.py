"""Logs: lines of JSON about what was asked and how it ended, that cannot hold a private value.

A line has only the fields that :func:`told` takes, each a word, a number or an id that was made here. What
other packages log is told by its place in their code and the type of its error; their words, into which they
put whatever they were working on, are left out.
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
from typing import Any

import structlog

from sfumato.errors import BadInput, Forewarning

__all__ = ["FIELDS", "note", "noting", "place_of", "start", "told"]

#: Everything that a line may have.
FIELDS = (
    "time", "level", "event", "request", "tenant", "key", "job", "route", "method",
    "status", "refusal", "ms", "bytes_in", "bytes_out", "worker", "error", "place", "source",
)  # fmt: skip

_request: ContextVar[dict[str, Any] | None] = ContextVar("sfumato_request", default=None)
# Errors of other packages are placed in this one too: where it called them.
_PACKAGE = Path(__file__).parents[1]


@contextmanager
def noting() -> Iterator[dict[str, Any]]:
    """What :func:`note` says in this block, also in the threads that work for it."""
    notes: dict[str, Any] = {}
    before = _request.set(notes)
    try:
        yield notes
    finally:
        _request.reset(before)


def note(*, tenant: str | None = None, key: str | None = None, job: str | None = None) -> None:
    """Say who asks in the request under way, for the line that is written at its end."""
    notes = _request.get()
    if notes is not None:
        notes |= {
            name: value
            for name, value in (("tenant", tenant), ("key", key), ("job", job))
            if value is not None
        }


def told(
    event: str,
    *,
    level: str = "info",
    request: str | None = None,
    tenant: str | None = None,
    key: str | None = None,
    job: str | None = None,
    route: str | None = None,
    method: str | None = None,
    status: int | str | None = None,
    refusal: str | None = None,
    ms: float | None = None,
    bytes_in: int | None = None,
    bytes_out: int | None = None,
    worker: int | None = None,
    error: BaseException | None = None,
    source: str | None = None,
) -> None:
    """Write one line; of an ``error`` its type and place, never its words."""
    given = {
        "level": level,
        "request": request,
        "tenant": tenant,
        "key": key,
        "job": job,
        "route": route,
        "method": method,
        "status": status,
        "refusal": refusal,
        "ms": None if ms is None else round(ms, 3),
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "worker": worker,
        "source": source,
    }
    if error is not None:
        given |= {"error": type(error).__name__, "place": place_of(error.__traceback__)}
    _log.info(event, **{name: value for name, value in given.items() if value is not None})


def place_of(trace: TracebackType | None) -> str | None:
    """Where an error was raised, and where in this package: files and lines, without what was in them."""
    frames = traceback.extract_tb(trace)
    if not frames:
        return None
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    named = [frames[-1]] if not ours or ours[-1] is frames[-1] else [frames[-1], ours[-1]]
    return " in ".join(f"{_shortened(frame.filename)}:{frame.lineno}" for frame in named)


def start(file: Path | None = None) -> None:
    """Write lines to ``file``, which only its owner may read, or to standard error; also of other packages.

    Each line is one write to the end of the file, so several processes may share it.
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
    """A logger of structlog's that writes each line at once."""

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
    """What other packages log, as lines without their words."""

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
    """The last parts of a path: enough to find it, without where a machine keeps its packages."""
    return "/".join(Path(file).parts[-3:])


_log = _made(_Lines(2))
