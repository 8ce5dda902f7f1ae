import sys

import numpy as np
import pytest
from skimage import data
from sklearn.metrics import roc_auc_score

from people_photos import astronaut, photographs
from sfumato.errors import BadInput
from sfumato.media.images import annotated_map, tiles_of
from sfumato_reproductions.multimedia_dp.learned_scorer import (
    DIMENSIONS,
    Learned,
    SensitivityScorer,
    tile_embedding,
)

torch = pytest.importorskip("torch")
TILE = 64


@pytest.fixture(scope="module")
def faces():
    """Embeddings of scikit-image's 100 faces and 100 other tiles, and which are faces; shuffled."""
    order = np.random.default_rng(0).permutation(200)
    return tile_embedding(data.lfw_subset()[..., None])[order], np.repeat([1.0, 0.0], 100)[order]


@pytest.fixture(scope="module")
def trained(faces):
    embedded, scores = faces
    return SensitivityScorer(epochs=20, batch=50).fit(embedded[:120], scores[:120])


def test_an_embedding_is_of_each_tile_alone():
    cut = tiles_of(astronaut()[None], TILE)[0].reshape(-1, 56, 56, 3)
    embedded = tile_embedding(cut)
    assert embedded.shape == (16, DIMENSIONS)
    assert np.isfinite(embedded).all()
    other = cut.copy()
    other[3] = 0
    kept = np.arange(16) != 3
    assert np.array_equal(tile_embedding(other)[kept], embedded[kept])
    assert not np.array_equal(tile_embedding(other)[3], embedded[3])
    assert np.allclose(tile_embedding(cut / 255.0), embedded)
    assert tile_embedding(cut[:, :3, :2]).shape == (16, DIMENSIONS)


def test_the_network_has_the_layers_of_the_paper(trained):
    sizes = [tuple(each.shape) for each in trained._network.parameters() if each.ndim == 2]
    assert sizes == [(512, DIMENSIONS), (256, 512), (128, 256), (1, 128)]


def test_faces_are_told_from_other_tiles(trained, faces):
    embedded, scores = faces
    assert roc_auc_score(scores[120:], trained.scores(embedded[120:])) > 0.9


def test_doubt_raises_the_score(trained, faces):
    embedded = faces[0]
    mean, deviation = trained.predict(embedded)
    assert deviation.max() > 0.01
    assert np.allclose(trained.scores(embedded), np.minimum(mean + deviation, 1.0))
    bolder = SensitivityScorer(epochs=20, batch=50, caution=0).fit(embedded[:120], faces[1][:120])
    assert np.array_equal(bolder.scores(embedded), mean)


def test_training_and_scoring_are_reproducible(trained, faces):
    embedded, scores = faces
    state = torch.random.get_rng_state()
    again = SensitivityScorer(epochs=20, batch=50).fit(embedded[:120], scores[:120])
    assert again.digest() == trained.digest()
    assert np.array_equal(again.scores(embedded), trained.scores(embedded))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert SensitivityScorer(epochs=2, batch=50).fit(embedded, scores).digest() != trained.digest()


def test_the_update_as_printed_forgets_its_parameters(faces):
    """θ ← 0.99·θ + 0.01·∇L: after 300 steps below 5% of the start is left, and nothing was learned."""
    embedded, scores = faces
    start = SensitivityScorer(update="paper", beta=0.999999999, epochs=1, batch=200).fit(embedded, scores)
    printed = SensitivityScorer(update="paper", epochs=150, batch=100).fit(embedded, scores)
    norms = [
        max(float(each.detach().abs().max()) for each in made._network.parameters())
        for made in (start, printed)
    ]
    assert norms[1] < 0.1 * norms[0]
    mean, _ = printed.predict(embedded)
    assert np.ptp(mean) < 0.05


@pytest.mark.parametrize(
    ("embedded", "scores", "word"),
    [
        (np.zeros((3, 2)), [0.0, 1.0], "as many scores"),
        (np.zeros((2, 2)), [0.0, 0.0], "must not all be the same"),
        (np.zeros((2, 2)), [0.0, 2.0], "between 0 and 1"),
        (np.full((2, 2), np.nan), [0.0, 1.0], "finite"),
        (np.zeros(4), [0.0, 1.0], "array"),
    ],
)
def test_annotations_that_teach_nothing_are_refused(embedded, scores, word):
    with pytest.raises(BadInput, match=word):
        SensitivityScorer().fit(embedded, scores)


@pytest.mark.parametrize(
    "wrong", [{"update": "momentum"}, {"beta": 1.0}, {"dropout": 1.5}, {"epochs": 0}, {"caution": -1.0}]
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(BadInput):
        SensitivityScorer(**wrong)


def test_scores_need_training_and_the_features_of_the_training(trained):
    with pytest.raises(BadInput, match="call fit first"):
        SensitivityScorer().scores(np.zeros((2, 3)))
    with pytest.raises(BadInput, match="features, not 3"):
        trained.scores(np.zeros((2, 3)))


def test_a_missing_extra_is_named(monkeypatch, faces):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"sfumato\[learn\]"):
        SensitivityScorer().fit(*faces)


def test_a_scorer_is_a_detector(trained):
    detector = Learned(trained, factor="identity", tile=TILE)
    picture = astronaut()
    scores = detector.tile_scores(picture[None], TILE)[0]
    assert scores.shape == (4, 4)
    boxes = detector.boxes(picture)
    assert [box[4] for box in boxes] == scores.ravel().tolist()
    assert trained.digest() in detector.name
    with pytest.raises(BadInput, match="`factor` must be one of"):
        Learned(trained, factor="faces")


def test_people_in_photographs_are_found_better_than_by_chance():
    """Trained on 20 photographs, tested on 10 others: an area above 0.55; of so few no more is asked."""
    embedded, scores, part = [], [], []
    for index, (_, picture, boxes) in enumerate(photographs(30)):
        cut = tiles_of(picture[None], TILE)[0]
        embedded.append(tile_embedding(cut.reshape(-1, *cut.shape[2:])))
        scores.append(annotated_map(boxes, picture.shape, tile=TILE, factors=("identity",)).scores.ravel())
        part.append(np.full(scores[-1].size, index % 3))
    data_, target, parts = np.concatenate(embedded), np.concatenate(scores), np.concatenate(part)
    scorer = SensitivityScorer(epochs=10).fit(data_[parts > 0], target[parts > 0])
    assert roc_auc_score(target[parts == 0], scorer.scores(data_[parts == 0])) > 0.55
