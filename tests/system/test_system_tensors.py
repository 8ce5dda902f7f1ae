"""Tensors through the command: their shape, both units in the statement, weights, budgets and refusals."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.privacy import Guarantee

SHAPE = (60, 5, 4, 3)
BOX = ("--bounds", "0", "256")
# Name, options, units that the statement speaks of (the headline first).
WAYS = {
    "tensor-ldp": (("--epsilon", "1", *BOX), ("component", "tensor")),
    "tensor-ldp --unit tensor": (("--epsilon", "1", *BOX, "--unit", "tensor"), ("tensor", "component")),
    "tensor-ldp --noise gaussian": (
        ("--epsilon", "1", *BOX, "--noise", "gaussian", "--delta", "1e-6", "--retain", "proof"),
        ("component", "tensor"),
    ),
    "weighted-tensor-ldp": (("--epsilon", "1", *BOX, "--weights", "W.npy"), ("component", "tensor")),
    "weighted-tensor-ldp grey": (("--epsilon", "1", *BOX, "--weights", "grey"), ("component", "tensor")),
    "weighted-tensor-ldp saliency": (
        ("--epsilon", "1", *BOX, "--weights", "saliency", "--unit", "tensor"),
        ("tensor", "component"),
    ),
    "grid-tensor-ldp": (("--epsilon", "4", *BOX, "--levels", "9"), ("tensor", "component")),
    "grid-tensor-ldp --unit component": (
        ("--epsilon", "4", *BOX, "--levels", "9", "--unit", "component"),
        ("component", "tensor"),
    ),
    "priv-unit": (("--epsilon", "4", "--clip", "100"), ("record",)),
    "priv-unit-g": (("--epsilon", "4", "--clip", "100"), ("record",)),
    "duchi": (("--epsilon", "4", *BOX), ("record",)),
    "piecewise": (("--epsilon", "4", *BOX, "--coordinates", "3"), ("record",)),
    "hybrid": (("--epsilon", "4", *BOX), ("record",)),
}
TLDP = ("--mechanism", "tensor-ldp", "--epsilon", "1", *BOX)


@pytest.fixture(autouse=True)
def home(folder, monkeypatch, tmp_path_factory):
    """A home of its own, 60 tensors of order three in single precision, and weights for their first modes."""
    monkeypatch.setenv("SFUMATO_HOME", str(tmp_path_factory.mktemp("home")))
    generator = np.random.default_rng(0)
    np.save("T.npy", generator.integers(0, 257, SHAPE).astype(np.float32))
    np.save("W.npy", np.linspace(0.0, 1.0, 20).reshape(5, 4))
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_tensors_keep_their_shape_and_the_statement_holds_both_units(called, statement_beside, way):
    options, units = WAYS[way]
    words = ("T.npy", "-o", "out.npy", "--mechanism", way.split()[0], *options)
    planned = called("plan", *words, "--json").result
    done = called("protect", *words, "--json").result
    value = np.load("out.npy")
    assert (value.shape, value.dtype) == (SHAPE, np.float32)
    assert np.isfinite(value).all()
    assert not np.array_equal(value, np.load("T.npy"))
    statement, document = statement_beside("out.npy")
    parts = (statement.proven, *statement.also_proven)
    assert tuple(str(part.unit) for part in parts) == units
    assert all(not part.proves_nothing for part in parts)
    assert (document["rows"], document["columns"]) == (60, 60)
    assert done["epsilon"] == pytest.approx(statement.proven.epsilon())
    # A plan, which draws nothing, says the same to the last digit.
    assert planned["statement"]["proven"] == done["statement"]["proven"]
    assert planned["statement"].get("also_proven") == done["statement"].get("also_proven")
    told = called("protect", *words, "--overwrite").out
    for unit in units:
        assert f"per {unit}" in told
    assert called("verify", "out.npy").code == 0


def test_what_is_proven_is_what_the_mechanism_says_in_python(called, statement_beside):
    weights = np.load("W.npy")
    made = sf.WeightedTensorLDP(1.0, (0.0, 256.0), weights=weights, shape=SHAPE[1:], unit="tensor")
    words = ("--mechanism", "weighted-tensor-ldp", "--epsilon", "1", *BOX, "--weights", "W.npy")
    assert called("protect", "T.npy", "-o", "out.npy", *words, "--unit", "tensor").code == 0
    statement, _ = statement_beside("out.npy")
    assert statement.proven == made.guarantee()
    assert statement.also_proven == made.statement().also_proven
    # Components of weight one are never kept, as noise on a fine grid shows; some of weight zero are.
    same = np.load("out.npy") == np.load("T.npy")
    assert same[:, 4, 3].sum() <= 2


def test_the_installed_command_releases_an_archive_of_tensors(command, statement_beside):
    np.savez("T.npz", pictures=np.load("T.npy")[..., 0], y=np.arange(60))
    words = ("--mechanism", "grid-tensor-ldp", "--epsilon", "4", *BOX, "--levels", "9", "--array", "pictures")
    ran = command("protect", "T.npz", "-o", "out.npz", *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.appeared == {"out.npz", "out.npz.cert.json"}
    assert "Left out: array 1" in ran.out
    with np.load("out.npz", allow_pickle=False) as archive:
        assert archive["pictures"].shape == (60, 5, 4)
        assert np.isin(archive["pictures"], np.arange(9) * 32.0).all()
    statement, _ = statement_beside("out.npz")
    assert statement.parameters["shape"] == [5, 4]
    assert statement.proven.epsilon(0.0) <= 4.0


SEEDED = {
    "TensorLDP": lambda seed: sf.TensorLDP(1.0, (0.0, 256.0), randomness=seed),
    "WeightedTensorLDP": lambda seed: sf.WeightedTensorLDP(
        1.0, (0.0, 256.0), weights="saliency", noise="gaussian", randomness=seed
    ),
    "GridTensorLDP": lambda seed: sf.GridTensorLDP(4.0, (0.0, 256.0), 9, randomness=seed),
    "PrivUnitG": lambda seed: sf.PrivUnitG(2.0, 100.0, randomness=seed),
    "Hybrid": lambda seed: sf.Hybrid(2.0, (0.0, 256.0), randomness=seed),
}


@pytest.mark.parametrize("name", SEEDED)
def test_a_file_is_released_as_its_array_would_be_however_it_is_cut(folder, monkeypatch, name):
    X = np.random.default_rng(1).integers(0, 257, (9000, 5, 9)).astype(np.float32)
    np.save("X.npy", X)
    mechanism = SEEDED[name](sf.Seeded(7))
    tensors = isinstance(mechanism, sf.TensorLDP | sf.GridTensorLDP)
    expected = mechanism.release(X if tensors else X.reshape(9000, 45))
    written = set()
    for block in (1, 1 << 30):
        monkeypatch.setattr("sfumato.release.record_files._BLOCK_BYTES", block)
        done = sf.protect("X.npy", "out.npy", mechanism, overwrite=True)
        written.add((folder / "out.npy").read_bytes())
        assert done.statement == expected.statement
    assert len(written) == 1
    assert np.load("out.npy").tobytes() == expected.value.tobytes()


def test_a_budget_per_tensor_is_charged_what_is_proven_per_tensor(called, statement_beside):
    assert called("budget", "open", "faces", "--epsilon", 200, "--delta", 0.5, "--unit", "tensor").code == 0
    planned = called("plan", "T.npy", *TLDP, "--dataset", "faces", "--json").result
    assert planned["cost"]["fits"]
    done = called("protect", "T.npy", "-o", "out.npy", *TLDP, "--dataset", "faces", "--json").result
    assert done["paid"]["number"] == 2
    statement, document = statement_beside("out.npy")
    (tensor,) = statement.also_proven
    assert str(statement.proven.unit) == "component"
    assert tensor.epsilon() == pytest.approx(60.0)
    spent = called("budget", "history", "faces", "--json").result[-1]
    assert spent["kind"] == "spend"
    assert Guarantee.from_dict(spent["guarantee"]) == tensor
    balance = called("budget", "show", "faces", "--json").result
    assert balance["used"] == planned["cost"]["balance"]["used"] > 0.2
    assert document["ledger"]["number"] == 2
    assert called("verify", "out.npy").code == 0
    assert called("budget", "check").code == 0


def test_a_budget_per_component_is_charged_what_is_proven_per_component(called):
    assert called("budget", "open", "pixels", "--epsilon", 3, "--delta", 0.1, "--unit", "component").code == 0
    words = (*TLDP, "--unit", "tensor", "--dataset", "pixels")
    assert called("protect", "T.npy", "-o", "out.npy", *words).code == 0
    assert called("budget", "show", "pixels", "--json").result["spends"] == 1
    assert called("verify", "out.npy").code == 0


def test_a_budget_of_another_unit_refuses_in_a_sentence_and_nothing_is_spent(called):
    assert called("budget", "open", "clinic", "--epsilon", 200, "--delta", 0.5).code == 0
    for verb in (("protect", "T.npy", "-o", "out.npy"), ("plan", "T.npy")):
        refused = called(*verb, *TLDP, "--dataset", "clinic")
        assert refused.sentence.startswith(
            "the budget of 'clinic' counts per record under replace; a guarantee per component under replace "
            "cannot be charged to it; open one for it with 'sfumato budget open NAME --epsilon … --delta … "
            "--unit component --ledger sqlite:///"
        )
    assert called("budget", "show", "clinic", "--json").result["spends"] == 0
    # Reports protect whole records, and are charged as such.
    words = ("--mechanism", "priv-unit-g", "--epsilon", "4", "--clip", "100", "--dataset", "clinic")
    assert called("protect", "T.npy", "-o", "out.npy", *words).code == 0
    assert called("budget", "show", "clinic", "--json").result["spends"] == 1


def test_what_does_not_fit_a_budget_of_tensors_is_refused(called):
    assert called("budget", "open", "faces", "--epsilon", 10, "--delta", 0.5, "--unit", "tensor").code == 0
    refused = called("protect", "T.npy", "-o", "out.npy", *TLDP, "--dataset", "faces")
    assert (refused.code, refused.out, refused.appeared) == (3, "", frozenset())
    assert refused.err.startswith("sfumato: ε=60 per tensor at δ=0.11048 was asked of 'faces'")
    grid = ("--mechanism", "grid-tensor-ldp", "--epsilon", "4", *BOX, "--levels", "9", "--dataset", "faces")
    assert called("protect", "T.npy", "-o", "out.npy", *grid).code == 0


def test_a_repeated_request_gives_the_same_bytes_and_is_paid_once(called, home):
    assert called("budget", "open", "faces", "--epsilon", 9, "--delta", 0.1, "--unit", "tensor").code == 0
    grid = ("--mechanism", "grid-tensor-ldp", "--epsilon", "4", *BOX, "--levels", "9")
    words = ("protect", "T.npy", "-o", "out.npy", *grid, "--dataset", "faces", "--request", "r1")
    outputs = []
    for _ in range(2):
        assert called(*words).code == 0
        outputs.append((home / "out.npy").read_bytes())
    assert outputs[0] == outputs[1]
    assert called("budget", "show", "faces", "--json").result["spends"] == 1


REFUSALS = {
    "outside": (("tensor-ldp", "--epsilon", "1", "--bounds", "0", "200"), "lies outside the bounds 0 to 200"),
    "reversed": (("tensor-ldp", "--epsilon", "1", "--bounds", "256", "0"), "below its upper bound"),
    "unit": (
        ("grid-tensor-ldp", "--epsilon", "1", *BOX, "--unit", "pixel"),
        "--unit must be one of component",
    ),
    "one level": (("grid-tensor-ldp", "--epsilon", "1", *BOX, "--levels", "1"), "from 2 to 4,096, not 1"),
    "many levels": (("grid-tensor-ldp", "--epsilon", "1", *BOX, "--levels", "5000"), "from 2 to 4,096"),
    "tiny ε": (("grid-tensor-ldp", "--epsilon", "1e-12", *BOX), "too small for a coin of 64 bits"),
    "noise": (("tensor-ldp", "--epsilon", "1", *BOX, "--noise", "pink"), "--noise must be one of laplace"),
    "formula": (("tensor-ldp", "--epsilon", "1", *BOX, "--retain", "x"), "--retain must be one of algorithm"),
    "clipping": (("duchi", "--epsilon", "1", *BOX, "--outside", "wrap"), "--outside must be one of refuse"),
    "coordinates": (("duchi", "--epsilon", "1", *BOX, "--coordinates", "61"), "from 1 to 60, not 61"),
    "no weights": (("weighted-tensor-ldp", "--epsilon", "1", *BOX, "--weights", "V.npy"), "does not exist"),
    "data as weights": (
        ("weighted-tensor-ldp", "--epsilon", "1", *BOX, "--weights", "T.npy"),
        "not an array of shape (60, 5, 4, 3)",
    ),
    "weights that do not fit": (
        ("weighted-tensor-ldp", "--epsilon", "1", *BOX, "--weights", "three.npy"),
        "weights of shape (3,) do not broadcast over tensors of shape (5, 4, 3)",
    ),
    "other's option": (("tensor-ldp", "--epsilon", "1", *BOX, "--weights", "grey"), "has no --weights"),
    "no bound": (("priv-unit", "--epsilon", "1"), "needs a bound on the records, a radius"),
    "no ε": (("grid-tensor-ldp", *BOX), "needs a privacy budget"),
    "Gaussian noise has no unit": (("gaussian", "--epsilon", "1", *BOX, "--unit", "tensor"), "has no --unit"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_sentence_and_show_no_value(called, case):
    words, sentence = REFUSALS[case]
    np.save("three.npy", np.full(3, 0.5))
    values = np.load("T.npy")
    values[3, 1, 2, 0] = 211.125
    np.save("T.npy", values)
    refused = called("protect", "T.npy", "-o", "out.npy", "--mechanism", *words).sentence
    assert sentence in refused
    assert "211" not in refused


def test_values_outside_are_clipped_by_declared_choice(called):
    words = ("--mechanism", "tensor-ldp", "--epsilon", "1000", "--bounds", "0", "200")
    assert called("protect", "T.npy", "-o", "out.npy", *words).code == 2
    assert called("protect", "T.npy", "-o", "out.npy", *words, "--outside", "clip").code == 0
    before, after = np.load("T.npy"), np.load("out.npy")
    assert np.abs(after - np.clip(before, 0, 200)).max() < 20.0


@pytest.mark.parametrize("fault", ["NaN", "flat", "empty"])
def test_bad_tensors_are_refused(called, fault):
    bad = np.load("T.npy")
    if fault == "NaN":
        bad[7, 0, 1, 0] = np.nan
    np.save("bad.npy", {"NaN": bad, "flat": bad.ravel(), "empty": bad[:0]}[fault])
    said = called("protect", "bad.npy", "-o", "out.npy", *TLDP).sentence
    assert {"NaN": "row 8, column 4 holds NaN", "flat": "or tensors (n, …)", "empty": "bad.npy"}[
        fault
    ] in said


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_components_that_change_together_are_promised_what_a_tensor_of_so_many_is(called, folder, noise):
    np.save("T.npy", np.random.default_rng(0).random((4, 8, 8)))
    words = ("--mechanism", "tensor-ldp", "--epsilon", "10", "--bounds", "0", "1", "--noise", noise)
    planned = called("plan", "T.npy", *words, "--json").result
    for size in (2, 5, 10):
        whole = sf.TensorLDP(10.0, (0.0, 1.0), noise=noise, unit="tensor").guarantee(size)
        said, delta = (planned[f"{name}_of_group"][str(size)] for name in ("epsilon", "delta"))
        assert 0.0 < delta < 1.0
        assert said == pytest.approx(whole.epsilon(delta), rel=1e-6)
