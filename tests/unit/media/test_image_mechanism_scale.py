"""The type of a picture is its scale, whichever way it comes in, and nothing beyond the scale counts."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput

SHAPE = (8, 8, 3)
WAYS = {
    "PlaneMeans": sf.PlaneMeans(2.0, unit="region(4)", block=4, shape=SHAPE, randomness=sf.Seeded(1)),
    "PlaneBands": sf.PlaneBands(2.0, unit="region(4)", shape=SHAPE, randomness=sf.Seeded(1)),
    "DPPix": sf.DPPix(2.0, "pixels(4)", 4, shape=SHAPE, randomness=sf.Seeded(1)),
    "UniformPixels": sf.UniformPixels(2.0, unit="pixels(1)", shape=SHAPE, randomness=sf.Seeded(1)),
    "SpectralLaplace": sf.SpectralLaplace(1.0, shape=SHAPE, randomness=sf.Seeded(1)),
    "SelectiveNoise": sf.SelectiveNoise(1.0, "uniform", shape=SHAPE, randomness=sf.Seeded(1)),
    "FrameNoise": sf.FrameNoise(
        sf.PlaneMeans(2.0, unit="region(4)", block=4), frames=3, shape=SHAPE, randomness=sf.Seeded(1)
    ),
}
BYTES = np.random.default_rng(0).integers(0, 256, (3, 192), dtype=np.uint8)


@pytest.mark.parametrize("mechanism", WAYS.values(), ids=WAYS)
def test_bytes_stay_bytes_in_a_transformer(mechanism):
    released = mechanism.fit(BYTES).transform(BYTES)
    assert released.dtype == np.uint8
    assert np.array_equal(released, mechanism.perturb(BYTES))


@pytest.mark.parametrize("mechanism", WAYS.values(), ids=WAYS)
def test_what_lies_beyond_white_is_white(mechanism):
    """Bounds hold for values in [0, 1]; a unit that could go beyond them would show."""
    inside = np.where(BYTES > 100, 1.0, 0.0)
    assert np.array_equal(mechanism.perturb(300.0 * inside - 7.0 * (1.0 - inside)), mechanism.perturb(inside))


@pytest.mark.parametrize("mechanism", WAYS.values(), ids=WAYS)
def test_a_transformer_refuses_floating_point_beyond_white(mechanism):
    rows = BYTES.astype(np.float64)
    with pytest.raises(BadInput, match="between 0 and 1"):
        mechanism.fit(rows).transform(rows)


def test_an_array_of_pictures_in_a_file_keeps_its_scale(tmp_path):
    np.save(tmp_path / "x.npy", BYTES.reshape(3, *SHAPE))
    mechanism = sf.PlaneMeans(2.0, unit="region(4)", block=4, randomness=sf.Seeded(1))
    done = sf.protect(tmp_path / "x.npy", tmp_path / "y.npy", mechanism)
    released = np.load(tmp_path / "y.npy")
    assert released.dtype == np.uint8
    assert np.array_equal(released.reshape(3, -1), WAYS["PlaneMeans"].perturb(BYTES))
    assert str(done.statement.proven.unit) == "region(4)"
