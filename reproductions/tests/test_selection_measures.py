"""Measures of selective noise: coverage, precision, recall, and what is shown."""

import math

import numpy as np
import pytest

from people_photos import FACE, astronaut, photographs
from sfumato.media.images import SelectiveNoise
from sfumato.noise import Seeded
from sfumato_reproductions.multimedia_dp.selection_measures import PUBLISHED_SELECTION, selection_measures

SHAPE = (112, 112, 3)
CHOOSING = ("gradient", "attention", "hybrid")
BOX = tuple(side / 4 for side in FACE)


def test_measures_of_a_choice_are_counted_in_pixels():
    picture = astronaut(112)
    made = SelectiveNoise(3.0, "gradient", attribution=lambda values: values[..., 0], coverage=0.5)
    found = selection_measures(made, picture, [BOX])
    chosen = made.chosen(picture[None], 255.0, [])[0]
    inside = np.zeros(SHAPE[:2], dtype=bool)
    x, y, w, h = BOX
    inside[math.floor(y) : math.ceil(y + h), math.floor(x) : math.ceil(x + w)] = True
    assert found.coverage == pytest.approx(0.5, abs=1e-4)
    assert found.precision == pytest.approx(inside[chosen].mean())
    assert found.recall == pytest.approx(chosen[inside].mean())
    assert found.shown == pytest.approx(1 - found.recall)
    assert 0.0 < found.retention < 1.0
    assert found.error > 0.0


def test_measures_without_sensitive_boxes_have_no_recall():
    found = selection_measures(SelectiveNoise(3.0, "uniform"), astronaut(112), [])
    assert math.isnan(found.recall)
    assert found.precision == 0.0
    plain = np.full((32, 32), 9, dtype=np.uint8)
    assert math.isnan(selection_measures(SelectiveNoise(3.0, "attention"), plain, [BOX]).precision)


def test_choices_in_photographs_keep_more_than_uniform_noise_and_show_what_is_sensitive():
    """Over 6 photographs with people: similarity rises, and a third of what is sensitive is shown."""
    measured = {
        strategy: [
            selection_measures(
                SelectiveNoise(3.0, strategy, randomness=Seeded(0)),
                picture[::2, ::2],
                [
                    tuple(side / 2 for side in box["bbox_xywh"])
                    for box in boxes
                    if box["category"] == "person"
                ],
            )
            for _, picture, boxes in photographs(6)
        ]
        for strategy in PUBLISHED_SELECTION
    }
    kept = {name: np.mean([each.retention for each in found]) for name, found in measured.items()}
    assert min(kept[name] for name in CHOOSING) > kept["random"] > kept["uniform"]
    for name in ("random", *CHOOSING):
        assert np.mean([each.shown for each in measured[name]]) > 1 / 3
