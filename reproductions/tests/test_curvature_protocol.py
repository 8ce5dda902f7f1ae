"""The data of the curvature paper as they are cut, whom attacks are asked about, what the paper prints."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions.curvature_publication.candidates import (
    AS_THE_PAPER,
    MATCHED,
    Success,
    label_alone,
    rounds,
)
from sfumato_reproductions.curvature_publication.imbalance import Imbalanced
from sfumato_reproductions.curvature_publication.protocol import Run
from sfumato_reproductions.curvature_publication.published import (
    OURS,
    STRATEGIES,
    TABLE_1,
    attacked_records,
    close_seconds,
    rates,
)
from sfumato_reproductions.datasets import available, load, load_parts

QUICK = Run.of(("digits",), None, True)


@pytest.fixture(scope="module")
def digits() -> Imbalanced:
    return Imbalanced.of("digits", QUICK, 0)


def test_digits_are_parted_once_and_for_all() -> None:
    learned, tests = load_parts("digits")
    assert (len(learned.labels), len(tests.labels)) == (1200, 597)
    both = np.concatenate([learned.records, tests.records])
    assert sorted(map(bytes, both)) == sorted(map(bytes, load("digits").records))
    assert learned.pictures.shape == (1200, 8, 8)
    assert (load_parts("digits")[0].records == learned.records).all()


def test_the_test_part_of_a_file_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    assert available(["mnist", "digits"]) == ("digits",)
    pictures = np.arange(5 * 784, dtype=np.int64).reshape(5, 28, 28).astype(np.uint8)
    labels = np.arange(5, dtype=np.uint8)
    np.savez(
        tmp_path / "mnist.npz",
        x_train=pictures[:3],
        y_train=labels[:3],
        x_test=pictures[3:],
        y_test=labels[3:],
    )
    assert available(["mnist", "digits"]) == ("mnist", "digits")
    learned, tests = load_parts("mnist")
    assert learned.labels.tolist() == [0, 1, 2]
    assert tests.labels.tolist() == [3, 4]
    assert tests.pictures == pytest.approx(pictures[3:] / 255.0, abs=1e-6)


def test_tail_classes_are_cut_to_a_tenth_and_no_picture_is_in_two_parts(digits) -> None:
    counts = np.bincount(digits.private.labels)
    assert counts.tolist() == [80] * 6 + [8] * 4
    assert np.bincount(digits.public.labels).tolist() == [25] * 10
    assert len(digits.tests) == 597
    learned, tests = load_parts("digits")
    assert (digits.tests.pictures == tests.pictures * np.float32(255)).all()
    used = [bytes(picture) for part in (digits.private, digits.public) for picture in part.pictures]
    whole = [bytes(picture) for picture in learned.pictures * np.float32(255)]
    assert len(set(used)) == len(used)
    assert set(used) <= set(whole)
    assert not set(used) & {bytes(picture) for picture in digits.tests.pictures}


def test_the_seed_says_which_pictures_are_kept(digits) -> None:
    again, other = Imbalanced.of("digits", QUICK, 0), Imbalanced.of("digits", QUICK, 1)
    assert (again.private.pictures == digits.private.pictures).all()
    assert not (other.private.pictures == digits.private.pictures).all()


def test_a_head_class_leaves_the_public_pictures() -> None:
    smallest = int(np.bincount(load_parts("digits")[0].labels).min())
    many = Imbalanced.of("digits", Run(("digits",), (0,), 5_000, 40, 1, 100, True), 0)
    assert np.bincount(many.private.labels)[:6].tolist() == [smallest - 40] * 6
    assert np.bincount(many.public.labels).tolist() == [40] * 10


def test_too_few_pictures_are_refused() -> None:
    with pytest.raises(BadInput, match=r"digits has \d+ pictures in its smallest class, 100 of them public"):
        Imbalanced.of("digits", Run(("digits",), (0,), 5_000, 100, 1, 100, True), 0)


def test_the_label_alone_tells_what_the_imbalance_is() -> None:
    heads = np.repeat(np.arange(6), 5_000)
    members = np.concatenate([heads, np.repeat(np.arange(6, 10), 500)])
    balanced = np.repeat(np.arange(10), 1_000)
    # Six heads of 5,000 in 32,000 and of a tenth each in the tests: ½(6·5/32 + 4·1/10).
    assert label_alone(members, balanced) == pytest.approx(0.5 * (30 / 32 + 0.4))
    assert label_alone(balanced, balanced) == pytest.approx(0.5)
    assert label_alone(np.zeros(5, dtype=np.int64), np.ones(7, dtype=np.int64)) == 1.0


def test_candidates_as_the_paper_are_drawn_from_all(digits) -> None:
    (drawn,) = rounds(digits, AS_THE_PAPER, 200, 0)
    assert [len(rows) for rows in (*drawn.known, *drawn.asked)] == [100] * 4
    for side in (0, 1):
        assert not set(drawn.known[side]) & set(drawn.asked[side])
    (again,) = rounds(digits, AS_THE_PAPER, 200, 0)
    assert (again.asked[0] == drawn.asked[0]).all()


def test_class_matched_candidates_have_equal_labels_on_both_sides(digits) -> None:
    drawn, turned = rounds(digits, MATCHED, 200, 0)
    assert turned.known is drawn.asked
    assert turned.asked is drawn.known
    for members, nonmembers in (drawn.known, drawn.asked):
        first = np.bincount(digits.private.labels[members], minlength=10)
        second = np.bincount(digits.tests.labels[nonmembers], minlength=10)
        assert first.tolist() == second.tolist()
        assert first.min() >= 4
    for side in (0, 1):
        assert not set(drawn.known[side]) & set(drawn.asked[side])


def test_success_counts_both_sides() -> None:
    found = Success(75, 100)
    assert found.rate == 0.75
    low, high = found.interval
    assert 0.65 < low < 0.75 < high < 0.84
    assert found.to_dict() == {"right": 75, "asked": 100, "rate": 0.75, "interval": [low, high]}


def test_what_the_paper_prints() -> None:
    assert len(TABLE_1) == 9
    assert all(len(block) == 7 for block in TABLE_1.values())
    assert (TABLE_1["mnist"][OURS].membership, TABLE_1["fashion-mnist"][OURS].membership) == (52.95, 54.69)
    assert STRATEGIES["lowest"] == TABLE_1["mnist"][OURS]
    # The paper's own averages, over its nine data sets, to the digits that it prints.
    printed = list(rates())
    for number, average in enumerate((60.65, 55.67, 56.35, 54.64, 58.19, 56.40, 53.11)):
        assert np.mean(printed[number::7]) == pytest.approx(average, abs=0.02)


def test_the_paper_seems_to_ask_about_1152_records() -> None:
    hits, chance = attacked_records(1152)
    assert (hits, round(chance)) == (54, 7)
    assert attacked_records(1000)[0] < 10
    assert close_seconds(100.0) == (9, 9)
    assert close_seconds(0.0) == (0, 9)


def test_of_all_numbers_of_records_1152_stands_out_most() -> None:
    def excess(records: int) -> float:
        hits, chance = attacked_records(records)
        return hits - chance

    assert max(range(100, 3001), key=excess) == 1152
