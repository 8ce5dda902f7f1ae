"""Records that nothing is learned from, which say how good a model is."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.array_files import array_names
from sfumato.io.class_folders import ClassFolders
from sfumato.io.formats import file_to_read
from sfumato.io.image_datasets import ArrayPair, DatasetSource, is_archive, open_dataset
from sfumato.learners import Learner
from sfumato.learners.examples import checked_examples
from sfumato.release.model_inputs import ModelInputs
from sfumato.release.protected_file import Report
from sfumato.release.public_facts import facts_of
from sfumato.release.published_files import names_of

__all__ = ["Accuracy", "HeldOut", "read_held_out"]

_PICTURES, _LABELS = ("x_test", "X_test"), ("y_test",)


@dataclass(frozen=True)
class Accuracy:
    """The share of ``records`` held-out records in ``file`` whose class was the most probable one."""

    file: Path
    share: float
    records: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"file": str(self.file), "accuracy": self.share, "records": self.records}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Features and labels of the held-out records in ``file``."""

    file: Path
    features: NDArray[np.floating]
    labels: NDArray[np.int64]

    def accuracy(self, learner: Learner) -> Accuracy:
        """How many of them a fitted ``learner`` tells right; what is held out is not protected by this."""
        right = learner.predict(self.features) == self.labels
        return Accuracy(self.file, float(right.mean()), len(self.labels))


def read_held_out(
    file: str | os.PathLike[str],
    learned: DatasetSource,
    inputs: ModelInputs,
    classes: int,
    *,
    top: float | None,
    report: Report,
) -> HeldOut:
    """The records in ``file``, for a model of ``inputs`` that is ``learned`` from another dataset.

    Arrays of an archive are those called x_test and y_test, or else as in what is learned from; both may
    stand in one file. The classes of a folder are found by their names.
    """
    place = Path(file)
    found = _opened(place, learned)
    if found.shape != inputs.shape:
        raise BadInput(
            f"the records in {place.name} have the shape {found.shape}, and those that are learned from "
            f"{inputs.shape}."
        )
    if inputs.extractor is not None:
        inputs = replace(inputs, top=facts_of(found, classes=None, top=top).top)
    records, labels = found.read(report)
    if isinstance(found, ClassFolders):
        names = names_of(learned, classes) if isinstance(learned, ArrayPair) else learned.folders
        strange = [name for name in found.folders if name not in names]
        if strange:
            raise BadInput(f"{place.name} holds the class {strange[0]!r}, which is not learned.")
        labels = np.array([names.index(name) for name in found.folders])[labels]
    try:
        features = inputs.features(records, report)
        return HeldOut(place, *checked_examples(features, labels, classes))
    except BadInput as error:
        raise error.at(place.name) from None


def _opened(place: Path, learned: DatasetSource) -> DatasetSource:
    if not place.exists() or not is_archive(place) or not isinstance(learned, ArrayPair):
        return open_dataset(place, or_features=True)
    names = array_names(file_to_read(place))
    chosen = [
        next((name for name in (*usual, own.name) if name in names), None)
        for usual, own in ((_PICTURES, learned.pictures), (_LABELS, learned.labels))
    ]
    if place.resolve() == learned.path.resolve() and chosen[0] == learned.pictures.name:
        raise BadInput(
            f"{place.name}, given as `test`, holds the records that are learned from, and no arrays called "
            "x_test "
            "and y_test.",
            parameter="test",
        )
    return open_dataset(place, pictures=chosen[0], labels=chosen[1], or_features=True)
