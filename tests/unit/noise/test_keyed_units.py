"""Streams of many keyed units in one pass: as they are defined, and what each unit draws alone."""

import hashlib
import hmac
import json
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    AdditiveNoise,
    Duchi,
    Gaussian,
    GridTensorLDP,
    Hybrid,
    Laplace,
    Mechanism,
    Personalised,
    Piecewise,
    PrivUnit,
    RandomisedResponse,
    ResponseTier,
    TensorLDP,
    TrustAdaptive,
)
from sfumato.mechanisms.transforms import BinaryEncoding
from sfumato.noise import LAPLACE, NORMAL, Keyed, Rounded, coins, keyed, uniform_integers

SECRET = bytes(range(32))
NAMES = {"dataset": "d", "version": "1", "release": "r"}
MECHANISM = {"mechanism": "Some", "epsilon": 1.0}
LAST = (1 << 16) - 3  # of the units that share keys the last three are among those drawn from here on


def source() -> Keyed:
    return Keyed(SECRET, **NAMES).part("file")


def content(units: int, columns: int) -> np.ndarray:
    return np.random.default_rng(units).integers(-(1 << 52), 1 << 52, (units, columns)).astype(np.float64)


def defined(index: int, row: np.ndarray, words: int) -> bytes:
    """The first words of a unit, by the definition in ``noise.keyed``, one block at a time."""

    def key(use: bytes) -> bytes:
        names = (b"sfumato 1", b"d", b"1", b"r", b"part", b"file", b"units 2")
        context = json.dumps(MECHANISM, sort_keys=True).encode()
        numbers = (row.size.to_bytes(8, "little"), (index >> 16).to_bytes(8, "little"))
        parts = (*names, context, *numbers, use)
        message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return hmac.new(SECRET, message, hashlib.sha256).digest()

    def encrypted(use: bytes, block: bytes) -> bytes:
        return Cipher(algorithms.AES256(key(use)), modes.ECB()).encryptor().update(block)

    total = 0
    for place, value in enumerate(row.tolist(), start=1):
        block = place.to_bytes(8, "little") + int(value).to_bytes(8, "little", signed=True)
        total ^= int.from_bytes(encrypted(b"content", block), "big")
    tag = encrypted(b"tag", total.to_bytes(16, "big"))
    start = tag[:10] + (index & 0xFFFF).to_bytes(2, "big") + bytes(4)
    return Cipher(algorithms.AES256(key(b"noise")), modes.CTR(start)).encryptor().update(bytes(8 * words))


@pytest.mark.parametrize("columns", [1, 2, 5, 300])
@pytest.mark.parametrize("first", [0, 7, LAST])
def test_every_unit_has_the_stream_of_the_definition(columns, first):
    cells = content(6, columns)
    streams = source().unit_streams(MECHANISM, first, cells)
    drawn = streams.words(6 * 9).reshape(6, 9)
    for unit in range(6):
        assert drawn[unit].tobytes() == defined(first + unit, cells[unit], 9)


def test_content_of_many_blocks_is_one_sum(monkeypatch):
    cells = content(40, 50)
    usual = source().unit_streams(MECHANISM, LAST, cells).words(40)
    for blocks in (1, 3, 64, 1 << 20):
        monkeypatch.setattr(keyed, "_CONTENT_BLOCKS", blocks)
        assert source().unit_streams(MECHANISM, LAST, cells).words(40).tobytes() == usual.tobytes()


@pytest.mark.parametrize("cut", [1, 2, 5, 19])
def test_streams_do_not_depend_on_which_units_are_derived_together(cut):
    cells = content(20, 3)
    whole = source().unit_streams(MECHANISM, LAST, cells).words(20 * 5).reshape(20, 5)
    for start in range(0, 20, cut):
        part = source().unit_streams(MECHANISM, LAST + start, cells[start : start + cut])
        assert part.words(part.units * 5).tobytes() == whole[start : start + cut].tobytes()


def test_words_are_the_same_in_whatever_portions_they_are_drawn():
    cells, shares = content(11, 2), [1, 1, 3, 2, 8, 1, 1, 30, 1, 1, 1, 100, 7]
    whole = source().unit_streams(MECHANISM, 5, cells).words(11 * sum(shares)).reshape(11, -1)
    streams = source().unit_streams(MECHANISM, 5, cells)
    portions = [streams.words(11 * share).reshape(11, share) for share in shares]
    assert np.concatenate(portions, axis=1).tobytes() == whole.tobytes()


def test_no_two_units_share_a_word_whatever_they_hold():
    """Equal rows, equal rows of another release, rows of other content; words collide by chance 1e-9."""
    equal, other = np.zeros((3000, 2)), np.zeros((3000, 2))
    other[:, 1] = np.arange(1, 3001)
    groups = [
        source().unit_streams(MECHANISM, LAST, equal),
        source().unit_streams(MECHANISM, LAST, other),
        source().unit_streams(MECHANISM, 3 << 16, equal),
        source().unit_streams(MECHANISM | {"epsilon": 2.0}, LAST, equal),
        source().part("other").unit_streams(MECHANISM, LAST, equal),
        source().unit_streams(MECHANISM, LAST, np.zeros((3000, 3))),
    ]
    words = np.concatenate([streams.words(3000 * 8) for streams in groups])
    assert np.unique(words).size == words.size == 6 * 3000 * 8


@pytest.mark.parametrize("swapped", [[1, 0, 2], [2, 1, 0], [0, 2, 1]])
def test_the_place_of_a_value_is_part_of_the_content(swapped):
    row = np.array([[3.0, 4.0, 5.0]])
    one, two = (source().unit_streams(MECHANISM, 0, cells).words(8) for cells in (row, row[:, swapped]))
    assert not set(one.tolist()) & set(two.tolist())


def test_a_part_and_the_whole_never_draw_the_same_words():
    streams = source().unit_streams(MECHANISM, LAST, content(6, 2))
    expected = source().unit_streams(MECHANISM, LAST, content(6, 2)).words(6 * 8).reshape(6, 8)
    assert streams.words(6).tobytes() == expected[:, 0].tobytes()
    assert streams.part(2, 5).words(3).tobytes() == expected[2:5, 1].tobytes()
    assert streams.owner(7, 12).integer(64) == int(expected[3, 2])
    own = [1, 1, 2, 3, 2, 1]
    assert streams.words(6).tolist() == [int(expected[unit, at]) for unit, at in enumerate(own)]
    again = streams.again(np.array([0, 1, 5, 10, 11]), 12)
    places = [(0, 2), (0, 3), (2, 3), (5, 2), (5, 3)]
    assert again.tolist() == [int(expected[place]) for place in places]
    after = [4, 2, 4, 4, 3, 4]
    assert streams.words(12).reshape(6, 2).tolist() == [
        expected[unit, at : at + 2].tolist() for unit, at in enumerate(after)
    ]


def test_a_unit_draws_no_more_blocks_than_its_counter_counts():
    streams = source().unit_streams(MECHANISM, 0, content(2, 2))
    streams._drawn += (1 << 33) - 4
    last = streams.words(8)
    assert np.unique(last).size == 8
    with pytest.raises(BadInput, match="8,589,934,592 words"):
        streams.words(2)


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
@pytest.mark.parametrize("scales", [[3.0], [2.0**36], [2.0, 5.0, 2.0**34]], ids=["one", "wide", "rungs"])
def test_exact_noise_of_many_units_is_that_of_each(law, scales):
    """At 2³⁶ steps doubles often do not decide; three rungs follow each other in the words of a unit."""
    rounded, cells = Rounded(law, scales), content(700, 50)
    together = rounded.draw(source().unit_streams(MECHANISM, LAST, cells), cells.size)
    streams = source().unit_streams(MECHANISM, LAST, cells).each()
    apart = np.concatenate([rounded.draw(stream, 50) for stream in streams], axis=1)
    assert together.tobytes() == apart.tobytes()


def test_further_words_for_an_undecided_draw_are_those_of_its_unit(monkeypatch):
    """The end cells of a quantile function are decided by further words alone; here a third of all draws."""
    cells = content(9, 7)

    def zeroed(self, starts, counters, owners=None):
        words = encrypted(self, starts, counters, owners)
        return np.where((words % np.uint64(3) == 0) & (counters[:, :1] < 4), np.uint64(0), words)

    encrypted = keyed.Units._encrypted
    monkeypatch.setattr(keyed.Units, "_encrypted", zeroed)
    rounded = Rounded(NORMAL, [5.0, 2.0])
    streams = source().unit_streams(MECHANISM, 0, cells)
    together = rounded.draw(streams, cells.size)
    each = source().unit_streams(MECHANISM, 0, cells).each()
    assert together.tobytes() == np.concatenate([rounded.draw(one, 7) for one in each], axis=1).tobytes()
    drawn = np.concatenate([one._drawn for one in each])
    assert streams._drawn.tolist() == drawn.tolist()
    assert drawn.max() > 14  # further words were drawn, and not by all alike
    assert np.unique(drawn).size > 1


@pytest.mark.parametrize("bound", [3, (1 << 63) + 1, (1 << 64) // 3 * 2])
def test_redrawn_choices_of_many_units_are_those_of_each(bound):
    """A bound just above 2⁶³ redraws half of all words."""
    cells = content(50, 6)
    together = source().unit_streams(MECHANISM, LAST, cells)
    drawn = [
        uniform_integers(together, bound, 300),
        coins(together, 1 << 62, 300),
        uniform_integers(together, bound, 50),
    ]
    for unit, stream in enumerate(source().unit_streams(MECHANISM, LAST, cells).each()):
        own = [
            uniform_integers(stream, bound, 6),
            coins(stream, 1 << 62, 6),
            uniform_integers(stream, bound, 1),
        ]
        for all_units, one in zip(drawn, own, strict=True):
            assert all_units.reshape(50, -1)[unit].tolist() == one.tolist()


MECHANISMS = {
    "gaussian": lambda r: Gaussian(1.0, 1e-6, 1.0, randomness=r),
    "laplace": lambda r: Laplace(1.0, bounds=(0.0, 4.0), randomness=r),
    "trust": lambda r: TrustAdaptive(0.3, epsilon=(1.0, 8.0), clip=1.0, randomness=r),
    "personalised": lambda r: Personalised(np.tile([1.0, 2.0, 8.0], 70), clip=1.0, randomness=r),
    "response": lambda r: RandomisedResponse(5.0, 4, randomness=r),
    "response tier": lambda r: ResponseTier(
        (4.0, 9.0), 4, distrust=0.5, levels=(0.0, 0.5, 1.0), randomness=r
    ),
    "tensor": lambda r: TensorLDP(5.0, (0.0, 4.0), randomness=r),
    "grid tensor": lambda r: GridTensorLDP(9.0, (0.0, 4.0), 16, randomness=r),
    "duchi": lambda r: Duchi(1.0, (0.0, 4.0), randomness=r),
    "piecewise": lambda r: Piecewise(9.0, (0.0, 4.0), randomness=r),
    "hybrid": lambda r: Hybrid(9.0, (0.0, 4.0), randomness=r),
    "privunit": lambda r: PrivUnit(4.0, 1.0, randomness=r),
    "control": lambda r: AdditiveNoise(0.5, randomness=r),
    "binary": lambda r: BinaryEncoding(bits=3, randomness=r),
}


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
def test_a_release_of_many_rows_is_the_release_of_each(make):
    data = (np.arange(200 * 9).reshape(200, 9) * 7 % 11 % 4).astype(np.float64)
    mechanism = make(source())
    whole = mechanism.perturb(data)
    mechanism = make(source())
    apart = [mechanism.perturb(data[row : row + 1], row) for row in range(200)]
    assert whole.tobytes() == np.concatenate(apart).tobytes()


@pytest.mark.parametrize("together", [1, 1 << 9, 1 << 20])
def test_a_keyed_release_does_not_depend_on_how_many_rows_are_drawn_together(monkeypatch, together):
    data = content(300, 40) / 2.0**54
    mechanism = Gaussian(1.0, 1e-6, 1.0, randomness=source())
    usual = mechanism.perturb(data)
    monkeypatch.setattr("sfumato.mechanisms.base._TOGETHER", together)
    monkeypatch.setattr(Mechanism, "block_rows", lambda self, columns: 37)
    assert Gaussian(1.0, 1e-6, 1.0, randomness=source()).perturb(data).tobytes() == usual.tobytes()


@pytest.mark.parametrize("cell", [0.5, -1.25, 2.0**54, math.nan, math.inf])
def test_content_that_is_not_on_the_grid_is_refused(cell) -> None:
    """Cut off, two different contents would share their noise."""
    with pytest.raises(ValueError, match="whole numbers"):
        source().unit_streams({"mechanism": "a"}, 0, np.array([[1.0, cell]]))
