"""Keyed sources: what goes into a key, and what is refused."""

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.noise import Keyed

SECRET = bytes(range(32))
NAMES = {"dataset": "d", "version": "1", "release": "r"}
CELLS = np.array([[1.0, -2.0], [1.0, -2.0], [0.0, 3.0]])
MECHANISM = {"mechanism": "Some", "epsilon": 1.0}


def first_words(source, mechanism=MECHANISM, first=0, cells=CELLS):
    return [stream.words(2).tobytes() for stream in source.unit_streams(mechanism, first, cells).each()]


def test_every_unit_has_a_stream_of_its_own():
    words = first_words(Keyed(SECRET, **NAMES))
    assert len(set(words)) == 3
    assert words == first_words(Keyed(SECRET, **NAMES))


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ({"dataset": "e"}, {}),
        ({"version": "2"}, {}),
        ({"release": "s"}, {}),
        # The same letters, cut elsewhere.
        ({"dataset": "d1", "version": "r", "release": "r"}, {}),
        ({}, {"mechanism": MECHANISM | {"epsilon": 2.0}}),
        ({}, {"mechanism": MECHANISM | {"mechanism": "Other"}}),
        ({}, {"first": 3}),
        ({}, {"cells": CELLS + 1.0}),
    ],
)
def test_everything_that_may_change_a_release_is_part_of_the_key(source, asked):
    usual = first_words(Keyed(SECRET, **NAMES))
    other = first_words(Keyed(SECRET, **(NAMES | source)), **asked)
    assert not set(usual) & set(other)


def test_the_order_of_parameters_and_the_sign_of_zero_do_not_matter():
    usual = first_words(Keyed(SECRET, **NAMES), cells=CELLS * 0.0)
    turned = dict(reversed(MECHANISM.items()))
    assert usual == first_words(Keyed(SECRET, **NAMES), mechanism=turned, cells=CELLS * -0.0)


def test_other_content_at_the_same_place_is_refused():
    source = Keyed(SECRET, **NAMES)
    first_words(source)
    first_words(source)
    first_words(source, first=3, cells=CELLS + 1.0)
    with pytest.raises(BadInput, match="'r' of 'd'"):
        first_words(source, cells=CELLS + 1.0)


def test_labels_have_streams_apart_from_units():
    source = Keyed(SECRET, **NAMES)
    labels = [source.stream(label).words(2).tobytes() for label in (b"", b"a", b"b")]
    assert len({*labels, *first_words(source)}) == 6


@pytest.mark.parametrize("secret", [b"", bytes(31), "x" * 32, None])
def test_a_short_secret_is_refused(secret):
    with pytest.raises(BadInput, match="32 random bytes"):
        Keyed(secret, **NAMES)


@pytest.mark.parametrize("name", ["dataset", "version", "release"])
@pytest.mark.parametrize("value", ["", None, 3])
def test_a_name_must_be_text(name, value):
    with pytest.raises(BadInput, match=name):
        Keyed(SECRET, **(NAMES | {name: value}))


def test_the_secret_is_not_printed():
    assert repr(Keyed(SECRET, **NAMES)) == "Keyed(dataset='d', version='1', release='r')"


def test_parts_of_a_release_share_no_noise():
    whole = Keyed(SECRET, **NAMES)
    sources = [whole, whole.part("a"), whole.part("b"), whole.part("a").part("b"), whole.part("a/b")]
    words = [word for source in sources for word in first_words(source)]
    assert len(set(words)) == len(words)
    assert first_words(whole.part("a")) == first_words(Keyed(SECRET, **NAMES).part("a"))
    with pytest.raises(BadInput, match="needs a name"):
        whole.part("")
