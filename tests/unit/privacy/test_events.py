import json

import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee
from sfumato.privacy.events import event_from_json, event_to_json

noise = st.floats(1e-3, 1e3)
single = st.one_of(
    st.builds(GaussianDpEvent, noise),
    st.builds(LaplaceDpEvent, noise),
    st.builds(RandomizedResponseDpEvent, st.floats(1e-9, 1.0), st.integers(2, 1000)),
    st.builds(lambda xi: ZCDpEvent(rho=0.0, xi=xi), st.floats(0.0, 1e5)),
    st.builds(
        PoissonSampledDpEvent,
        st.floats(1e-6, 1.0),
        st.one_of(st.builds(GaussianDpEvent, noise), st.builds(LaplaceDpEvent, noise)),
    ),
    st.just(NoOpDpEvent()),
)
events = st.recursive(
    single,
    lambda inner: st.one_of(
        st.builds(SelfComposedDpEvent, inner, st.integers(1, 10**6)),
        st.builds(ComposedDpEvent, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)


@given(
    event=st.none() | events,
    unit=st.sampled_from(["record", "region(8)", "window(12.5)"]),
    slack=st.floats(0, 1),
    at_delta=st.floats(0, 1),
    theorem=st.text(),
)
def test_guarantees_survive_json_exactly(event, unit, slack, at_delta, theorem):
    guarantee = Guarantee(
        unit=unit, neighbours="add/remove", event=event, theorem=theorem, slack=slack, at_delta=at_delta
    )
    text = json.dumps(guarantee.to_dict(), allow_nan=False)
    back = Guarantee.from_dict(json.loads(text))
    assert back == guarantee
    assert hash(back) == hash(guarantee)
    assert json.dumps(back.to_dict()) == text


def test_the_wire_format_is_fixed():
    """These bytes are kept in ledgers and certificates: a change here breaks documents already written."""
    event = ComposedDpEvent(
        [
            GaussianDpEvent(1.5),
            SelfComposedDpEvent(LaplaceDpEvent(0.5), 10),
            RandomizedResponseDpEvent(0.2, 10),
            ZCDpEvent(rho=0.0, xi=784.0),
            PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)),
            NoOpDpEvent(),
        ]
    )
    guarantee = Guarantee(
        unit="record", neighbours="add/remove", event=event, theorem="all kinds", slack=1e-9, at_delta=1e-6
    )
    assert guarantee.to_dict() == {
        "unit": "record",
        "neighbours": "add/remove",
        "event": {
            "composed": [
                {"gaussian": {"noise_multiplier": 1.5}},
                {"repeated": {"times": 10, "event": {"laplace": {"noise_multiplier": 0.5}}}},
                {"randomised_response": {"noise_parameter": 0.2, "buckets": 10}},
                {"pure": {"epsilon": 784.0}},
                {"poisson_sampled": {"rate": 0.01, "event": {"gaussian": {"noise_multiplier": 1.0}}}},
                {"no_operation": {}},
            ]
        },
        "theorem": "all kinds",
        "slack": 1e-9,
        "at_delta": 1e-6,
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"exponential": {"epsilon": 1.0}}, "'exponential' is not known: accepted are gaussian, laplace"),
        ({"gaussian": {"sigma": 1.0}}, "a gaussian event was .* noise_multiplier"),
        ({"gaussian": {"noise_multiplier": 1.0, "extra": 1}}, "a gaussian event was"),
        ({"composed": {"a": 1}}, "must hold a list"),
        ({}, "one key"),
        ({"gaussian": {}, "laplace": {}}, "one key"),
        ("gaussian", "one key"),
        (["x" * 1000], r"one key"),
    ],
)
def test_unknown_or_malformed_events_are_refused(value, message):
    with pytest.raises(BadInput, match=message) as caught:
        event_from_json(value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "body",
    [
        {"gaussian": {"noise_multiplier": "1"}},
        {"gaussian": {"noise_multiplier": None}},
        {"gaussian": {"noise_multiplier": True}},
        {"randomised_response": {"noise_parameter": 0.5, "buckets": 2.5}},
        {"repeated": {"times": 2.0, "event": {"gaussian": {"noise_multiplier": 1.0}}}},
        {"poisson_sampled": {"rate": 2.0, "event": {"gaussian": {"noise_multiplier": 1.0}}}},
        {"poisson_sampled": {"rate": 0.5, "event": {"pure": {"epsilon": 1.0}}}},
        {"pure": {"epsilon": -1.0}},
    ],
)
def test_wrong_values_in_a_document_are_refused(body):
    document = Guarantee.pure(1.0, neighbours="add/remove").to_dict() | {"event": body}
    with pytest.raises(BadInput):
        Guarantee.from_dict(document)


def test_a_document_cannot_exhaust_the_stack():
    event = {"gaussian": {"noise_multiplier": 1.0}}
    for _ in range(500):
        event = {"repeated": {"times": 1, "event": event}}
    with pytest.raises(BadInput, match="nested more than"):
        event_from_json(event)


@pytest.mark.parametrize("change", [{"unit": "person"}, {"neighbours": "x"}, {"slack": "0"}, {"theorem": 3}])
def test_wrong_fields_of_a_guarantee_are_refused(change):
    with pytest.raises(BadInput):
        Guarantee.from_dict(Guarantee.pure(1.0).to_dict() | change)
    with pytest.raises(BadInput, match="a guarantee was"):
        Guarantee.from_dict({"unit": "record"})


def test_events_without_a_json_form_are_refused():
    with pytest.raises(BadInput, match="not one a guarantee can be computed from"):
        event_to_json(NonPrivateDpEvent())
