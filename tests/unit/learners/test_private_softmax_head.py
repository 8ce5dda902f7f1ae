"""Gradient sums of a linear classifier: whole numbers, bounded for each example, equal to Opacus's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from opacus import GradSampleModule

from sfumato.errors import BadInput
from sfumato.learners import private_softmax
from sfumato.learners.private_softmax import LinearHead
from sfumato.noise import Seeded

BOUND = 2**41
WEIGHTS = st.sampled_from([0.0, 1e-6, 1.0, 1e3, 1e30])


def made(count=40, width=6, classes=4, *, reach=1.0, clip=1.0, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, width)) * rng.uniform(0.01, 3.0, size=(count, 1)) / np.sqrt(width)
    labels = rng.integers(0, classes, count)
    return LinearHead(features, labels, classes, reach=reach, clip=clip), features, labels


@given(
    arrays(np.float64, (3, 5), elements=st.floats(-1e200, 1e200)),
    st.lists(st.integers(0, 2), min_size=3, max_size=3),
    WEIGHTS,
    st.sampled_from([1e-3, 1.0, 1e6]),
    st.sampled_from([1e-4, 0.5, 2.0, 1e5]),
)
def test_no_example_adds_more_than_the_bound(features, labels, weight, reach, clip) -> None:
    """Checked in Python's whole numbers, which do not round."""
    weights = weight * torch.from_numpy(np.random.default_rng(1).normal(size=(6, 3)))
    for row, label in zip(features, labels, strict=True):
        head = LinearHead(row[None], np.array([label]), 3, reach=reach, clip=clip)
        total = head.total(weights).numpy()
        assert sum(int(value) ** 2 for value in total.ravel()) <= BOUND**2


def test_the_bound_is_reached() -> None:
    head, *_ = made(1, clip=0.01)
    assert head.total(torch.zeros(head.shape)).double().norm() > 0.99999 * BOUND


@given(st.integers(0, 100), st.sampled_from([0.0, 2.0, 40.0]))
def test_the_total_is_the_sum_of_examples_to_the_last_bit(seed, weight) -> None:
    head, features, labels = made(seed=seed)
    weights = weight * torch.from_numpy(np.random.default_rng(seed).normal(size=head.shape))
    alone = [
        LinearHead(features[i : i + 1], labels[i : i + 1], 4, reach=1.0, clip=1.0).total(weights)
        for i in range(len(head))
    ]
    assert torch.equal(head.total(weights), torch.stack(alone).sum(dim=0))


@pytest.mark.parametrize("clip", [0.05, 0.7, 2.0])
def test_gradients_are_those_of_opacus_to_five_digits(clip) -> None:
    """From where every gradient is cut to where none is.

    The sum by its distance from Opacus's over the length of that; each example's own over the clip.
    """
    head, features, labels = made(200, 300, 10, clip=clip)
    weights = torch.from_numpy(np.random.default_rng(2).normal(size=head.shape))
    # What Opacus is given are the same features: scaled back to length 1, a constant first.
    scaled = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    rows = torch.from_numpy(np.concatenate([np.ones((200, 1)), scaled], axis=1))
    layer = torch.nn.Linear(head.shape[0], 10, bias=False).double()
    layer.weight.data = weights.T.clone()
    model = GradSampleModule(layer, loss_reduction="sum")
    torch.nn.functional.cross_entropy(model(rows), torch.from_numpy(labels), reduction="sum").backward()
    found = layer.weight.grad_sample
    theirs = found * torch.clamp(clip / found.flatten(1).norm(dim=1), max=1.0)[:, None, None]
    ours = torch.stack([head.total(weights, np.array([i])) for i in range(200)]).transpose(1, 2)
    apart = (ours * (clip / BOUND) - theirs).flatten(1).norm(dim=1)
    assert (apart <= 1e-5 * clip).all()
    total = theirs.sum(dim=0).T
    assert (head.total(weights) * (clip / BOUND) - total).norm() <= 1e-5 * total.norm()


@given(st.integers(0, 1000))
def test_neighbours_move_what_gets_the_noise_by_at_most_what_is_stated(seed) -> None:
    """Zero-out: the rounded sums are apart by L/2¹³ + √N at most, in Python's whole numbers."""
    head, *_ = made(seed=seed, clip=0.01)
    weights = torch.from_numpy(np.random.default_rng(seed).normal(size=head.shape))
    everybody = np.arange(len(head))
    with_it, without = (
        (head.total(weights, taken) + 2**12) >> 13 for taken in (everybody, np.delete(everybody, seed % 40))
    )
    apart = sum(int(value) ** 2 for value in (with_it - without).ravel())
    entries = head.shape[0] * head.shape[1]
    assert apart <= (2**28 + entries**0.5) ** 2


def test_the_noise_covers_the_rounding_of_the_sum(monkeypatch) -> None:
    """√N is too small to be seen in draws, so what is asked of the sampler is looked at."""
    asked = []

    class Watched(private_softmax.Rounded):
        def __init__(self, law, scales):
            asked.extend(scales)
            super().__init__(law, scales)

    monkeypatch.setattr(private_softmax, "Rounded", Watched)
    head = LinearHead(np.zeros((1, 4_999)), np.array([0]), 2, reach=1.0, clip=1.0)
    head.noisy(torch.zeros(head.shape), 0.5, Seeded(5).stream(b"a"))
    assert 0.0 <= asked[0] - 0.5 * (2**28 + 100.0) < 1e-6


def test_noise_is_added_in_the_units_of_gradients_and_repeats_with_a_seed() -> None:
    head, *_ = made()
    weights = torch.zeros(head.shape)
    once, again = (head.noisy(weights, 1e-9, Seeded(1).stream(b"a")) for _ in range(2))
    assert torch.equal(once, again)
    torch.testing.assert_close(once, head.total(weights).double() / BOUND, atol=1e-7, rtol=0.0)
    assert not torch.equal(once, head.noisy(weights, 1e-9, Seeded(2).stream(b"a")))


def test_too_many_examples_are_refused() -> None:
    with pytest.raises(BadInput, match="sums are exact below"):
        LinearHead(np.zeros((1 << 22, 1)), np.zeros(1 << 22, dtype=int), 2, reach=1.0, clip=1.0)
