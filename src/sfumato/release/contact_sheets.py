"""Contact sheets of released pictures, beside what they were made from; for whoever may see the originals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import file_to_read, kind_of
from sfumato.io.image_files import read_picture
from sfumato.io.stores import LocalStore
from sfumato.io.video_files import open_video
from sfumato.loading import open_cv
from sfumato.media.detect import named_detectors
from sfumato.media.images.sensitivity_map import SensitivityMap
from sfumato.release.manifest import MANIFEST
from sfumato.release.protected_file import Report
from sfumato.reports import ContactSheet

__all__ = ["contact_sheet"]

# The longer side of what is shown, in pixels.
_SIDE = 360
_DETECTORS = ("faces", "text", "plates", "saliency")
_TILE = 16


def contact_sheet(
    original: Path, released: Path, count: int, report: Report, names: Path | None = None
) -> ContactSheet:
    """The first ``count`` pictures of two folders, or those of two files, that stand in both.

    ``names`` is the file that says which released file is of which source, where they were numbered.
    Of a video its middle frame is shown. The map is what detectors see in the original; it is drawn for this
    sheet, whether or not the noise followed one.
    """
    pairs = list(islice(_pairs(original, released, _sources(names)), count))
    if not pairs:
        raise BadInput(
            f"{released.name} holds no released picture of {original.name}, so there is nothing to show; of "
            "files that were numbered, the file of their names tells the sources."
        )
    captions, before, maps, after = [], [], [], []
    detectors = named_detectors(_DETECTORS)  # once, since they load models when they first look
    for number, (name, old, new) in enumerate(pairs):
        first, second = _looked_at(old), _looked_at(new)
        if first.shape != second.shape:
            raise BadInput(f"{name} is not a release of the picture of the same name: their sizes differ.")
        found = SensitivityMap.from_picture(first, detectors, tile=_TILE, alone=False)
        captions.append(f"{name}, {first.shape[1]} × {first.shape[0]} pixels")
        before.append(_shrunk(first))
        maps.append(_shrunk(found.picture(first.shape)))
        after.append(_shrunk(second))
        report("looking at pictures", (number + 1) / len(pairs))
    return ContactSheet(tuple(captions), tuple(before), tuple(maps), tuple(after))


def _sources(names: Path | None) -> dict[str, str]:
    """Which released file is of which source, as ``protect`` writes it for the owner."""
    if names is None:
        return {}
    try:
        read = json.loads(file_to_read(names).read_text("utf-8"))
        return {str(name): str(source) for name, source in read.items()}
    except (ValueError, AttributeError, RecursionError):
        raise BadInput(f"{names.name} does not say which released file is of which source.") from None


def _pairs(original: Path, released: Path, sources: Mapping[str, str]) -> Iterator[tuple[str, Path, Path]]:
    if not released.is_dir():
        if kind_of(released) in ("picture", "video"):
            yield released.name, original / released.name if original.is_dir() else original, released
        return
    for name in LocalStore(released).names():
        if Path(name).name == MANIFEST or name.endswith(".cert.json"):
            continue
        source = sources.get(name, name)
        if kind_of(name) in ("picture", "video") and (original / source).is_file():
            yield source, original / source, released / name


def _looked_at(path: Path) -> NDArray[np.uint8]:
    """The picture, or the middle frame, at ``path`` as bytes (h, w, 3)."""
    if kind_of(path) == "video":
        source = open_video(path)
        return next(islice(source.pictures(), source.frames // 2, None)).pixels
    values = read_picture(path).values
    values = values[:, :, None] if values.ndim == 2 else values
    if values.dtype == np.uint16:
        values = (values >> 8).astype(np.uint8)
    # Transparency is looked at on white.
    if values.shape[2] in (2, 4):
        alpha = values[:, :, -1:].astype(np.float32) / 255.0
        values = np.rint(values[:, :, :-1] * alpha + 255.0 * (1.0 - alpha)).astype(np.uint8)
    return np.repeat(values, 3, axis=2) if values.shape[2] == 1 else values


def _shrunk(view: NDArray[Any]) -> NDArray[np.uint8]:
    cv2 = open_cv()
    scale = min(1.0, _SIDE / max(view.shape[:2]))
    size = max(1, round(view.shape[1] * scale)), max(1, round(view.shape[0] * scale))
    return np.asarray(cv2.resize(view, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
