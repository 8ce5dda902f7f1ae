"""What a client checks about the public keys of the others before it shares anything with them."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.key_agreement import PUBLIC_BYTES
from sfumato.learners.federated.secure.key_signatures import ADVERTISED_BYTES, check_signature
from sfumato.learners.federated.secure.secure_terms import SecureSum

__all__ = ["check_roster"]


def check_roster(
    roster: Mapping[int, bytes], name: int, own: bytes, terms: SecureSum, trusted: Mapping[int, bytes] | None
) -> None:
    """Refuse a roster in which client ``name``, who advertised ``own``, should not take part.

    It must hold that client as it advertised itself, neither too few nor too many clients, no key twice, and
    with ``trusted`` only clients listed there, whose signatures hold.
    """
    if roster.get(name) != own:
        raise BadInput(f"the roster does not hold the keys that client {name} advertised.")
    if len(roster) > terms.clients:
        raise BadInput(f"the roster lists {len(roster)} clients, and {terms.clients} were agreed on.")
    terms.check_enough(len(roster), "advertised keys")
    for other, advertised in roster.items():
        if len(advertised) not in ADVERTISED_BYTES:
            raise BadInput(f"client {other} advertised {len(advertised)} bytes, which are no two keys.")
        if trusted is None or other == name:
            continue
        if other not in trusted:
            raise BadInput(f"client {other} is on the roster and not among the clients that are trusted.")
        keys, signature = advertised[: 2 * PUBLIC_BYTES], advertised[2 * PUBLIC_BYTES :]
        check_signature(trusted[other], signature, session=terms.session, sender=other, keys=keys)
    single = [one[at : at + PUBLIC_BYTES] for one in roster.values() for at in (0, PUBLIC_BYTES)]
    if len(set(single)) < len(single):
        raise BadInput("two clients of the roster have a key in common.")
