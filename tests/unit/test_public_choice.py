"""Constants of a benchmark: the other data sets choose, by the mean of what they gain."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra learn is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from compact_defaults import SCANS, Gain, verdicts
from sfumato.privacy import gaussian_mu

DEFAULTS = Gain(0.0, 0.0, 10.0)


def chosen(**changes: Gain) -> str:
    """What two others choose for ``own``, which wants something else."""
    own = dict.fromkeys(changes, DEFAULTS) | {"own": Gain(5.0, 0.1, 10.0)}
    other = {"the defaults": DEFAULTS, "own": DEFAULTS} | changes
    found = {"own": {"the defaults": DEFAULTS} | own, "a": other, "b": other}
    return next(iter(verdicts(found))).removeprefix("For own the others choose ")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "the defaults."),
        ({"x": Gain(0.3, 0.2, 10.0)}, "x (+0.30 ± 0.14 points)."),  # of two, the error is less by √2
        ({"x": Gain(0.3, 0.22, 10.0)}, "the defaults."),
        ({"x": Gain(0.3, 0.1, 12.4)}, "x (+0.30 ± 0.07 points)."),
        ({"x": Gain(0.3, 0.1, 12.6)}, "the defaults."),
        ({"x": Gain(1.0, 2.0, 99.0)}, "x (+1.00 ± 1.41 points)."),
        ({"x": Gain(0.3, 0.1, 20.0), "y": Gain(0.2, 0.1, 10.0)}, "y (+0.20 ± 0.07 points)."),
        ({"x": Gain(0.2, 0.1, 10.0), "y": Gain(0.3, 0.1, 10.0)}, "y (+0.30 ± 0.07 points)."),
    ],
)
def test_of_the_changes_that_may_be_made_the_one_that_gains_most_is_taken(changes, expected) -> None:
    assert chosen(**changes) == expected


@pytest.mark.parametrize(("learned", "records"), [(7_000, 60_000), (20_000, 60_000), (20_000, 20_000)])
def test_a_judge_has_the_noise_of_so_many_records(learned, records) -> None:
    scan = SCANS["certified"]
    told = gaussian_mu(scan.beside(learned, records).options["epsilon"], 1e-5)
    assert told * learned == pytest.approx(gaussian_mu(scan.options["epsilon"], 1e-5) * records, rel=1e-6)
