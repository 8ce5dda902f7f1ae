"""A finding: its interval against chance, its way into the measured column, its way through JSON."""

import dataclasses

import pytest

from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.privacy import Neighbours, Unit

RECORD = {"unit": "record", "neighbours": "replace"}


def made(**change):
    given = {
        "attack": "membership",
        "threat": "holds candidates",
        "measure": "AUC",
        "value": 0.7,
        "chance": 0.5,
    }
    return Finding(**(given | {"interval": (0.6, 0.8), "confidence": 0.99} | change))


@pytest.mark.parametrize(
    ("change", "beats"),
    [
        ({}, True),
        ({"interval": (0.45, 0.8)}, False),
        ({"interval": None, "confidence": None}, None),
        ({"higher_is_worse": False}, False),
        # A bound above 0 is a win, whatever the interval of another number says.
        ({"interval": (0.45, 0.8), "epsilon_lower": 0.0077, "delta": 0.0} | RECORD, True),
        ({"interval": (0.45, 0.8), "delta_lower": 0.01} | RECORD, True),
        ({"interval": (0.45, 0.8), "epsilon_lower": 0.0, "delta": 0.0} | RECORD, False),
        ({"higher_is_worse": False, "interval": (0.1, 0.4)}, True),
    ],
)
def test_chance_is_beaten_by_a_bound_or_the_whole_interval_on_the_attackers_side(change, beats):
    assert made(**change).beats_chance is beats


def test_evidence_carries_the_bound_and_what_it_is_about():
    finding = made(epsilon_lower=2.0, delta=1e-5, unit="tensor", neighbours="replace", note="a remark")
    evidence = finding.evidence()
    assert (evidence.epsilon_lower, evidence.delta, evidence.confidence) == (2.0, 1e-5, 0.99)
    assert (evidence.unit, evidence.neighbours) == (Unit("tensor"), Neighbours.REPLACE)
    assert evidence.detail == "AUC 0.7 [0.6, 0.8], a guess 0.5; a remark"


def test_json_both_ways():
    finding = made(
        numbers={"advantage": 0.4}, epsilon_lower=1.0, delta=0.0, unit="record", neighbours="replace"
    )
    assert Finding.from_dict(finding.to_dict()) == finding
    bare = made(interval=None, confidence=None)
    assert Finding.from_dict(bare.to_dict()) == bare


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"value": float("nan")}, "not a number"),
        ({"chance": float("inf")}, "not a number"),
        ({"value": "high"}, "not a number"),
        ({"interval": (0.8, 0.6)}, "runs from 0.8 to 0.6"),
        ({"confidence": None}, "without its confidence"),
        ({"interval": None, "confidence": None, "epsilon_lower": 1.0}, "without its confidence"),
        ({"epsilon_lower": 1.0, "delta": 0.0}, "without its unit and neighbours"),
        ({"delta_lower": 0.1, "unit": "record"}, "without its unit and neighbours"),
    ],
)
def test_refusals(change, sentence):
    with pytest.raises(BadInput, match=sentence):
        made(**change)


def test_a_document_of_another_kind_is_refused():
    document = made().to_dict()
    with pytest.raises(BadInput, match="a finding"):
        Finding.from_dict(document | {"extra": 1})
    with pytest.raises(BadInput, match="two numbers or null"):
        Finding.from_dict(document | {"interval": [1.0]})


def test_a_finding_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        made().value = 0.9
