"""How large a release will be is bounded before it is paid for."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.io import Schema
from sfumato.release import MediaMechanisms, protect
from sfumato.release.path import silent
from sfumato.release.protection import opener_of
from sfumato.release.request import located
from sfumato.reports import KeyRing

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "numeric", "bounds": [0, 1e-100]},
            "ward": {"kind": "categorical", "categories": ['a "long", name', "b"]},
            "ill": {"kind": "boolean"},
        }
    }
)


def array(path):
    np.savez(path, X=np.zeros((3000, 70), np.uint8)) if path.suffix == ".npz" else np.save(
        path, np.zeros((3000, 70), np.uint8)
    )


def table(path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    rows = 70_000
    made = pa.table({"age": np.zeros(rows), "ward": ['a "long", name'] * rows, "ill": [True] * rows})
    if path.suffix == ".parquet":
        pq.write_table(made, path)
    else:
        with pa.output_stream(str(path)) as out:  # packed by its name
            csv.write_csv(made, out)


def picture(path):
    cv2 = pytest.importorskip("cv2")
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)
    assert cv2.imwrite(str(path), noise)


def sound(path):
    soundfile = pytest.importorskip("soundfile")
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, (100_000, 2))
    soundfile.write(path, noise, 8000)


def film(path):
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(10):
            noise = np.random.default_rng(number).integers(0, 256, (48, 64, 3), np.uint8)
            frame = av.VideoFrame.from_ndarray(noise, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


MECHANISMS = {
    array: [
        sf.Gaussian(1.0, 1e-6, clip=1.0),
        sf.BinaryEncoding(32, None, epsilon=1.0),
        sf.RandomProjection(components=3),
    ],
    table: [sf.Gaussian(1e-3, 1e-6)],
    picture: [MediaMechanisms(picture=sf.UniformPixels(0.01)), MediaMechanisms(picture=sf.PlaneMeans(1.0))],
    sound: [MediaMechanisms(sound=sf.BandNoise(1e-3))],
    film: [MediaMechanisms(picture=sf.UniformPixels(0.01))],
}
NAMES = {
    array: ["x.npy", "x.npz"],
    table: ["x.csv", "x.csv.gz", "x.parquet"],
    picture: ["x.png", "x.jpg", "x.tif", "x.webp", "x.bmp"],
    sound: ["x.wav", "x.flac", "x.ogg"],
    film: ["x.mp4", "x.mkv"],
}


@pytest.mark.parametrize(
    ("made", "name", "mechanism"),
    [(made, name, one) for made in NAMES for name in NAMES[made] for one in MECHANISMS[made]],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_a_release_is_no_larger_than_was_foretold(tmp_path, made, name, mechanism):
    source, output = tmp_path / name, tmp_path / f"out-{name}"
    made(source)
    schema = SCHEMA if made is table else None
    file = opener_of(located(source), mechanism, schema=schema).open(source)
    file.check(silent)
    told = []
    protect(source, output, mechanism, schema=schema, keys=KeyRing(tmp_path / "keys"), room=told.append)
    assert told == [file.most_bytes(output)]
    assert output.stat().st_size <= told[0]
