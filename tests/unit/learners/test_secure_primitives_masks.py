"""Masks use the whole 256-bit key; a mask that does not is caught by trying all its seeds."""

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from secure_rounds import mask

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_primitives import RINGS, with_masks

KEY = hashlib.sha256(b"a key").digest()
# AES-256 of the counter blocks 0 and 1 under the zero key: H and E(K, Y₀) of the GCM specification's case 13.
ZERO_KEY_STREAM = bytes.fromhex("dc95c078a2408989ad48a21492842087530f8afbc74536b9a963b4f1c4cb738b")


@pytest.mark.parametrize("bits", RINGS)
def test_a_mask_is_the_published_key_stream_of_aes_256(bits):
    length = 256 // bits
    assert mask(bytes(32), length, bits).tobytes() == ZERO_KEY_STREAM
    assert mask(bytes(32), length - 1, bits).tobytes() == ZERO_KEY_STREAM[: -bits // 8]


@pytest.mark.parametrize("bits", RINGS)
def test_a_long_mask_is_one_key_stream_without_gaps(bits):
    """Longer than the blocks in which it is made, and no multiple of them."""
    length = 300_001
    cipher = Cipher(algorithms.AES256(KEY), modes.CTR(bytes(16))).encryptor()
    assert mask(KEY, length, bits).tobytes() == cipher.update(bytes(length * bits // 8))


@pytest.mark.parametrize("bit", range(256))
def test_every_bit_of_the_key_changes_the_mask(bit):
    """A false alarm would be two equal 512-bit strings."""
    flipped = (int.from_bytes(KEY, "big") ^ (1 << bit)).to_bytes(32, "big")
    assert not np.any(mask(flipped, 8) == mask(KEY, 8))


@pytest.mark.parametrize("shared", [KEY[:4], KEY[-4:]])
def test_keys_that_share_32_bits_have_nothing_else_in_common(shared):
    other = hashlib.sha256(b"another key").digest()
    other = shared + other[4:] if KEY.startswith(shared) else other[:-4] + shared
    assert not np.any(mask(other, 1000) == mask(KEY, 1000))


def test_flowers_own_masks_know_32_bits_of_the_key():
    """Why Flower's SecAgg+ is not used: keys whose 32-bit words have the same XOR give the same mask."""
    theirs = pytest.importorskip("flwr.common.secure_aggregation.secaggplus_utils").pseudo_rand_gen
    words = np.frombuffer(KEY, dtype=np.uint32)
    other = np.concatenate([words[:6] ^ np.uint32(0x9E3779B9), words[6:]]).tobytes()
    folded = bytes(28) + np.bitwise_xor.reduce(words).tobytes()
    expected = theirs(KEY, 2**32, [(1000,)])[0]
    for one in (other, folded):
        assert one != KEY
        np.testing.assert_array_equal(theirs(one, 2**32, [(1000,)])[0], expected)
        assert not np.any(mask(one, 1000) == mask(KEY, 1000))


def folded_mask(key, length):
    """A deliberately broken mask: only 16 bits of the key count (Flower's: 32)."""
    words = np.frombuffer(key, dtype="<u2")
    return of_seed(int(np.bitwise_xor.reduce(words)), length)


def of_seed(seed, length):
    return mask(hashlib.sha256(seed.to_bytes(4, "big")).digest(), length)


def found_by_trying(masked, guess, start):
    """The rest of a vector of which ``start`` entries are known, by trying all seeds; None if none fits."""
    for seed in range(2**16):
        trial = guess(seed, len(start))
        if np.array_equal(masked[: len(start)] - trial, start):
            return masked - guess(seed, len(masked))
    return None


def test_a_mask_from_a_short_seed_is_broken_by_trying_all_of_them():
    """Two known entries are enough. The same search finds nothing against the whole key (chance 2⁻¹¹²)."""
    vector = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.uint64)
    broken = vector + folded_mask(KEY, 8)
    np.testing.assert_array_equal(found_by_trying(broken, of_seed, vector[:2]), vector)
    assert found_by_trying(vector + mask(KEY, 8), of_seed, vector[:2]) is None


def test_what_is_added_can_be_taken_and_nothing_given_is_changed():
    values = np.arange(5, dtype=np.uint32)
    masked = with_masks(values, added=[KEY, bytes(32)], taken=[])
    np.testing.assert_array_equal(with_masks(masked, added=[], taken=[bytes(32), KEY]), values)
    np.testing.assert_array_equal(values, np.arange(5))
    assert not np.any(masked == values)


def test_short_keys_and_signed_values_are_refused():
    with pytest.raises(BadInput, match="a mask takes a key of 32 bytes, and one of 4 bytes was given"):
        mask(b"abcd", 3)
    with pytest.raises(BadInput, match="masks are added to unsigned integers of 16, 32, 64 bits"):
        with_masks(np.arange(3), added=[KEY], taken=[])
