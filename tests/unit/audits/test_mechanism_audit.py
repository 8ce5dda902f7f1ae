"""Mechanisms drawn anew from their statements: measured near proven on worst-case rows, and never above it.

Every audit here is made at a confidence of 1 − 1e-8, with fixed seeds: a sound mechanism is accused with
probability below 1e-6 over all of them.
"""

import numpy as np
import pytest

import sfumato as sf
from sfumato.audits import Finding
from sfumato.audits.mechanism_audit import audit_mechanism, mechanism_of
from sfumato.errors import BadInput
from sfumato.mechanisms import Rows
from sfumato.privacy import Statement

SURE = 1.0 - 1e-8
SHAPE = (24, 32, 3)


def rows(mechanism, bounds, categories, weights):
    return Rows(mechanism, bounds, categories, weights).statement()


# What is audited, with how many columns, and the least share of the proven ε that must be measured.
CASES = {
    "Gaussian": (sf.Gaussian(8.0, 1e-6, clip=1.0).statement(10), 10, 0.85),
    "Gaussian, box": (sf.Gaussian(4.0, 1e-5, bounds=(0.0, 1.0)).statement(3), 3, 0.85),
    "Gaussian, zero-out": (sf.Gaussian(4.0, 1e-5, clip=2.0, neighbours="zero-out").statement(3), 3, 0.85),
    "Laplace": (sf.Laplace(4.0, clip=1.0).statement(5), 5, 0.85),
    "TrustAdaptive": (sf.TrustAdaptive(0.4, (1.0, 8.0), 1e-6, clip=1.0).statement(5), 5, 0.85),
    "Personalised": (sf.Personalised([1.0, 2.0, 4.0], 1e-6, clip=1.0).statement(5), 5, 0.85),
    "Personalised, many": (sf.Personalised(np.linspace(1, 4, 100), 1e-6, clip=1.0).statement(5), 5, 0.85),
    "RandomisedResponse": (sf.RandomisedResponse(3.0, [2, 5, 9]).statement(3), 3, 0.7),
    "Duchi": (sf.Duchi(2.0, (0.0, 1.0)).statement(6), 6, 0.85),
    "PrivUnit": (sf.PrivUnit(3.0).statement(20), 20, 0.85),
    "PrivUnitG": (sf.PrivUnitG(3.0).statement(20), 20, 0.85),
    "BinaryEncoding": (sf.BinaryEncoding(4, None, epsilon=3.0).statement(2), 2, 0.5),
    "GridTensorLDP": (sf.GridTensorLDP(3.0, (0.0, 1.0), 5, unit="component").statement(4), 4, 0.85),
    "RandomProjection": (sf.RandomProjection(4, sf.Gaussian(3.0, clip=1.0)).statement(9), 9, 0.8),
    "rows of a table": (
        rows(sf.Gaussian(4.0, 1e-6), [(0, 1), (3, 9)], [2, 5], [1, 1, 1, 2]),
        None,
        0.4,
    ),
    "rows of codes": (rows(sf.Laplace(4.0), [], [2, 5], [1, 2]), None, 0.85),
    "PlaneMeans": (sf.PlaneMeans(4.0, shape=SHAPE).statement(), None, 0.75),
    "DPPix": (sf.DPPix(2.0, shape=SHAPE).statement(), None, 0.75),
    "UniformPixels": (sf.UniformPixels(4.0, 1e-5, "item", shape=(8, 8)).statement(), None, 0.4),
}


@pytest.mark.parametrize("name", CASES)
def test_worst_case_rows_measure_close_to_proven_and_never_above(name):
    statement, columns, least = CASES[name]
    again = Statement.from_json(statement.to_json())  # as a certificate holds it
    found = audit_mechanism(again, columns=columns, confidence=SURE)
    proven = again.proven
    best = max((f for f in found if f.unit == str(proven.unit)), key=lambda item: item.epsilon_lower)
    assert again.compared(best.evidence()).guarantee is proven
    assert not any(again.contradicts(item.evidence()) for item in found)
    assert least * proven.epsilon(best.delta) <= best.epsilon_lower <= proven.epsilon(best.delta)
    assert all(item.mechanism_only for item in found)
    assert [Finding.from_dict(item.to_dict()) for item in found] == found


class WeakGaussian(sf.Gaussian):
    def _scale(self, columns):
        return 0.8 * super()._scale(columns)


def test_a_fifth_less_noise_is_seen():
    """Miss rate below 1e-6: 20% less noise moves the measured ε by twenty of its standard errors."""
    weak = WeakGaussian(4.0, 1e-5, clip=1.0)
    found = sf.audit(weak, mechanism_only=True, confidence=SURE)
    assert found.epsilon_lower > weak.guarantee().epsilon()
    assert found.alarms


def test_both_are_said_and_no_data_is_needed():
    """Real rows give away little of a proven 8, worst-case rows nearly all of it."""
    X = 0.05 * np.random.default_rng(0).normal(size=(400, 5))
    release = sf.Gaussian(8.0, 1e-6, clip=1.0, randomness=sf.Seeded(0)).release(X)
    both = sf.audit(release, original=X)
    anew = [item.epsilon_lower for item in both.findings if item.mechanism_only]
    assert both.epsilon_lower < 3.0  # what this release gave away leads
    assert 7.5 < max(anew) <= 8.0
    assert "This release gave away ε ≥ " in str(both)
    assert "On worst-case rows its mechanism gives away ε ≥ 7." in " ".join(both.sentences())
    assert both.to_dict()["not_for_release"]
    for source in (release, release.statement, sf.Gaussian(8.0, 1e-6, clip=1.0)):
        alone = sf.audit(source, mechanism_only=True)
        assert [item.epsilon_lower for item in alone.findings] == anew  # repeated to the bit
        assert alone.epsilon_lower == max(anew)
        assert not alone.to_dict()["not_for_release"]
    with pytest.raises(BadInput, match="leave out original"):
        sf.audit(release, original=X, mechanism_only=True)
    with pytest.raises(BadInput, match="mechanism_only=True, which needs no data"):
        sf.audit(release)


def test_tldp_is_played_at_a_small_delta_and_not_at_its_own():
    """At the component's δ of 0.3 nothing would be seen of what it shows as it is."""
    statement = sf.TensorLDP(1.0, (0.0, 0.7)).statement(9)
    component, *tensors = audit_mechanism(statement, columns=9)
    assert (component.delta, component.unit) == (1e-5, "component")
    assert component.epsilon_lower > 5.0 > statement.claimed.epsilon
    assert [(item.delta, item.unit) for item in tensors] == [(1e-5, "tensor")] * 2


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 10.0])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_claim_of_tldp_is_refuted_on_whole_tensors(epsilon, noise):
    """With and without data; each of 64 components has the noise that the tensor's ε would need."""
    X = np.random.default_rng(0).uniform(0.0, 255.0, (300, 64))
    release = sf.TensorLDP(epsilon, (0.0, 256.0), noise=noise, randomness=sf.Seeded(0)).release(X)
    for found in (
        sf.audit(release, original=X, confidence=SURE),
        sf.audit(release.statement, mechanism_only=True, columns=64, confidence=SURE),
    ):
        assert "worst-case game, components counted" in {item.attack for item in found.refuting}
        assert "The claim is refuted" in " ".join(found.sentences())
        assert not found.alarms
    weighted = sf.mechanisms.WeightedTensorLDP(epsilon, (0.0, 256.0), weights="grey", noise=noise)
    assert sf.audit(weighted.statement(64), mechanism_only=True, columns=64, confidence=SURE).refuting


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 10.0])
def test_no_claim_that_holds_is_refuted(unit, epsilon):
    made = sf.GridTensorLDP(epsilon, (0.0, 1.0), 2, unit=unit)
    found = sf.audit(made.statement(64), mechanism_only=True, columns=64, confidence=SURE)
    assert {item.unit for item in found.findings} == {unit, "tensor"}
    assert not found.refuting
    assert not found.alarms


def test_tensors_of_unknown_size_are_played_by_component():
    (found,) = audit_mechanism(sf.TensorLDP(4.0, (0.0, 256.0)))
    assert found.unit == "component"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (sf.AdditiveNoise(1.0).statement(3), "no worst pair: its records have no bound"),
        (sf.RandomProjection(4).statement(9), "no worst pair: its records have no bound"),
        (Statement("Federated mean", {}, None, sf.Guarantee.nothing("x")), "no mechanism for one record"),
        (Statement("Gaussian", {"epsilon": 1.0}, None, sf.Guarantee.nothing("x")), "its delta is not in"),
        (
            Statement("Gaussian", {"mechanism_version": 99}, None, sf.Guarantee.nothing("x")),
            "made by version 99 of Gaussian",
        ),
        (
            sf.PlaneMeans(shares=[[0.5, 1.0]], shape=SHAPE, epsilon=4.0).statement(),
            "names its shares and does not spell",
        ),
        (
            sf.ContentAdaptive(declared=[[0.0, 1.0]], shape=SHAPE, epsilon=4.0).statement(),
            "names its declared",
        ),
    ],
)
def test_what_cannot_be_drawn_anew_is_said(statement, sentence):
    with pytest.raises(BadInput, match=sentence):
        audit_mechanism(statement)
    if statement.proven.proves_nothing and statement.mechanism == "AdditiveNoise":
        X = np.random.default_rng(1).normal(size=(200, 3))
        told = sf.audit(sf.AdditiveNoise(1.0).release(X), original=X)
        assert any("was not measured: AdditiveNoise has no worst pair" in line for line in told.sentences())


def test_the_mechanism_is_the_one_of_the_statement():
    made = sf.PlaneMeans(3.0, 1e-6, "pixels(4)", shape=SHAPE)
    again = mechanism_of(made.statement())
    assert again.guarantee() == made.guarantee()
    table = rows(sf.Gaussian(4.0, 1e-6), [(0, 1), (3, 9)], [2, 5], [1, 1, 1, 2])
    assert mechanism_of(table).guarantee() == table.proven
