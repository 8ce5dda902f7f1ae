"""What a registry answers when it does not do as asked."""

from __future__ import annotations

from sfumato.errors import BadInput, SfumatoError

__all__ = ["Busy", "Conflict", "QuotaRefused", "RegistryUnavailable", "Unknown"]


class RegistryUnavailable(SfumatoError):
    """The database of tenants cannot be read or written, so nobody is let in."""

    exit_code = 2


class QuotaRefused(SfumatoError):
    """A tenant asked for more than its quota; nothing was counted.

    After ``seconds`` it may ask again; None where waiting does not help, since one request passes the whole.
    """

    exit_code = 3

    def __init__(self, sentence: str, seconds: float | None) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class Busy(SfumatoError):
    """The same is being asked for by somebody else, and it is not known yet what will become of it.

    After ``seconds`` it is.
    """

    seconds = 5.0


class Unknown(BadInput):
    """The tenant has nothing of this name; what another tenant has is answered in the same words."""


class Conflict(BadInput):
    """Somebody else was first: the name is taken, or what was to be replaced has changed meanwhile."""
