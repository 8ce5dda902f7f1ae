import json

import numpy as np
import pytest
from sklearn.base import clone

from people_photos import FACE, astronaut, photographs
from sfumato.errors import BadInput
from sfumato.media.detect import Detector
from sfumato.media.images.content_adaptive import ContentAdaptive
from sfumato.media.images.image_mechanism import white
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.sensitivity_map import SensitivityMap, annotated_map
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit

SHAPE = (224, 224, 3)
UNITS = [Unit("region", 16), Unit("pixels", 1), Unit("pixels", 16), Unit("item")]


class Bright(Detector):
    """A tile is as sensitive as it is bright; needs no extra."""

    factor = "identity"

    def boxes(self, picture):
        height, width = picture.shape[:2]
        return [(0.0, 0.0, float(width), float(height), float(self.scores(picture[None])[0]))]

    def scores(self, tiles):
        return tiles.mean(axis=(1, 2, 3)) / white(tiles.dtype)


@pytest.fixture
def face():
    boxes = {"identity": [tuple(side / 2 for side in FACE)]}
    return SensitivityMap.from_boxes(boxes, SHAPE, tile=16)


def public(made, **more):
    return ContentAdaptive(declared=made, block=8, **({"epsilon": 4.0, "shape": SHAPE} | more))


def private(**more):
    return ContentAdaptive(map="private", detectors=(Bright(),), **({"epsilon": 4.0, "shape": SHAPE} | more))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_public_map_proves_what_its_worst_placement_loses(face, delta):
    made = public(face, epsilon=4.0, delta=delta)
    shares = face.shares(4.0)
    uniform = PlaneMeans(4.0, delta, block=8, shape=SHAPE)
    adaptive = PlaneMeans(4.0, delta, block=8, shares=shares, shape=SHAPE)
    for unit in UNITS:
        proven = made.proven(unit, SHAPE)
        assert proven == adaptive.proven(unit, SHAPE)
        assert proven.epsilon() <= uniform.proven(unit, SHAPE).epsilon()
    assert made.guarantee().epsilon() == pytest.approx(4.0)
    assert made.proven(Unit("item"), SHAPE).epsilon() < uniform.proven(Unit("item"), SHAPE).epsilon()


def test_a_map_that_is_sensitive_everywhere_promises_more_than_was_asked():
    everywhere = SensitivityMap.from_array(np.ones((4, 4)))
    assert public(everywhere, epsilon=4.0).guarantee().epsilon() == pytest.approx(4.0 * 0.05)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_private_map_is_paid_for(delta):
    made = private(epsilon=4.0, delta=delta, map_share=0.25)
    rest = PlaneMeans(3.0, delta, shape=SHAPE)
    for unit in UNITS:
        proven = made.proven(unit, SHAPE)
        parts = made.private_map().proven(unit, SHAPE), rest.proven(unit, SHAPE)
        assert proven.epsilon() <= sum(part.epsilon() for part in parts) * (1 + 1e-9)
        assert proven.epsilon() > max(part.epsilon() for part in parts)
    assert made.guarantee().epsilon() <= 4.0
    if not delta:
        assert made.guarantee().epsilon() == pytest.approx(4.0)


def test_the_guarantee_of_a_private_map_does_not_depend_on_the_picture():
    made = private(epsilon=4.0)
    before = made.statement().to_dict()
    made.release(astronaut())
    assert made.statement().to_dict() == before
    # Whatever a map says, no place gets more than what was paid for.
    for scores in (np.zeros((4, 4)), np.ones((4, 4)), np.eye(4)):
        assert made._shares(SensitivityMap.from_array(scores)).max() <= 1.0


def test_an_unaccounted_map_proves_nothing_and_says_why(face):
    for made in (
        ContentAdaptive(map="unaccounted", detectors=(Bright(),), shape=SHAPE, epsilon=4.0),
        ContentAdaptive(map="unaccounted", declared=face, shape=SHAPE, epsilon=4.0),
    ):
        assert made.guarantee().proves_nothing
        assert "not paid for" in made.guarantee().theorem
        assert all(each.proves_nothing for each in made.statement().also_proven)
        assert made.release(astronaut()).value.shape == SHAPE


def test_a_map_of_a_picture_is_not_public():
    seen = SensitivityMap.from_picture(astronaut(), [Bright()])
    with pytest.raises(BadInput, match="it is not public"):
        public(seen).guarantee()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"map": "open"}, "`map` must be one of"),
        ({"map": "public"}, "needs a declared map"),
        ({"map": "private", "declared": [[0.5]]}, "leave out `declared`"),
        ({"map": "private", "map_share": 1.0}, "strictly between 0 and 1"),
        ({"map": "private", "tile": 0}, "whole number of pixels"),
        ({"map": "public", "declared": [[0.5]], "low": 0.0}, "infinitely noisy"),
        ({"map": "private", "low": 1e-7}, "infinitely noisy"),
        ({"map": "private", "reserve": 1.5}, "between 0 and 1"),
        ({"map": "public", "declared": [[2.0]]}, "scores from 0 to 1"),
        ({"map": "public", "declared": [[0.5]], "epsilon": -1.0}, "positive"),
        ({"map": "public", "declared": [[0.5]], "unit": "frame"}, "pictures have the units"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong, word):
    with pytest.raises(BadInput, match=word):
        ContentAdaptive(**({"epsilon": 4.0, "shape": SHAPE} | wrong)).guarantee()


def test_unknown_detectors_are_refused_before_a_statement_is_made():
    with pytest.raises(BadInput, match="`detectors` must be among"):
        ContentAdaptive(map="private", detectors=("ears",), shape=SHAPE, epsilon=4.0).statement()


def test_inside_the_sensitive_area_less_is_lost(face):
    made = public(face, epsilon=4.0)
    inside = made.inside("region(16)")
    assert inside.epsilon() == pytest.approx(4.0 * 0.05)
    # A place that scores 0 or more is any place.
    assert made.inside("region(16)", score=0.0).epsilon() == pytest.approx(4.0)
    assert made.inside("item") is None
    assert any("region(16) inside tiles" in note and "ε=0.2" in note for note in made.statement().notes)
    nobody = public(SensitivityMap.from_array(np.zeros((4, 4))), epsilon=4.0)
    assert nobody.inside("region(16)") is None
    assert nobody.statement().notes == ()
    assert private().inside("region(16)") is None
    noisy = public(face, epsilon=4.0, delta=1e-6).inside("region(16)")
    assert noisy.at_delta == 1e-6
    assert noisy.epsilon() < 0.5


@pytest.mark.parametrize("block", [None, 5, 16])
def test_inside_an_area_the_bound_is_that_of_every_placement_there(block):
    """Losses of black against white at each placement inside the area, from the noise's own scales."""
    shape = (60, 44, 1)
    scores = np.zeros((6, 4))
    scores[2:4, 1:3] = 1.0
    made = ContentAdaptive(4.0, declared=scores, unit="region(6)", block=block, shape=shape)
    design = made._means(1.0, made._declared_shares()).design(shape)
    scale = np.broadcast_to(design.scales[0], design.blocks.grid(0))
    side = design.blocks.luma
    loss = np.repeat(np.repeat(1.0 / scale, side, axis=0), side, axis=1)[:60, :44]
    worst = max(loss[y : y + 6, x : x + 6].sum() for y in range(20, 40 - 5) for x in range(11, 33 - 5))
    proven = made.inside("region(6)").epsilon()
    assert worst <= proven * (1 + 1e-9)
    assert proven <= 4.0


def test_noise_is_stronger_where_the_map_says_so(face):
    """100 releases of grey: deviations inside and outside differ as the shares do, within 20%."""
    grey = np.full((100, 224, 224, 1), 0.5)
    made = ContentAdaptive(
        40.0, declared=face, block=8, restore="none", shape=(224, 224, 1), randomness=Seeded(3)
    )
    means = made._means(1.0, made._declared_shares())
    moved = means.soften(grey, 1.0, 0)[..., 0] - 0.5
    inside = moved[:, 40:72, 100:124].std()
    outside = moved[:, 150:200, 20:200].std()
    shares = face.shares(40.0)
    assert shares.max() > 3 * shares.min()
    assert inside / outside == pytest.approx(shares.max() / shares.min(), rel=0.2)


@pytest.mark.parametrize("kind", ["public", "private", "unaccounted"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64", "grey", "alpha"])
def test_pictures_come_back_as_they_went_in(kind, dtype, face):
    picture = astronaut(112)
    if dtype == "uint16":
        picture = picture.astype(np.uint16) * 257
    elif dtype == "float64":
        picture = picture / 255.0
    elif dtype == "grey":
        picture = picture[..., 0]
    elif dtype == "alpha":
        picture = np.concatenate([picture, picture[..., :1]], axis=-1)
    before = picture.copy()
    more = {"declared": face} if kind == "public" else {"detectors": (Bright(),)}
    released = ContentAdaptive(4.0, map=kind, **more).release(picture)
    assert released.value.shape == picture.shape
    assert released.value.dtype == picture.dtype
    assert np.array_equal(picture, before)
    assert not np.array_equal(released.value, picture)


def test_several_pictures_follow_a_map_each():
    pictures = np.stack([np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 255, np.uint8)])
    made = ContentAdaptive(
        1e6, map="private", detectors=(Bright(),), tile=32, shape=(64, 64, 3), randomness=Seeded(0)
    )
    dark, bright = made.maps(pictures)
    assert dark.scores.max() < 0.1
    assert bright.scores.min() > 0.9
    assert not dark.private
    assert made.release(pictures).value.shape == pictures.shape


@pytest.mark.parametrize("kind", ["public", "private", "unaccounted"])
def test_seeded_and_keyed_releases_repeat(kind, face):
    pictures = np.stack([astronaut(112), astronaut(112)[::-1]])
    more = {"declared": face} if kind == "public" else {"detectors": (Bright(),)}

    def released(source):
        return ContentAdaptive(4.0, map=kind, randomness=source, **more).release(pictures).value

    def key(release):
        return Keyed(b"k" * 32, dataset="album", version="1", release=release)

    assert np.array_equal(released(Seeded(1)), released(Seeded(1)))
    assert not np.array_equal(released(Seeded(1)), released(Seeded(2)))
    assert np.array_equal(released(key("a")), released(key("a")))
    assert not np.array_equal(released(key("a")), released(key("b")))


def test_a_statement_holds_everything_that_shapes_the_bytes(face):
    parameters = public(face).statement().parameters
    assert face.digest() in parameters["declared"]
    assert parameters["detectors"] == []
    assert parameters["map"] == "public"
    json.dumps(parameters)
    other = SensitivityMap.from_array(np.eye(5))
    assert public(other).parameters()["declared"] != parameters["declared"]
    seen = private(weights=(1.0, 0.0, 0.0, 0.0)).parameters()
    assert seen["detectors"] == ["bright"]
    assert seen["weights"]["identity"] == 1.0
    assert "38.7%" in public(face).claim().text
    assert "Table 1" in public(face).claim().source


def test_a_mechanism_can_be_cloned_with_its_map_and_detectors(face):
    for made in (public(face), private()):
        assert clone(made).statement().to_dict() == made.statement().to_dict()


def test_expected_errors_are_those_of_the_noise(face):
    columns = 224 * 224 * 3
    assert (
        public(face).expected_error(columns)[0].value
        > PlaneMeans(block=8, shape=SHAPE, epsilon=4.0).expected_error(columns)[0].value
    )
    assert private(epsilon=4.0).expected_error(columns) == PlaneMeans(0.8 * 4.0, shape=SHAPE).expected_error(
        columns
    )


def test_people_of_a_photograph_are_hidden_more_than_the_rest():
    """The mean squared error is half as large again inside people, for maps from published boxes."""
    inside, outside = [], []
    for _, picture, boxes in photographs(6):
        made = annotated_map(boxes, picture.shape, tile=16, factors=("identity",))
        released = ContentAdaptive(40.0, declared=made, randomness=Seeded(5)).release(picture).value
        hidden = made.picture(picture.shape)[..., 0] > 200
        error = np.square(released.astype(float) - picture).mean(axis=2)
        if hidden.any() and not hidden.all():
            inside.append(error[hidden].mean())
            outside.append(error[~hidden].mean())
    assert np.mean(inside) > 1.5 * np.mean(outside)
