"""What is set against TLDP keeps to TLDP's promise; public pictures are never private ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato_reproductions.datasets import load
from sfumato_reproductions.tldp.cases import Pictures
from sfumato_reproductions.tldp.points import points, settings, tensor_shape
from sfumato_reproductions.tldp.protocol import Run
from sfumato_reproductions.tldp.settings import (
    CLEAN,
    GAUSSIAN,
    GRID,
    HYBRID,
    PRIVUNIT,
    SAME_NOISE,
    SHOWN,
    SPAN,
    WHOLE,
    Setting,
)

RUN = Run.of(("mnist", "cifar-10"), None, False)


@pytest.mark.parametrize("data", ["mnist", "cifar-10", "digits"])
@pytest.mark.parametrize("figure", [1, 2])
def test_everything_offered_keeps_to_the_promise_and_shows_nothing(figure, data) -> None:
    shape = tensor_shape(figure, data)
    for point in points(RUN, figure, data):
        offered = point.offered()
        assert len(offered) == (2 if point.unit != "tensor" else 3 + (figure == 2))
        for setting in offered:
            assert setting.kind in (HYBRID, GRID, GAUSSIAN, PRIVUNIT)
            for promise in (*point.promises, *point.held):
                assert setting.keeps_to(promise, shape), (point, setting)


@pytest.mark.parametrize("unit", ["component", "tensor"])
def test_a_little_more_would_not_keep_to_it(unit) -> None:
    for point in points(RUN, 1, "mnist"):
        if point.unit == unit:
            for setting in point.offered():
                more = Setting(setting.kind, setting.epsilon * 1.001, setting.delta)
                assert not more.keeps_to(point.held[0], (28, 28))


def test_both_is_no_weaker_than_tldp_in_either_unit() -> None:
    point = next(point for point in points(RUN, 1, "mnist") if point.unit == "both")
    assert [promise.unit for promise in point.promises] == ["component", "tensor"]
    assert {setting.epsilon for setting in point.offered()} == {point.tldp.epsilon}


def test_weights_are_held_to_the_stronger_promise_of_none() -> None:
    weighted = [point for point in points(RUN, 1, "mnist") if point.tldp.kind.endswith("-w")]
    assert len(weighted) == 2 * 3 * len(RUN.epsilons)
    for point in weighted:
        assert all(h.epsilon < p.epsilon for h, p in zip(point.held, point.promises, strict=True))
    assert not [point for point in points(RUN, 2, "mnist") if point.tldp.kind.endswith("-w")]


@pytest.mark.parametrize("kind", [*WHOLE, "TLDP-L", "TLDP-G", "TLDP-L-w", SAME_NOISE, GRID, HYBRID, PRIVUNIT])
def test_releases_are_unbiased_and_as_far_away_as_expected(kind) -> None:
    """Means of 40,000 values lie within 6 standard errors: a true one fails with probability below 1e-8."""
    values = np.full((1000, 40), SPAN, dtype=np.float32)
    made = Setting(kind, 2.0).protected(values, (40,), 0)
    assert made.values.shape == values.shape
    assert made.values.dtype == np.float32
    added = made.values.astype(np.float64) - SPAN
    spread = math.sqrt(float(np.square(added).mean()))
    assert abs(float(added.mean())) <= 6.0 * added.std() / math.sqrt(added.size) * (
        40 if kind == PRIVUNIT else 1
    )
    # Expected errors are those of the worst value, or of the value zero for two levels.
    assert spread <= made.spread * 1.2


def test_what_is_shown_or_withheld_is_shown_as_often_as_delta_says() -> None:
    values = np.arange(20_000, dtype=np.float32)[:, None]
    made = Setting(SHOWN, 0.0, 0.25).protected(values, (1,), 0)
    assert np.array_equal(made.values[:, 0], values[made.rows, 0])
    # 20,000 coins of 1/4: 6 standard deviations are 367.
    assert abs(len(np.unique(made.rows)) - 5000 * (1.0 - math.exp(-4.0))) < 500
    assert Setting(SHOWN, 0.0, 0.25).epsilon_at("tensor", (1,), 0.25) == 0.0
    assert Setting(SHOWN, 0.0, 0.25).epsilon_at("tensor", (1,), 0.2) == math.inf


def test_every_setting_of_the_plots_says_what_is_proven() -> None:
    for data in RUN.data:
        shape = tensor_shape(2, data)
        for setting, _ in settings(RUN, 2, data):
            component, tensor = (setting.proven(unit, shape).epsilon for unit in ("component", "tensor"))
            assert component <= tensor
            assert (component == math.inf) == (setting.kind == CLEAN)


def test_public_pictures_are_never_private_ones() -> None:
    run = Run.of(("digits",), 3, True)
    pictures = Pictures(run, load("digits"))
    tests, learned, public = pictures.parts
    rows = {tuple(row) for row in np.rint(load("digits").records * 255)}
    assert len(rows) > 1790  # nearly all digits are distinct, so that rows can be told apart
    shared: set[tuple[float, ...]] = set()
    for trial in pictures.trials(1):
        shared |= {tuple(row) for part in (trial.learned, trial.tested) for row in part[0]}
    assert len(shared) == pytest.approx(public, abs=2)
    assert {len(trial.learned[0]) + len(trial.tested[0]) for trial in pictures.trials(2)} == {public // 2}
    for seed in run.seeds:
        case = pictures.case(1, seed)
        assert (len(case.tested[0]), len(case.learned[0])) == (tests, learned)
        mine = [{tuple(row) for row in part[0]} for part in (case.learned, case.tested)]
        assert not mine[0] & mine[1]
        assert not (mine[0] | mine[1]) & shared
