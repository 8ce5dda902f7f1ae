"""Pictures, clips and speech: real ones from the folder of data, or what scikit-image and scikit-learn ship.

Photographs are split by file: one belongs to the statistics of this package where the first byte of the
SHA-256 of its name is even, and to the tests where it is odd. Results are measured on the latter.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato_reproductions.datasets import FOLDER
from sfumato_reproductions.multimedia_dp.protocol import SIDE, Run

__all__ = ["Photograph", "Sources", "Speech", "check_media", "shipped_picture"]

Bytes = NDArray[np.uint8]

_TESTED_TAKES = 4
# In the astronaut of scikit-image: x, y, width, height of her head and shoulders.
_ASTRONAUT: tuple[Mapping[str, Any], ...] = ({"category": "person", "bbox_xywh": [150.0, 0.0, 200.0, 300.0]},)


@dataclass(frozen=True, eq=False)
class Photograph:
    """Pixels (h, w, 3) and declared boxes, each with ``category`` and ``bbox_xywh``."""

    name: str
    pixels: Bytes
    boxes: tuple[Mapping[str, Any], ...] = ()

    @property
    def people(self) -> list[list[float]]:
        """The boxes of people."""
        return [list(box["bbox_xywh"]) for box in self.boxes if box["category"] == "person"]

    def square(self) -> Photograph:
        """The middle ``SIDE`` × ``SIDE`` pixels after the shorter side was shrunk to 256, boxes with it."""
        import cv2

        height, width = self.pixels.shape[:2]
        factor = 256.0 / min(height, width)
        size = (round(width * factor), round(height * factor))
        small = cv2.resize(self.pixels, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC)
        top, left = (small.shape[0] - SIDE) // 2, (small.shape[1] - SIDE) // 2
        boxes = []
        for box in self.boxes:
            x, y, wide, high = (factor * side for side in box["bbox_xywh"])
            x0, x1 = (min(max(edge - left, 0.0), SIDE) for edge in (x, x + wide))
            y0, y1 = (min(max(edge - top, 0.0), SIDE) for edge in (y, y + high))
            if x1 - x0 >= 1.0 and y1 - y0 >= 1.0:
                boxes.append({**box, "bbox_xywh": [x0, y0, x1 - x0, y1 - y0]})
        cut = np.ascontiguousarray(small[top : top + SIDE, left : left + SIDE], dtype=np.uint8)
        return Photograph(self.name, cut, tuple(boxes))


@dataclass(frozen=True, eq=False)
class Speech:
    """Recordings (n,) each at ``rate``, who speaks, which digit, and which recordings are tested on."""

    recordings: tuple[NDArray[np.float32], ...]
    speakers: NDArray[np.int64]
    digits: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    rate: int


class Sources:
    """What is measured on in one run, read when it is first asked for."""

    def __init__(self, run: Run) -> None:
        folder = os.environ.get(FOLDER)
        self.run, self.folder = run, None if not folder else Path(folder)

    @cached_property
    def photographs(self) -> tuple[Photograph, ...]:
        """Those that results are measured on."""
        found = self._photographs(odd=True)[: self.run.photographs]
        return tuple(map(self._read, found)) if found else _shipped()[: self.run.photographs]

    @cached_property
    def public_photographs(self) -> tuple[Photograph, ...]:
        """Those that something may be learned from; none of them is tested on."""
        found = self._photographs(odd=False)[: 4 * self.run.photographs]
        return tuple(map(self._read, found)) if found else _shipped()[3:]

    @cached_property
    def squares(self) -> tuple[Photograph, ...]:
        """Photographs of ``SIDE`` × ``SIDE`` pixels."""
        return tuple(photograph.square() for photograph in self.photographs)

    @cached_property
    def portraits(self) -> tuple[str, Bytes]:
        """Grey pictures of one face each, (n, h, w), and where they come from."""
        file = self._file("orl_faces.npz")
        if file is None:
            import skimage

            # Read as a file: the function of scikit-image would look for a newer one on the network.
            shipped = np.load(Path(skimage.__file__).parent / "data" / "lfw_subset.npy")[:100]
            return "faces of 25 × 25 pixels from scikit-image", np.rint(shipped * 255.0).astype(np.uint8)
        return "portraits of the AT&T/ORL set", np.asarray(_arrays(file, "x")["x"], dtype=np.uint8)

    @cached_property
    def clips(self) -> tuple[tuple[str, Bytes], ...]:
        """Names and frames (T, h, w, 3)."""
        folder = None if self.folder is None else self.folder / "videos"
        files = sorted(folder.glob("*.*")) if folder is not None and folder.is_dir() else []
        if not files:
            return (("a window that moves over a photograph of scikit-image", _made_clip(self.run.frames)),)
        from sfumato.io import open_video

        taken = []
        for file in files[: self.run.clips]:
            frames = zip(range(self.run.frames), open_video(file).pictures(), strict=False)
            taken.append((file.name, np.stack([frame.pixels for _, frame in frames])))
        return tuple(taken)

    @cached_property
    def speech(self) -> Speech | None:
        """Spoken digits; None where they are not at hand."""
        file = self._file("fsdd.npz")
        if file is None:
            return None
        found = _arrays(file, "audio", "offsets", "take", "speaker", "digit", "sample_rate")
        audio, offsets, rate = found["audio"], found["offsets"], int(found["sample_rate"])
        take, speaker, digit = (found[name].astype(np.int64) for name in ("take", "speaker", "digit"))
        # A quick run hears four of the digits.
        chosen = np.flatnonzero((take < self.run.takes) & ((digit < 4) | (not self.run.quick)))
        recordings = tuple((audio[offsets[i] : offsets[i + 1]] / 32768.0).astype(np.float32) for i in chosen)
        tested = min(_TESTED_TAKES, self.run.takes // 2)
        return Speech(recordings, speaker[chosen], digit[chosen], take[chosen] < tested, rate)

    def told(self) -> str:
        """What was measured on."""
        parts = []
        if self._photographs(odd=True):
            parts.append(f"{len(self.photographs)} photographs of COCO val2017 were measured on")
        else:
            parts.append(
                f"no folder of photographs was named by {FOLDER}, so {len(self.photographs)} pictures that "
                "scikit-image and scikit-learn ship were measured on, some of which our learned restoration "
                "has seen"
            )
        if "clips" in self.__dict__:
            parts.append(f"clips: {len(self.clips)} of {self.run.frames} frames at most")
            if not (self.folder is not None and (self.folder / "videos").is_dir()):
                parts[-1] += ", made from a photograph, since no real one was at hand"
        if "speech" in self.__dict__:
            count = 0 if self.speech is None else len(self.speech.recordings)
            parts.append(f"speech: {count:,} recordings" if count else "no speech was at hand")
        return "; ".join(parts) + "."

    def _photographs(self, odd: bool) -> list[Path]:
        folder = None if self.folder is None else self.folder / "photos"
        if folder is None or not (folder / "annotations.json").is_file():
            return []
        return [path for path in sorted(folder.glob("*.jpg")) if _odd(path) == odd]

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        assert self.folder is not None
        file = self.folder / "photos" / "annotations.json"
        try:
            found = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise BadInput(f"{file} is no JSON object of boxes by file name.")
        return found

    def _read(self, path: Path) -> Photograph:
        from sfumato.io import read_picture

        values = read_picture(path).values
        pixels = np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else values
        return Photograph(path.name, pixels, tuple(self._annotations.get(path.name, {}).get("boxes", ())))

    def _file(self, name: str) -> Path | None:
        file = None if self.folder is None else self.folder / name
        return file if file is not None and file.is_file() else None


def check_media() -> None:
    """Refuse to begin without what reads pictures."""
    if any(find_spec(name) is None for name in ("cv2", "skimage", "simplejpeg", "av")):
        raise BadInput("the multimedia tables need pictures and clips: pip install 'sfumato[media]'.")


def _arrays(file: Path, *names: str) -> dict[str, NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        raise BadInput(f"{file} is no NumPy archive with arrays {', '.join(names)}.") from None


def _odd(path: Path) -> bool:
    return hashlib.sha256(path.name.encode()).digest()[0] % 2 == 1


def shipped_picture(name: str) -> Bytes:
    """A picture that scikit-image ships, in bytes."""
    from skimage import data

    return np.asarray(getattr(data, name)(), dtype=np.uint8)


def _shipped() -> tuple[Photograph, ...]:
    from sklearn.datasets import load_sample_images

    china, flower = load_sample_images().images
    return (
        Photograph("astronaut", shipped_picture("astronaut"), _ASTRONAUT),
        Photograph("china", china),
        Photograph("coffee", shipped_picture("coffee")),
        Photograph("chelsea", shipped_picture("chelsea")),
        Photograph("flower", flower),
        Photograph("rocket", shipped_picture("rocket")),
    )


def _made_clip(frames: int) -> Bytes:
    """A still photograph of 160 × 160 pixels in which a square of 64 pixels moves from left to right."""
    still = shipped_picture("coffee")[:320:2, :320:2]
    moving = shipped_picture("astronaut")[20:148:2, 180:308:2]
    clip = np.repeat(still[None], frames, axis=0)
    for index in range(frames):
        left = index * (160 - 64) // max(frames - 1, 1)
        clip[index, :64, left : left + 64] = moving
    return np.ascontiguousarray(clip)
