"""Detectors by name, as the command line and statements spell them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import shown
from sfumato.media.detect.cascades import Faces, Plates
from sfumato.media.detect.detector import Detector
from sfumato.media.detect.saliency_detector import Saliency
from sfumato.media.detect.text_detector import Text

__all__ = ["DETECTORS", "named_detectors"]

DETECTORS: Mapping[str, Callable[[], Detector]] = {
    "faces": Faces,
    "plates": Plates,
    "text": Text,
    "saliency": Saliency,
}


_loaded = threading.local()


def named_detectors(chosen: Iterable[str | Detector]) -> tuple[Detector, ...]:
    """The detectors that ``chosen`` names; detectors themselves pass through."""
    alone = isinstance(chosen, str | Detector) or not isinstance(chosen, Iterable)
    listed: list[Any] = [chosen] if alone else list(chosen)
    known = [isinstance(each, Detector) or (isinstance(each, str) and each in DETECTORS) for each in listed]
    if not listed or not all(known):
        raise BadInput(
            f"`detectors` must be among {', '.join(DETECTORS)}, not {shown(listed)}.", parameter="detectors"
        )
    return tuple(each if isinstance(each, Detector) else _made(each) for each in listed)


def _made(name: str) -> Detector:
    """The detector ``name``: loaded once in every thread, since cascades and models are no place to meet."""
    made: dict[str, Detector] = _loaded.__dict__.setdefault("made", {})
    if name not in made:
        made[name] = DETECTORS[name]()
    return made[name]
