"""What parameters and shape alone show to be impossible is refused when a file is opened: nobody has paid."""

import numpy as np
import pytest
import soundfile

from sfumato.errors import BadInput
from sfumato.io import Schema, encode_picture
from sfumato.mechanisms import make_mechanism
from sfumato.noise import Keyed
from sfumato.release import plan, protect
from sfumato.release.path import Payment

COLUMNS = {"columns": {"age": {"kind": "numeric", "bounds": [0, 120]}}}
IMPOSSIBLE = [
    ("x.npz", "gaussian", {"epsilon": [2**31], "clip": 1.0}, "too small to protect a record"),
    ("x.npz", "personalised", {"epsilon": [2**31], "clip": 1.0}, "too small to protect a record"),
    ("x.npz", "laplace", {"epsilon": [1e-100], "clip": 1.0}, "too large for the sampler"),
    ("f.npz", "laplace", {"epsilon": [1e-3], "clip": 1e37}, "does not fit in float32"),
    ("x.npz", "tensor-ldp", {"epsilon": [1e-100], "bounds": (-1, 1)}, "too large for the sampler"),
    ("x.npz", "random-projection", {"seed": "x"}, "a seed must be a whole number"),
    ("x.csv", "gaussian", {"epsilon": [1e100]}, "so little noise hides nothing"),
    ("x.png", "dp-pix", {"epsilon": [1], "block": 2**70}, "`block` must be a whole number of pixels"),
    ("x.png", "pixelate", {"block": 2**70}, "`block` must be a whole number of pixels"),
    ("x.png", "blur", {"sigma": 1e100}, "`sigma` must be at most 1000 pixels"),
    ("x.png", "mask", {"value": 2}, "`value` must lie between 0 and 1"),
    ("x.png", "scaled-pixels", {"epsilon": [1e-100]}, "cannot be drawn"),
    (
        "x.png",
        "plane-means",
        {"epsilon": [1], "chroma": 5e-324},
        "`chroma` must lie strictly between 0 and 1",
    ),
    (
        "x.png",
        "plane-bands",
        {"epsilon": [1], "chroma": 5e-324},
        "`chroma` must lie strictly between 0 and 1",
    ),
    ("x.png", "selective-noise", {"epsilon": [1e-100]}, "too large for the sampler"),
    ("x.png", "selective-noise", {"epsilon": [1], "attribution": "x"}, "`attribution` must be None or"),
    ("x.png", "selective-noise", {"epsilon": [1], "k": "x"}, "`k` must be a number"),
    ("x.png", "content-adaptive", {"epsilon": [1], "map": "private", "detectors": 5}, "`detectors` must be"),
    ("x.png", "content-adaptive", {"epsilon": [1], "map": "private", "weights": 5}, "`weights` must be"),
    ("x.wav", "mel-laplace", {"epsilon": [1e-100]}, "too large for the sampler"),
    ("x.wav", "mel-laplace", {"epsilon": [1], "moment": "x"}, "`moment` must be a number"),
]


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    values = random.uniform(-0.5, 0.5, size=(6, 3))
    np.savez(tmp_path / "x.npz", X=values)
    np.savez(tmp_path / "f.npz", X=values.astype(np.float32))
    (tmp_path / "x.csv").write_text("age\n30\n40\n")
    pixels = random.integers(0, 256, size=(10, 12, 3)).astype(np.uint8)
    (tmp_path / "x.png").write_bytes(encode_picture(pixels, ".png"))
    soundfile.write(tmp_path / "x.wav", random.uniform(-0.5, 0.5, size=400), 8_000)
    return tmp_path


@pytest.mark.parametrize(("name", "mechanism", "options", "sentence"), IMPOSSIBLE)
def test_the_impossible_is_refused_before_it_is_paid_for(
    folder, monkeypatch, name, mechanism, options, sentence
):
    monkeypatch.setattr(Payment, "pay", lambda *_: pytest.fail("this was paid for"))
    made = make_mechanism(mechanism, options, bounded=True)
    schema = Schema.from_dict(COLUMNS) if name == "x.csv" else None
    with pytest.raises(BadInput, match=sentence):
        plan(folder / name, made, schema=schema)
    with pytest.raises(BadInput, match=sentence):
        protect(folder / name, folder / f"out-{name}", made, schema=schema)
    assert not (folder / f"out-{name}").exists()


def test_a_window_longer_than_the_clip_keeps_one_block(folder):
    made = make_mechanism("band-noise", {"epsilon": [1], "unit": "window(1e99)"}, bounded=True)
    assert protect(folder / "x.wav", folder / "out.wav", made).statement.proven.epsilon() == pytest.approx(
        1.0
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epsilon": ["x"], "clip": 1}, r"takes a range, as in `epsilon=\(1, 8\)`, not 'x'"),
        ({"epsilon": [], "clip": 1}, r"takes a range, as in `epsilon=\(1, 8\)`, not none"),
        ({"epsilon": [10**400], "clip": 1}, "`epsilon` must be given in numbers within"),
        ({"epsilon": [1, 10**5000], "clip": 1}, "`epsilon` must be given in numbers within"),
        ({"epsilon": [1, 8], "clip": -(10**400)}, "`clip` must be given in numbers within"),
    ],
)
def test_what_no_mechanism_takes_is_refused_where_they_are_made(options, sentence):
    with pytest.raises(BadInput, match=sentence):
        make_mechanism("trust-adaptive", options)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_keyed_noise_is_left_for_the_content_it_is_for(folder, mechanism):
    noise = Keyed(bytes(32), dataset="ward", version="1", release="monday")
    made = make_mechanism(mechanism, {"epsilon": [1], "clip": 1.0, "randomness": noise})
    plan(folder / "x.npz", made)
    assert protect(folder / "x.npz", folder / "out.npz", made).rows == 6
