"""What is said before training, by every learner, once: δ of 1/n or more, and noise beyond any signal."""

import math
import warnings

import numpy as np
import pytest
import torch

from sfumato.audits import one_run_audit
from sfumato.errors import BadInput, Forewarning
from sfumato.learners import CertifiedCompact, PrivateSoftmax, fit_private
from sfumato.learners.compact import CompactClassifier, CompactPrivate
from sfumato.learners.learner import NoisyRelease, forewarnings
from sfumato.mechanisms import CellSums
from sfumato.noise import Seeded
from sfumato.privacy import Neighbours

X = np.random.default_rng(0).normal(size=(100, 8))
Y = np.arange(100) % 10
LEARNERS = {
    "softmax": lambda epsilon, delta: PrivateSoftmax(epsilon, delta, steps=5),
    "certified": lambda epsilon, delta: CertifiedCompact(epsilon, delta, steps=5),
    "compact": lambda epsilon, delta: CompactPrivate(epsilon, delta, epochs=1, steps=2, sampling=1.0),
}


def said_by(work):
    """The forewarnings of ``work``, and what it returns."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        done = work()
    return [item for item in found if issubclass(item.category, Forewarning)], done


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_a_large_delta_is_warned_of_once_at_the_call_and_noted_once(make):
    found, fitted = said_by(lambda: make(20.0, 0.01).fit(X, Y))
    (about,) = [item for item in found if "1/n" in str(item.message)]
    assert str(about.message).startswith("δ = 0.01 is not below 1/n for n = 100 records")
    assert "take a δ of 0.001 or less" in str(about.message)
    assert about.filename == __file__
    assert sum("1/n" in note for note in fitted.statement().notes) == 1
    found, fitted = said_by(lambda: make(20.0, 0.0099).fit(X, Y))
    assert not any("1/n" in str(item.message) for item in found)
    assert not any("1/n" in note for note in fitted.statement().notes)


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_noise_beyond_any_signal_is_warned_of_before_training(make):
    learner, told = make(0.1, 1e-5), []
    with warnings.catch_warnings():
        warnings.simplefilter("error", Forewarning)
        with pytest.raises(Forewarning, match="knows next to nothing"):
            learner.fit(X, Y, report=lambda stage, share: told.append(stage))
    assert told == []


def test_a_learner_in_fit_private_warns_once_too():
    found, fitted = said_by(lambda: fit_private(PrivateSoftmax(1e-3, 0.02, steps=5), X, Y))
    assert len(found) == 2
    assert len([note for note in fitted.statement.notes if "1/n" in note or "noise in" in note]) == 2


def test_twins_of_an_audit_are_silent():
    def audit():
        return one_run_audit(
            lambda: PrivateSoftmax(20.0, 0.02, steps=5, randomness=Seeded(0)), X, Y, canaries=100, delta=0.02
        )

    assert said_by(audit)[0] == []


def test_methods_without_noise_have_nothing_to_say():
    assert CompactClassifier().forewarnings(10, 3) == ()


@pytest.mark.parametrize(("neighbours", "twice"), [("zero-out", 1.0), ("replace", 2.0)])
def test_the_criterion_is_the_length_of_noise_over_the_longest_sum(neighbours, twice):
    """Of 330 weights; the number of steps, which all share one budget, makes no difference."""
    one, many = (
        PrivateSoftmax(1.0, 1e-5, classes=3, steps=steps, neighbours=neighbours).releases(200, 109)[0]
        for steps in (1, 50)
    )
    multiplier = PrivateSoftmax(1.0, 1e-5, steps=1)._multiplier()
    assert (one.signal, many.signal) == (200.0, 50 * 200.0)
    assert one.noise == pytest.approx(twice * multiplier * math.sqrt(330), rel=1e-9)
    assert many.noise / many.signal == pytest.approx(one.noise / one.signal, rel=1e-9)


def test_the_parts_of_the_certified_contraction_are_each_looked_at():
    """The lengths of noise that was drawn, seeded, within 5%; and the case of many features."""
    learner = CertifiedCompact(1.0, classes=4)
    of_anchors, of_moments, _ = learner._multipliers()
    sums, squares, gradients = learner.releases(500, 40)
    none = np.zeros((0, 40)), np.zeros(0, dtype=np.int64)
    anchors = CellSums(4, 1.0, False, Neighbours.ZERO_OUT)
    moments = CellSums(1, 1.0, True, Neighbours.ZERO_OUT)
    stream = Seeded(1).stream(b"s")
    firsts = [np.linalg.norm(anchors.release(*none, of_anchors, stream).firsts) for _ in range(50)]
    seconds = [np.linalg.norm(moments.release(*none, of_moments, stream).seconds) for _ in range(50)]
    assert sums.noise == pytest.approx(np.mean(firsts), rel=0.05)
    assert squares.noise == pytest.approx(np.mean(seconds), rel=0.05)
    assert (sums.signal, squares.signal, gradients.signal) == (500, 500, 200 * 500)
    alone = PrivateSoftmax(1.0, classes=4).releases(500, 40)[0]
    assert gradients.noise == pytest.approx(alone.noise / math.sqrt(1.0 - 0.04 - 0.2), rel=1e-9)
    wide = CertifiedCompact(1.0, 1e-5).forewarnings(2000, 1280)
    assert any("the noise in the second moment is 4.7 times as long" in sentence for sentence in wide)
    assert CertifiedCompact(1.0).forewarnings(60_000, 1000) == ()


def test_the_edge():
    even = NoisyRelease("a sum", "model", 1.0, 1.0)
    assert len(forewarnings(1.0, 1e-9, 10, [even])) == 1
    assert forewarnings(1.0, 0.0999, 10, [NoisyRelease("a sum", "model", 1.0, 0.999)]) == ()


def test_torch_modules_are_refused_where_learners_warn():
    with pytest.raises(BadInput, match="noise exceeds any signal"):
        fit_private(torch.nn.Linear(8, 10), X, Y, epsilon=0.01, steps=5)
