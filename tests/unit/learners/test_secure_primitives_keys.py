"""Keys belong to one session, one purpose and one pair; boxes to one way between two clients."""

import pytest

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_primitives import (
    agreed_key,
    new_private_key,
    opened,
    public_key_of,
    sealed,
)

KEY, SESSION, OTHER = bytes(range(32)), b"s" * 16, b"t" * 16


def test_two_clients_agree_on_one_key_for_each_use():
    ours, theirs, third = (new_private_key() for _ in range(3))

    def agreed(private, public, session=SESSION, purpose=b"mask"):
        return agreed_key(private, public_key_of(public), session=session, purpose=purpose)

    assert agreed(ours, theirs) == agreed(theirs, ours)
    others = {
        agreed(ours, theirs),
        agreed(ours, third),
        agreed(ours, theirs, session=OTHER),
        agreed(ours, theirs, purpose=b"sealing up"),
        # Purpose and session stand behind their lengths: what is moved from one to the other is noticed.
        agreed(ours, theirs, session=SESSION[1:], purpose=b"masks"),
    }
    assert len(others) == 5
    assert {len(one) for one in others} == {32}


def test_a_box_is_opened_only_where_it_was_sent():
    way = {"session": SESSION, "sender": 1, "receiver": 2}
    box = sealed(KEY, b"plain", **way)
    assert opened(KEY, box, **way) == b"plain"
    assert box != sealed(KEY, b"plain", **way)
    for wrong in ({"session": OTHER}, {"sender": 3}, {"receiver": 3}, {"sender": 2, "receiver": 1}):
        with pytest.raises(BadInput, match=r"was changed on the way or is of another session"):
            opened(KEY, box, **{**way, **wrong})
    with pytest.raises(BadInput, match="what client 1 sealed for client 2 was changed on the way"):
        opened(bytes(32), box, **way)
