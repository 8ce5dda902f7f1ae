"""The composition figure of the adaptive multimedia DP paper: its numbers, its picture, and refusals."""

from __future__ import annotations

import json
import math
import sys

import mpmath
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions import Regenerated, regenerate
from sfumato_reproductions.multimedia_dp import COUNTS, DELTA, EPSILON, TOTAL_DELTA

METHODS = ("basic", "advanced", "Rényi", "PLD")


@pytest.fixture(scope="module")
def heard() -> list[tuple[str, float]]:
    """What the drawing reports of its progress."""
    return []


@pytest.fixture(scope="module")
def figure(tmp_path_factory, heard) -> Regenerated:
    """Figure 2, drawn without pyplot, which would choose a window system for the caller."""
    before = "matplotlib.pyplot" in sys.modules
    folder = tmp_path_factory.mktemp("papers") / "made" / "on the way"
    drawn = regenerate(
        "multimedia-dp", folder, lambda stage, share: heard.append((stage, share)), figures=[2]
    )
    assert ("matplotlib.pyplot" in sys.modules) == before
    return drawn


def test_every_method_has_a_figure_for_every_count(figure) -> None:
    assert COUNTS[0] == 1
    assert COUNTS[-1] == 1000
    table = figure.numbers["epsilon"]
    assert tuple(table) == METHODS
    assert figure.numbers["compositions"] == list(COUNTS)
    for values in table.values():
        assert len(values) == len(COUNTS)
        assert all(math.isfinite(value) and value > 0.0 for value in values)
        assert values == sorted(values)


def test_the_textbook_theorems_are_what_their_formulas_say(figure) -> None:
    table = figure.numbers["epsilon"]
    for k, basic, advanced in zip(COUNTS, table["basic"], table["advanced"], strict=True):
        assert basic == pytest.approx(k * EPSILON, rel=1e-12)
        left = TOTAL_DELTA - k * DELTA
        assert left > 0.0
        drift = k * EPSILON * math.expm1(EPSILON)
        assert advanced == pytest.approx(
            EPSILON * math.sqrt(2.0 * k * math.log(1.0 / left)) + drift, rel=1e-9
        )


def test_the_tighter_methods_are_tighter(figure) -> None:
    table = figure.numbers["epsilon"]
    for i, k in enumerate(COUNTS):
        basic, advanced, renyi, pld = (table[method][i] for method in METHODS)
        assert pld <= renyi
        assert renyi < min(basic, advanced)
        # The advanced theorem pays only once there are many; for a few it is worse than adding up.
        assert (advanced < basic) == (k >= 50)


def test_the_tightest_method_is_the_analytic_gaussian(figure) -> None:
    with mpmath.workdps(40):
        alone = _root(lambda mu: _delta(EPSILON, mu) - DELTA, 0.001, 1.0)
        for k, pld in zip(COUNTS, figure.numbers["epsilon"]["PLD"], strict=True):
            exact = _root(lambda e, k=k: _delta(e, alone * mpmath.sqrt(k)) - TOTAL_DELTA, 1e-3, 10.0)
            assert float(exact) <= pld * (1.0 + 1e-9)
            assert pld == pytest.approx(float(exact), rel=1e-3)


def test_the_picture_is_a_png_and_the_numbers_are_printed(figure) -> None:
    (file,) = figure.files
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert file.stat().st_size > 10_000
    text = str(figure)
    assert f"written: {file}" in text
    for k in COUNTS:
        assert f"\n{k:>6} " in text
    document = json.loads(json.dumps(figure.to_dict()))
    assert document["numbers"]["epsilon"] == figure.numbers["epsilon"]
    assert document["files"] == [str(file)]


def test_progress_is_reported_to_the_end(figure, heard) -> None:
    shares = [share for _, share in heard]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [
        (
            "no-such-paper",
            {"figures": [2]},
            "there is no paper 'no-such-paper' here; choose one of compactdp, curvature-publication",
        ),
        ("", {}, "there is no paper ''"),
        ("multimedia-dp", {"figures": [3]}, "these figures are drawn: 2; give one with --figure"),
        ("multimedia-dp", {"tables": [3]}, "these tables are made: 1, 2, 4, 5; give one with --table"),
        ("multimedia-dp", {"figures": [2], "seeds": 2}, "--data and --seeds do not apply to it"),
        ("multimedia-dp", {"tables": [1], "data": ["digits"]}, "--data and --seeds do not apply to it"),
    ],
)
def test_what_is_not_drawn_is_refused_and_nothing_is_written(tmp_path, name, wanted, message) -> None:
    with pytest.raises(BadInput, match=message):
        regenerate(name, tmp_path / "out", **wanted)
    assert not (tmp_path / "out").exists()


def _delta(epsilon, mu):
    """δ(ε; μ) of the analytic Gaussian, by mpmath."""
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def _root(function, low: float, high: float):
    low, high = mpmath.mpf(low), mpmath.mpf(high)
    rising = function(high) > function(low)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if (function(middle) > 0) == rising else (middle, high)
    return high
