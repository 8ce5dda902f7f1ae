"""A model as a folder: weights, what they are weights of, and a certificate over both; read again as it was.

``model.safetensors`` holds numbers and nothing that could be run, ``model.json`` the method, its parameters
and the map from records to features, ``manifest.json`` the digests of both, with its certificate beside it.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.errors import BadInput
from sfumato.io.atomic import write_whole
from sfumato.io.atomic_folder import atomic_folder
from sfumato.privacy import Statement
from sfumato.release.learner_catalogue import KEPT, kind_of_kept
from sfumato.release.manifest import MANIFEST, manifest_of, verify_folder
from sfumato.release.model_inputs import ModelInputs
from sfumato.release.suggestions import imported
from sfumato.reports import KeyRing, VerificationFailed, certificate_file, file_digest

if TYPE_CHECKING:
    from sfumato.learners import Learner

__all__ = ["KeptModel", "load_model", "write_model"]

TENSORS, DESCRIPTION = "model.safetensors", "model.json"
_KIND, _FORMAT = "sfumato model", 1
# What stands before the names of an extractor's own tensors.
_MAP = "extractor."
# A description is a page of text.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class KeptModel:
    """A model that can be asked: ``inputs`` make features of records, ``learner`` says what they are.

    ``statement`` is what its certificate says, None where the certificate was not looked at.
    """

    method: str
    learner: Learner
    inputs: ModelInputs
    class_names: tuple[str, ...]
    statement: Statement | None = None

    def predict_proba(self, records: Any) -> NDArray[np.float64]:
        """Class probabilities (n, classes) of ``records``: pictures or features, as were learned from."""
        return self.learner.predict_proba(self.inputs.features(records))

    def predict(self, records: Any) -> NDArray[np.int64]:
        """The most probable class of each record, by its number; ``class_names`` has its name."""
        return np.asarray(self.predict_proba(records).argmax(axis=1))

    def description(self) -> dict[str, Any]:
        """Everything but the weights, as JSON values."""
        extractor = self.inputs.extractor
        return {
            "kind": _KIND,
            "format": _FORMAT,
            "method": self.method,
            "parameters": self.learner.public(),
            "shape": list(self.inputs.shape),
            "top": self.inputs.top,
            "extractor": None
            if extractor is None
            else {
                "name": self.inputs.extractor_name,
                "origin": extractor.origin,
                "dimension": extractor.dimension,
            },
            "class_names": list(self.class_names),
            "versions": {"sfumato": sfumato.__version__, "python": platform.python_version()},
        }


def write_model(model: KeptModel, folder: Path, certify: Callable[[Path], bytes]) -> None:
    """Let ``model`` appear as ``folder``, whole or not at all; ``certify`` gives a file's certificate."""
    save = imported("safetensors.numpy", "save", "keeping a model")
    extractor = model.inputs.extractor
    maps = {} if extractor is None else extractor.tensors()
    found = {**model.learner.tensors(), **{_MAP + name: values for name, values in maps.items()}}
    tensors = {name: np.ascontiguousarray(values) for name, values in found.items()}
    described = json.dumps(model.description(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    with atomic_folder(folder) as inside:
        files = [inside / TENSORS, inside / DESCRIPTION]
        for file, content in zip(files, (save(tensors), described.encode("utf-8")), strict=True):
            write_whole(file, content)
        manifest = inside / MANIFEST
        write_whole(manifest, manifest_of(inside, files), first=(certificate_file(manifest), certify))


def load_model(
    folder: str | os.PathLike[str],
    *,
    extractor: str | os.PathLike[str] | None = None,
    signed: bool = True,
    keys: KeyRing | None = None,
) -> KeptModel:
    """The model in ``folder``, which ``sfumato learn`` wrote; no code in it is run.

    ``extractor`` is the folder with the weights of a local extractor, which a model does not carry. Raises
    :class:`~sfumato.reports.VerificationFailed` where a file is not what was certified, or no trusted key in
    ``keys`` signed it; with ``signed=False`` digests are checked and signatures are not.
    """
    place = Path(folder)
    for name in (TENSORS, DESCRIPTION, MANIFEST):
        if not (place / name).is_file():
            raise BadInput(f"{place.name or place} is no kept model: it holds no {name}.")
    statement = _checked(place, signed, keys or KeyRing())
    described = _described(place / DESCRIPTION)
    try:
        method, parameters = described["method"], dict(described["parameters"])
        names = tuple(str(name) for name in described["class_names"])
        tensors = _tensors(place / TENSORS)
        maps = {name.removeprefix(_MAP): value for name, value in tensors.items() if name.startswith(_MAP)}
        inputs = _inputs(described, extractor)
        if inputs.extractor is not None:
            inputs.extractor.take(maps)
        if method not in KEPT:
            raise BadInput(f"{DESCRIPTION} names the method {method!r}, which this version does not have.")
        learner = kind_of_kept(method).restored(parameters, tensors)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{DESCRIPTION} does not describe a model that this version can read.") from None
    if len(names) != learner.classes:
        raise BadInput(f"{DESCRIPTION} names {len(names)} classes, and its model has {learner.classes}.")
    return KeptModel(method, learner, inputs, names, statement)


def _checked(place: Path, signed: bool, keys: KeyRing) -> Statement | None:
    """What the certificate says; raises unless the files are those that it is about."""
    statement = None
    if signed:
        found = verify_folder(place, keys)
        for check in found.checks:
            # What else stands there is not read.
            if check.outcome == "fails" and check.what != "folder":
                raise VerificationFailed(f"{place.name or place} was not loaded: {check.detail}.")
        statement = None if found.certificate is None else found.certificate.statement
    listed = _listed(place)
    for name in (TENSORS, DESCRIPTION):
        if listed.get(name) != file_digest(place / name):
            raise VerificationFailed(
                f"{place.name or place} was not loaded: {name} is not the file that its manifest lists."
            )
    return statement


def _listed(place: Path) -> Mapping[str, Any]:
    try:
        listed = json.loads((place / MANIFEST).read_text("utf-8"))["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        listed = None
    if not isinstance(listed, dict):
        raise BadInput(f"{MANIFEST} in {place.name or place} is no manifest of released files.")
    return listed


def _described(file: Path) -> dict[str, Any]:
    if file.stat().st_size > _MOST_BYTES:
        raise BadInput(f"{file.name} is longer than a description of a model can be.")
    try:
        described = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError):
        described = None
    if not isinstance(described, dict) or described.get("kind") != _KIND:
        raise BadInput(f"{file.name} does not describe a model of sfumato.")
    if described.get("format") != _FORMAT:
        raise BadInput(f"{file.name} is of another format than {_FORMAT}, which this version reads.")
    return described


def _inputs(described: Mapping[str, Any], given: str | os.PathLike[str] | None) -> ModelInputs:
    shape = tuple(int(side) for side in described["shape"])
    kept = described["extractor"]
    if kept is None:
        if given is not None:
            raise BadInput(
                "this model is asked about features; leave out `extractor`.", parameter="extractor"
            )
        return ModelInputs(shape)
    from sfumato.learners.feature_extractors import EXTRACTORS, make_extractor

    name = kept["name"]
    if name not in EXTRACTORS and given is None:
        raise BadInput(
            f"this model needs the extractor {name!r}, whose weights are not part of it: "
            "`extractor=FOLDER` says where they are.",
            parameter="extractor",
        )
    made = make_extractor(name if given is None else os.fspath(given), shape)
    if made.dimension != kept["dimension"] or (name not in EXTRACTORS and made.origin != kept["origin"]):
        raise BadInput(
            f"this model needs the extractor {name!r} of {kept['dimension']} features, with the weights that "
            "it was learned with; others were found."
        )
    return ModelInputs(shape, made, float(described["top"]))


def _tensors(file: Path) -> dict[str, NDArray[Any]]:
    load, content = imported("safetensors.numpy", "load", "reading a model"), file.read_bytes()
    try:
        found: dict[str, NDArray[Any]] = load(content)
    except Exception:
        # Its own errors derive from Exception alone, and a damaged header may raise others.
        raise BadInput(f"{file.name} is no file of tensors, or is damaged.") from None
    return found
