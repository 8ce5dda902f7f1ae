"""Secret sharing: any threshold of shares gives the secret, fewer fit every secret."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_primitives import PRIME, SHARE_BYTES, secret_of, shares_of

SECRETS = st.binary(min_size=32, max_size=32) | st.sampled_from([bytes(32), b"\xff" * 32])


@given(SECRETS, st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=9), st.data())
@settings(deadline=None)
def test_any_threshold_of_shares_gives_the_secret(secret, holders, data):
    threshold = data.draw(st.integers(1, len(holders)))
    shares = shares_of(secret, holders, threshold)
    chosen = data.draw(st.permutations(sorted(holders)))[: data.draw(st.integers(threshold, len(holders)))]
    assert secret_of({name: shares[name] for name in chosen}, threshold) == secret


@given(SECRETS, SECRETS, st.integers(2, 6))
@settings(deadline=None)
def test_fewer_shares_fit_every_secret(secret, other, threshold):
    """For every other secret there is one value of a further share with which the shares at hand give it."""
    shares = shares_of(secret, range(threshold), threshold)
    # The secret is linear in the last share: λ is what one more of it adds.
    last = threshold - 1
    weight = 1
    for name in range(last):
        weight = weight * (name + 1) * pow(name - last, -1, PRIME) % PRIME
    change = int.from_bytes(other, "big") - int.from_bytes(secret, "big")
    moved = (int.from_bytes(shares[last], "big") + change * pow(weight, -1, PRIME)) % PRIME
    assert secret_of({**shares, last: moved.to_bytes(SHARE_BYTES, "big")}, threshold) == other


def test_shares_are_drawn_anew():
    """A false alarm would be two equal 256-bit numbers."""
    assert shares_of(bytes(32), [1, 2], 2) != shares_of(bytes(32), [1, 2], 2)


def test_the_field_has_a_prime_number_of_elements_above_every_secret():
    """Miller's test to 40 bases: a composite number passes with a chance of at most 4⁻⁴⁰."""
    assert PRIME > 2**256
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        power = pow(base, odd, PRIME)
        if power in (1, PRIME - 1):
            continue
        squares = []
        for _ in range(twos - 1):
            power = power * power % PRIME
            squares.append(power)
        assert PRIME - 1 in squares


def test_shares_that_do_not_belong_together_are_refused_where_it_shows():
    # One share of a threshold of 1 is the secret itself; these do not fit into 32 bytes.
    for number in (2**256, PRIME - 1):
        with pytest.raises(BadInput, match="the shares that were given do not belong to one secret"):
            secret_of({0: number.to_bytes(SHARE_BYTES, "big")}, 1)
    for share in (PRIME.to_bytes(SHARE_BYTES, "big"), b"short"):
        with pytest.raises(BadInput, match="a share is a number below the prime, in 33 bytes"):
            secret_of({0: share}, 1)


@pytest.mark.parametrize(
    ("secret", "holders", "threshold", "sentence"),
    [
        (bytes(31), [1, 2], 2, "a secret of 32 bytes is shared, and 31 bytes were given"),
        (bytes(32), [1, 2], 3, "a threshold of 3 cannot be met by 2 holders"),
        (bytes(32), [1, 2], 0, "a threshold of 0 cannot be met"),
        (bytes(32), [1, 1], 2, "two holders of shares have the same number"),
        (bytes(32), [-1, 2], 2, "a holder of shares has the number -1"),
    ],
)
def test_what_cannot_be_shared_is_refused(secret, holders, threshold, sentence):
    with pytest.raises(BadInput, match=sentence):
        shares_of(secret, holders, threshold)


def test_too_few_shares_are_refused():
    shares = shares_of(bytes(32), [1, 2, 3], 3)
    with pytest.raises(BadInput, match="2 shares were given, and 3 are needed"):
        secret_of({name: shares[name] for name in (1, 2)}, 3)
