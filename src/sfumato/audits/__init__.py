"""Attacks on releases and models, and the lower bounds on ε that they prove.

``sf.audit(release, original=X)`` runs the standard audit of a data release; with ``mechanism_only=True`` it
draws the mechanism anew on worst-case rows and needs no data. ``audit_model`` and ``audit_learner`` audit
models, ``distinguish`` plays a mechanism on its worst pair of neighbours, ``self_test`` checks the auditor.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
