"""How the curves of all three figures look: a method has the same colour and marker in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["SOUND_FEDERATED", "SOUND_GAUSSIAN", "SOUND_LAPLACE", "legend", "look"]

SOUND_LAPLACE, SOUND_GAUSSIAN = "sound, at TLDP-L's (ε, δ)", "sound, at TLDP-G's (ε, δ)"
SOUND_FEDERATED = "sound: noise for the whole client, all rounds"
#: Curve -> colour, marker, line; in the order of a legend.
_LOOKS = {
    SOUND_LAPLACE: ("#2166ac", "D", "-"),
    SOUND_GAUSSIAN: ("#1b7837", "^", "-"),
    SOUND_FEDERATED: ("#2166ac", "D", "-"),
    "TLDP-L": ("#b2182b", "o", "-"),
    "TLDP-G": ("#e08214", "s", "-"),
    "TLDP-L-w": ("#f4a582", "o", "--"),
    "TLDP-G-w": ("#fdb863", "s", "--"),
    "TLDP-L, Δ = 256": ("#f4a582", "o", "-"),
    "TLDP-G, Δ = 256": ("#fdb863", "s", "-"),
    "TLDP-L, averaged first": ("#67001f", "o", "--"),
    "TLDP-G, averaged first": ("#7f3b08", "s", "--"),
    "LLAGP": ("#1b7837", "^", "--"),
    "DPHSGD": ("#762a83", "P", "--"),
    "Laplace": ("#8c8c8c", "v", ":"),
    "Gaussian": ("#a6761d", "<", ":"),
    "MVG": ("#bdbdbd", ">", ":"),
    "IDN": ("#525252", "x", ":"),
}


def look(kind: str) -> dict[str, Any]:
    """What matplotlib is told to draw the curve of ``kind``."""
    colour, marker, line = _LOOKS[kind]
    return {"color": colour, "marker": marker, "linestyle": line, "markersize": 4.5, "linewidth": 1.3}


def legend(figure: Any, handles: Mapping[str, Any]) -> None:
    """Name the curves below all panels."""
    order = [kind for kind in _LOOKS if kind in handles]
    drawn = [handles[kind] for kind in order]
    figure.legend(drawn, order, loc="outside lower center", ncols=5, frameon=False)
