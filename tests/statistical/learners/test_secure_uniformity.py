"""One masked update looks uniform; shares of noise add up to the noise that is promised."""

import math

import numpy as np
import pytest
from frequencies import fits
from scipy.stats import chi2
from sklearn.datasets import load_digits

from sfumato.learners.federated.secure import (
    NoiseShare,
    Quantiser,
    SecureSum,
    SecureSumClient,
    SecureSumServer,
)
from sfumato.learners.federated.secure.noise_share import share_of
from sfumato.noise import Secure

LENGTH = 1 << 18
CHANCE = 1e-7


def updates(bits):
    """Vectors that are anything but uniform: nothing, the largest numbers, and pictures of digits."""
    terms = SecureSum(clients=3, length=LENGTH, bits=bits)
    pictures = np.resize(load_digits().data.ravel() / 16.0, LENGTH)
    grid = Quantiser(clip=1.0, step=2.0**-12)
    return terms, {
        "zeros": np.zeros(LENGTH, dtype=np.int64),
        "largest": np.full(LENGTH, terms.limit),
        "pictures": grid.integers(pictures),
    }


def masked_update(terms, integers):
    clients = [SecureSumClient(terms, name) for name in range(3)]
    server = SecureSumServer(terms)
    for client in clients:
        server.receive(client.advertise())
    roster = server.roster()
    for client in clients:
        server.receive(client.share(roster))
    clients[1].accept(server.deliveries()[1])
    return clients[1].mask(integers).vector


def each_bit_is_a_fair_coin(vector):
    """Hoeffding's bound for each place of a bit; the chance is split over the places."""
    places = 8 * vector.itemsize
    ones = [int(((vector >> np.array(at, dtype=vector.dtype)) & 1).sum()) for at in range(places)]
    far = math.sqrt(len(vector) * math.log(2 * places / CHANCE) / 2)
    return all(abs(count - len(vector) / 2) <= far for count in ones)


def bytes_are_equally_frequent(vector):
    counts = np.bincount(np.frombuffer(vector.tobytes(), dtype=np.uint8), minlength=256)
    return fits(counts, np.full(256, 1 / 256))


def neighbours_are_independent(vector):
    """Pairs of the top four bits of an entry and of the next, in pairs that do not overlap."""
    top = (vector >> np.array(8 * vector.itemsize - 4, dtype=vector.dtype)).astype(np.int64)
    return fits(np.bincount(16 * top[0::2] + top[1::2], minlength=256), np.full(256, 1 / 256))


def says_nothing_of_the_input(vector, integers):
    """Hoeffding's bound for Σ x·y with y in [−1, 1] and of mean zero: |Σ x·y| ≤ √(2 Σx² ln(2/chance))."""
    y = 2.0 * vector.astype(np.float64) / 2.0 ** (8 * vector.itemsize) - 1.0
    x = integers / max(1.0, np.abs(integers).max())
    # The mean of y is −2^−bits and not zero: that much is allowed on top.
    allowed = math.sqrt(2 * np.square(x).sum() * math.log(2 / CHANCE)) + np.abs(x).sum() * 2.0**-14
    return abs(float(x @ y)) <= allowed


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("name", ["zeros", "largest", "pictures"])
def test_a_single_masked_update_looks_uniform(name, bits):
    """False-alarm rate: four tests of at most 2e-7 each, below 1e-6 together. They do not show secrecy.

    That nobody without the keys can tell more is the assumption that AES-256 is a pseudo-random function.
    """
    terms, vectors = updates(bits)
    vector = masked_update(terms, vectors[name])
    assert each_bit_is_a_fair_coin(vector)
    assert bytes_are_equally_frequent(vector)
    assert neighbours_are_independent(vector)
    assert says_nothing_of_the_input(vector, vectors[name])


def test_an_update_without_masks_fails_every_test():
    """No chance of a false alarm. A mask of half the ring, added to pictures, fails too."""
    terms, vectors = updates(64)
    plain = vectors["pictures"].astype(np.uint64)
    assert not each_bit_is_a_fair_coin(plain)
    assert not bytes_are_equally_frequent(plain)
    assert not neighbours_are_independent(plain)
    assert not says_nothing_of_the_input(plain << np.uint64(51), vectors["pictures"])
    half = masked_update(terms, vectors["zeros"]) >> np.uint64(1)
    assert not each_bit_is_a_fair_coin(half + plain)


@pytest.mark.parametrize(("honest", "clients"), [(1, 2), (2, 4), (7, 11)])
def test_shares_of_noise_reach_the_promised_deviation(honest, clients):
    """The sum of the honest clients' integers against χ²: false alarms 1e-6; noise 20% too small is caught.

    Rounding to the grid changes the variance by less than 1e-7 of it, far below what the test can see.
    """
    terms = SecureSum(clients=clients, length=20_000)
    noise = NoiseShare(clip=1.0, sigma=3.0, honest=honest)
    vectors = np.random.default_rng(honest).normal(size=(honest, terms.length))
    total = sum(noise.integers(one, terms, Secure()) for one in vectors)
    exact = sum(np.trunc(one / np.linalg.norm(one) / noise.step(terms)) for one in vectors)
    drawn = noise.values(total - exact.astype(np.int64), terms)
    # Clipping may round one entry of a vector differently, by one step of the grid.
    squares = float(np.square(drawn / 3.0).sum())
    low, high = chi2.isf(1 - 5e-7, terms.length), chi2.isf(5e-7, terms.length)
    assert low * (1 - 1e-3) < squares < high * (1 + 1e-3)
    assert squares * 0.8**2 < low * (1 - 1e-3)
    # Less than the promised number of honest clients, and the noise is less: said in the module.
    if honest > 1:
        assert share_of(3.0, honest) < 3.0 * 0.8
