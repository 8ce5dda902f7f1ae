"""The paper's numbers as they were copied: where it prints one twice, both copies are the same."""

from __future__ import annotations

import pytest

from sfumato_reproductions.tadp_rme.protocol import PAPER_DATA, reconstruction_score
from sfumato_reproductions.tadp_rme.published import (
    ABLATION,
    ATTACKS,
    BASELINES,
    OTHERS,
    PARAMETERS,
    TRUST_SWEEP,
    TRUSTS,
)


@pytest.mark.parametrize("data", PAPER_DATA)
def test_every_table_has_every_row(data) -> None:
    assert tuple(TRUST_SWEEP[data]) == TRUSTS
    assert set(ATTACKS[data]) == {0.0, 1.0}
    assert all(data in methods[method] for methods in BASELINES.values() for method in methods)
    assert all(data in numbers for numbers in (*OTHERS.values(), *ABLATION.values()))
    assert [len(methods) for methods in BASELINES.values()] == [4, 4, 4]
    assert (len(OTHERS), len(ABLATION)) == (5, 4)
    assert [len(values) for values in PARAMETERS.values()] == [4, 4, 3]


@pytest.mark.parametrize("data", PAPER_DATA)
@pytest.mark.parametrize(("epsilon", "trust"), [(15.0, 1.0), (47.5, 0.5), (80.0, 0.0)])
def test_table_two_repeats_table_one(data, epsilon, trust) -> None:
    accuracy, privacy, _ = TRUST_SWEEP[data][trust]
    again = BASELINES[epsilon]["TADP-RME"][data]
    assert again[0] == accuracy
    if (data, trust) == ("cifar-10", 0.5):
        assert (again[1][0], privacy[0]) == (0.818, 0.831)  # the paper has both
    else:
        assert again[1] == privacy


@pytest.mark.parametrize("data", PAPER_DATA)
def test_tables_four_and_five_repeat_table_two(data) -> None:
    assert ABLATION["Full pipeline"][data] == BASELINES[47.5]["TADP-RME"][data]
    assert ABLATION["Embedding only"][data][1][0] == pytest.approx(TRUST_SWEEP[data][0.0][1][0], abs=0.0011)
    for parameter, usual in (("ε_min", 15.0), ("ε_max", 80.0), ("clip C", 1.0)):
        assert PARAMETERS[parameter][usual] == TRUST_SWEEP["mnist"][0.5]


@pytest.mark.parametrize("data", PAPER_DATA)
@pytest.mark.parametrize("trust", [0.0, 1.0])
def test_the_score_of_table_one_is_the_mean_of_table_three(data, trust) -> None:
    mean = sum(number[0] for number in ATTACKS[data][trust]) / 3.0
    assert mean == pytest.approx(TRUST_SWEEP[data][trust][1][0], abs=0.0035)


@pytest.mark.parametrize("data", ["mnist", "fashion-mnist"])
def test_the_score_of_an_error_is_that_of_table_three(data) -> None:
    error, score = TRUST_SWEEP[data][1.0][2][0], ATTACKS[data][1.0][1][0]
    assert reconstruction_score(error) == pytest.approx(score, abs=0.0006)
