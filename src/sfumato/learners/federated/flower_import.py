"""Flower and Ray without reports of their use, and a sentence where they are missing.

Both tell their makers that they run, unless told not to before they are imported; this package says so when
it is imported itself.
"""

from __future__ import annotations

import importlib.util
import os

from sfumato.errors import BadInput

__all__ = ["QUIET", "require_flower"]

#: What is set in the environment, where it is not set already; processes that are started inherit it.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)


def require_flower(what: str = "federated learning on Flower") -> None:
    """Refuse with the pip line where Flower is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise BadInput(f"{what} needs flwr: pip install 'sfumato[federated]'.")
