"""Files of media, and the mechanism that each kind of media goes through.

Images are released whole, each in its own shape and depth; audio block by block at its own rate, length and
depth; videos frame by frame with their sound, in their own size, times and length. Public boxes for images
may declare where a mechanism adds noise or paints.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import (
    First,
    SoundSink,
    VideoSink,
    check_storable,
    encode_many,
    encode_picture,
    file_to_read,
    kind_of,
    open_sound,
    open_video,
    picture_header,
    read_picture,
    write_whole,
)
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.media.audio import SoundMechanism
from sfumato.media.images import Mask, PictureMechanism, PlaneMeans, annotated_map
from sfumato.noise import Keyed
from sfumato.privacy import Statement, Unit
from sfumato.release.combined_statement import INSIDE_ONE_FILE
from sfumato.release.path import Content, Report, silent
from sfumato.release.record_files import Files, SourceFile
from sfumato.release.request import keyed, keyed_for
from sfumato.reports import file_digest

__all__ = ["DeclaredMaps", "MediaMechanisms"]

# By how samples are stored; the most that others take is a double.
_SAMPLE_BYTES = {"PCM_16": 3, "PCM_24": 4, "PCM_32": 5, "FLOAT": 5, "VORBIS": 3, "OPUS": 3}
# Pixels; a JSON number may be larger than any image, and than what can be rounded.
_LARGEST = 1_000_000
_JPEG = (".jpg", ".jpeg")


class MediaFile(SourceFile):
    """An image, an audio file or a video; only its pixels and samples are released, no metadata."""

    what: str

    @abstractmethod
    def decode(self, report: Report) -> None:
        """Decode all of it, which refuses what cannot be released; draw no noise."""

    def check(self, report: Report, content: Content | None = None) -> None:
        """Decode it; add the digest of the file to ``content``."""
        self.decode(report)
        if content is not None:
            digest = bytes.fromhex(file_digest(self.path))
            content.add(np.frombuffer(digest, np.uint8).reshape(1, -1))


def per_item(statement: Statement) -> Statement:
    """Return ``statement`` of a file that is one clip, with what it proves of the clip said of the item too.

    So a budget that counts items pays for audio and videos as it does for images.
    """
    stated = {part.unit.name: part for part in (statement.proven, *statement.also_proven)}
    if "item" in stated or "clip" not in stated:
        return statement
    item = replace(stated["clip"], unit=Unit("item"))
    return replace(statement, also_proven=(*statement.also_proven, item))


class SoundFile(MediaFile):
    """An audio file that goes through ``mechanism``."""

    mechanism: SoundMechanism

    def __init__(self, path: Path, mechanism: SoundMechanism) -> None:
        self.source = open_sound(path)
        self.path, self.values = path, self.source.samples * self.source.channels
        self.mechanism = mechanism.shaped(self.source.shape, self.source.rate)
        self.what = f"a sound of {self.source.seconds:.1f} seconds at {self.source.rate:,} Hz"
        self.statement = per_item(self.mechanism.statement(self.values))
        self.mechanism.prepare(self.values, np.dtype(np.float64))

    def fits(self, output: Path) -> None:
        """Any audio format holds any audio."""
        self._sink(output)

    def decode(self, report: Report) -> None:
        """Decode it to its end."""
        done = 0
        for block in self.source.blocks():
            self.mechanism.check(block, done)
            done += len(block)
            report("checking", done / self.source.samples)

    def most_bytes(self, output: Path) -> int:
        """Return the size of every sample in full; no format makes it larger."""
        return self.values * _SAMPLE_BYTES.get(self._sink(output).depth, 8) + (64 << 10)

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Decode, perturb and encode, block by block."""
        with self._sink(output) as sink:
            sink.accompany(first)
            for block in self.mechanism.blocks(self.source.blocks()):
                sink.write(block)
                report("drawing", sink.rows_written / self.source.samples)

    def _sink(self, output: Path) -> SoundSink:
        source = self.source
        return SoundSink(output, source.rate, source.channels, source.samples, source.depth)


class DeclaredMaps:
    """Boxes for each image: ``{name: {"boxes": [{"category": …, "bbox_xywh": […]}, …]}, …}``.

    They are declared public: noise that follows them shows them.
    """

    def __init__(self, boxes: Mapping[str, Sequence[Mapping[str, Any]]], source: str) -> None:
        self._boxes, self._source = dict(boxes), source

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DeclaredMaps:
        """Read the boxes in a JSON file."""
        file = file_to_read(path)
        document = None
        with suppress(ValueError, RecursionError):
            document = json.loads(file.read_text("utf-8"))
        return cls.of(document, file.name)

    @classmethod
    def of(cls, document: Any, source: str = "`map`") -> DeclaredMaps:
        """Return the boxes of a JSON document, which refusals call ``source``."""
        try:
            boxes = {name: list(entry["boxes"]) for name, entry in document.items()}
        except (KeyError, TypeError, AttributeError):
            raise BadInput(
                f'{source} must map the names of pictures to boxes, as in {{"a.jpg": {{"boxes": '
                '[{"category": "person", "bbox_xywh": [10, 20, 50, 80]}]}}.',
                parameter="map",
            ) from None
        return cls(boxes, source)

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`of` reads."""
        return {name: {"boxes": list(boxes)} for name, boxes in self._boxes.items()}

    def parameters(
        self, mechanism: PictureMechanism, path: Path, name: str | None, shape: Sequence[int]
    ) -> dict[str, Any]:
        """Return the parameters of ``mechanism`` for the image at ``path``, called ``name`` in its folder.

        A mask covers every box; noise follows the sensitivity of the boxes' categories.
        """
        boxes = next((self._boxes[key] for key in (name, path.name) if key in self._boxes), None)
        if boxes is None:
            raise BadInput(f"{self._source} declares no boxes for {path.name}, not even an empty list.")
        if not all(_is_box(box) for box in boxes):
            raise BadInput(
                f"{self._source} declares boxes for {path.name} that are not valid; a category and a "
                "bbox_xywh of four numbers, with sides from 0 to a million pixels, are accepted."
            )
        if isinstance(mechanism, Mask):
            return {"mask": BoxMask([box["bbox_xywh"] for box in boxes], shape)}
        return {"declared": annotated_map(boxes, shape)}


class BoxMask:
    """The pixels of an image of ``shape`` that boxes (x, y, width, height) touch, as an array."""

    def __init__(self, boxes: Iterable[Sequence[float]], shape: Sequence[int]) -> None:
        self._touched = np.zeros((shape[0], shape[1]), dtype=np.uint8)
        for x, y, width, height in boxes:
            left, top = max(0, math.floor(x)), max(0, math.floor(y))
            self._touched[top : max(0, math.ceil(y + height)), left : max(0, math.ceil(x + width))] = 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._touched, dtype=dtype)

    def __repr__(self) -> str:
        (height, width), digest = self._touched.shape, hashlib.sha256(self._touched.tobytes()).hexdigest()
        return f"boxes over {self._touched.mean():.1%} of {width} × {height} pixels, sha256 {digest}"


def _is_box(box: Any) -> bool:
    if not isinstance(box, Mapping) or not isinstance(box.get("category"), str):
        return False
    values = box.get("bbox_xywh")
    if not isinstance(values, list) or len(values) != 4:
        return False
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and all(abs(value) <= _LARGEST for value in values) and min(values[2:]) >= 0


class ShapedPictures:
    """``mechanism`` prepared for images of one shape and type, and what their release will state.

    Both are pure functions of the parameters and the shape, so all images of one shape in a folder share
    them.
    """

    def __init__(self, mechanism: PictureMechanism, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.values = math.prod(shape)
        self.mechanism = mechanism.shaped(shape)
        self.what = f"a picture of {shape[1]} × {shape[0]} pixels"
        self.statement = self.mechanism.statement(self.values)
        self.mechanism.prepare(self.values, dtype)


class PictureFile(MediaFile):
    """An image that goes through ``mechanism``, which is given the map that ``maps`` declare for it.

    ``name``, its name in a folder, keeps its keyed noise apart. ``known`` holds what was prepared for other
    images that go through ``mechanism``, by their shape and type.
    """

    mechanism: PictureMechanism

    def __init__(
        self,
        path: Path,
        mechanism: PictureMechanism,
        *,
        maps: DeclaredMaps | None = None,
        name: str | None = None,
        known: dict[tuple[object, ...], ShapedPictures] | None = None,
    ) -> None:
        self.path, self.header = path, picture_header(path)
        shape, dtype = self.header.shape, self.header.dtype
        if maps is not None:
            declared = maps.parameters(mechanism, path, name, shape)
            mechanism, known = type(mechanism)(**(mechanism.get_params(deep=False) | declared)), None
        prepared = None if known is None else known.get((shape, dtype))
        if prepared is None:
            prepared = ShapedPictures(mechanism, shape, dtype)
            if known is not None:
                known[shape, dtype] = prepared
        self.values, self.what, self.statement = prepared.values, prepared.what, prepared.statement
        self.mechanism, self._prepared = keyed_for(prepared.mechanism, name), prepared

    def fits(self, output: Path) -> None:
        """Refuse, say, a JPEG for 16 bits or for transparency."""
        check_storable(output, self.header.shape, self.header.dtype)

    def decode(self, report: Report) -> None:
        """Decode it."""
        self.read()

    def most_bytes(self, output: Path) -> int:
        """Return twice the size of the pixels: noise is hardly compressed, and no format doubles it."""
        return 2 * self.values * self.header.dtype.itemsize + (64 << 10)

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Decode, perturb, encode."""
        (data,) = self.encoded([self], [self.read()], output.suffix.lower())
        write_whole(output, data, first=first)

    def alike(self, output: Path) -> object:
        """Return what images that can be drawn together have in common; None if each is drawn alone.

        Fresh noise is drawn for all of them, and keyed noise for each from its own streams. Seeded noise
        starts anew in every file.
        """
        if not self.mechanism.batched or self.mechanism.reproducible:
            return None
        return id(self._prepared), output.suffix.lower()

    @staticmethod
    def encoded(files: Sequence[PictureFile], rows: Sequence[NDArray[Any]], suffix: str) -> list[bytes]:
        """Draw ``files``, which are alike and hold ``rows``; return them encoded in the format of ``suffix``.

        A colour JPEG stays in its planes of luma and chroma, from the noise to the file.
        """
        mechanism, shape = files[0].mechanism, files[0].header.shape
        X = rows[0] if len(rows) == 1 else np.concatenate(rows)
        keys = [file.mechanism.keyed for file in files if file.mechanism.keyed is not None]
        if len(keys) > 1:
            mechanism = keyed(mechanism, keys[0].beside(keys))
        if isinstance(mechanism, PlaneMeans) and suffix in _JPEG and len(shape) == 3:
            return encode_many(mechanism.soften_planes(X.reshape(-1, *shape), 255.0))
        return [encode_picture(one.reshape(shape), suffix) for one in mechanism.perturb(X)]

    def read(self) -> NDArray[Any]:
        """Decode it to a row of values, and refuse what cannot be released."""
        picture = read_picture(self.path)
        if picture.header != self.header:
            raise BadInput(f"{self.path.name} has changed since it was opened.")
        row = picture.values.reshape(1, -1)
        self.mechanism.check(row)
        return row


class VideoFile(MediaFile):
    """A video whose frames go through ``picture`` and whose sound goes through ``sound``.

    ``unit`` is the headline; by default, and if it is of audio and there is none, that of the frames.
    """

    def __init__(
        self,
        path: Path,
        picture: PictureMechanism,
        sound: SoundMechanism | None,
        *,
        unit: Unit | None = None,
    ) -> None:
        # Opening decodes it to its end: frames have to be counted, and a video that is cut off is refused.
        self.source = open_video(path)
        if self.source.sound is not None and sound is None:
            raise BadInput(f"{path.name} has a sound track, and no mechanism for sounds was given.")
        # A channel is the sound or the pictures; all other units of sounds need one.
        if unit is not None and unit.kind.of == "sound" and unit.size and self.source.sound is None:
            unit = None
        from sfumato.media.video import ClipNoise  # whose accounting takes a second to load

        self.noise = ClipNoise.of(picture, sound, unit=unit).shaped(self.source)
        self.path, self.mechanism = path, self.noise.picture
        self.values = self.source.frames * self.source.height * self.source.width * 3
        self.what = (
            f"a video of {self.source.frames:,} frames of {self.source.width} × {self.source.height} pixels"
        )
        self.statement = per_item(self.noise.statement())
        self.noise.prepare()

    def expected(self) -> tuple[ExpectedError, ...]:
        """Return that of one frame, and that of the sound."""
        pixels = self.source.height * self.source.width * 3
        sound, track = self.noise.sound, self.source.sound
        heard = () if sound is None or track is None else sound.expected_error(track.samples * track.channels)
        return (*self.mechanism.expected_error(pixels), *heard)

    def fits(self, output: Path) -> None:
        """Refuse, say, an AVI for frames that are not equally long."""
        self._sink(output)

    def decode(self, report: Report) -> None:
        """Decode its sound; its frames were decoded when it was opened."""
        for _ in self.source.sound_blocks():
            pass

    def most_bytes(self, output: Path) -> int:
        """Return an estimate, a quarter of all pixel values: encoders promise no bound."""
        track = self.source.sound
        heard = 0 if track is None else 4 * track.samples * track.channels
        return self.values // 4 + heard + (1 << 20)

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Decode, perturb, filter and encode, frame by frame."""
        from sfumato.media.video import soften_video

        with self._sink(output) as sink:
            sink.accompany(first)
            soften_video(self.source, sink, self.noise, report=lambda stage, share: report("drawing", share))

    def _sink(self, output: Path) -> VideoSink:
        return VideoSink(output, self.source)


@dataclass(frozen=True)
class MediaMechanisms(Files):
    """A mechanism for images, which the frames of videos go through too, and one for audio.

    Files of a kind without a mechanism are refused, one by one. ``maps`` are public annotations that a
    content-adaptive mechanism for images follows, or a mask covers. ``unit`` is the one that was given: the
    headline of a video that has it, by default that of its frames, and of a folder.
    """

    records = False

    picture: PictureMechanism | None = None
    sound: SoundMechanism | None = None
    maps: DeclaredMaps | None = None
    unit: Unit | None = None
    _known: dict[tuple[object, ...], ShapedPictures] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, Any]:
        # What was prepared is made again where it is needed.
        return self.__dict__ | {"_known": {}}

    @classmethod
    def of(cls, mechanism: Mechanism | MediaMechanisms) -> MediaMechanisms:
        """Return ``mechanism`` for the media that it is for."""
        if isinstance(mechanism, MediaMechanisms):
            return replace(mechanism)  # whose mechanisms may have been changed since it was used
        if isinstance(mechanism, PictureMechanism):
            return cls(picture=mechanism)
        if isinstance(mechanism, SoundMechanism):
            return cls(sound=mechanism)
        raise BadInput(
            f"{type(mechanism).__name__} is for records; images and videos go through mechanisms such as "
            "PlaneMeans, audio through BandNoise.",
            parameter="mechanism",
        )

    @property
    def apart(self) -> str:
        """Why no unit is in two files of a folder."""
        return INSIDE_ONE_FILE

    @property
    def headline(self) -> Unit | None:
        """The unit of the headline of a folder: a clip of audio or video is an item in any file."""
        return Unit("item") if self.unit == Unit("clip") else self.unit

    @property
    def mechanisms(self) -> Sequence[Mechanism]:
        """The mechanisms for images and for audio, as far as they are given."""
        return [one for one in (self.picture, self.sound) if one is not None]

    def keyed_by(self, noise: Keyed) -> Self:
        """Return the same mechanisms with noise from a secret."""
        picture = None if self.picture is None else keyed(self.picture, noise)
        sound = None if self.sound is None else keyed(self.sound, noise)
        return replace(self, picture=picture, sound=sound)

    def open(
        self, path: Path, name: str | None = None, part: range | None = None, report: Report = silent
    ) -> MediaFile:
        """Return the file at ``path``, which is never cut into parts."""
        kind = None
        with suppress(BadInput):  # a suffix that is not known
            kind = kind_of(path)
        if kind not in ("picture", "sound", "video"):
            by_itself = "" if kind is None else "; release it by itself"
            raise BadInput(f"{path.name} is no picture, sound or video{by_itself}.")
        if kind == "sound":
            if self.sound is None:
                raise BadInput(f"{path.name} is a sound, and no mechanism for sounds was given.")
            return SoundFile(path, keyed_for(self.sound, name))
        if self.picture is None:
            raise BadInput(f"{path.name} has pictures, and no mechanism for them was given.")
        if kind == "picture":
            return PictureFile(path, self.picture, maps=self.maps, name=name, known=self._known)
        if self.maps is not None:
            raise BadInput(f"{path.name} is a video, and boxes are supported for images only.")
        sound = None if self.sound is None else keyed_for(self.sound, name)
        return VideoFile(path, keyed_for(self.picture, name), sound, unit=self.unit)
