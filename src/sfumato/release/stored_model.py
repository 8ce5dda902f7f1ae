"""Stored models: a folder with weights, their description, and a certificate over both.

``model.safetensors`` holds numbers and nothing that could be run, ``model.json`` the method, its parameters
and the map from records to features, ``manifest.json`` the digests of both, with its certificate beside it.
"""

from __future__ import annotations

import json
import math
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
from sfumato.io import atomic_folder, write_whole
from sfumato.privacy import Statement
from sfumato.release.catalogue import METHODS, class_of, imported
from sfumato.release.labelled_release import check_range
from sfumato.release.manifest import manifest_of, read_manifest, verify_folder
from sfumato.reports import MANIFEST, KeyRing, VerificationFailed, certificate_file, file_digest

if TYPE_CHECKING:
    from sfumato.learners import Extractor, Learner

__all__ = ["load_model"]

Report = Callable[[str, float], None]
# Extractors count from black at 0 to white at 255.
_WHITE = 255.0


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """Records of ``shape``: images with values from 0 to ``top`` for an ``extractor``, or features (d,).

    ``extractor`` and ``top`` are None for features.
    """

    shape: tuple[int, ...]
    extractor: Extractor | None = None
    top: float | None = None

    @property
    def dimension(self) -> int:
        """The number of features of one record."""
        return math.prod(self.shape) if self.extractor is None else self.extractor.dimension

    @property
    def extractor_name(self) -> str | None:
        """The name of the extractor in statements; that of a local folder is its last part."""
        return None if self.extractor is None else Path(self.extractor.name).name

    @property
    def what(self) -> str:
        """What the records are, for people."""
        if self.extractor is None:
            return "records"
        return f"pictures of {' × '.join(str(side) for side in self.shape)}"

    def features(self, records: Any, report: Report | None = None) -> NDArray[np.floating]:
        """Return features (n, ``dimension``) of ``records`` (n, *``shape``), each from its own record."""
        from sfumato.learners import checked_features, checked_pictures

        given = np.asarray(records)
        if not given.ndim or not len(given):
            raise BadInput(f"records of shape {given.shape} were given: one or more are needed.")
        if self.extractor is None or self.top is None:
            return checked_features(given, self.dimension)
        checked_pictures(given, self.shape)
        check_range(given, self.top)
        if self.top != _WHITE:
            given = given.astype(np.float32) * np.float32(_WHITE / self.top)
        return self.extractor.transform(given, report=report)


TENSORS, DESCRIPTION = "model.safetensors", "model.json"
_KIND, _FORMAT = "sfumato model", 1
# Prefix of the names of an extractor's own tensors.
_MAP = "extractor."
# A description is a page of text.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class KeptModel:
    """A model: ``inputs`` make features of records, ``learner`` classifies them.

    ``statement`` is that of its certificate, None if the certificate was not read.
    """

    method: str
    learner: Learner
    inputs: ModelInputs
    class_names: tuple[str, ...]
    statement: Statement | None = None

    def predict_proba(self, records: Any) -> NDArray[np.float64]:
        """Return class probabilities (n, classes) of ``records``: images or features, as in training."""
        return self.learner.predict_proba(self.inputs.features(records))

    def predict(self, records: Any) -> NDArray[np.int64]:
        """Return the number of the most probable class of each record; ``class_names`` has its name."""
        return np.asarray(self.predict_proba(records).argmax(axis=1))

    def description(self) -> dict[str, Any]:
        """Return everything but the weights, as JSON values."""
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
    """Return the model in ``folder``, which ``sfumato learn`` wrote; no code in it is run.

    ``extractor`` is the folder with the weights of a local extractor, which a model does not contain. Raises
    :class:`~sfumato.reports.VerificationFailed` if a file is not what was certified, or no trusted key in
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
        # A learner's, or what clients trained together.
        verb = next((verb for verb in ("learn", "federate") if method in METHODS[verb]), None)
        if verb is None:
            raise BadInput(f"{DESCRIPTION} names the method {method!r}, which this version does not have.")
        learner = class_of(verb, method).restored(parameters, tensors)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{DESCRIPTION} does not describe a model that this version can read.") from None
    if len(names) != learner.classes:
        raise BadInput(f"{DESCRIPTION} names {len(names)} classes, and its model has {learner.classes}.")
    return KeptModel(method, learner, inputs, names, statement)


def _checked(place: Path, signed: bool, keys: KeyRing) -> Statement | None:
    """Return the statement of the certificate; raise unless the files are those that it is about."""
    statement = None
    if signed:
        found = verify_folder(place, keys)
        for check in found.checks:
            # What else stands there is not read.
            if check.outcome == "fails" and check.what != "folder":
                raise VerificationFailed(f"{place.name or place} was not loaded: {check.detail}.")
        statement = None if found.certificate is None else found.certificate.statement
    listed = read_manifest(place)["files"]
    for name in (TENSORS, DESCRIPTION):
        if listed.get(name) != file_digest(place / name):
            raise VerificationFailed(
                f"{place.name or place} was not loaded: {name} is not the file that its manifest lists."
            )
    return statement


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
    from sfumato.learners import EXTRACTORS, make_extractor

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
