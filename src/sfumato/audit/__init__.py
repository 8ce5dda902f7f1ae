"""Attacks on releases and models, and the lower bounds on ε that they prove."""

from sfumato.audit.finding import Finding

__all__ = ["Finding"]
