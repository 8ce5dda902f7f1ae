"""Clusters shown by one of their members: which one, how often, and what becomes of small clusters."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sfumato.errors import BadInput
from sfumato.noise import Seeded
from sfumato.publishers.baseline_publishers import KAnonymityPublisher

K, CLUSTERS = 10, 60


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images, data.target


@pytest.fixture(scope="module")
def published(digits):
    return publisher().fit(*digits).publish()


def publisher(**parameters):
    return KAnonymityPublisher(K, CLUSTERS, top=16.0, randomness=Seeded(3), **parameters)


def test_each_published_picture_is_a_private_one_with_its_label_at_least_k_times(digits, published):
    pictures, labels = published.value
    private = {
        (row.tobytes(), int(label))
        for row, label in zip(digits[0].astype(np.float32), digits[1], strict=True)
    }
    shown, counts = np.unique(pictures.reshape(len(pictures), -1), axis=0, return_counts=True)
    assert counts.min() >= K
    assert len(shown) <= CLUSTERS
    assert {(row.tobytes(), int(label)) for row, label in zip(pictures, labels, strict=True)} <= private


def test_the_picture_shown_is_the_nearest_of_its_cluster_to_the_centre():
    """Two far groups, each of a few values on a line: the middle ones stand for all."""
    near, far = np.array([0.0, 0.1, 0.2, 0.25, 0.4]), np.array([0.9, 0.95, 0.99, 1.0])
    pictures = np.concatenate([near, far])[:, None, None] * np.ones((9, 2, 2))
    labels = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8])
    fitted = KAnonymityPublisher(4, 2, top=1.0, randomness=Seeded(0)).fit(pictures, labels)
    shown, kinds = fitted.publish().value
    # Means of 0.19 and 0.96.
    assert kinds.tolist() == [2] * 5 + [6] * 4
    assert np.allclose(shown[:, 0, 0], [0.2] * 5 + [0.95] * 4)


def test_members_of_small_clusters_are_dropped_or_kept():
    pictures = np.array([0.0, 0.01, 0.02, 0.03, 1.0, 0.99])[:, None, None] * np.ones((6, 2, 2))
    labels = np.array([0, 1, 0, 1, 2, 3])
    dropped = KAnonymityPublisher(3, 2, top=1.0, randomness=Seeded(0)).fit(pictures, labels).publish()
    assert len(dropped.value[1]) == 4
    assert len(set(dropped.value[1])) == 1
    kept = (
        KAnonymityPublisher(3, 2, small="kept", top=1.0, randomness=Seeded(0)).fit(pictures, labels).publish()
    )
    assert len(kept.value[1]) == 6
    assert kept.value[1].tolist()[4:] == [2, 3]
    assert np.allclose(kept.value[0][4:], pictures[4:])


def test_clusters_are_about_as_tight_as_those_of_scikit_learn(digits):
    """The mean squared distance to what is shown, against scikit-learn's k-means and the nearest member."""
    rows = digits[0].reshape(-1, 64)
    shown = publisher(small="kept").fit(*digits).publish().value[0].reshape(-1, 64)
    theirs = KMeans(CLUSTERS, n_init=1, random_state=0).fit(rows)
    standing = np.array(
        [rows[np.square(rows - centre).sum(axis=1).argmin()] for centre in theirs.cluster_centers_]
    )
    expected = np.square(rows - standing[theirs.labels_]).sum(axis=1).mean()
    assert np.square(rows - shown).sum(axis=1).mean() < 1.1 * expected


def test_pictures_classify_real_digits(digits, published):
    pictures, labels = published.value
    model = SVC().fit(pictures.reshape(len(pictures), -1), labels)
    assert model.score(digits[0].reshape(-1, 64), digits[1]) > 0.8


def test_nothing_is_proven_and_the_reason_is_that_real_pictures_are_shown(published):
    assert published.statement.proven.proves_nothing
    assert "real private picture" in published.statement.proven.theorem
    assert not KAnonymityPublisher.one_to_one
    assert {"k": K, "clusters": CLUSTERS, "small": "dropped"}.items() <= dict(
        published.statement.parameters
    ).items()


def test_a_seed_gives_the_same_and_inputs_are_not_modified(digits, published):
    pictures, labels = digits[0].copy(), digits[1].copy()
    again = publisher().fit(pictures, labels).publish().value
    assert np.array_equal(again[0], published.value[0])
    assert np.array_equal(again[1], published.value[1])
    assert np.array_equal(pictures, digits[0])
    assert np.array_equal(labels, digits[1])


def test_progress_counts_the_clusters_shown(digits):
    told = []
    publisher().fit(*digits, report=lambda stage, share, facts: told.append((share, dict(facts))))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert 1 <= told[-1][1]["clusters shown"] <= CLUSTERS


def test_what_cannot_be_clustered_is_refused(digits):
    with pytest.raises(BadInput, match="there are 30 pictures"):
        publisher().fit(digits[0][:30], digits[1][:30])
    with pytest.raises(BadInput, match="all pictures are the same"):
        publisher().fit(np.ones((100, 3, 3)), np.arange(100) % 3)
    with pytest.raises(BadInput, match="no cluster has k = 10 members"):
        publisher().fit(digits[0][:60], digits[1][:60])
    with pytest.raises(BadInput, match="`k` was 1"):
        KAnonymityPublisher(1)
    with pytest.raises(BadInput, match="`clusters` was 0"):
        KAnonymityPublisher(clusters=0)
    with pytest.raises(BadInput, match="`small` must be one of dropped, kept"):
        KAnonymityPublisher(small="shown")
