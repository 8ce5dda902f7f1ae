"""Streams of words, and the sources that hand them out."""

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.noise import Secure, Seeded, Stream

KEY = bytes(range(32))


@pytest.mark.parametrize("parts", [(3, 5), (1, 1, 6), (0, 8), (7, 0, 1), (40_000, 30_001, 3)])
def test_words_go_on_where_they_stopped(parts):
    stream = Stream(KEY)
    pieces = np.concatenate([stream.words(count) for count in parts])
    np.testing.assert_array_equal(pieces, Stream(KEY).words(sum(parts)))


def test_words_are_written_into_a_given_array():
    room = np.zeros(12, dtype=np.uint64)
    words = Stream(KEY).words(10, into=room)
    assert np.shares_memory(words, room)
    np.testing.assert_array_equal(words, Stream(KEY).words(10))


def test_an_integer_is_made_of_the_next_words():
    low, high = Stream(KEY).words(2).tolist()
    stream = Stream(KEY)
    assert stream.integer(128) == low + (high << 64)
    assert stream.integer(64) == Stream(KEY).words(3)[2]
    for bits in (0, 63, 100):
        with pytest.raises(BadInput, match="a multiple of 64"):
            stream.integer(bits)


def test_a_seed_repeats_and_labels_part():
    words = {
        (seed, label): Seeded(seed).stream(label).words(4).tobytes()
        for seed in (1, 2, -1)
        for label in (b"a", b"b", b"")
    }
    assert len(set(words.values())) == len(words)
    assert Seeded(1).stream(b"a").words(4).tobytes() == words[1, b"a"]


@pytest.mark.parametrize(("seed", "label"), [(1, b"1"), (11, b"")])
def test_seed_and_label_are_kept_apart(seed, label):
    other = Seeded(1).stream(b"1\0") if seed == 11 else Seeded(11).stream(b"")
    assert Seeded(seed).stream(label).words(4).tobytes() != other.words(4).tobytes()


def test_only_a_seed_is_reproducible():
    assert Seeded(1).reproducible
    assert not Secure().reproducible


def test_sources_print_as_they_are_written():
    assert repr(Seeded(np.int64(7))) == "Seeded(7)"
    assert repr(Secure()) == "Secure()"


@pytest.mark.parametrize("seed", [True, 1.0, "1", None, b"1"])
def test_a_seed_must_be_a_whole_number(seed):
    with pytest.raises(BadInput, match="whole number"):
        Seeded(seed)


def test_a_key_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="key"):
        Stream(b"short")
