"""Messages of a secure sum: bytes and back, and nothing else is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.learners.federated.secure import MaskedInput
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    Delivery,
    Roster,
    SealedShares,
    UnmaskRequest,
    UnmaskShares,
)

SESSION = bytes(range(16))
MESSAGES = [
    Advertisement(session=SESSION, sender=2**64 - 1, keys=b"\0\xff" * 32),
    Roster(session=SESSION, keys={0: b"", 2**63: b"ab"}),
    SealedShares(session=SESSION, sender=1, boxes={}),
    Delivery(session=SESSION, receiver=1, boxes={5: b"box"}),
    UnmaskRequest(session=SESSION, arrived=(1, 2), missing=()),
    UnmaskShares(session=SESSION, sender=3, seeds={1: b"s"}, keys={2: b"k"}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_is_read_back_as_it_was(message):
    assert type(message).from_bytes(message.to_bytes()) == message


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8"])
def test_a_vector_is_read_back_as_it_was(dtype):
    vector = np.arange(7, dtype=dtype) - np.ones(7, dtype=dtype)
    data = MaskedInput(session=SESSION, sender=3, vector=vector).to_bytes()
    read = MaskedInput.from_bytes(data)
    assert read.vector.dtype == vector.dtype
    np.testing.assert_array_equal(read.vector, vector)
    with pytest.raises(BadInput, match=rf"^{len(data) - 1} bytes were read that are no MaskedInput"):
        MaskedInput.from_bytes(data[:-1])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_another_kind_more_and_less_are_refused(message):
    data = message.to_bytes()
    other = Roster if isinstance(message, Advertisement) else Advertisement
    with pytest.raises(BadInput, match=f"bytes were read that are no {other.__name__} of a secure sum"):
        other.from_bytes(data)
    for wrong in (b"", data[:3], data[:-1], data + b"x", data.replace(b"session", b"sessio2")):
        with pytest.raises(BadInput, match=f"no {type(message).__name__} of a secure sum"):
            type(message).from_bytes(wrong)
    for wrong in (5, 1.5, True, "text", None):
        with pytest.raises(BadInput, match=f"in place of a {type(message).__name__} of a secure sum"):
            type(message).from_bytes(wrong)


@pytest.mark.parametrize(
    "header",
    [
        b'{"kind":"UnmaskRequest","session":"00","arrived":[1,-1],"missing":[]}',
        b'{"kind":"UnmaskRequest","session":"00","arrived":[true],"missing":[]}',
        b'{"kind":"UnmaskRequest","session":"00","arrived":[1.5],"missing":[]}',
        b'{"kind":"UnmaskRequest","session":"00","arrived":5,"missing":[]}',
        b'{"kind":"UnmaskRequest","session":"0g","arrived":[],"missing":[]}',
        b'{"kind":"UnmaskRequest","session":null,"arrived":[],"missing":[]}',
        b'{"kind":"UnmaskRequest","session":"00","arrived":[],"missing":[],"more":1}',
        b'{"kind":["UnmaskRequest"]}',
        b"[1, 2]",
        b'"text"',
        b"[" * 100_000,
    ],
)
def test_fields_are_checked(header):
    with pytest.raises(BadInput, match="are no UnmaskRequest of a secure sum"):
        UnmaskRequest.from_bytes(len(header).to_bytes(4, "big") + header)


@given(st.binary(max_size=200), st.sampled_from([MaskedInput, *map(type, MESSAGES)]))
def test_any_bytes_are_refused_in_a_sentence(data, kind):
    with pytest.raises(BadInput, match="of a secure sum"):
        kind.from_bytes(data)


def test_two_spellings_of_one_client_are_refused():
    header = b'{"kind":"Roster","session":"00","keys":{"1":"aa","01":"bb"}}'
    with pytest.raises(BadInput, match="no Roster of a secure sum"):
        Roster.from_bytes(len(header).to_bytes(4, "big") + header)
