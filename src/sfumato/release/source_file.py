"""A file on its way to be released; of an opened one only the header was read."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.io.atomic import First
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.privacy import Statement, Unit
from sfumato.release.payment import Content
from sfumato.release.protected_file import Report

__all__ = ["MediaFile", "SourceFile", "digest_of", "per_item"]

_READ_BYTES = 1 << 20


class SourceFile(ABC):
    """One file, or a range of its rows, and the mechanism that it goes through.

    To open one prepares the mechanism: what can be refused from parameters and shape alone is refused there,
    so that a plan, a hold and a payment are only ever made for what can be drawn.

    ``statement`` is what its release will state. ``rows`` is how many records it holds, None where only
    reading tells; ``values`` is how many numbers each has. ``what`` names for people what is released, where
    that is not a number of records; ``left_out`` names what is not. ``declared`` holds as JSON values what
    shapes the noise beside the statement's parameters.
    """

    path: Path
    mechanism: Mechanism
    statement: Statement
    values: int
    rows: int | None = 1
    what: str | None = None
    left_out: tuple[str, ...] = ()
    declared: Mapping[str, Any] | None = None

    @abstractmethod
    def fits(self, output: Path) -> None:
        """Refuse an ``output`` whose format cannot hold the release; nothing has been read or paid yet."""

    @abstractmethod
    def expected(self) -> tuple[ExpectedError, ...]:
        """The error to expect, as far as the mechanism can tell."""

    @abstractmethod
    def check(self, report: Report, content: Content | None = None) -> None:
        """Read all of it, which refuses what cannot be released; draws no noise.

        All that it holds is added to ``content``, where that is asked for.
        """

    @abstractmethod
    def most_bytes(self, output: Path) -> int:
        """An upper bound of the size of the release at ``output``, once all of the file was checked."""

    @abstractmethod
    def write(self, output: Path, first: First, report: Report) -> None:
        """Draw the release and let it appear at ``output``, in the format its name says, after ``first``."""


class MediaFile(SourceFile):
    """A picture, a sound or a video; nothing of it but its pixels and samples is released: no metadata."""

    what: str

    @abstractmethod
    def decode(self, report: Report) -> None:
        """Decode all of it, which refuses what cannot be released; draws no noise."""

    def expected(self) -> tuple[ExpectedError, ...]:
        """The error to expect, as far as the mechanism can tell."""
        return self.mechanism.expected_error(self.values)

    def check(self, report: Report, content: Content | None = None) -> None:
        """Decode it; to ``content`` the digest of the file is added."""
        self.decode(report)
        if content is not None:
            content.add(np.frombuffer(digest_of(self.path), np.uint8).reshape(1, -1))


def per_item(statement: Statement) -> Statement:
    """``statement`` of a file that is one clip, with what it proves of the clip said of the item as well.

    So a budget that counts items pays for sounds and videos as it does for pictures.
    """
    stated = {part.unit.name: part for part in (statement.proven, *statement.also_proven)}
    if "item" in stated or "clip" not in stated:
        return statement
    item = replace(stated["clip"], unit=Unit("item"))
    return replace(statement, also_proven=(*statement.also_proven, item))


def digest_of(path: Path) -> bytes:
    """The SHA-256 of the bytes at ``path``."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()
