"""Attacks find what a classifier learned by heart, and nothing where there is nothing to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from sfumato_reproductions.curvature_publication.candidates import AS_THE_PAPER, MATCHED, Success
from sfumato_reproductions.curvature_publication.imbalance import Imbalanced, Part
from sfumato_reproductions.curvature_publication.measured import Measured, Proven, picked
from sfumato_reproductions.curvature_publication.protocol import Run
from sfumato_reproductions.curvature_publication.results import Results
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.proportions import interval

pytest.importorskip("torch")

from sfumato_reproductions.curvature_publication.downstream import learn
from sfumato_reproductions.curvature_publication.membership import (
    ART,
    LOSS,
    NEAREST,
    TAIL,
    attack_all,
    right_about,
)


@pytest.fixture(scope="module")
def noisy() -> Imbalanced:
    """Pictures and labels without any rule: whatever a classifier knows of them it knows by heart."""
    rng = np.random.default_rng(0)

    def part(rows: int) -> Part:
        labels = np.arange(rows, dtype=np.int64) % 4
        return Part((rng.random((rows, 8, 8)) * 255.0).astype(np.float32), labels)

    return Imbalanced("noise", part(400), part(400), part(40), 4, (3,))


@pytest.fixture(scope="module")
def by_heart(noisy):
    return learn(noisy.private, 4, passes=120, seed=0)


def test_learning_is_told_and_the_same_again(noisy) -> None:
    import torch

    state = torch.random.get_rng_state()
    shares: list[float] = []
    first = learn(noisy.public, 4, passes=3, seed=5, report=shares.append)
    again = learn(noisy.public, 4, passes=3, seed=5)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert (
        first.predictions(noisy.tests).probabilities == again.predictions(noisy.tests).probabilities
    ).all()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.parameters == sum(values.numel() for values in first.model.parameters())
    assert first.features(noisy.public.pictures).shape == (40, 256)
    assert first.probabilities(noisy.public.pictures).sum(axis=1) == pytest.approx(1.0)


def test_what_is_known_by_heart_is_found(noisy, by_heart) -> None:
    assert by_heart.accuracy(noisy.private) > 0.99
    assert by_heart.accuracy(noisy.tests) < 0.5
    assert by_heart.accuracy(noisy.private, (3,)) > 0.99
    state = np.random.get_state()[1].copy()
    found = attack_all(noisy, by_heart, noisy.private, attacked=400, seed=0)
    assert (np.random.get_state()[1] == state).all()
    for protocol in (AS_THE_PAPER, MATCHED):
        assert found[f"{LOSS}, {protocol}"].asked == {AS_THE_PAPER: 400, MATCHED: 800}[protocol]
        assert found[f"{LOSS}, {protocol}"].rate > 0.85
    assert found[f"{NEAREST}, {MATCHED}"].rate == 1.0
    assert found[f"{LOSS}, {MATCHED}, {TAIL}"].asked == 200
    pytest.importorskip("art")
    for protocol in (AS_THE_PAPER, MATCHED):
        assert found[f"{ART}, {protocol}"].rate > 0.8


def test_a_classifier_that_saw_other_pictures_gives_nothing_away(noisy) -> None:
    """False-alarm rate 1e-6 for each of three attacks: a fair coin leaves its Clopper–Pearson interval."""
    rng = np.random.default_rng(1)
    others = Part((rng.random((400, 8, 8)) * 255.0).astype(np.float32), noisy.private.labels)
    found = attack_all(noisy, learn(others, 4, passes=20, seed=0), others, attacked=400, seed=0, epochs=1)
    for attack in (f"{LOSS}, {AS_THE_PAPER}", f"{LOSS}, {MATCHED}", f"{NEAREST}, {MATCHED}"):
        success = found[attack]
        low, high = interval(success.right, success.asked, 1.0 - 1e-6)
        assert low <= 0.5 <= high


def test_who_was_asked_and_whether_rightly(noisy, by_heart) -> None:
    part, right, members = right_about(noisy, by_heart, MATCHED, attacked=400, seed=0)
    assert len(part) == len(right) == len(members) == 800
    assert members.sum() == 400
    own = {bytes(picture) for picture in noisy.private.pictures}
    assert [bytes(picture) in own for picture in part.pictures] == members.tolist()
    found = attack_all(noisy, by_heart, noisy.private, attacked=400, seed=0, epochs=1)
    assert right.mean() == found[f"{LOSS}, {MATCHED}"].rate


@pytest.fixture
def measured() -> Measured:
    return Measured(
        method="blur",
        published=3,
        learned=1.0,
        accuracy=0.9,
        tail_accuracy=0.8,
        membership={"some attack": Success(60, 100)},
        frechet=None,
        score=2.0,
        proven=Proven.of(None, 1e-5),
        seconds=1.5,
        learning=2.5,
        samples=np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
        right=np.array([True] * 60 + [False] * 40),
    )


def test_measures_are_recalled_only_for_what_they_depend_on(tmp_path, measured) -> None:
    memory = Memory(tmp_path / "kept")
    assert memory.recall("blur", {"seed": 0}) is None
    memory.keep("blur", {"seed": 0}, measured.kept())
    again = Measured.read(memory.recall("blur", {"seed": 0}))
    assert again.to_dict() == measured.to_dict()
    assert (again.samples == measured.samples).all()
    assert (again.right == measured.right).all()
    assert again.proven.epsilon == np.inf
    assert memory.recall("blur", {"seed": 1}) is None
    assert memory.recall("other", {"seed": 0}) is None
    (tmp_path / "kept" / "blur.json").write_text("{")
    assert memory.recall("blur", {"seed": 0}) is None


def test_samples_are_one_of_each_class_and_black_without_one() -> None:
    pictures = np.stack([np.full((2, 2), value) for value in (300.0, 10.4, -5.0)])
    shown = picked(pictures, np.array([2, 0, 2]), 3)
    assert shown[:, 0, 0].tolist() == [10, 0, 255]


def test_run_sizes_and_what_a_quick_one_is() -> None:
    full = Run.of(("mnist",), None, False)
    assert (full.head, full.seeds, full.quick) == (2_500, (0,), False)
    assert Run.of(("digits",), 2, True).seeds == (0, 1)


def test_one_data_set_leaks_more_than_another_by_the_sign_test(measured) -> None:
    other = replace(measured, right=np.array([False] * 20 + [True] * 45 + [False] * 35))
    results = Results(
        Run.of(("digits",), None, True), {}, {"digits": {"a": (measured,), "b": (other,)}}, {}, 0
    )
    assert results.leaks_more("digits", "a", "b") == (20, 5, pytest.approx(binomtest(20, 25).pvalue / 2))
    assert results.leaks_more("digits", "b", "a")[2] > 0.99
    assert results.leaks_more("digits", "a", "a") == (0, 0, 1.0)
