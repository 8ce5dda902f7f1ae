"""What the CompactDP run is made of: data, coins, attacks, the printed numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.audits import Predictions, one_run_bound
from sfumato.errors import BadInput
from sfumato_reproductions.datasets import load, load_parts
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.paper_page import listed

pytest.importorskip("torch")

from sfumato_reproductions.compactdp import bench
from sfumato_reproductions.compactdp.appendix_n import COMBINATIONS
from sfumato_reproductions.compactdp.attack import Attack, Range, attack_all
from sfumato_reproductions.compactdp.bench import Bench
from sfumato_reproductions.compactdp.cells import heuristic
from sfumato_reproductions.compactdp.class_names import class_names
from sfumato_reproductions.compactdp.comparing import Difference
from sfumato_reproductions.compactdp.features import Features
from sfumato_reproductions.compactdp.findings import verdicts
from sfumato_reproductions.compactdp.measured import Measured, OneRun, Proven, Stored
from sfumato_reproductions.compactdp.methods import CERTIFIED, COMBINED, COMPACT, DP_SGD, NON_PRIVATE
from sfumato_reproductions.compactdp.pool import Pool, Source
from sfumato_reproductions.compactdp.printed_findings import (
    contraction_factors,
    epsilon_of_less_noise,
    printed_says,
)
from sfumato_reproductions.compactdp.protocol import Run
from sfumato_reproductions.compactdp.published import (
    APPENDIX_P,
    FIGURE_13,
    FIGURE_15,
    TABLE_3_TPR,
    TABLES,
    TEXT,
)
from sfumato_reproductions.compactdp.results import Results
from sfumato_reproductions.compactdp.sources import digest_of_files


def unheard(stage: str, share: float) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Pool:
    """The digits as pixels."""
    return Pool.of(Source("digits", "pixels", 1200, 200), Features(tmp_path_factory.mktemp("kept")), unheard)


def test_four_in_five_are_members_and_coins_decide_who_is_asked_about(pool) -> None:
    """Of 480 fair coins 173 to 307 are heads but for a chance below 1e-9 (Hoeffding), each of three times."""
    for seed in range(3):
        split = pool.split(seed)
        assert len(split.inside) + len(split.outside) == 480
        assert len(split.members) == 720 + len(split.inside)
        assert 173 <= len(split.inside) <= 307
        known = set(map(bytes, split.members.features))
        assert all(bytes(row) in known for row in split.inside.features)
    assert not np.array_equal(pool.split(0).members.labels[:50], pool.split(1).members.labels[:50])


def test_features_are_read_back_for_the_same_pictures_alone(tmp_path) -> None:
    kept, told = Features(tmp_path / "features"), []
    learned, _ = load_parts("digits")
    first = kept.of(learned, "pixels", lambda stage, share: told.append(stage))
    assert told
    told.clear()
    assert np.array_equal(kept.of(learned, "pixels", lambda stage, share: told.append(stage)), first)
    assert told == []
    kept.of(load("digits"), "pixels", lambda stage, share: told.append(stage))
    assert told
    (tmp_path / "features").joinpath(next((tmp_path / "features").iterdir()).name).write_bytes(b"torn")
    assert np.array_equal(kept.of(learned, "pixels", unheard), first)


def test_attacks_find_a_model_that_knows_its_members_by_heart() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    sure, unsure = np.eye(3)[labels] * 0.9 + 0.1 / 3.0, np.full((400, 3), 1.0 / 3.0)
    groups = [Predictions(sure[:200], labels[:200]), Predictions(unsure[200:], labels[200:])]
    attacks = attack_all(*groups, folds=2, seed=0, report=unheard)
    best = max(attacks, key=lambda attack: attack.auc)
    assert best.finds
    assert best.auc == 1.0
    assert Attack.read(best.to_dict()) == best


def test_conversions_of_rates_with_their_ends() -> None:
    attack = Attack("any", 0.6, 0.5, 0.7, 0.0, 0.0, 0.0, flagged=60, members=100, falsely=40, nonmembers=100)
    found = attack.heuristics
    assert found.rates.value == pytest.approx(np.log(1.5))
    assert found.advantage.value == pytest.approx(np.log(1.2 - 2e-5) - np.log1p(-1e-5))
    for kind in (found.rates, found.advantage):
        assert kind.low < kind.value < kind.high
    none = Attack("none", 0.5, 0.4, 0.6, 0.0, 0.0, 0.0, flagged=0, members=100, falsely=0, nonmembers=100)
    assert none.heuristics.rates.value is None


def test_bounds_of_several_runs_hold_together() -> None:
    game = OneRun(correct=95, guesses=100, canaries=400)
    assert 0.0 < game.bound(3) < game.bound(1)


def test_memory_gives_back_only_what_depends_on_the_same(tmp_path) -> None:
    memory = Memory(tmp_path / "new")
    assert memory.recall("one", {"seed": 0}) is None
    memory.keep("one", {"seed": 0}, {"value": 1.5})
    assert memory.recall("one", {"seed": 0}) == {"value": 1.5}
    assert memory.recall("one", {"seed": 1}) is None
    (tmp_path / "new" / "one.json").write_text("torn")
    assert memory.recall("one", {"seed": 0}) is None


def test_lesions_are_in_one_part_alone(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (60, 4, 4, 3)).astype(np.uint8)
    lesions = np.array([f"L{i // 3}" for i in range(60)])
    np.savez(tmp_path / "ham10000_28.npz", x=pictures, y=np.arange(60, dtype=np.uint8) % 7, lesion_id=lesions)
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    learned, tests = load_parts("ham10000")
    whole = {bytes((picture / np.float32(255.0)).astype(np.float32).ravel()): lesion
             for picture, lesion in zip(pictures, lesions, strict=True)}  # fmt: skip
    sides = [{whole[bytes(row)] for row in part.records} for part in (learned, tests)]
    assert not sides[0] & sides[1]
    assert (len(learned.records), len(tests.records)) == (48, 12)
    assert np.array_equal(load("ham10000").labels, learned.labels)
    np.savez(tmp_path / "ham10000_28.npz", x=pictures, y=np.zeros(60, dtype=np.uint8))
    with pytest.raises(BadInput, match="no NumPy archive with arrays x, y and lesion_id"):
        load_parts("ham10000")


def test_the_printed_tables_are_the_papers() -> None:
    assert [len(TABLES[number]) for number in range(2, 7)] == [4, 6, 7, 4, 4]
    assert TABLES[2]["CompactDP"].auc == 0.5137
    assert TABLES[5]["DP-SGD (ε = 1)"].entropy == -0.0141
    assert (FIGURE_13, FIGURE_15, TABLE_3_TPR) == (0.51, 0.0003, (0.0013, 0.0025))
    assert APPENDIX_P == (0.0027, 0.0003, 0.0035)
    for (table, measure), text in TEXT.items():
        assert getattr(TABLES[table]["CompactDP"], measure) != text


def test_what_the_printed_numbers_say() -> None:
    told = list(printed_says())
    assert "of the 17 that it prints beside an AUC 1 are that number" in told[0]
    assert "empirical ε of table 2: 0.0114 in the text, 0.206 in the table" in told[1]
    assert "prints as 0.157" in told[2]
    assert told[3].startswith("All 4 AUCs")
    assert f"0.05·σ₁ proves {np.ceil(epsilon_of_less_noise(1.0, 0.05) * 100.0) / 100.0:g}." in told[4]
    assert "at α = 2 these are 9.8e-13·ρ, 0.25·ρ and 0.0025·ρ" in told[5]
    assert "(it is 100 times too small)" in told[5]
    assert "print 0.206 and 0.208 for the first, 0.178 and 0.1794 for the second" in told[6]
    assert "table 3 an accuracy of 95.09 and an AUC of 0.5062 to 0.5070" in told[7]


def test_the_page_of_the_paper_says_what_the_printed_numbers_say() -> None:
    page = (Path(__file__).parents[2] / "docs" / "papers" / "compactdp.md").read_text("utf-8")
    (section,) = listed({"What the paper's own numbers say": list(printed_says())})
    assert f"\n\n{section}\n\n" in page


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_definition_4_and_theorem_2_are_different_bounds(order) -> None:
    """A Gaussian mechanism of sensitivity Δ and ηΔ has the divergences that a numerical integral has."""
    etas = (0.05, 0.2, 0.5)
    found = contraction_factors(etas, order)
    whole, least = (renyi_divergence(shift, order) for shift in (1.0, 0.5))
    assert found.theorem == pytest.approx(least / whole)
    assert found.definition == pytest.approx(0.005 ** (order - 1.0))
    assert found.stated == pytest.approx(0.0025)
    assert found.definition < found.theorem
    assert found.stated < found.theorem
    same = contraction_factors((1.0, 1.0), order)
    assert same.definition == same.theorem == same.stated == 1.0


def renyi_divergence(shift, order) -> float:
    """Of two normals of deviation 1 whose means are ``shift`` apart."""
    points = np.linspace(-20.0, 30.0, 200_001)
    density = np.exp(order * norm.logpdf(points, shift) + (1.0 - order) * norm.logpdf(points))
    return float(np.log(np.trapezoid(density, points)) / (order - 1.0))


def test_less_noise_is_a_larger_epsilon() -> None:
    assert epsilon_of_less_noise(1.0, 1.0) == pytest.approx(1.0)
    assert epsilon_of_less_noise(1.0, 0.5) > 2.0
    assert epsilon_of_less_noise(1.0, 0.05) > 20.0


SOURCE = Source("digits", "pixels", 1200, 200)


def measured(name, accuracy=0.9, auc=0.6, low=0.5, correct=60) -> Measured:
    """One seed of a row, with one attack."""
    attack = Attack("any", auc, low, 0.9, 0.0, 0.0, 0.0, flagged=60, members=100, falsely=40, nonmembers=100)
    proven = Proven(np.inf, "zero-out", "a first stage without noise")
    game = OneRun(correct, 100, 400)
    return Measured(name, accuracy, 0.9, (attack,), {}, game, proven, 0.5, 1.0, 1.0)


def judged(rows) -> list[tuple[bool | None, str]]:
    """Verdicts on rows of one source."""
    return list(verdicts(Results(None, {}, {SOURCE: rows}, {}, {})))


@pytest.mark.parametrize(("correct", "refuted"), [(60, False), (100, True)])
def test_a_name_that_the_coins_refute_is_said_to_be_wrong(correct, refuted) -> None:
    rows = {name: (measured(name, correct=correct),) for name in (COMPACT, COMBINED[1.0])}
    wrong = [said for held, said in judged(rows) if "is not its ε" in said and held is False]
    assert len(wrong) == refuted
    if refuted:
        assert f"by {OneRun(correct, 100, 400).bound():.3g}, for this row with 95% confidence." in wrong[0]


@pytest.mark.parametrize(
    ("own", "rival", "held", "words"),
    [
        ((0.77, 0.78, 0.76), (0.775, 0.779, 0.771), None, "0.50 points below DP-SGD, ε = 1, 77.50"),
        ((0.80, 0.81, 0.79), (0.70, 0.71, 0.69), True, "it is more accurate"),
        ((0.70, 0.71, 0.69), (0.80, 0.81, 0.79), False, "it is less accurate"),
        ((0.9,), (0.5,), None, "the runs do not tell them apart (one seed)"),
    ],
)
def test_a_verdict_needs_more_than_twice_the_standard_error(own, rival, held, words) -> None:
    rows = {
        COMPACT: tuple(measured(COMPACT, value) for value in own),
        DP_SGD[1.0]: tuple(measured(DP_SGD[1.0], value) for value in rival),
    }
    ((found, said),) = [
        (held, said) for held, said in judged(rows) if "accurate" in said or "apart (" in said
    ][:1]
    assert found is held
    assert words in said


def test_a_difference_has_the_error_of_both_rows() -> None:
    one = [measured("one", value) for value in (0.1, 0.2, 0.3)]
    other = [measured("other", value) for value in (0.1, 0.1, 0.4)]
    found = Difference.of(one, other, lambda made: made.accuracy)
    assert found.value == pytest.approx(0.0)
    assert found.error == pytest.approx(np.sqrt((0.01 + 0.03) / 3.0))
    assert Difference(1.0, 0.4).exceeds() is True
    assert Difference(1.0, 0.6).exceeds() is None
    assert Difference(1.0, 0.4).exceeds(2.0) is False
    assert Difference(1.0, 0.4).exceeds(1.5) is None


def test_a_row_that_is_above_is_not_said_to_be_below() -> None:
    rows = {
        COMPACT: tuple(measured(COMPACT, value) for value in (0.80, 0.81, 0.79)),
        NON_PRIVATE: tuple(measured(NON_PRIVATE, value) for value in (0.70, 0.71, 0.69)),
    }
    ((held, said),) = judged(rows)
    assert held
    assert "is 10.00 points above non-private" in said
    assert "below" not in said


@pytest.mark.parametrize(("found", "held"), [(1, None), (2, False)])
def test_a_larger_risk_is_not_told_by_one_seed_of_three(found, held) -> None:
    lows = [0.55] * found + [0.45] * (3 - found)
    rows = {
        COMPACT: tuple(measured(COMPACT, auc=0.7 + i / 100, low=low) for i, low in enumerate(lows)),
        DP_SGD[1.0]: tuple(measured(DP_SGD[1.0], auc=0.5 + i / 100, low=0.45) for i in range(3)),
    }
    (verdict,) = [one for one in judged(rows) if "membership risk" in one[1]]
    assert verdict[0] is held
    assert f"in {found} of 3 seeds" in verdict[1]


def test_records_that_stand_in_a_model_decide_over_its_risk() -> None:
    """Whatever attacks by answers find: 150 of 1,011 members are named, and no other."""
    held, empty = Stored(150, 1011, 0, 253), Stored(0, 1011, 0, 253)
    assert held.names
    assert not empty.names
    assert not Stored(150, 1011, 30, 253).names
    rows = {
        COMPACT: tuple(replace(measured(COMPACT, auc=0.5, low=0.45), stored=held) for _ in range(3)),
        DP_SGD[1.0]: tuple(replace(measured(DP_SGD[1.0], low=0.45), stored=empty) for _ in range(3)),
    }
    (verdict,) = [one for one in judged(rows) if "membership risk" in one[1]]
    assert verdict[0] is False
    assert "finds 150 of 1,011 members, 0 of 253 others in it as they are" in verdict[1]
    assert rows[COMPACT][0].found
    assert Measured.read(rows[COMPACT][0].to_dict()) == rows[COMPACT][0]


def test_flatness_is_told_over_one_range_in_the_order_of_epsilon() -> None:
    levels = ((COMBINED, (0.78, 0.79, 0.783)), (DP_SGD, (0.6, 0.7, 0.65)), (CERTIFIED, (0.5, 0.8, 0.75)))
    rows = {
        names[epsilon]: tuple(measured(names[epsilon], level + off) for off in (-1e-3, 0.0, 1e-3))
        for names, values in levels
        for epsilon, level in zip((0.1, 1.0, 8.0), values, strict=True)
    } | {COMPACT: tuple(measured(COMPACT, 0.77) for _ in range(3))}
    ((held, said),) = [one for one in judged(rows) if "from ε = 0.1 to 8" in one[1]]
    assert held
    assert "CompactDP + DP-SGD goes from 78.00 to 78.30 percent, flat within 0.5 points" in said
    assert "DP-SGD goes from 60.00 to 65.00 percent" in said
    assert "certified contraction goes from 50.00 to 75.00 percent" in said


def test_appendix_n_has_both_classifiers_on_three_outputs() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    sure, unsure = np.eye(3)[labels] * 0.9 + 0.1 / 3.0, np.full((400, 3), 1.0 / 3.0)
    groups = [Predictions(sure[:200], labels[:200]), Predictions(unsure[200:], labels[200:])]
    attacks = attack_all(*groups, folds=2, seed=0, report=unheard, configurations=COMBINATIONS)
    assert len(attacks) == len({attack.name for attack in attacks}) == 6
    assert sum("logistic regression" in attack.name for attack in attacks) == 3
    # Of confidence and correctness either classifier sees all of it.
    assert min(one.auc for one in attacks if one.name.startswith("confidence")) == 1.0


def test_seeds_are_joined_by_their_mean_and_outermost_ends() -> None:
    assert Range.over([Range(1.0, 0.0, 2.0), Range(3.0, 1.0, 5.0)]) == Range(2.0, 0.0, 5.0)
    assert Range.over([Range(1.0, None, 2.0), Range(3.0, 1.0, 5.0)]) == Range(2.0, None, 5.0)
    assert Range.over([Range(None, None, None), Range(3.0, 1.0, 5.0)]).value is None


def test_what_other_code_measured_is_not_read_back(tmp_path) -> None:
    files = [tmp_path / "learn.py", tmp_path / "audit.py"]
    for file in files:
        file.write_text("steps = 1")
    before = digest_of_files(tmp_path, files)
    assert digest_of_files(tmp_path, files[::-1]) == before
    files[0].write_text("steps = 2")
    assert digest_of_files(tmp_path, files) != before


def test_a_measure_depends_on_the_code_of_its_rooms(tmp_path, monkeypatch) -> None:
    memory = Memory(tmp_path)
    made = Bench(SOURCE, lambda: pytest.fail("nothing is learned"), Run.of(1, True), 0, memory, unheard)
    assert made.remembered("any", lambda: 1) == 1
    assert made.remembered("any", lambda: 2) == 1
    monkeypatch.setattr(bench, "sources_digest", lambda: "of other code")
    assert made.remembered("any", lambda: 2) == 2


def test_classes_of_pictures_have_names_and_digits_numbers() -> None:
    assert class_names("cifar-10", 10)[1:3] == ("automobile", "bird")
    assert class_names("fashion-mnist", 10)[9] == "ankle boot"
    assert class_names("digits", 3) == ("0", "1", "2")


def test_conversions_stand_in_the_tables_with_what_their_intervals_leave_open() -> None:
    attack = Attack("any", 0.6, 0.5, 0.7, 0.0, 0.0, 0.0, flagged=60, members=100, falsely=40, nonmembers=100)
    made = Measured("any", 0.9, 0.9, (attack,), {}, None, Proven(np.inf, "", "nothing"), None, None, 1.0)
    cells = heuristic((made,), None, ((0.5, 0.0), (0.7, 2.0)))
    found = attack.heuristics
    for cell, one in zip(cells[1:3], (found.advantage, found.rates), strict=True):
        assert cell == f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]".replace("-", "−")
    assert cells[3] == "1.000 [0.000, 2.000]"
    assert heuristic((made,), None, ((0.5, 1.0), (0.5, 2.0)))[3] == "–"


def coin_world(epsilon, seed, count=2000):
    """Answers that give each record's coin away with exactly ``epsilon``, by randomised response."""
    rng = np.random.default_rng(seed)
    coins = rng.random(count) < 0.5
    told = coins ^ (rng.random(count) > np.exp(epsilon) / (1 + np.exp(epsilon)))
    sure = np.where(told, 0.9, 0.6) + rng.uniform(0, 0.05, count)
    answers = Predictions(np.column_stack([sure, 1 - sure]), np.zeros(count, dtype=int))
    return answers.rows(coins), answers.rows(~coins)


def bound_at_zero(members, nonmembers):
    """A lower bound on ε at δ = 0 with a confidence of 0.99."""
    game = OneRun.played(members, nonmembers)
    return one_run_bound(game.correct, game.guesses, game.canaries, delta=0.0).epsilon


def test_one_run_with_fair_coins_bounds_epsilon():
    """A mechanism of ε = 2 exactly: the bound exceeds 2 in at most 1% of 200 runs (false-alarm rate 1e-6)."""
    bounds = [bound_at_zero(*coin_world(2.0, seed)) for seed in range(200)]
    assert np.sum(np.array(bounds) > 2.0) <= binom.isf(1e-6, 200, 0.01)
    assert np.median(bounds) > 1.0
    assert 1.0 < OneRun.played(*coin_world(4.0, 0, 600)).bound() < 4.0
    silent = [bound_at_zero(*coin_world(0.0, seed)) for seed in range(200)]
    assert np.sum(np.array(silent) > 0.0) <= binom.isf(1e-6, 200, 0.01)


def test_only_the_order_of_the_logits_matters():
    """A model that is unsure or wrong about all canaries gives away as much as one that is sure."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(0, 1, 400), np.zeros(200, dtype=int)
    logits[:200] += 1.0
    found = [
        OneRun.played(
            *(
                Predictions.from_logits(np.column_stack([half + shift, np.zeros(200)]), labels)
                for half in (logits[:200], logits[200:])
            )
        )
        for shift in (0.0, -8.0, 8.0)
    ]
    assert found[0] == found[1] == found[2]
    assert found[0].correct > 0.6 * found[0].guesses


def test_equal_answers_give_nothing_away_whatever_their_order():
    """All scores tied: the guesses must not follow the order in which the groups are given.

    Guesses are fair coins then, and a share beyond 0.5 ± 0.2 has probability below 1e-6 in 175 of them.
    """
    answers = Predictions(np.tile([0.6, 0.4], (2000, 1)), np.zeros(2000, dtype=int))
    found = OneRun.played(answers.rows(np.arange(1000)), answers.rows(np.arange(1000, 2000)))
    assert abs(found.correct / found.guesses - 0.5) < 0.2
    assert found.bound() == 0.0
