"""The result of an audit: the strongest bound leads, all bounds hold together, contradictions are alarms."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.audits import Audit, Finding

RELEASE = sf.Gaussian(2.0, 1e-5, 1.0).release(np.ones((3, 2)))


def bound(attack, epsilon, confidence=0.995, **change):
    given = {"attack": attack, "threat": "", "measure": "share", "value": 0.9, "chance": 0.5}
    given |= {"delta": 1e-5, "unit": "record", "neighbours": "replace"}
    return Finding(**(given | {"epsilon_lower": epsilon, "confidence": confidence} | change))


def plain(attack="membership"):
    return Finding(attack, "", "AUC", 0.6, 0.5, (0.55, 0.65), 0.99)


def test_the_strongest_bound_leads_with_the_confidence_of_all_together():
    found = Audit.of(RELEASE, [plain(), bound("weak", 0.5), bound("strong", 1.5)])
    assert (found.attack, found.epsilon_lower, found.delta) == ("strong", 1.5, 1e-5)
    assert found.confidence == pytest.approx(0.99)
    assert isinstance(found, sf.Evidence)


def test_the_release_is_the_same_with_its_measured_column_filled():
    found = Audit.of(RELEASE, [plain(), bound("strong", 1.5)])
    assert found.release.value is RELEASE.value
    assert [item.attack for item in found.statement.measured] == ["membership", "strong"]
    assert RELEASE.statement.measured == ()


def test_more_than_is_proven_is_an_alarm():
    found = Audit.of(RELEASE, [bound("impossible", 2.5)])
    assert [item.attack for item in found.alarms] == ["impossible"]
    assert "Alarm: impossible shows ε ≥ 2.5 at δ = 1e-05, above the proven 2" in str(found)
    assert not found.to_dict()["consistent"]
    other = Audit.of(RELEASE, [bound("about frames", 2.5, unit="frame")])
    assert other.alarms == ()


def test_what_is_printed_was_really_reached():
    said = str(Audit.of(RELEASE, [bound("game", 1.43962)]))
    assert "ε ≥ 1.439 at δ = 1e-05" in said
    assert "1.44" not in said


def test_without_a_bound_there_is_no_epsilon():
    found = Audit.of(RELEASE, [plain()])
    assert found.epsilon_lower is None
    assert "1 of 1 attacks did better than a guess" in str(found)
    assert found.to_dict()["findings"][0]["attack"] == "membership"


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_table_keeps_to_its_width(width):
    found = Audit.of(RELEASE, [plain("a rather long name of an attack"), bound("strong", 1.5)])
    assert max(len(line) for line in found.table(width).splitlines()) <= width
