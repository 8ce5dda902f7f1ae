"""Integers, coins, permutations and the key stream itself."""

import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from fed import Fed
from frequencies import fits
from scipy.stats import binom

from sfumato.noise import Secure, Stream, coins, random_permutation, uniform_integers

# NIST SP 800-38A, F.5.5: CTR-AES256, the key, the first counter block and its key stream.
NIST_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
NIST_COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
NIST_OUTPUT = bytes.fromhex("0bdf7df1591716335e9a8b15c860c502")


def test_the_cipher_gives_the_key_stream_of_the_standard():
    """No chance involved: the vector of NIST SP 800-38A, section F.5.5."""
    stream = Cipher(algorithms.AES256(NIST_KEY), modes.CTR(NIST_COUNTER)).encryptor()
    assert stream.update(bytes(16)) == NIST_OUTPUT
    block = Cipher(algorithms.AES256(NIST_KEY), modes.ECB()).encryptor()
    assert block.update(NIST_COUNTER) == NIST_OUTPUT


def test_a_stream_encrypts_the_counters_from_zero_on():
    """No chance involved: block i of the stream is AES-256 of i, over the edge of a working chunk."""
    blocks = (1 << 14) + 9  # one chunk is 2¹⁴ blocks
    counters = b"".join(i.to_bytes(16, "big") for i in range(blocks))
    expected = Cipher(algorithms.AES256(NIST_KEY), modes.ECB()).encryptor().update(counters)
    assert Stream(NIST_KEY).words(2 * blocks).tobytes() == expected


@pytest.mark.parametrize("bit", [0, 1, 31, 47, 48, 62, 63])
def test_every_bit_of_a_secure_word_is_a_fair_coin(bit):
    """False-alarm rate 1e-6; two million words, an exact binomial bound."""
    count = 2_000_000
    ones = int(((Secure().stream(b"").words(count) >> np.uint64(bit)) & np.uint64(1)).sum())
    assert binom.isf(5e-7, count, 0.5) >= ones >= binom.ppf(5e-7, count, 0.5)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000])
def test_integers_below_a_bound_are_uniform(bound):
    """False-alarm rate 1e-6; a million draws."""
    draws = uniform_integers(Stream(), bound, 1_000_000)
    assert draws.min() >= 0
    assert draws.max() < bound
    if bound > 1:
        assert fits(np.bincount(draws, minlength=bound), np.full(bound, 1.0 / bound))


def test_words_that_would_favour_small_integers_are_drawn_again():
    """No chance involved: 2⁶⁴ is 1 more than a multiple of 3, and 2⁶² more than a multiple of 3·2⁶¹."""
    last, bound = 2**64 - 1, 3 * 2**61
    assert uniform_integers(Fed([last, 5, last, last, 4]), 3, 2).tolist() == [4 % 3, 5 % 3]
    assert uniform_integers(Fed([last - 1]), 3, 1).tolist() == [(last - 1) % 3]
    assert uniform_integers(Fed([2 * bound, last, 17]), bound, 1).tolist() == [17]
    assert uniform_integers(Fed([2 * bound - 1]), bound, 1).tolist() == [bound - 1]


@pytest.mark.parametrize("threshold", [0, 1, 2**32, 2**63, 2**64 - 1])
def test_a_coin_falls_true_for_exactly_the_words_below_its_threshold(threshold):
    """No chance involved."""
    words = sorted({min(max(threshold + k, 0), 2**64 - 1) for k in (-2, -1, 0, 1)})
    assert coins(Fed(words), threshold, len(words)).tolist() == [word < threshold for word in words]


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.99])
def test_coins_have_their_weight(probability):
    """False-alarm rate 1e-6; a million coins, an exact binomial bound."""
    count, threshold = 1_000_000, int(probability * 2**64)
    heads = int(coins(Stream(), threshold, count).sum())
    assert binom.isf(5e-7, count, probability) >= heads >= binom.ppf(5e-7, count, probability)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_permutations_are_equally_likely(size):
    """False-alarm rate 1e-6; 60 000 permutations."""
    orders = list(itertools.permutations(range(size)))
    stream, counts = Stream(), dict.fromkeys(orders, 0)
    for _ in range(60_000):
        counts[tuple(random_permutation(stream, size).tolist())] += 1
    assert fits(list(counts.values()), np.full(len(orders), 1.0 / len(orders)))


def test_a_permutation_with_equal_words_is_drawn_again():
    """No chance involved: equal words have no order."""
    stream = Fed([9, 4, 9, 3, 2, 1])
    assert random_permutation(stream, 3).tolist() == [2, 1, 0]
    assert stream.further == 0
