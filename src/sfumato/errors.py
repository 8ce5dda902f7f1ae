"""The errors a person meets: each is one sentence that says what to do, each has its exit code.

What is not refused, and should be known before it is done, is a :class:`Forewarning`.
"""

from __future__ import annotations

__all__ = ["BadInput", "Forewarning", "SfumatoError"]


class SfumatoError(Exception):
    """Anything Sfumato refuses to do; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class BadInput(SfumatoError, ValueError):
    """A parameter, file or array that cannot be used; nothing was released and nothing spent."""

    exit_code = 2


class Forewarning(UserWarning):
    """Something public that should be known before records are used, such as a δ that promises little."""
