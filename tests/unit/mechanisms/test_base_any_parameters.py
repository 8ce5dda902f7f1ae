"""Whatever parameters and records are given: a promise that is kept, or a refusal; nothing else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import Mechanism

NONSENSE = st.sampled_from([0, -1.0, math.nan, math.inf, -math.inf, "1", None, True, 10**400, 1j, (), {}])
EXTREMES = st.sampled_from([5e-324, 1e-300, 1e-12, 1e-6, 1e6, 1e16, 1e100, 1e300])
DATA = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 255.0, 1e-310, 5e-324, 1e-100, 1e38, -3e38, 1e155, 1.7e308, -1.7e308]
)


def _mostly(valid: st.SearchStrategy[Any], strange: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Seven times in eight what is valid; otherwise a combination of several parameters rarely is."""
    return st.integers(0, 7).flatmap(lambda pick: strange if pick == 7 else valid)


epsilons = _mostly(st.floats(1e-3, 1e3), NONSENSE | EXTREMES)
deltas = _mostly(st.floats(1e-12, 0.1), NONSENSE | st.sampled_from([1e-290, 1 - 1e-16, 1.5]))
distrusts = _mostly(st.floats(0.0, 1.0), NONSENSE | st.floats())
radii = _mostly(st.floats(1e-6, 1e6), NONSENSE | EXTREMES)
corners = st.floats(-1e6, 1e6) | EXTREMES | NONSENSE | st.lists(st.floats(-10.0, 10.0), max_size=3)
neighbours = _mostly(
    st.sampled_from(["replace", "zero-out"]), st.sampled_from(["add/remove", "swap", "", None, 3])
)
calibrations = _mostly(
    st.sampled_from(["analytic", "paper", "paper-tables"]), st.sampled_from(["classical", None])
)
domains = st.one_of(
    st.fixed_dictionaries({"clip": radii}),
    st.fixed_dictionaries({"bounds": _mostly(st.just((-1.0, 2.0)), st.tuples(corners, corners) | NONSENSE)}),
    st.fixed_dictionaries({"bounds": st.just(([-1.0, 0.0], [1.0, 255.0]))}),
)
sources = _mostly(
    st.sampled_from([None, sf.Seeded(1), sf.Keyed(bytes(32), dataset="d", version="v", release="r")]),
    st.sampled_from([7, "os"]),
)


@st.composite
def records(draw: st.DrawFn) -> Any:
    columns = draw(st.integers(1, 3))
    rows = draw(st.integers(1, 3))
    cells = st.lists(DATA | st.floats(-10.0, 10.0), min_size=rows * columns, max_size=rows * columns)
    kind = draw(st.sampled_from(["f8", "f4"]))
    with np.errstate(over="ignore"):
        return np.array(draw(cells)).reshape(rows, columns).astype(kind)


codes = st.integers(1, 3).flatmap(
    lambda columns: st.lists(
        st.lists(st.integers(0, 4), min_size=columns, max_size=columns), min_size=1, max_size=4
    )
)


@given(epsilon=epsilons, delta=deltas, domain=domains, near=neighbours, source=sources, X=records())
@settings(deadline=None, max_examples=300)
def test_gaussian(epsilon, delta, domain, near, source, X) -> None:
    mechanism = sf.Gaussian(epsilon, delta, **domain, neighbours=near, randomness=source)
    _promised_or_refused(mechanism, X, lambda: epsilon)


@given(epsilon=epsilons, domain=domains, near=neighbours, source=sources, X=records())
@settings(deadline=None, max_examples=300)
def test_laplace(epsilon, domain, near, source, X) -> None:
    mechanism = sf.Laplace(epsilon, **domain, neighbours=near, randomness=source)
    _promised_or_refused(mechanism, X, lambda: epsilon)


@given(
    distrust=distrusts,
    budget=_mostly(st.tuples(epsilons, epsilons), NONSENSE | epsilons),
    delta=deltas,
    domain=domains,
    calibration=calibrations,
    near=neighbours,
    source=sources,
    X=records(),
)
@settings(deadline=None, max_examples=500)
def test_trust_adaptive(distrust, budget, delta, domain, calibration, near, source, X) -> None:
    mechanism = sf.TrustAdaptive(
        distrust, budget, delta, **domain, calibration=calibration, neighbours=near, randomness=source
    )
    asked = (lambda: max(budget)) if calibration == "analytic" else (lambda: math.inf)
    _promised_or_refused(mechanism, X, asked)


@given(
    epsilon=_mostly(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=3), epsilons | st.lists(epsilons)),
    delta=deltas,
    domain=domains,
    near=neighbours,
    source=sources,
    X=records(),
)
@settings(deadline=None, max_examples=300)
def test_personalised(epsilon, delta, domain, near, source, X) -> None:
    mechanism = sf.Personalised(epsilon, delta, **domain, neighbours=near, randomness=source)
    _promised_or_refused(mechanism, X, lambda: float(np.max(epsilon)))


@given(
    epsilon=epsilons,
    categories=_mostly(st.integers(2, 9), NONSENSE | st.lists(st.integers(0, 2**62), max_size=3)),
    weights=_mostly(st.none(), NONSENSE | st.lists(st.floats(), max_size=3)),
    source=sources,
    X=records() | codes,
)
@settings(deadline=None, max_examples=300)
def test_randomised_response(epsilon, categories, weights, source, X) -> None:
    mechanism = sf.RandomisedResponse(epsilon, categories, weights=weights, randomness=source)
    _promised_or_refused(mechanism, X, lambda: epsilon, slack=1e-9)


@given(
    bits=_mostly(st.integers(1, 32), NONSENSE | st.integers()),
    flip=st.none() | st.floats(0.0, 0.6) | EXTREMES | NONSENSE,
    epsilon=st.none() | epsilons,
    bounds=_mostly(st.just((0.0, 1.0)), st.tuples(corners, corners) | NONSENSE),
    source=sources,
    X=records(),
)
@settings(deadline=None, max_examples=300)
def test_binary_encoding(bits, flip, epsilon, bounds, source, X) -> None:
    mechanism = sf.BinaryEncoding(bits, flip, epsilon=epsilon, bounds=bounds, randomness=source)

    def asked() -> float:
        if epsilon is not None:
            return float(epsilon)
        return X.shape[1] * bits * (math.log1p(-flip) - math.log(flip)) * (1.0 + 1e-11)

    _promised_or_refused(mechanism, X, asked)


@given(
    components=_mostly(st.integers(1, 5), NONSENSE),
    scale=radii,
    domain=domains,
    source=sources,
    seed=_mostly(st.integers(), NONSENSE),
    X=records(),
)
@settings(deadline=None, max_examples=200)
def test_projections(components, scale, domain, source, seed, X) -> None:
    noises = (
        sf.AdditiveNoise(scale, randomness=source),
        sf.Laplace(2.0, **domain, randomness=source),
        scale,
    )
    for noise in noises:
        for kind in (sf.RandomProjection, sf.ReconstructionResistant):
            _promised_or_refused(kind(components, noise, seed), X, lambda: 2.0)


def _promised_or_refused(mechanism: Mechanism, X: Any, asked: Any, slack: float = 1e-15) -> None:
    columns = np.shape(X)[1]
    try:
        guarantee = mechanism.guarantee(columns)
    except BadInput as refusal:
        _is_a_sentence(refusal)
    else:
        repr(guarantee)
        if not guarantee.proves_nothing:
            # The event of randomised response holds a probability near one, and so nine digits of ε.
            assert guarantee.epsilon() <= asked() * (1.0 + slack) + 1e-15
    try:
        release = mechanism.release(X)
    except BadInput as refusal:
        _is_a_sentence(refusal)
    else:
        assert release.value.shape[0] == len(X)
        assert np.isfinite(release.value).all()
        assert release.statement.proven == guarantee
        assert sf.Statement.from_json(release.statement.to_json()) == release.statement


def _is_a_sentence(refusal: BadInput) -> None:
    text = str(refusal)
    assert text.endswith(".")
    assert "\n" not in text
