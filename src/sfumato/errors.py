"""The errors a person meets: each is one sentence that says what to do, each has its exit code.

What is not refused, and should be known before it is done, is a :class:`Forewarning`.
"""

from __future__ import annotations

__all__ = ["BadInput", "Forewarning", "RequestReused", "SfumatoError", "StorageFailed", "StorageFull"]


class SfumatoError(Exception):
    """Anything Sfumato refuses to do; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class BadInput(SfumatoError, ValueError):
    """A parameter, file or array that cannot be used; nothing was released and nothing spent."""

    exit_code = 2


class RequestReused(BadInput):
    """A request, or its idempotency key, that was given to something else before; nothing was spent."""


class StorageFailed(SfumatoError):
    """A disk that cannot be written, through no fault of the input; what was paid before stays paid."""

    exit_code = 6


class StorageFull(StorageFailed):
    """There is no room for what is to be written, on the disk or in what a tenant may keep there."""


class Forewarning(UserWarning):
    """Something public that should be known before records are used, such as a δ that promises little."""
