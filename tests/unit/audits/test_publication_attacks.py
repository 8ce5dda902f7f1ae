"""What a publication gives away: coins that decide who is fitted, and attacks that guess them."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits

from sfumato.audits.publication_attacks import (
    Canaries,
    audit_publication,
    learned_map,
    nearest_of_class,
    surely_more,
)
from sfumato.errors import BadInput
from sfumato.privacy import Guarantee, Neighbours
from sfumato.publishers import BlurPublisher, CertifiedPublisher, KAnonymityPublisher, PixelationPublisher

DIGITS = load_digits()
PICTURES = DIGITS.images.astype(np.float32)
LABELS = DIGITS.target.astype(np.int64)


def audited(publisher, *, neighbours=Neighbours.REPLACE, seed=0, pictures=PICTURES, labels=LABELS):
    """The findings about one publication of the digits."""
    canaries = Canaries.drawn(len(labels), neighbours, np.random.default_rng(seed))
    publisher.fit(pictures[canaries.fitted], labels[canaries.fitted])
    released, given = publisher.publish().value
    return audit_publication(
        pictures, labels, canaries, released, given, one_to_one=publisher.one_to_one, delta=1e-5
    )


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_record_is_fitted_or_left_out(neighbours):
    canaries = Canaries.drawn(2000, neighbours, np.random.default_rng(1))
    everybody = np.sort(np.concatenate([canaries.fitted, canaries.left_out]))
    np.testing.assert_array_equal(everybody, np.arange(2000))
    assert np.isin(
        canaries.inside, np.concatenate([canaries.first, canaries.left_out, canaries.fitted])
    ).all()
    np.testing.assert_array_equal(canaries.fitted[: canaries.certain.size], canaries.certain)
    if neighbours is Neighbours.REPLACE:
        assert canaries.second is not None
        assert len(canaries.fitted) == 1800
        chosen = np.where(canaries.coins == 1, canaries.first, canaries.second)
        np.testing.assert_array_equal(np.sort(chosen), np.sort(canaries.inside))


def test_coins_are_fair_and_everybody_is_chosen_alike():
    """False-alarm rate 1e-6 each: 400 draws of 1000 records, binomial bounds on who is left out."""
    for neighbours, share in ((Neighbours.REPLACE, 0.1), (Neighbours.ADD_REMOVE, 0.05)):
        counts = np.zeros(1000, dtype=int)
        coins = []
        for seed in range(400):
            drawn = Canaries.drawn(1000, neighbours, np.random.default_rng(seed))
            counts[drawn.left_out] += 1
            coins.append(drawn.coins)
        # Over 1000 records each bound is taken at 1e-6/2000.
        assert counts.max() <= binom.ppf(1 - 5e-10, 400, share)
        assert counts.min() >= binom.ppf(5e-10, 400, share)
        tossed = np.concatenate(coins)
        assert abs(tossed.mean() - 0.5) * 2 * math.sqrt(tossed.size) < 4.9


def test_under_add_remove_the_choice_of_one_record_says_nothing_of_the_others():
    """Coins of a record are its own: records before it are chosen alike whether or not it is there."""
    fewer = Canaries.drawn(500, Neighbours.ADD_REMOVE, np.random.default_rng(3))
    more = Canaries.drawn(501, Neighbours.ADD_REMOVE, np.random.default_rng(3))
    np.testing.assert_array_equal(fewer.first, more.first[more.first < 500])


def test_records_that_are_absent_instead_of_null_are_measured_as_such():
    null = Canaries.drawn(1797, Neighbours.ZERO_OUT, np.random.default_rng(2))
    canaries = null.absent()
    np.testing.assert_array_equal(canaries.fitted, null.fitted)
    fitted = canaries.fitted
    found = audit_publication(
        PICTURES, LABELS, canaries, PICTURES[fitted], LABELS[fitted], one_to_one=False, delta=1e-5
    )
    assert found[0].neighbours == "add/remove"
    pairs = Canaries.drawn(1797, Neighbours.REPLACE, np.random.default_rng(2))
    assert pairs.absent().neighbours is Neighbours.REPLACE


@pytest.mark.parametrize("copied", [True, False])
def test_what_is_sure_is_told_from_what_is_not(copied):
    """False-alarm rate 1e-13, the chance that is allowed, where nothing is shown."""
    canaries = Canaries.drawn(1700, Neighbours.REPLACE, np.random.default_rng(2))
    shown = canaries.fitted if copied else np.arange(1700, 1797)
    found = audit_publication(
        PICTURES[:1700],
        LABELS[:1700],
        canaries,
        PICTURES[shown],
        LABELS[shown],
        one_to_one=False,
        delta=1e-5,
    )
    assert surely_more(found[0], Guarantee.pure(0.01), 1e-13) == copied
    assert not surely_more(found[0], Guarantee.pure(50.0), 1e-13)
    assert not surely_more(found[0], Guarantee.pure(0.01), 0.0)
    assert not surely_more(found[0], Guarantee.pure(0.01).with_slack(1e-6), 1e-13)


@pytest.mark.parametrize("neighbours", [Neighbours.REPLACE, Neighbours.ZERO_OUT])
def test_too_few_records_are_all_fitted_where_their_number_is_public(neighbours):
    canaries = Canaries.drawn(99, neighbours, np.random.default_rng(0))
    assert (len(canaries.fitted), canaries.left_out.size, canaries.enough) == (99, 0, False)


def test_no_more_than_a_thousand_are_left_out_of_many():
    assert Canaries.drawn(60_000, Neighbours.REPLACE, np.random.default_rng(0)).left_out.size == 1000


def test_no_records_are_refused():
    with pytest.raises(BadInput, match="1 or more"):
        Canaries.drawn(0, Neighbours.REPLACE, np.random.default_rng(0))


@pytest.mark.parametrize(
    "publisher",
    [PixelationPublisher(block=3, top=16.0), PixelationPublisher(block=4, top=16.0), BlurPublisher(top=16.0)],
    ids=["pixelation", "coarse pixelation", "blur"],
)
def test_what_is_obscured_gives_every_coin_away(publisher):
    bound, membership, first, fifth = audited(publisher)
    canaries = bound.numbers["canaries"]
    assert bound.value == 1.0
    assert bound.epsilon_lower > math.log(canaries / 6.5)  # the most that so many right guesses can show
    assert (bound.unit, bound.neighbours) == ("record", "replace")
    assert membership.value == 1.0
    assert first.value > 0.95
    assert fifth.value >= first.value
    assert first.chance == pytest.approx(1 / canaries)


def test_real_pictures_of_clusters_are_noticed():
    found = audited(KAnonymityPublisher(k=2, clusters=400, top=16.0))
    assert len(found) == 2
    assert found[0].epsilon_lower > 0.1
    assert found[1].beats_chance


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_what_is_certified_measures_no_more_than_is_proven(neighbours):
    """False-alarm rate 1e-6: that of the bound, which is taken at confidence 1 − 1e-6."""
    publisher = CertifiedPublisher(1.0, 1e-5, shape=(8, 8), classes=10, top=16.0, neighbours=neighbours)
    canaries = Canaries.drawn(len(LABELS), neighbours, np.random.default_rng(5))
    publisher.fit(PICTURES[canaries.fitted], LABELS[canaries.fitted])
    released, given = publisher.publish(1797).value
    found = audit_publication(
        PICTURES, LABELS, canaries, released, given, one_to_one=False, delta=1e-5, confidence=1 - 1e-6
    )
    assert found[0].neighbours == str(neighbours)
    assert found[0].epsilon_lower <= publisher.guarantee().epsilon(1e-5)
    assert not publisher.statement().contradicts(found[0].evidence())


def test_pictures_that_say_nothing_measure_nothing():
    """False-alarm rate 1e-6: published pictures are of other people, so every guess is a coin."""
    canaries = Canaries.drawn(900, Neighbours.ADD_REMOVE, np.random.default_rng(2))
    found = audit_publication(
        PICTURES[:900],
        LABELS[:900],
        canaries,
        PICTURES[900:],
        LABELS[900:],
        one_to_one=False,
        delta=1e-5,
        confidence=1 - 1e-6,
    )
    assert found[0].epsilon_lower == 0.0
    assert found[1].interval[0] < 0.5 < found[1].interval[1]


def test_published_copies_are_found_whoever_may_be_absent():
    canaries = Canaries.drawn(1797, Neighbours.ADD_REMOVE, np.random.default_rng(2))
    fitted = canaries.fitted
    found = audit_publication(
        PICTURES, LABELS, canaries, PICTURES[fitted], LABELS[fitted], one_to_one=False, delta=1e-5
    )
    assert found[0].epsilon_lower > 2.0
    assert found[0].neighbours == "add/remove"


def test_too_few_canaries_find_nothing():
    canaries = Canaries.drawn(50, Neighbours.REPLACE, np.random.default_rng(0))
    args = PICTURES[:50], LABELS[:50], canaries, PICTURES[:50], LABELS[:50]
    assert audit_publication(*args, one_to_one=True, delta=1e-5) == ()


def test_a_class_that_was_not_published_is_far_away():
    canaries = Canaries.drawn(1797, Neighbours.REPLACE, np.random.default_rng(0))
    some = LABELS < 5
    found = audit_publication(
        PICTURES, LABELS, canaries, PICTURES[some], LABELS[some], one_to_one=False, delta=1e-5
    )
    assert math.isfinite(found[0].epsilon_lower)
    assert 0.0 <= found[1].value <= 1.0


def test_pictures_of_another_size_are_refused():
    canaries = Canaries.drawn(1797, Neighbours.REPLACE, np.random.default_rng(0))
    with pytest.raises(BadInput, match="have 16 values and the originals 64"):
        audit_publication(
            PICTURES, LABELS, canaries, np.zeros((9, 4, 4)), LABELS[:9], one_to_one=False, delta=1e-5
        )


def test_one_to_one_needs_a_picture_for_each_record():
    canaries = Canaries.drawn(1797, Neighbours.REPLACE, np.random.default_rng(0))
    with pytest.raises(BadInput, match="10 pictures were published of 1618 fitted records"):
        audit_publication(PICTURES, LABELS, canaries, PICTURES[:10], LABELS[:10], one_to_one=True, delta=1e-5)


def test_the_nearest_of_a_class_is_the_nearest():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(40, 7)), rng.normal(size=(300, 7))
    labels, others = rng.integers(0, 4, 40), rng.integers(0, 3, 300)
    far, which = nearest_of_class(rows, labels, targets, others)
    for row, label, distance, index in zip(rows, labels, far, which, strict=True):
        alike = np.flatnonzero(others == label)
        if label == 3:
            assert (distance, index) == (np.inf, -1)
            continue
        distances = np.linalg.norm(targets[alike] - row, axis=1)
        assert index == alike[distances.argmin()]
        assert distance == pytest.approx(distances.min())


def test_an_affine_map_is_learned():
    rng = np.random.default_rng(0)
    turn, shift = rng.normal(size=(6, 4)), rng.normal(size=4)
    rows = rng.normal(size=(500, 6))
    image = learned_map(rows, rows @ turn + shift)
    more = rng.normal(size=(20, 6))
    np.testing.assert_allclose(image(more), more @ turn + shift, atol=0.02)
