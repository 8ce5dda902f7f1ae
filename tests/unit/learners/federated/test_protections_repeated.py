"""Several reports of an update: each is paid for, and their mean has the error of so many."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.learners.federated import make_protection
from sfumato.learners.federated.protections import RepeatedReports
from sfumato.mechanisms import PrivUnitG
from sfumato.noise import Seeded
from sfumato.privacy import Unit


def test_every_report_is_paid_for_and_their_mean_has_its_error() -> None:
    """600 squared errors of a mean of four reports; the mean of them is off by 6 standard errors with a
    chance below 1e-6, and would be by more with 20% less noise."""
    size, clip = 200, 0.5
    reports = RepeatedReports(epsilon=24.0, clip=clip, each=6.0)
    assert reports.count == 4
    one = PrivUnitG(6.0 * (1.0 - 2.0**-40), clip)
    guarantee = reports.guarantee([(size,)])
    assert guarantee.unit == Unit("client")
    assert str(guarantee.neighbours) == "replace"
    assert guarantee.epsilon(0.0) == pytest.approx(4.0 * one.guarantee(size).epsilon(0.0))
    received = [np.zeros((size,), dtype=np.float32)]
    update = np.zeros((size,), dtype=np.float32)
    update[5] = clip
    errors = np.array(
        [np.square(reports.protect([update], received, Seeded(i))[0] - update).sum() for i in range(600)]
    )
    cap = one.cap(size)
    expected = clip**2 * (cap.square / cap.mean**2 - 1.0) / 4.0
    spread = errors.std() / math.sqrt(len(errors))
    assert abs(errors.mean() - expected) < 6.0 * spread
    assert abs(0.64 * errors.mean() - expected) > 6.0 * spread


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 1), (40.0, 1), (40.1, 2), (81.0, 3)])
def test_the_epsilon_of_a_round_says_how_many_reports_and_is_never_passed(epsilon, count) -> None:
    reports = make_protection("repeated-priv-unit-g", epsilon=epsilon, clip=1.0)
    assert reports.parameters()["reports"] == count
    assert 0.9 * epsilon < reports.guarantee([(30, 10)]).epsilon(0.0) <= epsilon
    assert reports.claim().epsilon == pytest.approx(epsilon / count)


def test_several_reports_are_better_than_one_where_epsilon_is_large() -> None:
    """A mean of four reports has less than half the squared error of one: 20 runs, which differ by 10% of
    it at most in a hundred thousand numbers each."""
    received = [np.zeros((100_000,), dtype=np.float32)]
    update = [np.full((100_000,), 1.0 / math.sqrt(1e5), dtype=np.float32)]
    errors = {
        each: float(
            np.square(
                RepeatedReports(epsilon=160.0, clip=1.0, each=each).protect(update, received, Seeded(1))[0]
                - update[0]
            ).sum()
        )
        for each in (160.0, 40.0)
    }
    assert errors[40.0] < 0.5 * errors[160.0]


def test_what_is_not_finite_counts_as_no_update() -> None:
    received = [np.full((50,), 0.5, dtype=np.float32)]
    broken = [np.full((50,), np.nan, dtype=np.float32)]
    reports = RepeatedReports(epsilon=80.0, clip=1e-6)
    assert np.abs(reports.protect(broken, received, Seeded(0))[0] - 0.5).max() < 1e-3


def test_a_limit_bounds_every_coordinate_before_anything_is_drawn() -> None:
    received = [np.zeros((40,), dtype=np.float32)]
    update, limited = ([np.full((40,), value, dtype=np.float32)] for value in (0.5, 0.125))
    reports = make_protection("repeated-priv-unit-g", epsilon=80.0, clip=1.0, limit=0.125)
    sent, same = (reports.protect(each, received, Seeded(2))[0] for each in (update, limited))
    assert np.array_equal(sent, same)
    assert reports.parameters()["limit"] == 0.125


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "repeated-priv-unit-g needs `clip`"),
        ({"clip": 1.0, "limit": -1.0}, "limit"),
        ({"clip": 1.0, "levels": 4}, "takes no `levels`"),
        ({"clip": 1.0, "neighbours": "zero-out"}, "proven for replace neighbours, not for zero-out"),
        ({"clip": 1.0, "epsilon": 1e6}, "more than 1,000 reports of 40"),
        ({"clip": 1.0, "each": 0.0}, "each"),
    ],
)
def test_what_does_not_fit_is_a_sentence(options, said) -> None:
    with pytest.raises(BadInput, match=said):
        make_protection("repeated-priv-unit-g", **({"epsilon": 1.0} | options))
