import copy
import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest
from skimage import data
from sklearn.metrics import roc_auc_score

from people_photos import FACE, astronaut, photographs
from sfumato.errors import BadInput
from sfumato.media.detect import Detector, Faces, Plates, Saliency, Text, named_detectors
from sfumato.media.detect.detectors import DETECTORS, looks_personal
from sfumato.media.images import ContentAdaptive
from sfumato.media.images.sensitivity_map import SensitivityMap
from sfumato.media.images.tiles import edges, tile_grid, tiles_of

cv2 = pytest.importorskip("cv2")

# One thread imports OpenCV, and two others ask for it until it has done so.
RACE = """
import sys, threading
from sfumato.media.detect.detectors import open_cv
sys.setswitchinterval(1e-4)
whole, done = [], threading.Event()
def first():
    whole.append(hasattr(open_cv(), "data"))
    done.set()
def others():
    while not done.is_set():
        whole.append(hasattr(open_cv(), "data"))
threads = [threading.Thread(target=work) for work in (first, others, others)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(0 if all(whole) else 5)
"""


def sign(words, *, plate=False):
    """A picture (240, 420, 3) with ``words`` on a pale board, or on a plate in a dark surround."""
    rng = np.random.default_rng(0)
    picture = cv2.GaussianBlur(np.clip(rng.normal(90, 8, (240, 420)), 0, 255).astype(np.uint8), (5, 5), 2)
    if plate:
        cv2.rectangle(picture, (70, 60), (320, 182), 60, -1)
    cv2.rectangle(picture, (100, 100), (290 if plate else 400, 142), 235, -1)
    cv2.putText(picture, words, (108, 133), cv2.FONT_HERSHEY_DUPLEX, 1.1, 15, 2, cv2.LINE_AA)
    return np.repeat(picture[..., None], 3, axis=2)


def overlaps(box, other):
    x, y, w, h = box[:4]
    a, b, c, d = other[:4]
    return x < a + c and a < x + w and y < b + d and b < y + h


def test_threads_that_import_opencv_at_the_same_time_all_get_the_whole_of_it():
    running = [subprocess.Popen([sys.executable, "-c", RACE]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]


def test_what_a_detector_lacks_is_said_when_the_mechanism_is_prepared_and_not_when_it_draws(monkeypatch):
    monkeypatch.setattr("cv2.data.haarcascades", "")
    seeks = ContentAdaptive(map="private", detectors=("faces",), shape=(64, 64, 3), epsilon=4.0)
    with pytest.raises(BadInput, match="this OpenCV carries no cascades"):
        seeks.prepare(64 * 64 * 3, np.dtype(np.uint8))
    declared = SensitivityMap.from_array(np.zeros((1, 1)))
    ContentAdaptive(declared=declared, shape=(64, 64, 3), epsilon=4.0).prepare(
        64 * 64 * 3, np.dtype(np.uint8)
    )


def test_a_face_is_found_where_it_is():
    found = Faces().boxes(data.astronaut())
    assert len(found) == 1
    x, y, w, h, confidence = found[0]
    assert FACE[0] <= x + w / 2 <= FACE[0] + FACE[2]
    assert FACE[1] <= y + h / 2 <= FACE[1] + FACE[3]
    assert confidence > 0.5
    assert Faces().boxes(data.brick()) == []


def test_tiles_with_faces_score_above_tiles_without():
    """The 200 tiles of 25×25 pixels that scikit-image ships, half of them faces: the area is above 0.9."""
    tiles = data.lfw_subset()[..., None]
    scores = Faces().scores(tiles)
    assert scores.min() >= 0.0
    assert scores.max() <= 1.0
    assert roc_auc_score(np.repeat([1, 0], 100), scores) > 0.9


def test_a_licence_plate_is_found_where_it_is():
    found = Plates().boxes(sign("A123BC77", plate=True))
    assert any(overlaps(box, (100, 100, 190, 42)) and box[4] > 0.5 for box in found)
    assert Plates().boxes(np.full((200, 300), 90, dtype=np.uint8)) == []


def test_lines_of_print_are_found_by_their_strokes():
    lines = Text("strokes").boxes(data.page())
    assert len(lines) >= 5
    assert all(box[2] > 2 * box[3] and 0.0 < box[4] <= 1.0 for box in lines)
    assert Text("strokes").boxes(data.brick()) == []
    assert Text("strokes").boxes(data.grass()) == []


def test_tiles_of_print_score_above_tiles_of_other_pictures():
    """32×32 tiles of a page that hold ink, against those of seven pictures without text: area above 0.85."""

    def tiles(picture):
        cut = tiles_of(picture.reshape(1, *picture.shape[:2], -1), 32)
        return cut.reshape(-1, *cut.shape[3:])

    page = tiles(data.page())
    page = page[page.std(axis=(1, 2, 3)) > 20]
    others = [
        data.brick(),
        data.grass(),
        data.gravel(),
        data.camera(),
        data.coins(),
        data.moon(),
        data.cell(),
    ]
    scores = [Text("strokes").scores(each) for each in (page, *(tiles(picture) for picture in others))]
    labels = np.repeat([1, 0], [len(scores[0]), sum(map(len, scores[1:]))])
    assert roc_auc_score(labels, np.concatenate(scores)) > 0.85


@pytest.mark.parametrize(
    ("line", "personal"),
    [
        ("ada@example.org", True),
        ("+49 30 1234567", True),
        ("12.03.1984", True),
        ("B-MW 1234", True),
        ("A123BC77", True),
        ("XY 42", True),
        ("Keep left", False),
        ("EXIT", False),
        ("Room 12", False),
        ("42", False),
        ("", False),
    ],
)
def test_which_lines_look_personal(line, personal):
    assert looks_personal(line) is personal


def test_reading_raises_the_score_of_personal_lines_and_keeps_silent(caplog, capsys):
    pytest.importorskip("rapidocr")
    reader = Text("rapidocr")
    with caplog.at_level(logging.DEBUG):
        personal, plain = reader.boxes(sign("A123BC77")), reader.boxes(sign("Keep left"))
    assert max(box[4] for box in personal) == 1.0
    assert 0.0 < max(box[4] for box in plain) <= 0.5
    assert all(overlaps(box, (100, 100, 300, 42)) for box in personal + plain)
    said = caplog.text + "".join(capsys.readouterr())
    assert "A123" not in said
    assert "Keep" not in said
    assert reader.boxes(np.full((64, 64), 200, dtype=np.uint8)) == []


@pytest.mark.parametrize("name", [*DETECTORS])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float64", "grey", "alpha"])
def test_a_changed_tile_changes_its_own_score_alone(name, kind):
    picture = astronaut()[:120, 40:190]
    if kind == "uint16":
        picture = picture.astype(np.uint16) * 257
    elif kind == "float64":
        picture = picture / 255.0
    elif kind == "grey":
        picture = picture[..., :1]
    elif kind == "alpha":
        picture = np.concatenate([picture, picture[..., :1]], axis=-1)
    detector = named_detectors(name)[0]
    rows, cols = tile_grid(*picture.shape[:2], 48)
    down, across = edges(picture.shape[0], rows), edges(picture.shape[1], cols)
    before = detector.tile_scores(picture[None], 48)[0]
    assert before.shape == (rows, cols)
    rng = np.random.default_rng(1)
    for row, col in ((0, 0), (1, 1), (rows - 1, cols - 1)):
        other = picture.copy()
        inside = other[down[row] : down[row + 1], across[col] : across[col + 1]]
        inside[...] = rng.permutation(inside.ravel()).reshape(inside.shape)
        after = detector.tile_scores(np.stack([np.zeros_like(other), other]), 48)[1]
        kept = np.ones((rows, cols), dtype=bool)
        kept[row, col] = False
        assert np.array_equal(after[kept], before[kept])
        assert ((after >= 0.0) & (after <= 1.0)).all()


def test_plain_tiles_score_nothing():
    plain = np.full((1, 96, 96, 3), 120, dtype=np.uint8)
    for detector in named_detectors(DETECTORS):
        assert detector.tile_scores(plain, 32).max() == 0.0


def test_a_score_that_is_no_number_counts_as_the_largest():
    class Lost(Detector):
        factor = "identity"

        def boxes(self, picture):
            return []

        def scores(self, tiles):
            return np.full(len(tiles), np.nan)

    assert Lost().tile_scores(np.zeros((1, 8, 8, 1), dtype=np.uint8), 4).min() == 1.0


def test_saliency_covers_the_whole_picture_once():
    picture = astronaut()
    boxes = Saliency().boxes(picture)
    assert sum(box[2] * box[3] for box in boxes) == picture.shape[0] * picture.shape[1]
    assert 0.0 <= min(box[4] for box in boxes) <= max(box[4] for box in boxes) <= 1.0


def test_maps_of_pictures_are_private_whole_or_tile_by_tile():
    picture = data.astronaut()
    whole = SensitivityMap.from_picture(picture, [Faces(), Saliency()], tile=64, alone=False)
    tiles = SensitivityMap.from_picture(picture, [Faces(), Saliency()], tile=128)
    assert whole.private
    assert tiles.private
    assert set(whole.factors) == {"identity", "behaviour"}
    assert whole.factors["identity"][1, 3] > 0.5
    assert whole.factors["identity"][6:].max() == 0.0


@pytest.mark.parametrize("chosen", [[], ["ears"], [3], [["faces"]]])
def test_detectors_that_do_not_exist_are_refused(chosen):
    with pytest.raises(BadInput, match="`detectors` must be among"):
        named_detectors(chosen)


@pytest.mark.parametrize("name", [*DETECTORS])
def test_detectors_can_be_copied_and_sent_to_other_processes(name):
    detector = named_detectors(name)[0]
    tiles = tiles_of(astronaut()[None], 56)[0, 0]
    scores = detector.scores(tiles)
    for other in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        assert other.name == detector.name
        assert np.array_equal(other.scores(tiles), scores)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(BadInput, match=r"sfumato\[media\]"):
        Faces().boxes(data.astronaut())


def test_readers_that_do_not_exist_are_refused():
    with pytest.raises(BadInput, match="`reader` must be one of"):
        Text("eyes")


def test_faces_in_photographs_lie_in_the_upper_part_of_people():
    """Of what is found in 20 photographs with people, two thirds lie where a person's head may be."""
    inside = found = 0
    for _, picture, boxes in photographs(20):
        people = [box["bbox_xywh"] for box in boxes if box["category"] == "person"]
        for x, y, w, h, _ in Faces().boxes(picture):
            found += 1
            inside += any(a <= x + w / 2 <= a + c and b <= y + h / 2 <= b + 0.6 * d for a, b, c, d in people)
    assert found >= 5
    assert inside >= 2 * found / 3
