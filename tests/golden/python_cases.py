"""Golden cases in Python: every mechanism, transform, medium and publisher, and what a ledger stores.

Every parameter is spelled out, so that a changed default changes no fixture. All names are public ones.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from golden import DISTRUST, as_bytes, as_close, as_shape

SECRET = bytes(range(32))


def keyed(release: str) -> sf.Keyed:
    """Return the keyed noise of the release called ``release``."""
    return sf.Keyed(SECRET, dataset="golden", version="1", release=release)


def numbers(*shape: int, low: float = -1.0, high: float = 1.0, step: int = 37) -> np.ndarray[Any, Any]:
    """Return numbers that look arbitrary and are the same everywhere."""
    count = int(np.prod(shape))
    return (low + (high - low) * ((np.arange(count) * step) % 101) / 100.0).reshape(shape)


RECORDS = numbers(7, 4) / 2.0
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
REPLACE = {"neighbours": "replace"}
TURN = [[0.6, -0.8, 0.0, 0.0], [0.8, 0.6, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
BOX = {"bounds": (-1.0, 1.0), "outside": "refuse"}
TRUST_ADAPTIVE = {DISTRUST: 0.4, "epsilon": (1.0, 8.0), "delta": 1e-6, "clip": 1.0, "bounds": None}
TENSORS = numbers(5, 2, 3, low=0.0, high=255.0)
TENSOR = {"bounds": (0.0, 255.0), "outside": "refuse", "shape": (2, 3)}

#: Mechanisms of records, tensors and tables: name of the case, class, parameters, records.
MECHANISMS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "AdditiveNoise": ("AdditiveNoise", {"scale": 0.1}, RECORDS),
    "BinaryEncoding, flip": (
        "BinaryEncoding",
        {"bits": 6, "flip": 0.1, "epsilon": None, "bounds": (-1.0, 1.0)},
        RECORDS,
    ),
    "BinaryEncoding, epsilon": (
        "BinaryEncoding",
        {"bits": 4, "flip": None, "epsilon": 8.0, "bounds": (-1.0, 1.0)},
        RECORDS,
    ),
    "Duchi": ("Duchi", {"epsilon": 1.0, "coordinates": 2, **BOX}, RECORDS),
    "Gaussian, clip": ("Gaussian", {**BUDGET, "clip": 1.0, "bounds": None, **REPLACE}, RECORDS),
    "Gaussian, bounds": (
        "Gaussian",
        {**BUDGET, "clip": None, "bounds": (-1.0, 1.0), "neighbours": "zero-out"},
        RECORDS,
    ),
    "Gaussian, many columns": (
        "Gaussian",
        {**BUDGET, "clip": 1.0, "bounds": None, **REPLACE},
        numbers(3, 300),
    ),
    "GridTensorLDP, tensor": (
        "GridTensorLDP",
        {"epsilon": 6.0, "levels": 8, "unit": "tensor", **TENSOR},
        TENSORS,
    ),
    "GridTensorLDP, component": (
        "GridTensorLDP",
        {"epsilon": 1.0, "levels": 256, "unit": "component", **TENSOR},
        TENSORS,
    ),
    "HessianClipped": (
        "HessianClipped",
        {**BUDGET, "clip": 1.0, "layers": (1, 3), "curvature": [1.0, 2.0], "shares": None, **REPLACE},
        RECORDS,
    ),
    "HessianClipped, own": (
        "HessianClipped",
        {**BUDGET, "clip": 1.0, "layers": (1, 3), "curvature": "own", "shares": None, **REPLACE},
        RECORDS,
    ),
    "Hybrid": ("Hybrid", {"epsilon": 2.0, "coordinates": 2, **BOX}, RECORDS),
    "IndependentDirectional": (
        "IndependentDirectional",
        {
            **BUDGET,
            **{"clip": 1.0, "bounds": None, "directions": TURN, "deviations": [1.0, 2.0, 3.0, 4.0]},
            **{"calibration": "analytic", "shape": None, **REPLACE},
        },
        RECORDS,
    ),
    "Laplace, clip": ("Laplace", {"epsilon": 1.0, "clip": 1.0, "bounds": None, **REPLACE}, RECORDS),
    "Laplace, bounds": (
        "Laplace",
        {"epsilon": 1.0, "clip": None, "bounds": (-1.0, 1.0), "neighbours": "zero-out"},
        RECORDS,
    ),
    "LayerAdaptive": (
        "LayerAdaptive",
        {**BUDGET, "clip": (1.0, 3.0), "layers": (1, 3), "shares": (0.25, 0.75), "progress": 0.5, **REPLACE},
        RECORDS,
    ),
    "MatrixVariateGaussian": (
        "MatrixVariateGaussian",
        {
            **BUDGET,
            **{"clip": None, "bounds": (-1.0, 1.0), "row_directions": None, "row_precision": [0.4, 0.6]},
            **{"column_directions": None, "column_precision": [0.5, 0.5], "calibration": "analytic"},
            **{"shape": (2, 2), **REPLACE},
        },
        RECORDS,
    ),
    "Personalised": (
        "Personalised",
        {"epsilon": np.linspace(0.5, 2.0, 7), "delta": 1e-6, "clip": 1.0, "bounds": None, **REPLACE},
        RECORDS,
    ),
    "Piecewise": ("Piecewise", {"epsilon": 2.0, "coordinates": 2, **BOX}, RECORDS),
    "PrivUnit": ("PrivUnit", {"epsilon": 4.0, "clip": 1.0}, RECORDS),
    "PrivUnitG": ("PrivUnitG", {"epsilon": 4.0, "clip": 1.0}, RECORDS),
    "RandomProjection": (
        "RandomProjection",
        {"components": 3, "noise": "Gaussian, clip", "seed": 5},
        RECORDS,
    ),
    "RandomisedResponse": (
        "RandomisedResponse",
        {"epsilon": 1.0, "categories": 4, "weights": None},
        np.arange(14).reshape(7, 2) % 4,
    ),
    "RandomisedResponse, weights": (
        "RandomisedResponse",
        {"epsilon": 1.0, "categories": (2, 3), "weights": (1.0, 3.0)},
        np.arange(14).reshape(7, 2) % 2,
    ),
    "ReconstructionResistant": (
        "ReconstructionResistant",
        {"components": 3, "noise": "Laplace, clip", "seed": 5},
        RECORDS,
    ),
    "SymmetricTensors": (
        "SymmetricTensors",
        {"mechanism": "Gaussian, clip", "order": 2, "weights": "auto"},
        np.stack([np.eye(3) * n + 1.0 for n in range(4)]) / 8.0,
    ),
    "TensorLDP, laplace": (
        "TensorLDP",
        {
            "epsilon": 1.0,
            "noise": "laplace",
            "retain": "algorithm",
            "delta": 1e-5,
            "unit": "component",
            **TENSOR,
        },
        TENSORS,
    ),
    "TensorLDP, gaussian": (
        "TensorLDP",
        {"epsilon": 1.0, "noise": "gaussian", "retain": "proof", "delta": 1e-5, "unit": "tensor", **TENSOR},
        TENSORS,
    ),
    "TrustAdaptive": ("TrustAdaptive", {**TRUST_ADAPTIVE, "calibration": "analytic", **REPLACE}, RECORDS),
    "TrustAdaptive, bounds": (
        "TrustAdaptive",
        {**TRUST_ADAPTIVE, "clip": None, "bounds": (-1.0, 1.0), "calibration": "analytic", **REPLACE},
        RECORDS,
    ),
    "TrustAdaptive, paper": (
        "TrustAdaptive",
        {**TRUST_ADAPTIVE, "calibration": "paper", **REPLACE},
        RECORDS,
    ),
    "WeightedTensorLDP": (
        "WeightedTensorLDP",
        {
            **{"epsilon": 1.0, "weights": [[0.0, 0.5, 1.0], [0.2, 0.4, 0.6]], "noise": "laplace"},
            **{"retain": "algorithm", "delta": 1e-5, "unit": "component", **TENSOR},
        },
        TENSORS,
    ),
    "WeightedTensorLDP, saliency": (
        "WeightedTensorLDP",
        {
            **{"epsilon": 1.0, "weights": "saliency", "noise": "laplace"},
            **{"retain": "algorithm", "delta": 1e-5, "unit": "component", **TENSOR},
        },
        TENSORS,
    ),
}


def made(case: str, randomness: Any) -> Any:
    """Return the mechanism of ``case``; one inside another draws from ``randomness`` too."""
    kind, parameters, _ = (MECHANISMS | PICTURES | SOUNDS)[case]
    given = {
        name: made(value, randomness) if isinstance(value, str) and value in MECHANISMS else value
        for name, value in parameters.items()
    }
    whole = getattr(sf, kind)
    if "randomness" in inspect.signature(whole).parameters:
        given["randomness"] = randomness
    return whole(**given)


def released(case: str, X: Any, how: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the keyed release of ``X`` by the mechanism of ``case``, and what is stated of it."""
    mechanism = made(case, keyed(case))
    release = mechanism.release(X)
    return {
        "value": how(release.value),
        **release.to_dict(),
        "version": getattr(mechanism, "version", None),
        "again": bool(np.array_equal(made(case, keyed(case)).release(X).value, release.value)),
    }


def mechanisms(folder: Path) -> dict[str, Any]:
    """Return the releases of all mechanisms of records and tensors."""
    return {case: released(case, X, as_bytes) for case, (_, _, X) in MECHANISMS.items()}


def tiers(folder: Path) -> dict[str, Any]:
    """Return nested releases of records at several levels of trust, with either kind of bound."""
    found = {}
    for case in ("TrustAdaptive", "TrustAdaptive, bounds"):
        parameters = MECHANISMS[case][1] | {"calibration": "analytic", "randomness": keyed(f"tiers {case}")}
        ladder = sf.TrustAdaptive(**parameters).tiers([0.0, 0.5, 1.0])
        found[case] = {
            "guarantee": ladder.guarantee().to_dict(),
            "tiers": {
                str(level): {"value": as_bytes(one.value), **one.to_dict()}
                for level, one in ladder.release(RECORDS).items()
            },
        }
    return found


#: Transforms: class, parameters.
TRANSFORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "LocalitySensitiveHash": ("LocalitySensitiveHash", {"bits": 16, "seed": 3}),
    "ReverseManifold": ("ReverseManifold", {"alpha": 0.7, "key": None}),
    "ReverseManifold, key": ("ReverseManifold", {"alpha": 0.7, "key": SECRET}),
}


def transforms(folder: Path) -> dict[str, Any]:
    """Return what transforms make of records and of a release, and projections onto structure."""
    found: dict[str, Any] = {}
    for case, (kind, parameters) in TRANSFORMS.items():
        transform = getattr(sf, kind)(**parameters)
        release = made("Gaussian, clip", keyed("transformed")).release(RECORDS)
        raw, after = transform.release(RECORDS), transform.apply(release)
        found[case] = {
            "of records": {"value": as_close(raw.value, 1e-6), **raw.to_dict()},
            "of a release": {"value": as_close(after.value, 1e-6), **after.to_dict()},
        }
    tensors = made("SymmetricTensors", keyed("projected")).release(MECHANISMS["SymmetricTensors"][2])
    totals = {"simplex": 1.0, "fixed-sum": 2.0}
    for onto in ("symmetric", "fixed-sum", "nonnegative", "simplex", "positive-semidefinite"):
        projected = sf.Projection(onto, totals.get(onto)).apply(tensors)
        found[f"Projection, {onto}"] = {"value": as_close(projected.value, 1e-6), **projected.to_dict()}
    return found


SIDE = {"shape": (24, 32, 3)}
GREY = {"shape": (16, 20)}
PICTURE = (
    (np.add.outer(np.arange(24) * 5, np.arange(32) * 3)[..., None] + np.array([0, 40, 80])) % 256 / 255.0
)
GREY_PICTURE = (np.multiply.outer(np.arange(16), np.arange(20)) % 256) / 255.0
REGION = {"unit": "region(8)"}
LEARNED = {"block": 4, "shares": None, "restore": "learned", "chroma": 0.3}
MAP = {"weights": None, "tile": 8, "map_share": 0.2, "low": 0.05, "reserve": 0.2, "detectors": ("text",)}

#: Mechanisms of pictures: class, parameters, tolerance of values in [0, 1] (None: compared by bytes).
PICTURES: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "Blur": ("Blur", {"sigma": 2.0, **REGION, **SIDE}, 1e-5),
    "ContentAdaptive, public": (
        "ContentAdaptive",
        {"epsilon": 4.0, "delta": 0.0, **REGION, "map": "public", "declared": "boxes", **MAP, **SIDE}
        | {"block": 4, "restore": "wiener", "chroma": 0.3},
        1e-5,
    ),
    "ContentAdaptive, private": (
        "ContentAdaptive",
        {"epsilon": 4.0, "delta": 0.0, **REGION, "map": "private", "declared": None, **MAP, **SIDE}
        | {"block": 4, "restore": "wiener", "chroma": 0.3},
        1e-5,
    ),
    "DPPix": ("DPPix", {"epsilon": 1.0, "unit": "pixels(16)", "block": 8, **GREY}, 1e-5),
    "Mask": ("Mask", {"mask": np.eye(24, 32) > 0, "value": 0.5, **REGION, **SIDE}, None),
    "Pixelate": ("Pixelate", {"block": 8, **REGION, **SIDE}, 1e-5),
    "PlaneBands": (
        "PlaneBands",
        {"epsilon": 4.0, "delta": 0.0, **REGION, "kept": 0.25, "restore": "wiener", "chroma": 0.3, **SIDE},
        1e-5,
    ),
    "PlaneMeans": ("PlaneMeans", {"epsilon": 4.0, "delta": 0.0, **REGION, **LEARNED, **SIDE}, 1e-5),
    "PlaneMeans, item": (
        "PlaneMeans",
        {"epsilon": 40.0, "delta": 1e-6, "unit": "item", **LEARNED, "restore": "wiener", **SIDE},
        1e-5,
    ),
    "PlaneMeans, plain": (
        "PlaneMeans",
        {"epsilon": 4.0, "delta": 0.0, "unit": "pixels(4)", **LEARNED, "restore": "none", **SIDE},
        1e-5,
    ),
    "ScaledPixels": ("ScaledPixels", {"epsilon": 1.0, **REGION, **GREY}, 1e-5),
    "SelectiveNoise": (
        "SelectiveNoise",
        {"epsilon": 1.0, "strategy": "uniform", "unit": "pixels(1)", "k": 0.0, "coverage": 0.5}
        | {"attribution": None, **GREY},
        1e-5,
    ),
    "SelectiveNoise, random": (
        "SelectiveNoise",
        {"epsilon": 1.0, "strategy": "random", "unit": "pixels(1)", "k": 0.0, "coverage": 0.5}
        | {"attribution": None, **GREY},
        1e-5,
    ),
    "SpectralLaplace": (
        "SpectralLaplace",
        {"epsilon": 1.0, "noise": "laplace", "alpha": 0.6, "delta": 1e-6, **REGION, **GREY},
        1e-5,
    ),
    "SpectralLaplace, gaussian": (
        "SpectralLaplace",
        {"epsilon": 1.0, "noise": "gaussian", "alpha": 0.6, "delta": 1e-6, **REGION, **GREY},
        1e-5,
    ),
    "UniformPixels": ("UniformPixels", {"epsilon": 4.0, "delta": 0.0, **REGION, **SIDE}, 1e-5),
}

SOUND = {"shape": (1600, 1), "rate": 8_000}
TONE = (0.4 * np.sin(2 * np.pi * 330 * np.arange(1600) / 8_000) * np.linspace(0.2, 1, 1600))[:, None]
SHAPED = {"clip": 1.0, "shapes": 8, "cutoff": 3000.0, "weighting": "iso226", "restore": "wiener"}

#: Mechanisms of sounds: class, parameters, tolerance of values in [−1, 1].
SOUNDS: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "BandNoise, shapes": (
        "BandNoise",
        {"epsilon": 4.0, "delta": 0.0, "unit": "window(20)", "keep": "shapes", **SHAPED, **SOUND},
        1e-5,
    ),
    "BandNoise, coefficients": (
        "BandNoise",
        {"epsilon": 400.0, "delta": 1e-6, "unit": "clip", "keep": "coefficients", **SHAPED, **SOUND}
        | {"shapes": None},
        1e-5,
    ),
    "MelLaplace": (
        "MelLaplace",
        {
            "epsilon": 1.0,
            "unit": "window(20)",
            "decay": 50.0,
            "moment": None,
            "phase": "griffin-lim",
            **SOUND,
        },
        1e-4,
    ),
}


def pictures(folder: Path) -> dict[str, Any]:
    """Return the releases of a picture by all mechanisms of pictures."""
    declared = sf.SensitivityMap.from_array(np.kron([[0.1, 0.9], [0.4, 0.2]], np.ones((12, 16))))
    found: dict[str, Any] = {
        "SensitivityMap": {
            "scores": as_close(declared.scores, 1e-6),
            "shares": as_close(declared.shares(4.0, low=0.05, reserve=0.2), 1e-6),
            "picture": as_close(declared.picture((24, 32)), 1),
        }
    }
    for case, (_, parameters, tolerance) in PICTURES.items():
        if parameters.get("declared") == "boxes":
            parameters["declared"] = declared
        X = PICTURE if parameters["shape"] == SIDE["shape"] else GREY_PICTURE
        found[case] = released(case, X[None], _how(tolerance))
    return found


def _how(tolerance: float | None) -> Callable[[Any], Any]:
    return as_bytes if tolerance is None else lambda values: as_close(values, tolerance)


def bytes_of(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a picture of 8 bits."""
    return np.round(picture * 255.0).astype(np.uint8)


#: Mechanisms of the frames of videos: parameters, of which the mechanism is one of pictures.
FRAMES: dict[str, dict[str, Any]] = {
    "FrameNoise": {
        "mechanism": "PlaneMeans",
        "unit": "region(8)",
        "beta": 0.0,
        "smoothing": 0.88,
        "follow": "motion",
    },
    "FrameNoise, correlated": {
        **{"mechanism": "PlaneMeans, item", "unit": "clip", "beta": 0.5},
        **{"smoothing": 0.5, "follow": "nothing"},
    },
}


def frames(folder: Path) -> dict[str, Any]:
    """Return the releases of a clip of three frames, each frame by a mechanism of pictures."""
    found = {}
    clip = np.stack([np.roll(bytes_of(PICTURE), 2 * number, axis=1) for number in range(3)])
    for case, parameters in FRAMES.items():
        inner = made(parameters["mechanism"], None)
        given = parameters | {"mechanism": inner, "frames": 3, **SIDE, "randomness": keyed(case)}
        release = sf.FrameNoise(**given).release(clip)
        found[case] = {"value": as_close(release.value, 1), **release.to_dict()}
    return found


def sounds(folder: Path) -> dict[str, Any]:
    """Return the releases of a sound by all mechanisms of sounds."""
    return {case: released(case, TONE[None], _how(limit)) for case, (_, _, limit) in SOUNDS.items()}


DATA = Path(__file__).with_name("fixtures")
SCHEMA = """[columns.id]
kind = "identifier"
[columns.age]
kind = "numeric"
bounds = [0, 100]
weight = 2.0
clamp = true
[columns.pay]
kind = "numeric"
bounds = [0, 9000]
[columns.sex]
kind = "categorical"
categories = ["f", "m"]
[columns.ill]
kind = "boolean"
"""
CATEGORIES = """[columns.sex]
kind = "categorical"
categories = ["f", "m"]
[columns.ward]
kind = "categorical"
categories = ["a", "b", "c"]
"""


def write_sources(folder: Path) -> None:
    """Write the files that are released: arrays, tables, pictures, sounds, a video, and folders of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import soundfile
    from PIL import Image

    np.save(folder / "x.npy", RECORDS)
    np.savez(folder / "x.npz", X=RECORDS.astype(np.float32), y=np.arange(7) % 3)
    np.savez(folder / "tensors.npz", X=TENSORS)
    np.savez(folder / "categories.npz", X=np.arange(14).reshape(7, 2) % 4)
    people = [(n, 20 + n, 100.0 * n, "fm"[n % 2], n % 3 == 0) for n in range(9)]
    lines = [f"{id_},{age},{pay},{sex},{str(ill).lower()}\n" for id_, age, pay, sex, ill in people]
    (folder / "people.csv").write_text("id,age,pay,sex,ill\n" + "".join(lines))
    (folder / "people.toml").write_text(SCHEMA)
    (folder / "words.csv").write_text(
        "sex,ward\n" + "".join(f"{'fm'[n % 2]},{'abc'[n % 3]}\n" for n in range(9))
    )
    (folder / "words.toml").write_text(CATEGORIES)
    table = dict(zip(("id", "age", "pay", "sex", "ill"), map(list, zip(*people, strict=True)), strict=True))
    pq.write_table(pa.table(table), folder / "people.parquet")
    for suffix in ("png", "bmp", "tif", "webp"):
        options = {"lossless": True} if suffix == "webp" else {}
        Image.fromarray(bytes_of(PICTURE)).save(folder / f"a.{suffix}", **options)
    Image.fromarray(bytes_of(GREY_PICTURE)).save(folder / "grey.png")
    for suffix in ("wav", "flac"):
        soundfile.write(folder / f"a.{suffix}", TONE, 8_000, subtype="PCM_16")
    # Lossy media are decoded a little differently by other libraries, and keyed noise depends on content.
    for name in ("a.jpg", "a.mp4"):
        (folder / name).write_bytes((DATA / name).read_bytes())
    album = folder / "album"
    album.mkdir()
    for name in ("one.png", "two.png"):
        Image.fromarray(bytes_of(PICTURE if name == "one.png" else PICTURE[::-1])).save(album / name)
    (album / "notes.txt").write_text("no picture")
    arrays = folder / "arrays"
    arrays.mkdir()
    for number in range(2):
        np.save(arrays / f"{number}.npy", RECORDS + number / 8.0)


def read_released(file: Path) -> Any:
    """Return what a released file holds, described by how it is compared."""
    import av
    import pyarrow.csv
    import pyarrow.parquet
    import soundfile
    from PIL import Image

    kind = file.suffix
    if kind == ".npy":
        return as_bytes(np.load(file))
    if kind == ".npz":
        with np.load(file) as archive:
            return {name: as_bytes(archive[name]) for name in archive.files}
    if kind in (".csv", ".parquet"):
        read = pyarrow.csv.read_csv if kind == ".csv" else pyarrow.parquet.read_table
        table = read(file)
        return {
            "types": {field.name: str(field.type) for field in table.schema},
            "columns": {name: table[name].to_pylist() for name in table.column_names},
        }
    if kind in (".wav", ".flac"):
        samples, rate = soundfile.read(file, dtype="int16")
        about = soundfile.info(file)
        return {"rate": rate, "subtype": about.subtype, "samples": as_close(samples, 2)}
    if kind == ".mp4":
        with av.open(str(file)) as container:
            pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        with av.open(str(file)) as container:
            heard = [frame.to_ndarray() for frame in container.decode(audio=0)]
        with av.open(str(file)) as container:
            codecs = [stream.codec_context.name for stream in container.streams]
            tags = sorted(container.metadata)
        samples = np.round(np.concatenate(heard, axis=1) * 32_767).astype(np.int16)
        return {
            **{"codecs": codecs, "tags": tags, "frames": as_close(np.stack(pictures), 24)},
            "samples": as_close(samples, 2_000),
        }
    with Image.open(file) as picture:
        pixels = np.asarray(picture)
        about = {"mode": picture.mode, "format": picture.format, "tags": sorted(map(str, picture.info))}
        about["exif"] = sorted(map(str, picture.getexif()))
    # Restored from noisy averages by BLAS, which may round a pixel to its neighbour.
    return about | {"pixels": as_close(pixels, 8 if kind == ".jpg" else 1)}


def certificate(file: Path) -> Any:
    """Return what the certificate beside ``file`` says, and the fields of its envelope."""
    envelope = json.loads(file.with_name(file.name + ".cert.json").read_text("utf-8"))
    payload = json.loads(base64.b64decode(envelope.pop("payload")))
    return {"envelope": envelope, "payload": payload}


def ledger_rows(ledger: sf.Ledger, dataset: str) -> list[dict[str, Any]]:
    """Return everything that the ledger stores of a dataset, row by row, commitments included."""
    rows = []
    for entry in ledger.history(dataset):
        stored = {name: getattr(entry, f"{name}_wire") for name in ("guarantee", "prices", "terms")}
        prices = None if stored["prices"] is None else [float(price) for price in stored["prices"].split()]
        read = {
            name: None if text is None else json.loads(text)
            for name, text in stored.items()
            if name != "prices"
        }
        rows.append({**entry.to_dict(), "stored": {**read, "prices": prices}})
    return rows


#: Releases of files: the source, the mechanism's case, how it is opened, the unit of the budget.
FILES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "npy": ("x.npy", "Gaussian, clip", {}, "record"),
    "npz": ("x.npz", "TrustAdaptive", {"array": "X"}, "record"),
    "npz, then a transform": ("x.npz", "Laplace, clip", {"array": "X", "then": "ReverseManifold"}, "record"),
    "npz, bounds from data": ("x.npz", "Table, gaussian", {"array": "X", "bounds_from_data": True}, "none"),
    "tensors": ("tensors.npz", "TensorLDP, laplace", {}, "component"),
    "categories": ("categories.npz", "RandomisedResponse", {}, "record"),
    "csv": ("people.csv", "Table, gaussian", {"schema": "people.toml"}, "record"),
    "csv, trust": ("people.csv", "Table, trust", {"schema": "people.toml"}, "record"),
    "csv, categories": ("words.csv", "Table, laplace", {"schema": "words.toml"}, "record"),
    "parquet": ("people.parquet", "Table, laplace", {"schema": "people.toml"}, "record"),
    "png": ("a.png", "Picture", {}, "region(8)"),
    "png, grey": ("grey.png", "Picture", {}, "region(8)"),
    "png, bands": ("a.png", "Picture, bands", {}, "region(8)"),
    "bmp": ("a.bmp", "Picture", {}, "region(8)"),
    "tif": ("a.tif", "Picture", {}, "region(8)"),
    "webp": ("a.webp", "Picture", {}, "region(8)"),
    "jpg": ("a.jpg", "Picture", {}, "region(8)"),
    "wav": ("a.wav", "Sound", {}, "window(20)"),
    "flac": ("a.flac", "Sound", {}, "window(20)"),
    "mp4": ("a.mp4", "Video", {}, "clip"),
    "folder of pictures": ("album", "Picture", {"public_names": True}, "region(8)"),
    "folder of pictures, numbered": ("album", "Picture", {}, "region(8)"),
    "folder of arrays": ("arrays", "Gaussian, clip", {}, "record"),
    "folder of arrays, disjoint": ("arrays", "Gaussian, clip", {"disjoint": True}, "record"),
    "parts of an array": ("x.npy", "Gaussian, clip", {"parts": True}, "record"),
}


def _of_files(case: str, randomness: Any) -> Any:
    """Return the mechanism, or the mechanisms of media, that ``case`` names."""
    noise = {"randomness": randomness}
    none = {"shape": None}
    if case == "Table, gaussian":
        return sf.Gaussian(**BUDGET, clip=None, bounds=None, **REPLACE, **noise)
    if case == "Table, laplace":
        return sf.Laplace(epsilon=1.0, clip=None, bounds=None, **REPLACE, **noise)
    if case == "Table, trust":
        given = TRUST_ADAPTIVE | {"clip": None, "bounds": None, "calibration": "analytic"}
        return sf.TrustAdaptive(**given, **REPLACE, **noise)
    if case == "Picture, bands":
        return sf.PlaneBands(**(PICTURES["PlaneBands"][1] | none), **noise)
    if case in ("Picture", "Video"):
        picture = sf.PlaneMeans(**(PICTURES["PlaneMeans"][1] | none | {"delta": 1e-6}), **noise)
        if case == "Picture":
            return picture
        whole = {"epsilon": 40.0, "delta": 1e-6}
        picture = sf.PlaneMeans(**(PICTURES["PlaneMeans"][1] | none | whole | {"unit": "item"}), **noise)
        shaped = SOUNDS["BandNoise, coefficients"][1] | {"shape": None, "rate": None} | whole
        return sf.MediaMechanisms(
            picture=picture, sound=sf.BandNoise(**shaped, **noise), maps=None, unit=sf.Unit("clip")
        )
    if case == "Sound":
        return sf.BandNoise(**(SOUNDS["BandNoise, shapes"][1] | {"shape": None, "rate": None}), **noise)
    return made(case, randomness)


def files(folder: Path) -> dict[str, Any]:
    """Return plan, release, certificate, manifest and rows of the ledger for a file of every format."""
    write_sources(folder)
    found = {}
    with sf.Ledger(f"sqlite:///{folder / 'ledger.db'}", make=True) as ledger:
        for case, (source, mechanism, options, unit) in FILES.items():
            with contextlib.chdir(folder):
                found[case] = _released_file(case, folder, ledger, source, mechanism, dict(options), unit)
    return found


def _released_file(
    case: str,
    folder: Path,
    ledger: sf.Ledger,
    source: str,
    mechanism: str,
    options: dict[str, Any],
    unit: str,
) -> dict[str, Any]:
    dataset, noise = case.replace(", ", "-").replace(" ", "-"), keyed(case)
    paid = unit != "none"
    if paid:
        ledger.open(dataset, 200.0, 1e-2, unit, "replace")
    place = Path(source)
    output = folder / f"out-{dataset}{place.suffix}"
    if options.pop("parts", False):
        output = output.with_suffix("")
    if "then" in options:
        kind, parameters = TRANSFORMS[options["then"]]
        options["then"] = getattr(sf, kind)(**parameters)
    charged = {"dataset": dataset, "ledger": ledger} if paid else {}
    requested = {"request": "monday"} if paid else {}
    planned = None
    if "bounds_from_data" not in options:
        planned = sf.plan(source, _of_files(mechanism, noise), **options, **charged).to_dict()
    to = f"{output}/" if output.suffix == "" else output
    done = sf.protect(source, to, _of_files(mechanism, noise), **options, **charged, **requested)
    files = [output]
    if output.is_dir():
        files = sorted(file for file in output.rglob("*") if not file.name.endswith((".cert.json", ".json")))
        manifest = output / "manifest.json"
    told = {
        "plan": planned,
        "result": done.to_dict(),
        "released": {file.name: read_released(file) for file in files},
        "certificates": {} if output.is_dir() else {output.name: certificate(output)},
        "ledger": ledger_rows(ledger, dataset) if paid else None,
    }
    if output.is_dir():
        told["manifest"] = {
            "document": json.loads(manifest.read_text("utf-8")),
            "certificate": certificate(manifest),
        }
    return told


DIGITS = (numbers(40, 8, 8, low=0.0, high=16.0), np.arange(40) % 4)
PUBLISHED = {"shape": (8, 8), "classes": 4, "top": 16.0, "neighbours": "replace"}

#: Publishers: class, parameters.
PUBLISHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "BlurPublisher": ("BlurPublisher", {"radius": 1.5, "top": 16.0}),
    "CertifiedPublisher": (
        "CertifiedPublisher",
        {"epsilon": 20.0, "delta": 1e-5, "kept": 6, "parts": 2, "embeddings": 0, **PUBLISHED},
    ),
    "CertifiedPublisher, embeddings": (
        "CertifiedPublisher",
        {"epsilon": 20.0, "delta": 1e-5, "kept": 6, "parts": 1, "embeddings": 4, **PUBLISHED},
    ),
    "KAnonymityPublisher": ("KAnonymityPublisher", {"k": 2, "clusters": 6, "small": "kept", "top": 16.0}),
    "PixelationPublisher": ("PixelationPublisher", {"block": 3, "top": 16.0}),
}


def publishers(folder: Path) -> dict[str, Any]:
    """Return statements and shapes of what publishers publish."""
    found = {}
    makers = {
        case: getattr(sf, kind)(**parameters, randomness=sf.Seeded(7))
        for case, (kind, parameters) in PUBLISHERS.items()
    }
    # A seed whose pool has two classes, which the second publisher needs.
    makers["RefinedPublisher"] = sf.RefinedPublisher(
        sf.CertifiedPublisher(**PUBLISHERS["CertifiedPublisher"][1], randomness=sf.Seeded(1)),
        lambda: sf.PixelationPublisher(block=2, top=16.0, randomness=sf.Seeded(7)),
        pool=40,
        time_budget=10.0,
    )
    for case, publisher in makers.items():
        before = publisher.guarantee().to_dict()
        release = publisher.fit(*DIGITS).publish(12)
        pictures, labels = release.value[:2]
        found[case] = {
            "guarantee": before,
            "parameters": dict(publisher.parameters()),
            "pictures": as_shape(pictures),
            "labels": as_shape(labels),
            **release.to_dict(),
        }
    return found


#: Events of privacy, composed: what the ledger and statements are made of.
def guarantees(folder: Path) -> dict[str, Any]:
    """Return guarantees, their composition, and the JSON forms of the columns of a statement."""
    replace, record = sf.Neighbours.REPLACE, sf.Unit("record")
    gaussian = sf.Gaussian(**BUDGET, clip=1.0, bounds=None, **REPLACE).guarantee()
    pure = sf.Laplace(epsilon=1.0, clip=1.0, bounds=None, **REPLACE).guarantee()
    claim = sf.Claim(
        text="as they say", source="a paper", epsilon=1.0, delta=0.0, unit=record, neighbours=replace
    )
    evidence = sf.Evidence(
        attack="membership",
        epsilon_lower=0.5,
        delta=1e-6,
        confidence=0.99,
        detail="on ten rows",
        unit=record,
        neighbours=replace,
        delta_lower=None,
        at_epsilon=None,
    )
    statement = sf.Statement(
        "Gaussian", {"epsilon": 1.0}, claim, gaussian, (evidence,), ("a note",), (gaussian_of("tensor"),)
    )
    both = {"gaussian": gaussian, "laplace": pure, "sum": gaussian + pure, "five": gaussian.times(5)}
    both |= {
        "group": pure.group(3),
        "units": sf.Guarantee.nothing("why", unit=sf.Unit.parse("region:16"), neighbours=replace),
    }
    found: dict[str, Any] = {
        name: {"document": one.to_dict(), "epsilon": None if one.proves_nothing else one.epsilon(1e-5)}
        for name, one in both.items()
    }
    found["statement"] = {
        "document": statement.to_dict(),
        "again": sf.Statement.from_json(statement.to_json()) == statement,
        "consistent": statement.consistent,
        "warnings": list(statement.warnings),
    }
    return found


def ledger(folder: Path) -> dict[str, Any]:
    """Return what a ledger stores and answers: spends, holds, commits, refusals, a closed budget."""
    gaussian = sf.Gaussian(**BUDGET, clip=1.0, bounds=None, **REPLACE).guarantee()
    pure = sf.Laplace(epsilon=1.0, clip=1.0, bounds=None, **REPLACE).guarantee()
    found: dict[str, Any] = {}
    with sf.Ledger(f"sqlite:///{folder / 'ledger.db'}", make=True) as book:
        book.open("clinic", 3.0, 1e-5, "record", "replace")
        book.spend("clinic", gaussian, "first", "monday")
        book.spend("clinic", gaussian, "first", "monday")
        given_back = book.hold("clinic", pure, "a job", "one")
        book.release_hold("clinic", given_back.number)
        book.commit("clinic", book.hold("clinic", pure, "a job", "two").number)
        found["preview that fits"] = book.preview("clinic", pure).to_dict()
        found["preview that does not"] = book.preview("clinic", pure.times(9)).to_dict()
        found["balance"] = book.balance("clinic").to_dict() | {
            "fixed plan": book.fixed_plan_epsilon("clinic")
        }
        found["refusals"] = {
            "too much": refused(lambda: book.spend("clinic", pure.times(9), "second", "tuesday")),
            "unknown": refused(lambda: book.spend("nobody", pure, "second", "tuesday")),
            "opened twice": refused(lambda: book.open("clinic", 4.0, 1e-5, "record", "replace")),
            "another unit": refused(lambda: book.spend("clinic", gaussian_of("tensor"), "third", None)),
        }
        book.close("clinic")
        found["closed"] = refused(lambda: book.spend("clinic", pure, "late", None))
        found["rows"] = ledger_rows(book, "clinic")
        found["damages"] = [str(one) for one in book.check("clinic")]
    return found


def gaussian_of(unit: str) -> sf.Guarantee:
    """Return a guarantee of another unit."""
    return sf.Guarantee.pure(1.0, unit=sf.Unit(unit), neighbours=sf.Neighbours.REPLACE, theorem="a theorem")


def refused(action: Callable[[], Any]) -> dict[str, Any]:
    """Return the kind, the exit code and the sentence of a refusal."""
    try:
        action()
    except sf.SfumatoError as refusal:
        return {"refused": type(refusal).__name__, "exit_code": refusal.exit_code, "detail": str(refusal)}
    return {"refused": None}


def refusals(folder: Path) -> dict[str, Any]:
    """Return refusals of constructors, of records and of verbs, in Python."""
    write_sources(folder)
    gaussian = {**BUDGET, "clip": 1.0, "bounds": None, **REPLACE}
    wrong = np.where(np.arange(28).reshape(7, 4) == 5, np.nan, RECORDS)
    actions: dict[str, Callable[[], Any]] = {
        "no bound": lambda: sf.Gaussian(**gaussian | {"clip": None}).release(RECORDS),
        "two bounds": lambda: sf.Gaussian(**gaussian | {"bounds": (0.0, 1.0)}).release(RECORDS),
        "epsilon 0": lambda: sf.Gaussian(**gaussian | {"epsilon": 0.0}).release(RECORDS),
        "epsilon text": lambda: sf.Gaussian(**gaussian | {"epsilon": "one"}).release(RECORDS),
        "epsilon nan": lambda: sf.Gaussian(**gaussian | {"epsilon": float("nan")}).release(RECORDS),
        "delta 0": lambda: sf.Gaussian(**gaussian | {"delta": 0.0}).release(RECORDS),
        "delta 1": lambda: sf.Gaussian(**gaussian | {"delta": 1.0}).release(RECORDS),
        "clip below 0": lambda: sf.Gaussian(**gaussian | {"clip": -1.0}).release(RECORDS),
        "neighbours": lambda: sf.Gaussian(**gaussian | {"neighbours": "nobody"}).release(RECORDS),
        "bounds reversed": lambda: sf.Laplace(1.0, None, bounds=(1.0, 0.0), **REPLACE).release(RECORDS),
        "records nan": lambda: sf.Gaussian(**gaussian).release(wrong),
        "records text": lambda: sf.Gaussian(**gaussian).release([["a", "b"]]),
        "records empty": lambda: sf.Gaussian(**gaussian).release(np.zeros((0, 4))),
        "records flat": lambda: sf.Gaussian(**gaussian).release(np.zeros(4)),
        "outside bounds": lambda: made("Duchi", None).release(RECORDS * 9.0),
        "range of epsilon": lambda: sf.TrustAdaptive(**TRUST_ADAPTIVE | {"epsilon": (8.0, 1.0)}).release(
            RECORDS
        ),
        "trust above 1": lambda: sf.TrustAdaptive(**TRUST_ADAPTIVE | {DISTRUST: 1.5}).release(RECORDS),
        "tiers equal": lambda: sf.TrustAdaptive(**TRUST_ADAPTIVE).tiers([0.5, 0.5]),
        "tiers none": lambda: sf.TrustAdaptive(**TRUST_ADAPTIVE).tiers([]),
        "categories": lambda: made("RandomisedResponse", None).release(np.full((3, 2), 9)),
        "budgets of other rows": lambda: made("Personalised", None).release(RECORDS[:3]),
        "tensor of another shape": lambda: made("TensorLDP, laplace", None).release(np.zeros((2, 3, 3))),
        "picture of another shape": lambda: made("PlaneMeans", None).release(np.zeros((1, 8, 8))),
        "unit of a sound": lambda: sf.PlaneMeans(4.0, 0.0, "window(20)", 4, shape=(8, 8)).release(
            np.zeros((1, 8, 8))
        ),
        "unit unknown": lambda: sf.Unit.parse("planet"),
        "secret short": lambda: sf.Keyed(b"short", dataset="a", version="1", release="r"),
        "dataset empty": lambda: sf.Keyed(SECRET, dataset="", version="1", release="r"),
        "other content": lambda: _twice(keyed("twice")),
        "missing file": lambda: sf.protect(folder / "none.npz", folder / "o.npz", sf.Gaussian(**gaussian)),
        "suffix": lambda: sf.protect(folder / "people.toml", folder / "o.toml", sf.Gaussian(**gaussian)),
        "output of another kind": lambda: sf.protect(
            folder / "x.npy", folder / "o.csv", sf.Gaussian(**gaussian)
        ),
        "output is the input": lambda: sf.protect(
            folder / "x.npy", folder / "x.npy", sf.Gaussian(**gaussian)
        ),
        "several arrays": lambda: sf.plan(folder / "x.npz", sf.Gaussian(**gaussian)),
        "unknown array": lambda: sf.plan(folder / "x.npz", sf.Gaussian(**gaussian), array="Z"),
        "table without schema": lambda: sf.plan(folder / "people.csv", sf.Gaussian(**gaussian)),
        "no ledger": lambda: sf.plan(folder / "x.npy", sf.Gaussian(**gaussian), dataset="clinic"),
        "ledger as text": lambda: sf.plan(folder / "x.npy", sf.Gaussian(**gaussian), dataset="a", ledger="b"),
        "records for pictures": lambda: sf.plan(folder / "a.png", sf.Gaussian(**gaussian)),
        "pictures for records": lambda: sf.plan(
            folder / "x.npy", sf.Pixelate(8, unit="region(8)", shape=None)
        ),
        "request without keyed noise": lambda: _requested(folder, gaussian),
        "truncated picture": lambda: _truncated(folder),
        "publisher": lambda: sf.PixelationPublisher(block=0, top=16.0),
        "projection": lambda: sf.Projection("simplex"),
    }
    return {case: refused(action) for case, action in actions.items()}


def _twice(noise: sf.Keyed) -> None:
    for rows in (RECORDS, RECORDS / 2.0):
        sf.Gaussian(**BUDGET, clip=1.0, bounds=None, **REPLACE, randomness=noise).release(rows)


def _requested(folder: Path, gaussian: dict[str, Any]) -> None:
    with sf.Ledger(f"sqlite:///{folder / 'refused.db'}", make=True) as book:
        book.open("clinic", 3.0, 1e-5, "record", "replace")
        asked = {"dataset": "clinic", "ledger": book, "request": "monday"}
        sf.protect(folder / "x.npy", folder / "o.npy", sf.Gaussian(**gaussian), **asked)


def _truncated(folder: Path) -> None:
    (folder / "half.png").write_bytes((folder / "a.png").read_bytes()[:60])
    sf.plan(folder / "half.png", sf.Pixelate(8, unit="region(8)", shape=None))


GROUPS = {
    "mechanisms": mechanisms,
    "tiers": tiers,
    "transforms": transforms,
    "pictures": pictures,
    "sounds": sounds,
    "frames": frames,
    "publishers": publishers,
    "guarantees": guarantees,
    "ledger": ledger,
    "files": files,
    "python_refusals": refusals,
}
