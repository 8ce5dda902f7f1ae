"""Units, guarantees, calibration, accounting and composition; no data and no formats live here.

A ``Guarantee`` is the proven column of a release, a ``Claim`` the claimed one, ``Evidence`` the measured
one, and a ``Statement`` the three together. ``composition`` holds composition theorems as plain numbers.

Names are loaded when they are first used: accounting takes longer to load than a command may.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
