"""The zoo: every broken mechanism is caught, no sound one is accused more often than chance explains."""

import dataclasses
import math

import numpy as np
import pytest
from games import LESS, WeakGaussian, WeakLaplace

from sfumato.audits import auditor_check, gaussian_bound, release_audit, threshold_bound
from sfumato.audits.auditor_check import STRICT, AuditedRelease, specimens, try_broken, try_sound
from sfumato.audits.embedding_attacks import see_through
from sfumato.audits.zoo.output_specimens import reachable
from sfumato.audits.zoo.suspect import Suspect, drawn
from sfumato.privacy import gaussian_epsilon

SUSPECTS = [item for item in specimens() if isinstance(item, Suspect)]
BROKEN = {item.name: item for item in SUSPECTS if item.mistake}
SOUND = {item.name: item for item in SUSPECTS if not item.mistake}
AUDITED = [item for item in specimens() if isinstance(item, AuditedRelease)]
GAMES = 100_000

#: ε that the mistake really leaves, where it is a closed form; infinite where outputs give the input away.
TRUE_EPSILON = {
    "Laplace scale times 0.3": 1.0 / 0.3,
    "epsilon not shared by columns": 5.0,
    "clipping forgotten": 4.0,
    "noise redrawn until it fits": 1.0 + math.log(2.0 - math.exp(-1.0)),
    "coin of two for ten categories": 1.0 + math.log(9.0),
    "exponential mechanism without its 2": 1.0 + math.log((1.0 + 9.0 * math.e) / (9.0 + math.e)),
    "deadline set by the first answer": gaussian_epsilon(18.0, 1e-2),
    "a name that displaces its owner": gaussian_epsilon(2.0, 1e-2),
}


@pytest.fixture
def no_classifier(monkeypatch):
    """Let the attack that knows the mistake do it alone, at the confidence that it shares with others."""
    constant = lambda first, second, seed: (np.zeros(len(first)), np.zeros(len(second)))  # noqa: E731
    monkeypatch.setattr(auditor_check, "classifier_scores", constant)


@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_mechanism_is_caught(name, no_classifier):
    """Fresh noise: a miss has chance below 1e-6, since each bound lies eight deviations above the promise."""
    verdict = try_broken(BROKEN[name], games=GAMES, confidence=0.99, seed=None)
    assert verdict.caught
    assert verdict.by[0].attack == BROKEN[name].attack


@pytest.mark.parametrize("name", TRUE_EPSILON)
def test_no_bound_exceeds_what_the_mistake_really_leaves(name):
    """False-alarm rate 1e-9 for each: a broken mechanism has only the one mistake that it is named after."""
    suspect = BROKEN[name]
    scores = [suspect.scores(suspect.outputs(neighbour, GAMES)) for neighbour in (False, True)]
    bound = threshold_bound(*scores, delta=suspect.delta, confidence=STRICT)
    assert suspect.epsilon < bound.epsilon <= TRUE_EPSILON[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_no_sound_mechanism_is_accused(name, record_property):
    """False-alarm rate 5e-7: more than 12 alarms in 200 at 99% have 2e-7, any at 1 − 1e-9 has 202e-9."""
    verdict = try_sound(SOUND[name], games=10_000, repetitions=200, confidence=0.99, seed=None)
    record_property("count", f"{name}: {verdict.alarms} alarms in 200 audits at 99%")
    assert verdict.allowed == 12
    assert verdict.alarms <= 12
    assert verdict.strict_alarms == 0


@pytest.mark.parametrize("name", SOUND)
def test_the_audit_of_a_sound_mechanism_comes_close_to_its_proof(name):
    """Miss rate below 1e-6: otherwise the absence of alarms would say little."""
    suspect = SOUND[name]
    scores = [suspect.scores(suspect.outputs(neighbour, GAMES)) for neighbour in (False, True)]
    bound = (gaussian_bound if suspect.normal_scores else threshold_bound)(*scores, delta=suspect.delta)
    assert bound.epsilon > 0.75 * suspect.epsilon


@pytest.mark.parametrize(
    ("name", "weak"),
    [
        ("Gaussian", WeakGaussian(1.0, 0.05, clip=1.0)),
        ("Laplace", WeakLaplace(1.0, clip=1.0)),
        ("Gaussian at epsilon 15", WeakGaussian(15.0, 1e-5, clip=1.0)),
    ],
)
def test_a_sound_mechanism_with_a_fifth_less_noise_is_caught(name, weak, no_classifier):
    """Miss rate below 1e-6: the bound lies eight deviations above the promise, or more."""
    suspect = SOUND[name]
    assert LESS == 0.8
    first, second = (part[None] for part in suspect.inputs)
    weakened = dataclasses.replace(suspect, draw=drawn(weak, first, second))
    assert try_broken(weakened, games=GAMES, confidence=0.99, seed=None).caught


@pytest.mark.parametrize("level", [0.9, 0.99, 0.9999])
@pytest.mark.parametrize("name", ["Laplace", "Gaussian", "Gaussian at epsilon 15"])
def test_more_confidence_only_lowers_a_bound(name, level):
    """No chance of a false alarm: the strict alarms are counted among the others and nowhere else."""
    suspect = SOUND[name]
    scores = [
        suspect.scores(suspect.outputs(neighbour, 5_000, seed))
        for seed, neighbour in enumerate((False, True))
    ]
    bound = gaussian_bound if suspect.normal_scores else threshold_bound
    strict = bound(*scores, delta=suspect.delta, confidence=STRICT)
    assert strict.epsilon <= bound(*scores, delta=suspect.delta, confidence=level).epsilon


@pytest.mark.parametrize("release", [item for item in AUDITED if item.mistake], ids=lambda item: item.name)
def test_a_broken_release_is_accused_by_the_standard_audit(release):
    """Miss rate below 1e-6: every row gives itself away, where 1/3 of them may."""
    verdict = try_broken(release, games=0, confidence=STRICT, seed=None)
    assert "exact-value game" in {attempt.attack for attempt in verdict.by}
    assert verdict.measured > 2.0 * release.epsilon


@pytest.mark.parametrize(
    "release", [item for item in AUDITED if not item.mistake], ids=lambda item: item.name
)
def test_a_sound_release_is_not_accused_by_the_standard_audit(release):
    """False-alarm rate 1e-6: more than five alarms in 20 at 99%."""
    assert try_sound(release, games=0, repetitions=20, confidence=0.99, seed=None).passed


def test_the_self_test_sees_an_audit_that_matches_and_tests_on_the_same_rows(monkeypatch):
    """Miss rate below 1e-6: nearly all of 20 such audits accuse a sound release."""

    def same_rows(original, released, confidence, seed=0):
        seen = see_through(np.tile(original, (8, 1)), np.tile(released, (8, 1)), confidence, seed)
        return dataclasses.replace(seen, tested=np.arange(len(original)))

    monkeypatch.setattr(release_audit, "see_through", same_rows)
    assert not try_sound(AUDITED[-1], games=0, repetitions=20, confidence=0.99, seed=None).passed


def test_an_output_is_reachable_from_where_it_came():
    """No chance of a false alarm: otherwise the attack on floating-point noise would err."""
    suspect = BROKEN["Laplace noise in floats"]
    for neighbour in (False, True):
        assert reachable(float(neighbour), suspect.outputs(neighbour, GAMES)[:, 0]).all()


@pytest.mark.parametrize("suspect", [*BROKEN.values(), *SOUND.values()], ids=lambda suspect: suspect.name)
def test_games_are_independent_and_repeatable(suspect):
    """False-alarm rate below 1e-20: one seed gives one set of releases, another seed another."""
    games = [suspect.outputs(True, 500, seed) for seed in (1, 1, 2)]
    assert games[0].shape == (500, suspect.inputs[0].size)
    assert np.array_equal(games[0], games[1])
    assert not np.array_equal(games[0], games[2])
    assert not np.array_equal(suspect.outputs(True, 500), games[0])
    assert suspect.scores(games[0]).shape == (500,)


def test_the_zoo_is_complete_and_every_inmate_has_a_name():
    """No chance of a false alarm."""
    names = [item.name for item in specimens()]
    assert len(set(names)) == len(names)
    assert len(BROKEN) >= 14
    assert len(SOUND) >= 8
    for suspect in BROKEN.values():
        assert suspect.mistake.endswith(".")
        assert 0.0 < suspect.epsilon < math.inf
    for suspect in SOUND.values():
        assert suspect.mistake == ""
