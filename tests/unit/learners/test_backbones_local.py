"""Backbones from a folder: small models, saved by transformers and read again."""

import json
import os
import sys

import numpy as np
import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learners.backbones import LocalBackbone
from sfumato.learners.feature_extractors import make_extractor

transformers = pytest.importorskip("transformers")
RNG = np.random.default_rng(11)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
MADE = {
    "vit": lambda: transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)),
    "deit": lambda: transformers.DeiTModel(transformers.DeiTConfig(**SMALL, image_size=32, patch_size=8)),
    "dinov2": lambda: transformers.Dinov2Model(
        transformers.Dinov2Config(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=42, patch_size=14
        )
    ),
    "resnet": lambda: transformers.ResNetModel(
        transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    ),
    "convnext": lambda: transformers.ConvNextModel(
        transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
    ),
}


def save(folder, kind, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MADE[kind]().eval()
    model.save_pretrained(folder, **options)
    return model


@pytest.mark.parametrize("kind", list(MADE))
def test_a_saved_model_is_read_and_answers_row_by_row(kind, tmp_path) -> None:
    save(tmp_path, kind)
    extractor = make_extractor(str(tmp_path), (20, 20, 3))
    assert extractor.dimension == 16
    assert extractor.name == str(tmp_path)
    assert f"A {kind} model from local files" in extractor.origin
    pictures = RNG.integers(0, 256, (6, 20, 20, 3)).astype(np.uint8)
    rows = extractor.transform(pictures)
    assert np.linalg.norm(rows.astype(np.float64), axis=1).max() <= 1.0
    np.testing.assert_array_equal(extractor.transform(pictures[::-1]), rows[::-1])
    changed = pictures.copy()
    changed[2] = 0
    found = extractor.transform(changed)
    np.testing.assert_array_equal(np.delete(found, 2, axis=0), np.delete(rows, 2, axis=0))
    assert np.abs(found[2] - rows[2]).max() > 0.0


def test_rows_are_the_normalised_first_token(tmp_path) -> None:
    model = save(tmp_path, "vit")
    picture = RNG.integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    scaled = torch.from_numpy(((picture / 255.0 - mean) / deviation).astype(np.float32)).permute(0, 3, 1, 2)
    with torch.inference_mode():
        token = model(scaled).last_hidden_state[0, 0].double().numpy()
    expected = (token - token.mean()) / token.std() / 4.0
    np.testing.assert_allclose(
        LocalBackbone(tmp_path, (32, 32, 3)).transform(picture)[0], expected, atol=1e-4
    )


def test_another_size_and_the_colours_of_the_folder_are_used(tmp_path) -> None:
    save(tmp_path, "vit")
    picture = RNG.integers(0, 256, (1, 48, 48, 3))
    plain = LocalBackbone(tmp_path, (48, 48, 3), size=48).transform(picture)
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})
    )
    extractor = LocalBackbone(tmp_path, (48, 48, 3), size=48)
    assert extractor.mean == extractor.deviation == (0.5, 0.5, 0.5)
    assert np.abs(extractor.transform(picture) - plain).max() > 1e-4
    with pytest.raises(BadInput, match="needs a multiple of 8"):
        LocalBackbone(tmp_path, (48, 48, 3), size=50)


def test_pickled_weights_are_read_without_running_code(tmp_path) -> None:
    model = save(tmp_path, "resnet")
    expected = LocalBackbone(tmp_path, (32, 32)).transform(np.full((1, 32, 32), 9))
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    np.testing.assert_array_equal(
        LocalBackbone(tmp_path, (32, 32)).transform(np.full((1, 32, 32), 9)), expected
    )

    class Unwanted:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"embedder": Unwanted()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(BadInput, match="cannot be read"):
        LocalBackbone(tmp_path, (32, 32))
    assert not (tmp_path / "ran").exists()


def test_weights_of_another_model_are_refused(tmp_path) -> None:
    from safetensors.torch import load_file, save_file

    save(tmp_path, "vit")
    weights = load_file(tmp_path / "model.safetensors")
    lacking = {name: each for name, each in weights.items() if "layernorm" not in name.lower()}
    save_file(lacking, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadInput, match="does not hold all weights"):
        LocalBackbone(tmp_path, (32, 32))
    without = {name: each for name, each in weights.items() if not name.startswith("pooler.")}
    save_file(without, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert LocalBackbone(tmp_path, (32, 32)).dimension == 16


def test_missing_transformers_are_named_with_their_pip_line(tmp_path, monkeypatch) -> None:
    save(tmp_path, "resnet")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(BadInput, match="pip install transformers"):
        LocalBackbone(tmp_path, (32, 32))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "config.json cannot be read"),
        ({"config.json": "{"}, "config.json cannot be read"),
        ({"config.json": "[]"}, "does not hold a JSON object"),
        ({"config.json": '{"model_type": "gpt2"}'}, "type 'gpt2': it is one of vit"),
        ({"config.json": '{"model_type": "resnet"}'}, "has no weights: one of model.safetensors"),
        ({"config.json": '{"model_type": "resnet"}', "model.safetensors": "x"}, "cannot be read"),
        (
            {"config.json": '{"model_type": "resnet"}', "preprocessor_config.json": '{"image_std": [1]}'},
            "three numbers each",
        ),
        (
            {
                "config.json": '{"model_type": "resnet"}',
                "preprocessor_config.json": '{"image_std": [1, 1, 0]}',
            },
            "above 0",
        ),
    ],
)
def test_folders_without_a_model_are_refused(files, message, tmp_path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message):
        make_extractor(str(tmp_path), (32, 32))
