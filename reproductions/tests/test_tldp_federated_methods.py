"""What leaves a client in figure 3 of TLDP has the noise that is proven of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch")

from sfumato.noise import Seeded
from sfumato.privacy import Unit, gaussian_epsilon
from sfumato_reproductions.tldp.federated.baselines import WHOLE, ClippedParameters
from sfumato_reproductions.tldp.federated.methods import (
    AVERAGED,
    CLEAN,
    GAUSSIAN,
    NOTHING,
    PAPER,
    REPORTS,
    Method,
    Model,
    kinds,
    offered,
    tldp_kinds,
)
from sfumato_reproductions.tldp.federated.sweep import equal_epsilon

MODEL = Model(((20, 10), (100,)), 10, 256.0)


def test_what_is_proven_of_a_client_by_all_rounds() -> None:
    assert Method("Laplace", 0.5).proven(MODEL) <= 5.0
    assert math.isinf(Method("TLDP-L", 10.0).proven(MODEL))
    assert math.isinf(Method("DPHSGD", 10.0).proven(MODEL))
    assert math.isinf(Method(CLEAN).proven(MODEL))
    assert Method(NOTHING).proven(MODEL) == 0.0
    # Nothing is kept at this ε: plain noise of σ² = Δ²/2ε on 3,000 values, at most 2 apart.
    mu = 2.0 * math.sqrt(3000.0) / (256.0 / math.sqrt(2000.0))
    assert Method("TLDP-G", 1000.0).proven(MODEL) == pytest.approx(gaussian_epsilon(mu, 1e-5))
    assert Method("LLAGP", 3.0).proven(MODEL) == pytest.approx(Method("Gaussian", 3.0).proven(MODEL))


@pytest.mark.parametrize("kind", PAPER)
def test_every_guarantee_is_about_clients_that_are_replaced(kind) -> None:
    guarantee = Method(kind, 5.0).protection(MODEL).guarantee(MODEL.shapes)
    assert guarantee.unit == Unit("client")
    assert str(guarantee.neighbours) == "replace"


@pytest.mark.parametrize("epsilon", [0.2, 3.0, 100.0, 3900.0])
def test_sound_methods_spend_what_they_are_given_over_all_rounds(epsilon) -> None:
    made = list(offered(epsilon, MODEL, (0.3, 1.0)))
    assert {method.kind for method in made} == {NOTHING, GAUSSIAN, REPORTS}
    for method in made:
        proven = method.proven(MODEL)
        assert proven <= epsilon
        if method.kind != NOTHING:
            # Reports are composed by δ too, which gains where ε is small.
            assert proven >= (0.998 if method.kind == GAUSSIAN else 0.2) * epsilon


def test_where_next_to_nothing_may_be_told_or_too_much_fewer_methods_are_offered() -> None:
    assert [method.kind for method in offered(0.01, MODEL, (1.0,))] == [NOTHING]
    assert REPORTS not in {method.kind for method in offered(9_000.0, MODEL, (1.0,))}


def test_tldp_is_compared_at_its_proven_epsilon_or_that_of_its_noise() -> None:
    # 3,000 values, each with Laplace noise of scale 256/3 and at most 2 apart: less than the sum of their ε,
    # and, many and small as they are, close to the Gaussian mechanism of the same variance of the loss.
    each = 2.0 * 3.0 / 256.0
    composed = equal_epsilon(Method("TLDP-L", 3.0), MODEL)
    assert composed < 3000 * each
    assert composed == pytest.approx(gaussian_epsilon(math.sqrt(3000) * each, 1e-5), rel=0.05)
    proven = Method("TLDP-G", 300.0)
    assert equal_epsilon(proven, MODEL) == proven.proven(MODEL)


def test_where_the_papers_span_is_wider_tldp_is_run_with_that_of_other_data_too() -> None:
    wide = Model(MODEL.shapes, MODEL.rounds, 400_001.0)
    assert tldp_kinds(MODEL) == ("TLDP-L", "TLDP-G")
    assert set(kinds(MODEL)) == {*PAPER, *AVERAGED}
    assert set(kinds(wide)) == {*PAPER, *AVERAGED, "TLDP-L, Δ = 256", "TLDP-G, Δ = 256"}
    for kind in tldp_kinds(MODEL):
        narrow, plain = Method(f"{kind}, Δ = 256", 30.0), Method(kind, 30.0)
        assert narrow.protection(wide) == plain.protection(MODEL)
        assert equal_epsilon(narrow, wide) == equal_epsilon(plain, MODEL)
        assert equal_epsilon(plain, wide) < equal_epsilon(plain, MODEL)


def test_the_chance_that_no_parameter_is_shown() -> None:
    kept = 1.0 / (512.0 / 3.0 + 1.0)
    assert Method("TLDP-L", 3.0).hidden(MODEL) == pytest.approx(3000 * math.log10(1.0 - kept))
    assert Method("Laplace", 3.0).hidden(MODEL) == 0.0


@pytest.mark.parametrize("name", WHOLE)
def test_clipped_parameters_have_the_noise_that_is_proven(name) -> None:
    """20,000 draws: their deviation is off by 5% with a chance below 1e-6 (Gaussian; Laplace: 8%).

    20% less noise would be seen in each of them.
    """
    size = 20_000
    protection = ClippedParameters(name=name, epsilon=2.0, delta=1e-5, clip=1.0)
    received = [np.zeros((size,), dtype=np.float32)]
    given = [np.full((size,), 7.0, dtype=np.float32)]
    (sent,) = protection.protect(given, received, Seeded(3))
    multiplier = protection.guarantee([(size,)]).event.noise_multiplier
    reach = 2.0 * (size if name == "Laplace" else math.sqrt(size))
    deviation = multiplier * reach * (math.sqrt(2.0) if name == "Laplace" else 1.0)
    drawn = float(np.sqrt(np.mean(np.square(sent.astype(np.float64) - 1.0))))
    assert drawn == pytest.approx(deviation, rel=0.08 if name == "Laplace" else 0.05)


def test_what_is_not_finite_counts_as_zeros() -> None:
    received = [np.full((50,), 0.5, dtype=np.float32)]
    broken = [np.full((50,), np.nan, dtype=np.float32)]
    quiet = ClippedParameters(name="Gaussian", epsilon=1e6, delta=1e-5, clip=1.0)
    assert np.abs(quiet.protect(broken, received, Seeded(0))[0]).max() < 0.3


def test_parameters_and_claims_are_told() -> None:
    protection = ClippedParameters(name="IDN", epsilon=2.0, delta=1e-5, clip=1.0)
    assert protection.parameters()["epsilon"] == 2.0
    assert protection.claim().epsilon == 2.0


def test_averaged_first_is_noised_by_the_server_and_proven_for_a_third_of_the_distance() -> None:
    for kind in AVERAGED:
        method = Method(kind, 300.0)
        plain = Method(kind.partition(",")[0], 300.0)
        assert method.protection(MODEL) == Method(CLEAN).protection(MODEL)
        assert method.at_server(MODEL).tensor == plain.protection(MODEL)
        assert plain.at_server(MODEL) is None
    assert math.isinf(Method("TLDP-L, averaged first", 300.0).proven(MODEL))
    # Nothing is kept at this ε: plain noise of σ² = Δ²/2ε on 3,000 values, at most 2/3 apart.
    mu = 2.0 / 3.0 * math.sqrt(3000.0) / (256.0 / math.sqrt(2000.0))
    expected = gaussian_epsilon(mu, 1e-5)
    # A step of the grid more, by which an average may be rounded.
    assert expected <= Method("TLDP-G, averaged first", 1000.0).proven(MODEL) <= 1.005 * expected
