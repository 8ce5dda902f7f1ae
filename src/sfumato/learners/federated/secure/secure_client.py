"""A client's side of a secure sum: its steps, in order, each once.

The client draws two X25519 keys and a 256-bit self-mask seed. It gives every other client a sealed share of
its seed and of its masking key, adds to its vector the mask of the seed and, with opposite signs, the masks
it has in common with each other client, and at the end gives the server shares: for each client EITHER of the
seed OR of the key, as that client's input arrived or not. With both, an input that only arrived late would
lie open; so a client answers one request and refuses one that names a client on both sides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.key_agreement import (
    MASKING,
    PUBLIC_BYTES,
    agreed_key,
    new_private_key,
    public_key_of,
)
from sfumato.learners.federated.secure.key_signatures import signature_of
from sfumato.learners.federated.secure.masks import KEY_BYTES, RINGS, Ring, with_masks
from sfumato.learners.federated.secure.roster import check_roster
from sfumato.learners.federated.secure.sealed_boxes import opened, sealed
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    Delivery,
    MaskedInput,
    Message,
    Roster,
    SealedShares,
    UnmaskRequest,
    UnmaskShares,
)
from sfumato.learners.federated.secure.secure_terms import SecureSum
from sfumato.learners.federated.secure.shamir import SHARE_BYTES, shares_of

__all__ = ["SecureSumClient"]

_STEPS = ("advertise keys", "share keys", "accept shares", "mask its input", "help to unmask")


class SecureSumClient:
    """One client of one sum, known to the others as the number ``name``.

    ``identity``, an Ed25519 private key of 32 bytes, signs what it advertises. With ``trusted``, the Ed25519
    public keys of the clients by name, it takes part only with clients listed there whose signatures hold.
    """

    def __init__(
        self,
        terms: SecureSum,
        name: int,
        *,
        identity: bytes | None = None,
        trusted: Mapping[int, bytes] | None = None,
    ) -> None:
        if isinstance(name, bool) or not isinstance(name, int) or not 0 <= name < 2**64:
            raise BadInput(f"a client was named {name!r}: names are whole numbers from 0 to 2⁶⁴ − 1.")
        self.terms, self.name = terms, name
        self._identity, self._trusted = identity, trusted
        self._sealing_key, self._masking_key = new_private_key(), new_private_key()
        self._seed = os.urandom(KEY_BYTES)
        self._step = 0
        self._roster: dict[int, bytes] = {}
        # By client, those who shared their secrets, itself included: a share of the seed and one of the key.
        self._held: dict[int, bytes] = {}

    def advertise(self) -> Advertisement:
        """Its public keys, for the server."""
        self._begin(0)
        keys = public_key_of(self._sealing_key) + public_key_of(self._masking_key)
        if self._identity is not None:
            keys += signature_of(self._identity, session=self.terms.session, sender=self.name, keys=keys)
        self._step, self._roster = 1, {self.name: keys}
        return Advertisement(session=self.terms.session, sender=self.name, keys=keys)

    def share(self, roster: Roster) -> SealedShares:
        """Shares of its two secrets, sealed for each other client of ``roster``."""
        self._begin(1, roster)
        check_roster(roster.keys, self.name, self._roster[self.name], self.terms, self._trusted)
        threshold, names = self.terms.threshold, list(roster.keys)
        seeds = shares_of(self._seed, names, threshold)
        keys = shares_of(self._masking_key, names, threshold)
        boxes = {}
        for name in names:
            if name != self.name:
                box_key = self._sealing(roster.keys[name], self.name, name)
                boxes[name] = sealed(
                    box_key,
                    seeds[name] + keys[name],
                    session=self.terms.session,
                    sender=self.name,
                    receiver=name,
                )
        self._step, self._roster = 2, dict(roster.keys)
        self._held = {self.name: seeds[self.name] + keys[self.name]}
        return SealedShares(session=self.terms.session, sender=self.name, boxes=boxes)

    def accept(self, delivery: Delivery) -> None:
        """Open what the others sealed; from here on it is settled whose masks are used."""
        self._begin(2, delivery)
        if delivery.receiver != self.name:
            raise BadInput(f"client {self.name} was given what is meant for client {delivery.receiver}.")
        held = dict(self._held)
        for other, box in delivery.boxes.items():
            if other == self.name or other not in self._roster:
                raise BadInput(f"client {self.name} was given shares of client {other}, who takes no part.")
            box_key = self._sealing(self._roster[other], other, self.name)
            plain = opened(box_key, box, session=self.terms.session, sender=other, receiver=self.name)
            if len(plain) != 2 * SHARE_BYTES:
                raise BadInput(
                    f"client {other} sealed {len(plain)} bytes: two shares have {2 * SHARE_BYTES}."
                )
            held[other] = plain
        self.terms.check_enough(len(held), "shared their keys")
        self._step, self._held = 3, held

    def mask(self, integers: ArrayLike) -> MaskedInput:
        """``integers``, one for each entry of the vector, under all masks."""
        self._begin(3)
        ring = self._checked(integers)
        added, taken = [self._seed], list[bytes]()
        for other in self._held:
            if other != self.name:
                (added if self.name < other else taken).append(self._masking(other))
        vector = with_masks(ring, added=added, taken=taken)
        self._step = 4
        return MaskedInput(session=self.terms.session, sender=self.name, vector=vector)

    def unmask(self, request: UnmaskRequest) -> UnmaskShares:
        """Shares for the sum over ``request.arrived``: of a client's seed or of its key, never both."""
        self._begin(4, request)
        arrived, missing = set(request.arrived), set(request.missing)
        if arrived & missing or len(arrived) + len(missing) < len(request.arrived) + len(request.missing):
            raise BadInput(
                f"client {self.name} was asked twice about one client: it gives one of that client's two "
                "secrets, once."
            )
        if arrived | missing != set(self._held) or self.name not in arrived:
            raise BadInput(
                f"client {self.name} was asked to unmask a sum of other clients than those it has masks in "
                "common with."
            )
        self.terms.check_enough(len(arrived), "sent their input")
        seeds = {name: self._held[name][:SHARE_BYTES] for name in sorted(arrived)}
        keys = {name: self._held[name][SHARE_BYTES:] for name in sorted(missing)}
        self._step = 5
        return UnmaskShares(session=self.terms.session, sender=self.name, seeds=seeds, keys=keys)

    def state(self) -> bytes:
        """Everything this client must remember between steps; secret, for the client's own storage only."""
        secrets = (self._sealing_key, self._masking_key, self._seed)
        return json.dumps(
            {
                "step": self._step,
                "secrets": [one.hex() for one in secrets],
                "roster": {name: one.hex() for name, one in self._roster.items()},
                "held": {name: one.hex() for name, one in self._held.items()},
            }
        ).encode()

    @classmethod
    def resumed(
        cls, terms: SecureSum, name: int, state: bytes, *, trusted: Mapping[int, bytes] | None = None
    ) -> SecureSumClient:
        """The client whose :meth:`state` this was."""
        client, found = cls(terms, name, trusted=trusted), json.loads(state)
        client._sealing_key, client._masking_key, client._seed = map(bytes.fromhex, found["secrets"])
        client._step = found["step"]
        client._roster = {int(other): bytes.fromhex(one) for other, one in found["roster"].items()}
        client._held = {int(other): bytes.fromhex(one) for other, one in found["held"].items()}
        return client

    def _begin(self, step: int, message: Message | None = None) -> None:
        if message is not None and message.session != self.terms.session:
            raise BadInput(f"client {self.name} was given a {type(message).__name__} of another session.")
        if self._step != step:
            order = "a second time" if self._step > step else "too early"
            raise BadInput(f"client {self.name} was asked {order} to {_STEPS[step]}.")

    def _checked(self, integers: ArrayLike) -> Ring:
        given = np.asarray(integers)
        if given.dtype.kind not in "iu" or given.shape != (self.terms.length,):
            raise BadInput(
                f"client {self.name} brought an array of shape {given.shape} and type {given.dtype}: "
                f"{self.terms.length} whole numbers are summed."
            )
        if max(-int(given.min()), int(given.max())) > self.terms.limit:
            raise BadInput(
                f"client {self.name} brought a number beyond ±{self.terms.limit}, with which the sum of "
                f"{self.terms.clients} clients could wrap around."
            )
        return given.astype(RINGS[self.terms.bits])

    def _sealing(self, keys: bytes, sender: int, receiver: int) -> bytes:
        # A key for each direction, so that one key seals one box.
        direction = b"sealing up" if sender < receiver else b"sealing down"
        return agreed_key(
            self._sealing_key, keys[:PUBLIC_BYTES], session=self.terms.session, purpose=direction
        )

    def _masking(self, other: int) -> bytes:
        keys = self._roster[other][PUBLIC_BYTES : 2 * PUBLIC_BYTES]
        return agreed_key(self._masking_key, keys, session=self.terms.session, purpose=MASKING)
