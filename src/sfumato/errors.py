"""The errors a person meets: each is one sentence that says what to do, each has its exit code."""

from __future__ import annotations

__all__ = ["BadInput", "SfumatoError"]


class SfumatoError(Exception):
    """Anything Sfumato refuses to do; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class BadInput(SfumatoError, ValueError):
    """A parameter, file or array that cannot be used; nothing was released and nothing spent."""

    exit_code = 2
