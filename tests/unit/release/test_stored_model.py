"""Kept models: read again as they were, and refused where they are not what was certified."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("torch")

from sfumato.errors import BadInput, SfumatoError
from sfumato.release.manifest import manifest_of
from sfumato.release.model_release import learn, open_learning
from sfumato.release.stored_model import load_model
from sfumato.reports import KeyRing, VerificationFailed

DIGITS = load_digits()
FEATURES, LABELS = DIGITS.data / 16.0, DIGITS.target.astype(np.int64)


@pytest.fixture(scope="module")
def kept_once(tmp_path_factory):
    """A model of the digits' features."""
    place = tmp_path_factory.mktemp("kept")
    np.savez(place / "digits.npz", x=FEATURES, y=LABELS)
    made = open_learning(
        place / "digits.npz", "dp-sgd", {"epsilon": 8.0}, classes=10, reach=5.0, audited=False
    )
    learn(made, place / "model")
    return place / "model"


@pytest.fixture
def model(kept_once, tmp_path):
    """A copy of it, which a test may change."""
    return Path(shutil.copytree(kept_once, tmp_path / "model"))


def resealed(model):
    """The manifest made anew, as whoever changes files would; its certificate stays as it was."""
    files = [model / "model.safetensors", model / "model.json"]
    (model / "manifest.json").write_bytes(manifest_of(model, files))


def changed(model, **entries):
    file = model / "model.json"
    described = json.loads(file.read_text("utf-8")) | entries
    file.write_text(json.dumps(described), "utf-8")


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
@pytest.mark.parametrize("signed", [True, False])
def test_an_altered_file_is_refused(model, name, signed):
    content = bytearray((model / name).read_bytes())
    content[-20] ^= 1
    (model / name).write_bytes(content)
    with pytest.raises(VerificationFailed, match="model was not loaded"):
        load_model(model, signed=signed)


def test_a_manifest_that_was_made_anew_is_refused_by_its_certificate(model):
    changed(model, class_names=list("abcdefghij"))
    resealed(model)
    with pytest.raises(VerificationFailed, match="altered"):
        load_model(model)
    assert load_model(model, signed=False).class_names == tuple("abcdefghij")


def test_a_key_that_nobody_trusts_is_refused(model, tmp_path):
    with pytest.raises(VerificationFailed, match="model was not loaded"):
        load_model(model, keys=KeyRing(tmp_path / "other"))
    assert load_model(model, keys=KeyRing(tmp_path / "other"), signed=False).statement is None


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "manifest.json"])
def test_a_folder_without_one_of_its_files_is_no_model(model, name):
    (model / name).unlink()
    with pytest.raises(BadInput, match=f"is no kept model: it holds no {name}"):
        load_model(model)


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"kind": "something else"}, "does not describe a model of sfumato"),
        ({"format": 2}, "is of another format than 1"),
        ({"method": "boosting"}, "which this version does not have"),
        ({"method": "compact"}, "does not describe a model that this version can read"),
        ({"method": ["dp-sgd"]}, "does not describe a model that this version can read"),
        ({"parameters": {"depth": 3}}, "does not describe a model that this version can read"),
        ({"parameters": None}, "does not describe a model that this version can read"),
        ({"class_names": ["a"]}, "names 1 classes, and its model has 10"),
        ({"shape": "wide"}, "does not describe a model that this version can read"),
        ({"extractor": {"name": "vit"}}, "needs the extractor 'vit', whose weights are not part of it"),
    ],
)
def test_foreign_descriptions_are_refused_in_a_sentence(model, entries, sentence):
    changed(model, **entries)
    resealed(model)
    with pytest.raises(BadInput, match=sentence):
        load_model(model, signed=False)


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"\xff" * 64, b'{"__metadata__":{}}'])
def test_what_are_no_tensors_is_refused_and_never_run(model, content):
    (model / "model.safetensors").write_bytes(content)
    resealed(model)
    with pytest.raises(BadInput, match="no file of tensors"):
        load_model(model, signed=False)


def test_records_of_another_kind_are_refused(model):
    kept = load_model(model)
    for wrong in (np.zeros((3, 8, 8)), np.zeros((0, 64)), np.full((2, 64), np.nan), "text"):
        with pytest.raises(SfumatoError):
            kept.predict_proba(wrong)
