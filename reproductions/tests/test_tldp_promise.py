"""The paper's column, what its noise proves, and TLDP brought to a promise."""

from __future__ import annotations

import math

import pytest

from sfumato.mechanisms import TensorLDP, WeightedTensorLDP
from sfumato_reproductions.tldp.printed_proof import claimed_point, readings
from sfumato_reproductions.tldp.promise import Promise, claim_for, proven_epsilon, unit_guarantee
from sfumato_reproductions.tldp.published import PRINTED, Sizes

MNIST = Sizes("MNIST", (28, 28), 256.0)
SMALL = Sizes("small", (3, 3, 3), 1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Laplace", 256 * 784 * math.sqrt(1568)),
        ("Gaussian", 128 * 784 * 28),
        ("MVG", 256 * 784**2 * 28 / math.sqrt(2) * math.log(29) ** 2),
        ("IDN", 256 * 784 * 28 / math.sqrt(2)),
        ("DPHSGD", 256 * 784 * math.sqrt(1568)),
        ("TLDP-L", 256 * math.sqrt(1568 * (1 - 1 / 513))),
        ("TLDP-G", 128 * math.sqrt(784 * (1 - 1 / 513))),
    ],
)
def test_formulas_are_the_printed_ones(name, value) -> None:
    assert PRINTED[name].value(1.0, MNIST, 1 / 513) == pytest.approx(value)
    # All of them fall with 1/ε.
    assert PRINTED[name].value(2.0, MNIST, 1 / 513) == pytest.approx(value / 2.0)


def test_the_column_mixes_two_units() -> None:
    column = {reading.name: reading for reading in readings(MNIST)}
    assert list(column) == list(PRINTED)
    laplace, ours, normal = column["Laplace"], column["TLDP-L"], column["TLDP-G"]
    assert laplace.proven == pytest.approx((1 / 784, 1.0))
    assert laplace.own is None
    # No ε has a δ below the chance that something is shown.
    assert ours.proven == normal.proven == (math.inf, math.inf)
    assert ours.own is not None
    assert [p.epsilon for p in ours.own] == pytest.approx([1.0, 784.0])
    assert [p.delta for p in ours.own] == pytest.approx([0.00195, 0.783], rel=2e-3)
    assert normal.own is not None
    assert normal.own[0].epsilon == pytest.approx(6.57, rel=1e-3)
    assert ours.deviation == pytest.approx(256 * math.sqrt(2))
    assert laplace.deviation == pytest.approx(784 * ours.deviation)
    # Equation 23 is not the noise of algorithm 1; equation 22 is.
    assert ours.note == ""
    assert "5066" in normal.note
    assert ours.to_dict()["proven_at_1e-5"] == {"component": None, "tensor": None}


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("weights", [None, "grey"])
@pytest.mark.parametrize("delta", [1e-5, 0.2])
def test_the_largest_claim_keeps_to_a_promise(unit, noise, weights, delta) -> None:
    def make(claim: float) -> TensorLDP:
        if weights is None:
            return TensorLDP(claim, (0.0, 1.0), noise=noise)
        return WeightedTensorLDP(claim, (0.0, 1.0), noise=noise, weights=weights)

    promise = Promise(unit, 1.0, delta)
    claim = claim_for(make, promise, SMALL.count)
    assert promise.kept_by(proven_epsilon(make(claim), unit, SMALL.count, delta))
    assert not promise.kept_by(proven_epsilon(make(claim * (1 + 1e-6)), unit, SMALL.count, delta))


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("weights", ["grey", "saliency"])
def test_weights_that_look_cost_no_less_than_the_guarantee_says(unit, noise, weights) -> None:
    mechanism = WeightedTensorLDP(1.0, (0.0, 8.0), noise=noise, weights=weights, shape=(3, 3))
    guarantee = unit_guarantee(mechanism, unit, 9)
    shown = guarantee.slack
    assert proven_epsilon(mechanism, unit, 9, shown * 0.99) == math.inf
    for delta in (shown + 1e-5, (1.0 + shown) / 2.0):
        assert proven_epsilon(mechanism, unit, 9, delta) >= guarantee.epsilon(delta) * (1.0 - 1e-6)


def test_tldps_own_point_is_where_it_begins_to_prove_something() -> None:
    point = claimed_point("TLDP-L", MNIST, "tensor")
    mechanism = TensorLDP(1.0, (0.0, 256.0))
    assert proven_epsilon(mechanism, "tensor", 784, point.delta * 0.999) == math.inf
    assert proven_epsilon(mechanism, "tensor", 784, point.delta) == pytest.approx(784.0)
