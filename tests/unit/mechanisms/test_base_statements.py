"""Releases and their statements: what they say, how they read, and that they survive as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput

REPRODUCIBLE = "reproducible run: not for release"
COMPUTATIONAL = "keyed noise: the guarantee is computational and void if the secret leaks"
SECRET = b"a secret of thirty-two bytes....!"


def test_a_release_survives_as_json(make, codes) -> None:
    release = make(None).release(codes)
    document = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    read = sf.Release.from_dict(release.value, document)
    assert read.statement == release.statement
    assert read.provenance == release.provenance == {"rows": 12, "columns": 5}
    assert read.to_dict() == release.to_dict()
    assert sf.Statement.from_json(release.statement.to_json()) == release.statement


@pytest.mark.parametrize("document", [None, [], {}, {"provenance": {}}, {"statement": {}}, {"provenance": 1}])
def test_what_describes_no_release_is_refused(document) -> None:
    with pytest.raises(BadInput):
        sf.Release.from_dict(np.zeros((1, 1)), document)


def test_a_release_reads_like_a_sentence() -> None:
    release = sf.Gaussian(1.0, 1e-6, 1.0).release(np.zeros((3, 4)))
    assert repr(release) == (
        "<Release of 3×4: Statement: Gaussian, claimed ε=1, δ=1e-06: (ε, δ)-DP for noise calibrated to the "
        "L2 sensitivity (Balle & Wang 2018, theorem 8); proven: ε=1 at δ=1e-06 per record under replace "
        "(analytic Gaussian); measured: not audited yet>"
    )


def test_a_statement_prints_as_three_columns(make, codes) -> None:
    lines = str(make(sf.Seeded(1)).release(codes).statement).splitlines()
    assert max(map(len, lines)) <= 100
    top = next(i for i, line in enumerate(lines) if line.startswith("┌"))
    bottom = next(i for i, line in enumerate(lines) if line.startswith("└"))
    assert [cell.strip() for cell in lines[top + 1].strip("│").split("│")] == [
        "claimed",
        "proven",
        "measured",
    ]
    assert len({len(line) for line in lines[top : bottom + 1]}) == 1
    assert all(line.count("│") == 4 for line in lines[top + 3 : bottom])
    assert "per record" in "\n".join(lines)
    assert lines[-1] == f"Note: {REPRODUCIBLE}"


def test_notes_say_where_the_noise_came_from(make, codes) -> None:
    keyed = sf.Keyed(SECRET, dataset="clinic", version="1", release="a")
    for source, notes in ((None, ()), (sf.Seeded(1), (REPRODUCIBLE,)), (keyed, (COMPUTATIONAL,))):
        mechanism = make(source)
        assert mechanism.statement(5).notes == notes
        assert mechanism.release(codes).statement.notes == notes


def test_a_secret_is_nowhere_to_be_read(make, codes) -> None:
    mechanism = make(sf.Keyed(SECRET, dataset="clinic", version="1", release="a"))
    release = mechanism.release(codes)
    texts = (repr(mechanism), str(release.statement), repr(release), json.dumps(release.to_dict()))
    for text in (*texts, repr(mechanism.parameters()), mechanism._repr_html_()):
        assert "secret of thirty" not in text


def test_parameters_are_json_and_name_all_but_the_randomness(make) -> None:
    for source in (None, sf.Seeded(1)):
        mechanism = make(source)
        parameters = mechanism.parameters()
        assert json.loads(json.dumps(parameters, allow_nan=False)) == parameters
        expected = set(mechanism.get_params(deep=False)) - {"randomness"}
        assert set(parameters) == expected | {"mechanism_version", "sfumato"}
        assert parameters["sfumato"] == sf.__version__
        assert "randomness" not in json.dumps(parameters)
        assert mechanism.statement(5).parameters == parameters


def test_parameters_of_other_types_become_json() -> None:
    bounds = (np.zeros(2, dtype=np.float32), [1, np.float64(2.5)])
    mechanism = sf.Gaussian(np.float32(0.5), np.float64(1e-6), bounds=bounds)
    assert mechanism.parameters() | {"epsilon": 0.5, "delta": 1e-6, "bounds": [[0.0, 0.0], [1, 2.5]]} == (
        mechanism.parameters()
    )
    assert sf.RandomisedResponse(1, (np.int64(2), 3)).parameters()["categories"] == [2, 3]


def test_a_long_list_is_named_by_its_digest() -> None:
    budgets = np.linspace(0.5, 2.0, 65)
    mechanism = sf.Personalised(budgets, clip=1.0)
    named = mechanism.parameters()["epsilon"]
    assert named["count"] == 65
    assert (named["smallest"], named["largest"]) == (0.5, 2.0)
    assert len(named["sha256"]) == 64
    assert sf.Personalised(list(budgets), clip=1.0).parameters()["epsilon"] == named
    assert sf.Personalised(budgets[::-1], clip=1.0).parameters()["epsilon"] != named
    assert sf.Personalised(budgets[:64], clip=1.0).parameters()["epsilon"] == list(budgets[:64])


def test_a_projection_names_its_noise() -> None:
    assert sf.RandomProjection(2).parameters()["noise"] == {
        "mechanism": "AdditiveNoise",
        "scale": 0.1,
        "mechanism_version": 1,
        "sfumato": sf.__version__,
    }
    noise = sf.Gaussian(2.0, clip=1.0, randomness=sf.Seeded(5))
    assert (
        sf.RandomProjection(2, noise).parameters()["noise"] == {"mechanism": "Gaussian"} | noise.parameters()
    )


def test_claims_stand_beside_what_is_proven() -> None:
    assert sf.AdditiveNoise().statement().claimed is None
    assert sf.BinaryEncoding().statement(2).claimed is None
    for mechanism in (sf.Gaussian(2.0, 1e-5, 1.0), sf.Personalised([1.0, 2.0], 1e-5, 1.0)):
        assert (mechanism.claim().epsilon, mechanism.claim().delta) == (2.0, 1e-5)
    for mechanism in (sf.Laplace(2.0, 1.0), sf.RandomisedResponse(2.0, 3)):
        assert (mechanism.claim().epsilon, mechanism.claim().delta) == (2.0, 0.0)
    paper = sf.TrustAdaptive(0.0, (15.0, 80.0), 1e-5, 1.0, calibration="paper").statement()
    assert paper.claimed.epsilon == 80.0
    assert paper.proven.epsilon() > 600.0
