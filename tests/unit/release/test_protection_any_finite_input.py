"""Whatever finite values the records hold, a release is refused before it is paid for, or it appears.

Whether a release appears is itself an output (``docs/explanation-guarantees.md``). So for each mechanism and
transform of the library, and on each path, what ``check`` lets pass is drawn: without an error, without a
warning, and without anything but finite numbers. Nothing here is left to chance.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
import sfumato.mechanisms
import sfumato.mechanisms.transforms
import sfumato.media.audio
import sfumato.media.images
import sfumato.media.video
from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.mechanisms import Mechanism, ResponseTier, Rows, TrustTier
from sfumato.mechanisms.transforms import Transform
from sfumato.media.images import PlaneTier, SelectiveNoise, SensitivityMap
from sfumato.media.video import FrameNoise
from sfumato.reports import KeyRing

LARGEST = float(np.finfo(np.float64).max)
#: Four columns; a row of equal values has the largest sum, norm and projection.
EXTREMES = np.array(
    [
        *([sign * value] * 4 for sign in (1.0, -1.0) for value in (LARGEST, 9e307, 1e200, 1e39, 70_000.0)),
        [LARGEST, -LARGEST, LARGEST, -LARGEST],
        [5e-324, -5e-324, 0.0, -0.0],
        [LARGEST, 5e-324, -0.0, 1.0],
        [2.2e-308, 1e-160, 1e-45, 6e-8],
        [0.0, 0.0, 0.0, 0.0],
        [-0.0, -0.0, -0.0, -0.0],
        [0.1, 0.3, 0.5, 1.0],
    ]
)
_KEYED = sf.Keyed(bytes(32), dataset="d", version="v", release="r")
_PICTURE, _CLIP = {"shape": (2, 2, 1)}, {"shape": (4, 1), "rate": 8000}

MAKERS: dict[str, Callable[[], Mechanism]] = {
    "AdditiveNoise": sf.AdditiveNoise,
    "BandNoise": lambda: sf.BandNoise(4.0, **_CLIP),
    "BinaryEncoding": lambda: sf.BinaryEncoding(epsilon=1.0, flip=None),
    "Blur": lambda: sf.Blur(**_PICTURE),
    "ContentAdaptive": lambda: sf.ContentAdaptive(
        4.0, declared=SensitivityMap.from_array(np.ones((1, 1))), **_PICTURE
    ),
    "DPPix": lambda: sf.DPPix(1.0, **_PICTURE),
    "Duchi": lambda: sf.Duchi(outside="clip", epsilon=1.0),
    "FrameNoise": lambda: FrameNoise(sf.PlaneMeans(4.0), frames=1, **_PICTURE),
    "Gaussian": lambda: sf.Gaussian(clip=1.0, epsilon=1.0),
    "GridTensorLDP": lambda: sf.GridTensorLDP(outside="clip", epsilon=1.0),
    "HessianClipped": lambda: sf.HessianClipped(clip=1.0, layers=[1, 3], curvature="own", epsilon=1.0),
    "Hybrid": lambda: sf.Hybrid(outside="clip", epsilon=1.0),
    "IndependentDirectional": lambda: sf.IndependentDirectional(
        clip=1.0, directions=_turning(), deviations=[1.0, 2.0, 3.0, 4.0], epsilon=1.0
    ),
    "Laplace": lambda: sf.Laplace(clip=1.0, epsilon=1.0),
    "LayerAdaptive": lambda: sf.LayerAdaptive(clip=1.0, layers=[1, 3], epsilon=1.0),
    "Mask": lambda: sf.Mask(np.ones((2, 2)), **_PICTURE),
    "MatrixVariateGaussian": lambda: sf.MatrixVariateGaussian(
        bounds=(0.0, 1.0), row_precision=[1.0, 2.0], shape=(2, 2), epsilon=1.0
    ),
    "MelLaplace": lambda: sf.MelLaplace(1.0, **_CLIP),
    "Personalised": lambda: sf.Personalised(np.linspace(1.0, 2.0, len(EXTREMES)), clip=1.0),
    "Piecewise": lambda: sf.Piecewise(outside="clip", epsilon=1.0),
    "Pixelate": lambda: sf.Pixelate(**_PICTURE),
    "PlaneBands": lambda: sf.PlaneBands(4.0, **_PICTURE),
    "PlaneMeans": lambda: sf.PlaneMeans(4.0, **_PICTURE),
    "PlaneTier": lambda: PlaneTier(epsilon=(1.0, 8.0), **_PICTURE, randomness=_KEYED.part("planes")),
    "PrivUnit": lambda: sf.PrivUnit(4.0),
    "PrivUnitG": lambda: sf.PrivUnitG(4.0),
    "RandomProjection": lambda: sf.RandomProjection(2, sf.Gaussian(clip=1.0, epsilon=1.0)),
    "RandomisedResponse": lambda: sf.RandomisedResponse(categories=4, epsilon=1.0),
    "ReconstructionResistant": lambda: sf.ReconstructionResistant(2),
    "ResponseTier": lambda: ResponseTier(categories=4, randomness=_KEYED.part("answers"), epsilon=(1.0, 8.0)),
    "ScaledPixels": lambda: sf.ScaledPixels(1.0, **_PICTURE),
    "SelectiveNoise": lambda: SelectiveNoise(1.0, "random", coverage=0.5, **_PICTURE),
    "SpectralLaplace": lambda: sf.SpectralLaplace(1.0, **_PICTURE),
    "SymmetricTensors": lambda: sf.SymmetricTensors(sf.Laplace(clip=1.0, epsilon=1.0)),
    "TensorLDP": lambda: sf.TensorLDP(bounds=(0.0, 1.0), outside="clip", epsilon=1.0),
    "TrustAdaptive": lambda: sf.TrustAdaptive(clip=1.0, epsilon=(1.0, 8.0)),
    "TrustTier": lambda: TrustTier(clip=1.0, randomness=_KEYED.part("tiers"), epsilon=(1.0, 8.0)),
    "UniformPixels": lambda: sf.UniformPixels(4.0, **_PICTURE),
    "WeightedTensorLDP": lambda: sf.WeightedTensorLDP(
        bounds=(0.0, 1.0), weights="saliency", outside="clip", shape=(2, 2), epsilon=1.0
    ),
}
#: The same by other ways: bounds, refusals, other noises inside.
OTHERS: dict[str, Callable[[], Mechanism]] = {
    "Gaussian in a box": lambda: sf.Gaussian(bounds=([0.0] * 4, [1.0, 1e-3, 1e3, 1.0]), epsilon=1.0),
    "Gaussian in a wide box": lambda: sf.Gaussian(bounds=(-1e100, 1e100), epsilon=1.0),
    "Laplace in a box": lambda: sf.Laplace(bounds=(0.0, 1.0), epsilon=1.0),
    "Gaussian keyed": lambda: sf.Gaussian(clip=1.0, randomness=_KEYED.part("gaussian"), epsilon=1.0),
    "Duchi that refuses": lambda: sf.Duchi(1.0),
    "GridTensorLDP that refuses": lambda: sf.GridTensorLDP(bounds=(0.1, 1.0), epsilon=1.0),
    "TensorLDP that refuses": lambda: sf.TensorLDP(bounds=(0.1, 1.0), epsilon=1.0),
    "WeightedTensorLDP by grey": lambda: sf.WeightedTensorLDP(weights="grey", outside="clip", epsilon=1.0),
    "HessianClipped, public": lambda: sf.HessianClipped(
        clip=1.0, layers=[1, 3], curvature=[1.0, 2.0], epsilon=1.0
    ),
    "IndependentDirectional in a box": lambda: sf.IndependentDirectional(
        bounds=(0.0, 1.0), directions=_turning(), epsilon=1.0
    ),
    "RandomProjection by default": lambda: sf.RandomProjection(2),
    "RandomProjection that refuses": lambda: sf.RandomProjection(2, sf.Duchi(epsilon=1.0)),
    "SymmetricTensors by keyed noise": lambda: sf.SymmetricTensors(
        sf.Gaussian(clip=1.0, randomness=_KEYED.part("symmetric"), epsilon=1.0)
    ),
    "SymmetricTensors in a box": lambda: sf.SymmetricTensors(sf.Duchi(outside="clip", epsilon=1.0)),
}
TRANSFORMS: dict[str, Callable[[], Transform]] = {
    "LocalitySensitiveHash": lambda: sf.LocalitySensitiveHash(8),
    "ReverseManifold": lambda: sf.ReverseManifold(1e100),
}


def _turning() -> np.ndarray:
    return np.linalg.qr(np.arange(16.0).reshape(4, 4) + np.eye(4))[0]


def _concrete(base: type) -> Iterator[str]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("sfumato.") and kind.__module__.split(".")[1] in _ROOMS:
            if not inspect.isabstract(kind) and not kind.__name__.startswith("_"):
                yield kind.__name__
            yield from _concrete(kind)


_ROOMS = ("mechanisms", "media", "transforms")


def test_every_mechanism_and_transform_is_tried() -> None:
    for room in (
        sfumato.mechanisms,
        sfumato.media.images,
        sfumato.media.audio,
        sfumato.media.video,
        sfumato.mechanisms.transforms,
    ):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    assert set(_concrete(Mechanism)) == set(MAKERS)
    assert set(_concrete(Transform)) == set(TRANSFORMS)


def _typed(kind: str) -> np.ndarray:
    """The extremes in another type; what it cannot hold is its largest number."""
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        return np.clip(EXTREMES, -largest, largest).astype(dtype)
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.max, limits.max - 1, 0, 1, 3]
    return np.array([[end] * 4 for end in ends] + [ends[:4]], dtype=dtype)


def _released(mechanism: Mechanism, X: np.ndarray) -> np.ndarray | None:
    """What a path does with a block: None where it is refused before it is paid for."""
    mechanism.prepare(X.shape[1], X.dtype)
    try:
        mechanism.check(X)
    except BadInput:
        return None
    return mechanism.perturb(X)


@pytest.mark.parametrize("make", [*MAKERS.values(), *OTHERS.values()], ids=[*MAKERS, *OTHERS])
def test_what_is_checked_is_drawn(make: Callable[[], Mechanism]) -> None:
    """Row by row and all together, in every type that a path hands on."""
    mechanism, drawn = make(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("f8", "f4", "u1", "u2", "i2", "i4"):
            X = _typed(kind)
            if X.dtype.kind != "f" and not isinstance(mechanism, _MEDIA):
                continue  # paths hand on whole numbers as float64
            try:
                mechanism.prepare(4, X.dtype)
            except BadInput:
                continue  # a type that the mechanism does not take, whatever the values
            whole = _released(make(), X)
            for at, row in enumerate(X):
                one = _released(make(), X[at : at + 1])
                assert one is None or np.isfinite(one).all(), row
                drawn += one is not None
            assert whole is None or np.isfinite(whole).all()
    assert drawn


_MEDIA = (sfumato.media.images.PictureMechanism, sfumato.media.audio.SoundMechanism)


@pytest.mark.parametrize("make", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_a_transform_maps_whatever_is_finite(make: Callable[[], Transform], kind: str) -> None:
    """Before a mechanism or after one: a release by noise without bounds holds such numbers too."""
    X = _typed(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = make().release(X).value
        assert np.isfinite(made).all()
        if isinstance(make(), sf.ReverseManifold):
            back = make().fit(X).inverse(made)
            assert np.isfinite(back).all()
            np.testing.assert_allclose(np.abs(back), np.abs(X), rtol=1e-6)


def test_a_projection_of_what_does_not_overflow_is_what_it_was() -> None:
    X = np.random.default_rng(0).normal(size=(5, 4)) * [[1.0], [1e-300], [1e150], [1e-5], [0.0]]
    plain = sf.RandomProjection(2)._projected(X, 0)
    far = sf.RandomProjection(2)._projected(X * [[2.0**400], [1.0], [2.0**500], [2.0**1010], [1.0]], 0)
    np.testing.assert_array_equal(far, plain * [[2.0**400], [1.0], [2.0**500], [2.0**1010], [1.0]])


_SCHEMA = Schema.from_dict(
    {
        "columns": {
            "a": {"kind": "numeric", "bounds": [0.0, 1.0]},
            "b": {"kind": "numeric", "bounds": [-1e100, 1e100], "clamp": True},
            "c": {"kind": "numeric", "bounds": [0.0, 1e-9]},
            "d": {"kind": "numeric", "bounds": [1e9, 1.1e9], "weight": 5.0},
            "e": {"kind": "boolean"},
        }
    }
)


@pytest.mark.parametrize(
    "mechanism", [sf.Gaussian(epsilon=1.0), sf.Laplace(epsilon=1.0), sf.TrustAdaptive(epsilon=(1.0, 8.0))]
)
def test_rows_of_a_table_are_drawn(mechanism: Mechanism) -> None:
    bounds = [column.bounds for column in _SCHEMA.numeric]
    rows = Rows(mechanism, bounds, [2], [1.0, 1.0, 1.0, 5.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows.prepare()
        released, _ = rows.perturb(EXTREMES, np.zeros((len(EXTREMES), 1), np.int64))
    assert np.isfinite(released).all()


def test_bounds_of_which_no_width_can_be_computed_are_refused_with_the_schema() -> None:
    with pytest.raises(BadInput, match="within"):
        Rows(sf.Gaussian(epsilon=1.0), [(0.0, 1e308)], [], [1.0])


@pytest.fixture
def paid(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``protect`` from a budget that pays for all, and says how often it did."""
    keys = KeyRing(tmp_path / "keys")
    with sf.Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        ledger.open("clinic", epsilon=1e6, delta=0.9)

        def protect(source: Path, output: Path, mechanism: Any, **named: Any) -> int:
            before = ledger.balance("clinic").spends
            try:
                sf.protect(source, output, mechanism, dataset="clinic", ledger=ledger, keys=keys, **named)
            except BadInput:
                assert ledger.balance("clinic").spends == before, "refused after it was paid for"
                assert not output.exists()
                return 0
            assert output.exists()
            return ledger.balance("clinic").spends - before

        yield protect


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "u8", "i1", "?"])
def test_a_file_of_records_is_refused_unpaid_or_released(tmp_path: Path, paid: Any, kind: str) -> None:
    X = _typed(kind) if kind != "?" else EXTREMES > 0.0
    released = 0
    for suffix in (".npy", ".npz"):
        source, output = tmp_path / f"x{suffix}", tmp_path / f"out{suffix}"
        np.save(source, X) if suffix == ".npy" else np.savez_compressed(source, X=X)
        for name in ("Gaussian in a box", "GridTensorLDP that refuses", "RandomProjection that refuses"):
            released += paid(source, output, OTHERS[name]())
            output.unlink(missing_ok=True)
        for name in ("RandomProjection", "PrivUnitG", "BinaryEncoding", "TrustAdaptive", "Hybrid"):
            for then in (None, sf.ReverseManifold(1e100), sf.LocalitySensitiveHash(4)):
                released += paid(source, output, MAKERS[name](), then=then)
                output.unlink(missing_ok=True)
    assert released >= 2 * 16


def test_a_bound_that_holds_in_half_precision_only_is_refused_unpaid(tmp_path: Path, paid: Any) -> None:
    """0.3 in half precision lies above 0.3, and records of half precision are drawn in double."""
    for value, spends in ((0.3, 0), (0.25, 1)):
        np.save(tmp_path / "x.npy", np.full((3, 4), value, np.float16))
        assert (
            paid(tmp_path / "x.npy", tmp_path / "out.npy", sf.Duchi(bounds=(0.0, 0.3), epsilon=1.0)) == spends
        )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_table_is_refused_unpaid_or_released(tmp_path: Path, paid: Any, suffix: str) -> None:
    columns = dict(zip("abcd", EXTREMES.T, strict=True)) | {"e": EXTREMES[:, 0] > 0.0}
    source, output = tmp_path / f"x{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table(columns), source)
    else:
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        text = "\n".join(["a,b,c,d,e", *(",".join(map(repr, row)) for row in rows)])
        held = (text + "\n").encode()
        source.write_bytes(gzip.compress(held) if suffix == ".csv.gz" else held)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert paid(source, output, sf.Gaussian(epsilon=1.0), schema=_SCHEMA) == 1


def test_keyed_noise_for_other_content_is_refused_unpaid(tmp_path: Path, paid: Any) -> None:
    mechanism = sf.Gaussian(clip=1.0, randomness=_KEYED.part("once"), epsilon=1.0)
    for name, value in (("x", 0.25), ("y", 0.5)):
        np.save(tmp_path / f"{name}.npy", np.full((3, 4), value))
    assert paid(tmp_path / "x.npy", tmp_path / "a.npy", mechanism) == 1
    assert paid(tmp_path / "x.npy", tmp_path / "b.npy", mechanism) == 1
    assert paid(tmp_path / "y.npy", tmp_path / "c.npy", mechanism) == 0
