"""Anchors: the densest records of each class, by hand, and the records they are chosen among."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.learners.compact.class_densities import ClassDensities
from sfumato.learners.compact.compact_classifier import choose_anchors, draw_references

# Class 0: three together, one nearby, one far. Class 1 the other way round, far from class 0.
POINTS = np.array([[0.0], [0.1], [0.2], [0.6], [5.0], [20.0], [14.5], [14.9], [15.0], [15.1]])
LABELS = np.repeat([0, 1], 5)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1.0, range(10)),
        (0.75, [0, 1, 2, 3, 6, 7, 8, 9]),  # the least dense one is left out
        (0.5, [0, 1, 2, 7, 8, 9]),  # the median and what is above it
        (1e-9, [2, 7]),  # the densest of each class: of three together the one that has a fourth nearby
    ],
)
def test_anchors_are_the_densest_of_each_class(share, expected) -> None:
    densities = ClassDensities(POINTS, LABELS, 2, bandwidth=0.3)
    np.testing.assert_array_equal(choose_anchors(densities, share=share), list(expected))


def test_anchors_stand_above_the_quantile_of_densities_themselves() -> None:
    rng = np.random.default_rng(2)
    points, labels = rng.normal(size=(300, 3)), np.arange(300) % 3
    densities = ClassDensities(points, labels, 3)
    chosen = choose_anchors(densities, share=0.3)
    for kind in range(3):
        own = np.flatnonzero(labels == kind)
        plain = np.exp(densities.log_density(points[own], kind))
        np.testing.assert_array_equal(own[plain >= np.quantile(plain, 0.7)], chosen[labels[chosen] == kind])


def test_references_are_drawn_from_each_class() -> None:
    labels = np.repeat([0, 1], [50, 8])
    chosen = draw_references(labels, 2, 10, sf.Seeded(1).stream(b"references"))
    assert np.bincount(labels[chosen]).tolist() == [10, 8]
    assert len(set(chosen.tolist())) == 18
    other = draw_references(labels, 2, 10, sf.Seeded(2).stream(b"references"))
    assert not np.array_equal(chosen, other)
    everyone = draw_references(labels, 2, None, sf.Seeded(1).stream(b"references"))
    np.testing.assert_array_equal(everyone, np.arange(58))


def test_bad_parameters_are_refused() -> None:
    densities = ClassDensities(POINTS, LABELS, 2, bandwidth=0.3)
    with pytest.raises(BadInput, match=r"`share` was 1\.5"):
        choose_anchors(densities, share=1.5)
    with pytest.raises(BadInput, match="`share` must be a positive number"):
        choose_anchors(densities, share=0.0)
    with pytest.raises(BadInput, match="`references` was 1: a whole number, 2 or more"):
        draw_references(LABELS, 2, 1, sf.Seeded(1).stream(b"references"))
