"""Public annotations of pictures: a file of boxes, by the name of the picture, as a map for each of them.

Sounds, released block by block at their own rate, length and depth.

Pictures, each released whole in its own shape and depth.

Videos, released frame by frame with their sound, in their own size, times and length.

Which mechanism each kind of media goes through.

Contact sheets of released pictures, beside what they were made from; for whoever may see the originals.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import (
    First,
    LocalStore,
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
from sfumato.loading import open_cv
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.media.audio import SoundMechanism
from sfumato.media.detect import named_detectors
from sfumato.media.images import Mask, PictureMechanism, PlaneMeans, SensitivityMap, annotated_map
from sfumato.noise import Keyed
from sfumato.privacy import Unit
from sfumato.release.combined_statement import INSIDE_ONE_FILE
from sfumato.release.path import MediaFile, Report, per_item
from sfumato.release.request import keyed
from sfumato.reports import MANIFEST, ContactSheet

__all__ = ["DeclaredMaps", "MediaMechanisms", "contact_sheet"]

# By how samples are stored; the most that others take is a double.
_SAMPLE_BYTES = {"PCM_16": 3, "PCM_24": 4, "PCM_32": 5, "FLOAT": 5, "VORBIS": 3, "OPUS": 3}


class SoundFile(MediaFile):
    """A sound that goes through ``mechanism``."""

    mechanism: SoundMechanism

    def __init__(self, path: Path, mechanism: SoundMechanism) -> None:
        self.source = open_sound(path)
        self.path, self.values = path, self.source.samples * self.source.channels
        self.mechanism = mechanism.shaped(self.source.shape, self.source.rate)
        self.what = f"a sound of {self.source.seconds:.1f} seconds at {self.source.rate:,} Hz"
        self.statement = per_item(self.mechanism.statement(self.values))
        self.mechanism.prepare(self.values, np.dtype(np.float64))

    def fits(self, output: Path) -> None:
        """Any format of sound holds any sound."""
        self._sink(output)

    def decode(self, report: Report) -> None:
        """Decode it to its end."""
        done = 0
        for block in self.source.blocks():
            self.mechanism.check(block, done)
            done += len(block)
            report("checking", done / self.source.samples)

    def most_bytes(self, output: Path) -> int:
        """Every sample in full; no format makes it larger."""
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


# Pixels; a JSON number may be larger than any picture, and than what can be rounded.
_LARGEST = 1_000_000


class DeclaredMaps:
    """Boxes for each picture: ``{name: {"boxes": [{"category": …, "bbox_xywh": […]}, …]}, …}``.

    Whoever declares them says that they are public: noise that follows them shows them.
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
        """What ``mechanism`` is told of the picture at ``path``, which has ``name`` in its folder.

        A mask covers every box; noise follows what the boxes' categories give away.
        """
        boxes = next((self._boxes[key] for key in (name, path.name) if key in self._boxes), None)
        if boxes is None:
            raise BadInput(f"{self._source} declares no boxes for {path.name}, not even an empty list.")
        if not all(_is_box(box) for box in boxes):
            raise BadInput(
                f"{self._source} declares boxes for {path.name} that are none; a category and a bbox_xywh of "
                "four numbers, with sides from 0 to a million pixels, are accepted."
            )
        if isinstance(mechanism, Mask):
            return {"mask": BoxMask([box["bbox_xywh"] for box in boxes], shape)}
        return {"declared": annotated_map(boxes, shape)}


class BoxMask:
    """Which pixels of a picture of ``shape`` boxes (x, y, width, height) touch, as an array and by digest."""

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


_JPEG = (".jpg", ".jpeg")


class ShapedPictures:
    """``mechanism`` prepared for pictures of one shape and type, and what their release will state.

    Both are pure functions of the parameters and the shape, so all pictures of a folder that have one shape
    share them.
    """

    def __init__(self, mechanism: PictureMechanism, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.values = math.prod(shape)
        self.mechanism = mechanism.shaped(shape)
        self.what = f"a picture of {shape[1]} × {shape[0]} pixels"
        self.statement = self.mechanism.statement(self.values)
        self.mechanism.prepare(self.values, dtype)


class PictureFile(MediaFile):
    """A picture that goes through ``mechanism``, which is given the map that ``maps`` declare for it.

    ``name``, its name in a folder, keeps its keyed noise apart. ``known`` holds what was prepared for other
    pictures that go through ``mechanism``, by their shape and type.
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
        self.mechanism, self._prepared = _named(prepared.mechanism, name), prepared

    def fits(self, output: Path) -> None:
        """Refuse, say, a JPEG for 16 bits or for transparency."""
        check_storable(output, self.header.shape, self.header.dtype)

    def decode(self, report: Report) -> None:
        """Decode it."""
        self.read()

    def most_bytes(self, output: Path) -> int:
        """Noise is hardly packed, and no format makes it twice as large."""
        return 2 * self.values * self.header.dtype.itemsize + (64 << 10)

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Decode, perturb, encode."""
        (data,) = self.encoded([self], [self.read()], output.suffix.lower())
        write_whole(output, data, first=first)

    def alike(self, output: Path) -> object:
        """What pictures that can be drawn together have in common; None where each is drawn alone.

        Fresh noise is drawn for all of them, and keyed noise for each from its own streams. Seeded noise
        starts anew in every file.
        """
        if not self.mechanism.batched or self.mechanism.reproducible:
            return None
        return id(self._prepared), output.suffix.lower()

    @staticmethod
    def encoded(files: Sequence[PictureFile], rows: Sequence[NDArray[Any]], suffix: str) -> list[bytes]:
        """Draw ``files``, which are alike and hold ``rows``; their releases in the format of ``suffix``.

        Colour that ends in a JPEG stays in its planes of luma and chroma, from the noise to the file.
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

    ``unit`` is the headline; by default, and where it is of sounds and there is none, that of the pictures.
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
        """That of one frame, and that of the sound."""
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
        """Half of what the frames are unpacked: an estimate, not a bound, since encoders promise none."""
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


_M = TypeVar("_M", PictureMechanism, SoundMechanism)


@dataclass(frozen=True)
class MediaMechanisms:
    """A mechanism for pictures, which the frames of videos go through too, and one for sounds.

    Files of a kind without a mechanism are refused, one by one. ``maps`` are public annotations that a
    content-adaptive mechanism for pictures follows, or a mask covers. ``unit`` is the one
    that was asked for: the headline of a video that has it, by default that of its pictures, and of a folder.
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
        """``mechanism`` for the media that it is for."""
        if isinstance(mechanism, MediaMechanisms):
            return replace(mechanism)  # whose mechanisms may have been changed since it was used
        if isinstance(mechanism, PictureMechanism):
            return cls(picture=mechanism)
        if isinstance(mechanism, SoundMechanism):
            return cls(sound=mechanism)
        raise BadInput(
            f"{type(mechanism).__name__} is for records; pictures and videos go through PlaneMeans and its "
            "kin, sounds through BandNoise.",
            parameter="mechanism",
        )

    @property
    def apart(self) -> str:
        """Why no unit is in two files of a folder."""
        return INSIDE_ONE_FILE

    @property
    def of_folders(self) -> Unit | None:
        """The headline of a folder: what is a clip in a sound or a video is an item in any file."""
        return Unit("item") if self.unit == Unit("clip") else self.unit

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw some of the noise again."""
        return any(part.reproducible for part in (self.picture, self.sound) if part is not None)

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that noise is drawn from, if all of it is."""
        keys = [part.keyed for part in self._drawing_noise()]
        return None if None in keys else next(iter(keys), None)

    @property
    def draws_noise(self) -> bool:
        """Whether there is any randomness in a release."""
        return bool(self._drawing_noise())

    def keyed_by(self, noise: Keyed) -> MediaMechanisms:
        """The same mechanisms with noise from a secret."""
        picture = None if self.picture is None else keyed(self.picture, noise)
        sound = None if self.sound is None else keyed(self.sound, noise)
        return replace(self, picture=picture, sound=sound)

    def _drawing_noise(self) -> list[PictureMechanism | SoundMechanism]:
        return [part for part in (self.picture, self.sound) if part is not None and _draws(part)]

    def open(self, path: Path, name: str | None = None) -> MediaFile:
        """The file at ``path``; ``name``, its name in a folder, keeps the keyed noise of many files apart."""
        kind = None
        with suppress(BadInput):  # a suffix that is not known
            kind = kind_of(path)
        if kind == "picture":
            mechanism = self._for_pictures(path)
            return PictureFile(path, mechanism, maps=self.maps, name=name, known=self._known)
        if kind == "sound":
            return SoundFile(path, _named(self._for_sounds(path), name))
        if kind == "video":
            if self.maps is not None:
                raise BadInput(f"{path.name} is a video, and boxes are declared for pictures alone.")
            picture, sound = _named(self._for_pictures(path), name), self.sound
            return VideoFile(path, picture, None if sound is None else _named(sound, name), unit=self.unit)
        by_itself = "" if kind is None else "; release it by itself"
        raise BadInput(f"{path.name} is no picture, sound or video{by_itself}.")

    def _for_pictures(self, path: Path) -> PictureMechanism:
        if self.picture is None:
            raise BadInput(f"{path.name} has pictures, and no mechanism for them was given.")
        return self.picture

    def _for_sounds(self, path: Path) -> SoundMechanism:
        if self.sound is None:
            raise BadInput(f"{path.name} is a sound, and no mechanism for sounds was given.")
        return self.sound


def _named(mechanism: _M, name: str | None) -> _M:
    """``mechanism`` with keyed noise of its own for the file ``name``."""
    noise = mechanism.keyed
    # A name need not be text that can be encoded; what ascii makes of it can, and no two become the same.
    return mechanism if noise is None or name is None else keyed(mechanism, noise.part(ascii(name)))


def _draws(mechanism: PictureMechanism | SoundMechanism) -> bool:
    return "randomness" in mechanism.get_params(deep=False)


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
        if not (original / source).is_file():
            source = source.rpartition(".")[0]  # a release in another format has both suffixes
        if source and kind_of(name) in ("picture", "video") and (original / source).is_file():
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
