"""Pictures, each released whole in its own shape and depth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic import First
from sfumato.io.image_files import check_storable, picture_header, read_picture, write_picture
from sfumato.media.images.image_mechanism import PictureMechanism
from sfumato.release.declared_maps import DeclaredMaps
from sfumato.release.protected_file import Report
from sfumato.release.source_file import MediaFile

__all__ = ["PictureFile"]


class PictureFile(MediaFile):
    """A picture that goes through ``mechanism``, which is given the map that ``maps`` declare for it."""

    mechanism: PictureMechanism

    def __init__(
        self,
        path: Path,
        mechanism: PictureMechanism,
        *,
        maps: DeclaredMaps | None = None,
        name: str | None = None,
    ) -> None:
        self.header = picture_header(path)
        shape = self.header.shape
        self.path, self.values = path, math.prod(shape)
        if maps is not None:
            declared = maps.parameters(mechanism, path, name, shape)
            mechanism = type(mechanism)(**(mechanism.get_params(deep=False) | declared))
        self.mechanism = mechanism.shaped(shape)
        self.what = f"a picture of {shape[1]} × {shape[0]} pixels"
        self.statement = self.mechanism.statement(self.values)
        self.mechanism.prepare(self.values, self.header.dtype)

    def fits(self, output: Path) -> None:
        """Refuse, say, a JPEG for 16 bits or for transparency."""
        check_storable(output, self.header.shape, self.header.dtype)

    def decode(self, report: Report) -> None:
        """Decode it."""
        self._row()

    def most_bytes(self, output: Path) -> int:
        """Noise is hardly packed, and no format makes it twice as large."""
        return 2 * self.values * self.header.dtype.itemsize + (64 << 10)

    def write(self, output: Path, first: First, report: Report) -> None:
        """Decode, perturb, encode."""
        released = self.mechanism.perturb(self._row())
        write_picture(output, released.reshape(self.header.shape), first=first)

    def _row(self) -> NDArray[Any]:
        picture = read_picture(self.path)
        if picture.header != self.header:
            raise BadInput(f"{self.path.name} has changed since it was opened.")
        row = picture.values.reshape(1, -1)
        self.mechanism.check(row)
        return row
