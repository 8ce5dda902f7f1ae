"""Attacks on releases and models, and the lower bounds on ε that they prove.

``sf.audit(release, original=X)`` runs the standard audit of a data release.
"""

from sfumato.audit.auditing import audit
from sfumato.audit.finding import Finding
from sfumato.audit.result import Audit
from sfumato.calls import answer_calls

__all__ = ["Audit", "Finding", "audit"]

answer_calls(__name__, "audit")
