"""Arrays through the command: what is released, what is said about it, and that both are true."""

import math
import os
import shlex

import numpy as np
import pytest
from scipy.stats import norm

import sfumato as sf
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.media.audio import SoundMechanism
from sfumato.media.images import PictureMechanism
from sfumato.noise import grid_step
from sfumato.privacy import Statement

PINNED = shlex.split(
    "protect X.npz -o out.npz --mechanism trust-adaptive --distrust 0.4 --epsilon 1 8 --delta 1e-6 "
    "--clip 1.0 --dataset clinic --uncharged"
)


def test_the_command_of_the_documentation(command, folder, digits, statement_beside):
    np.savez("X.npz", X=digits[0])
    ran = command(*PINNED)
    assert (ran.code, ran.err) == (0, "")
    assert ran.appeared == {"out.npz", "out.npz.cert.json"}
    assert "ε = 5.2 at δ = 1e-06" in ran.out
    assert "Released: out.npz (1,797 records of 64 columns)" in ran.out
    statement, document = statement_beside("out.npz")
    assert statement.mechanism == "TrustAdaptive"
    assert statement.proven.epsilon(1e-6) == pytest.approx(5.2, rel=1e-9)
    assert statement.proven == sf.TrustAdaptive(0.4, (1.0, 8.0), 1e-6, 1.0).guarantee()
    assert (document["dataset"], document["rows"], document["columns"]) == ("clinic", 1797, 64)
    with np.load("out.npz", allow_pickle=False) as archive:
        assert list(archive) == ["X"]
        assert archive["X"].shape == digits[0].shape
        assert archive["X"].dtype == np.float32
        assert np.isfinite(archive["X"]).all()
        assert not np.array_equal(archive["X"], digits[0])


def test_json_is_all_that_stands_on_standard_output(command, folder, digits):
    np.savez("X.npz", X=digits[0], y=digits[1])
    result = command(*PINNED, "--array", "X", "--json").result
    assert result["output"] == "out.npz"
    assert result["certificate_file"] == "out.npz.cert.json"
    assert (result["rows"], result["columns"], result["dataset"]) == (1797, 64, "clinic")
    assert result["left_out"] == ["array 1"]
    assert result["epsilon"] == pytest.approx(5.2, rel=1e-9)
    assert result["delta"] == 1e-6
    assert Statement.from_dict(result["statement"]).parameters["epsilon"] == [1.0, 8.0]


@pytest.mark.parametrize(
    ("source", "output"), [("X.npy", "out.npz"), ("X.npz", "out.npy"), ("X.NPY", "o.npy")]
)
def test_either_array_format_becomes_either(called, folder, source, output):
    X = np.arange(6, dtype=np.int16).reshape(3, 2)
    if source.endswith("npz"):
        np.savez(source, pixels=X)
    else:
        with open(source, "wb") as file:
            np.save(file, X)
    assert called("protect", source, "-o", output, "--epsilon", "1", "--bounds", "0", "5").code == 0
    loaded = np.load(output, allow_pickle=False)
    value = loaded if isinstance(loaded, np.ndarray) else loaded["X"]
    assert (value.shape, value.dtype) == ((3, 2), np.float64)


def test_other_arrays_are_left_out_and_numbered_unless_their_names_are_public(called, folder, digits):
    np.savez("X.npz", faces=digits[0], names=np.array(["a"]), y=digits[1])
    words = ("--array", "faces", "--epsilon", "1", "--clip", "1")
    assert "Left out: array 1, array 2" in called("protect", "X.npz", "-o", "out.npz", *words).out
    with np.load("out.npz") as archive:
        assert list(archive) == ["faces"]
    declared = called("protect", "X.npz", "-o", "named.npz", *words, "--public-names")
    assert "Left out: names, y" in declared.out


def test_noise_is_fresh_on_a_grid_and_centred_on_the_clipped_records(called, folder, digits):
    """Means of 1,797 records in 64 columns, twice; false alarms below 1e-6 in all (Bonferroni)."""
    X = digits[0].astype(np.float64)
    np.save("X.npy", X)
    mechanism = sf.Gaussian(epsilon=4.0, delta=1e-6, clip=2.0)
    sigma = mechanism.sigma(64)
    step = grid_step(sigma, 2.0 / 8.0)
    clipped = X * np.minimum(1.0, 2.0 / np.linalg.norm(X, axis=1, keepdims=True))
    limit = norm.isf(1e-6 / (2 * 64 * 2)) * sigma / math.sqrt(len(X)) + step
    releases = []
    for output in ("a.npy", "b.npy"):
        assert called("protect", "X.npy", "-o", output, "--epsilon", "4", "--clip", "2").code == 0
        releases.append(np.load(output))
        assert np.abs(releases[-1].mean(axis=0) - clipped.mean(axis=0)).max() < limit
        assert np.array_equal(np.round(releases[-1] / step) * step, releases[-1])
    assert (releases[0] != releases[1]).mean() > 0.99


def test_bounds_read_off_the_data_prove_nothing(called, folder, digits, statement_beside):
    np.save("X.npy", digits[0])
    result = called(
        "protect", "X.npy", "-o", "out.npy", "--epsilon", "1", "--bounds-from-data", "--json"
    ).result
    assert (result["epsilon"], result["delta"]) == (None, None)
    statement, _ = statement_beside("out.npy")
    assert statement.proven.proves_nothing
    assert statement.parameters["bounds"] == [0.0, 1.0]
    assert "read off the data" in statement.proven.theorem


def test_embedding_afterwards_doubles_the_columns_and_keeps_the_promise(
    called, folder, digits, statement_beside
):
    np.save("X.npy", digits[0])
    ran = called(
        "protect", "X.npy", "-o", "out.npy", "--epsilon", "2", "--clip", "1", "--alpha", "0.7", "--json"
    )
    assert ran.result["columns"] == 128
    statement, _ = statement_beside("out.npy")
    assert statement.proven == sf.Gaussian(2.0, clip=1.0).guarantee()
    assert any("ReverseManifold(alpha=0.7)" in note for note in statement.notes)
    embedded = np.load("out.npy").astype(np.float64)
    size = np.hypot(embedded[:, :64], embedded[:, 64:])
    # x ↦ (x cos αx, x sin αx): the second half is |x| sin α|x|, whatever the noise was.
    assert np.allclose(embedded[:, 64:], size * np.sin(0.7 * size), atol=1e-4 * size.max())


def test_personal_budgets_come_from_their_file(called, folder, statement_beside):
    """Half of the records at ε = 1, half at ε = 64: variances against χ², false alarms below 1e-6."""
    from scipy.stats import chi2

    rows, columns = 2000, 10
    np.save("X.npy", np.zeros((rows, columns)))
    budgets = np.tile([1.0, 64.0], rows // 2)
    np.save("e.npy", budgets)
    words = ("--mechanism", "personalised", "--epsilon-file", "e.npy", "--clip", "1")
    assert called("protect", "X.npy", "-o", "out.npy", *words).code == 0
    value = np.load("out.npy")
    for budget in (1.0, 64.0):
        part = value[budgets == budget].ravel()
        ratio = np.square(part / sf.Gaussian(budget, clip=1.0).sigma(columns)).sum()
        assert chi2.isf(1 - 2.5e-7, part.size) < ratio < chi2.isf(2.5e-7, part.size)
    statement, _ = statement_beside("out.npy")
    assert statement.proven.epsilon() == pytest.approx(64.0, rel=1e-9)
    assert statement.parameters["epsilon"]["count"] == rows


OPTIONS = {
    "additive-noise": ["--scale", "0.2"],
    "binary-encoding": ["--flip", "0.25", "--bits", "3"],
    "duchi": ["--epsilon", "1", "--bounds", "0", "1"],
    "gaussian": ["--epsilon", "1", "--bounds", "0", "1"],
    "grid-tensor-ldp": ["--epsilon", "8", "--bounds", "0", "1", "--levels", "2"],
    "hybrid": ["--epsilon", "6", "--bounds", "0", "1"],
    "laplace": ["--epsilon", "1", "--clip", "2", "--neighbours", "zero-out"],
    "personalised": ["--epsilon", "1", "--clip", "2"],
    "piecewise": ["--epsilon", "6", "--bounds", "0", "1", "--coordinates", "3"],
    "priv-unit": ["--epsilon", "4", "--clip", "2"],
    "priv-unit-g": ["--epsilon", "4", "--clip", "2"],
    "random-projection": ["--components", "5"],
    "randomised-response": ["--epsilon", "3", "--categories", "2"],
    "reconstruction-resistant": ["--components", "5"],
    "tensor-ldp": ["--epsilon", "1", "--bounds", "0", "1", "--noise", "gaussian", "--unit", "tensor"],
    "trust-adaptive": ["--epsilon", "1", "8", "--clip", "1", "--calibration", "paper"],
    "weighted-tensor-ldp": ["--epsilon", "1", "--bounds", "0", "1", "--weights", "grey"],
}
WIDTH = {"binary-encoding": 24, "random-projection": 5, "reconstruction-resistant": 5}


OF_RECORDS = [
    name for name, kind in MECHANISMS.items() if not issubclass(kind, PictureMechanism | SoundMechanism)
]


@pytest.mark.parametrize("name", OF_RECORDS)
def test_every_mechanism_releases_through_the_command(called, folder, statement_beside, name):
    X = (np.random.default_rng(0).random((40, 8)) < 0.5).astype(np.float32)
    np.save("X.npy", X)
    assert called("protect", "X.npy", "-o", "out.npy", "--mechanism", name, *OPTIONS[name]).code == 0
    value = np.load("out.npy")
    assert (value.shape, value.dtype) == ((40, WIDTH.get(name, 8)), np.float32)
    statement, _ = statement_beside("out.npy")
    assert statement.mechanism == MECHANISMS[name].__name__
    proves_nothing = name in ("additive-noise", "random-projection", "reconstruction-resistant")
    assert statement.proven.proves_nothing == proves_nothing


ROWS = 50_000
SEEDED = {
    "Gaussian": lambda seed: sf.Gaussian(1.0, clip=1.0, randomness=seed),
    "Laplace": lambda seed: sf.Laplace(1.0, bounds=(0.0, 1.0), randomness=seed),
    "TrustAdaptive": lambda seed: sf.TrustAdaptive(0.5, (1.0, 8.0), clip=1.0, randomness=seed),
    "Personalised": lambda seed: sf.Personalised(np.resize([1.0, 5.0, 9.0], ROWS), clip=1.0, randomness=seed),
    "RandomisedResponse": lambda seed: sf.RandomisedResponse(1.0, 2, randomness=seed),
    "BinaryEncoding": lambda seed: sf.BinaryEncoding(bits=3, randomness=seed),
    "AdditiveNoise": lambda seed: sf.AdditiveNoise(0.5, randomness=seed),
    "RandomProjection": lambda seed: sf.RandomProjection(7, sf.Gaussian(1.0, clip=1.0, randomness=seed)),
}


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("columns", [3, 13])
def test_a_file_is_released_as_its_array_would_be_however_it_is_cut(folder, monkeypatch, name, columns):
    X = (np.random.default_rng(1).random((ROWS, columns)) < 0.3).astype(np.float32)
    np.save("X.npy", X)
    mechanism = SEEDED[name](sf.Seeded(7))
    expected = mechanism.release(X)
    bytes_written = set()
    for block in (1, 1 << 20, 1 << 30):
        monkeypatch.setattr("sfumato.release.record_files._BLOCK_BYTES", block)
        done = sf.protect("X.npy", "out.npy", mechanism, overwrite=True)
        bytes_written.add((folder / "out.npy").read_bytes())
        assert done.statement == expected.statement
    assert len(bytes_written) == 1
    assert np.load("out.npy").tobytes() == expected.value.tobytes()
    assert np.load("out.npy").dtype == expected.value.dtype


def test_a_seeded_run_says_that_it_is_not_for_release(folder):
    np.save("X.npy", np.eye(3))
    done = sf.protect("X.npy", "out.npy", sf.Gaussian(1.0, clip=1.0, randomness=sf.Seeded(1)))
    assert any("not for release" in note for note in done.statement.notes)


def test_the_catalogue_names_every_mechanism_in_kebab_case():
    assert set(OF_RECORDS) == set(OPTIONS)
    made = make_mechanism("trust-adaptive", {"epsilon": [1.0, 8.0], "clip": 1.0})
    assert made.get_params()["epsilon"] == (1.0, 8.0)


def test_fortran_order_and_foreign_bytes_are_read(called, folder):
    X = np.random.default_rng(0).random((50, 4))
    np.save("f.npy", np.asfortranarray(X))
    np.save("b.npy", X.astype(">f4"))
    for source, kind in (("f.npy", np.float64), ("b.npy", np.float32)):
        words = ("--epsilon", "1e6", "--bounds", "0", "1", "--overwrite")
        assert called("protect", source, "-o", "out.npy", *words).code == 0
        value = np.load("out.npy")
        assert value.dtype == kind
        assert np.abs(value - X).max() < 0.1
    assert sorted(os.listdir()) == ["b.npy", "f.npy", "out.npy", "out.npy.cert.json"]
