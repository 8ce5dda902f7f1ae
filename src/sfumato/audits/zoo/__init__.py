"""A zoo of broken mechanisms, each a mistake that people make, and of sound ones, to try the audit on."""

from sfumato.audits.zoo import choices, client_sums, data_dependence, noise_reuse, noise_scale, output_support
from sfumato.audits.zoo.suspect import Suspect

__all__ = ["Suspect", "broken", "sound"]

_THEMES = (noise_scale, data_dependence, noise_reuse, output_support, choices, client_sums)


def broken() -> tuple[Suspect, ...]:
    """Mechanisms that promise more than they keep; each must be caught."""
    return tuple(suspect for theme in _THEMES for suspect in theme.broken())


def sound() -> tuple[Suspect, ...]:
    """Mechanisms that keep their promise; an audit at confidence c accuses each with chance 1 − c at most."""
    return tuple(suspect for theme in _THEMES for suspect in theme.sound())
