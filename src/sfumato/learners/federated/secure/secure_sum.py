"""The client's and the server's side of a secure sum: their steps, in order, each once.

**Client.** It draws two X25519 keys and a 256-bit self-mask seed, and checks the public keys of the others
before it shares anything with them. It gives every other client a sealed share of its seed and of its masking
key, adds to its vector the mask of the seed and, with opposite signs, the masks it has in common with each
other client, and at the end gives the server shares: for each client EITHER of the seed OR of the key, as
that client's input arrived or not. With both, an input that only arrived late would lie open; so a client
answers one request and refuses one that names a client on both sides.

**Server.** It passes sealed boxes on and learns the sum of what arrived.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    Delivery,
    MaskedInput,
    Message,
    Roster,
    SealedShares,
    SecureSum,
    UnmaskRequest,
    UnmaskShares,
)
from sfumato.learners.federated.secure.secure_primitives import (
    ADVERTISED_BYTES,
    KEY_BYTES,
    MASKING,
    PUBLIC_BYTES,
    RINGS,
    SHARE_BYTES,
    Ring,
    agreed_key,
    check_signature,
    new_private_key,
    opened,
    public_key_of,
    sealed,
    secret_of,
    shares_of,
    signature_of,
    with_masks,
)

__all__ = ["SecureSumClient", "SecureSumServer"]
FromClient = Advertisement | SealedShares | MaskedInput | UnmaskShares
_STAGES = (Advertisement, SealedShares, MaskedInput, UnmaskShares)
_STEPS = ("advertise keys", "share keys", "accept shares", "mask its input", "help to unmask")


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


class SecureSumServer:
    """Takes the clients' messages, stage by stage; a closing call ends a stage, and whoever is late is out.

    The four stages end with :meth:`roster`, :meth:`deliveries`, :meth:`request` and :meth:`total`. Each asks
    for at least ``terms.threshold`` messages and can be called again after more have come.
    """

    def __init__(self, terms: SecureSum) -> None:
        self.terms = terms
        self._stage = 0
        # What each client sent, by stage; of masked inputs the sum alone is kept.
        self._keys, self._boxes = dict[int, bytes](), dict[int, dict[int, bytes]]()
        self._arrived, self._helpers = dict[int, None](), dict[int, UnmaskShares]()
        self._came: tuple[dict[int, Any], ...] = (self._keys, self._boxes, self._arrived, self._helpers)
        self._masked = np.zeros(terms.length, dtype=RINGS[terms.bits])

    @property
    def arrived(self) -> tuple[int, ...]:
        """The clients whose input is in the sum."""
        return tuple(sorted(self._arrived))

    def receive(self, message: FromClient) -> None:
        """Take one client's message of the current stage; anything else is refused and changes nothing."""
        sender, what, stage = message.sender, message.what, self._stage
        if message.session != self.terms.session:
            raise BadInput(f"client {sender} sent {what} of another session.")
        if not isinstance(message, _STAGES[stage]):
            order = "after that stage was over" if _STAGES.index(type(message)) < stage else "too early"
            raise BadInput(f"client {sender} sent {what} {order}.")
        if stage and sender not in self._came[stage - 1]:
            raise BadInput(f"client {sender} sent {what} and takes no part in this stage.")
        if sender in self._came[stage]:
            raise BadInput(f"client {sender} sent {what} twice; the first counts.")
        self._came[stage][sender] = self._checked(message)

    def _checked(self, message: FromClient) -> Any:
        """Return what is kept of ``message``, if it is whole."""
        sender = message.sender
        if isinstance(message, Advertisement):
            if len(message.keys) not in ADVERTISED_BYTES:
                raise BadInput(
                    f"client {sender} advertised {len(message.keys)} bytes, which are no two keys."
                )
            if len(self._keys) == self.terms.clients:
                raise BadInput(f"client {sender} came after all {self.terms.clients} clients were there.")
            return message.keys
        if isinstance(message, SealedShares):
            if set(message.boxes) != set(self._keys) - {sender}:
                raise BadInput(f"client {sender} did not seal shares for exactly the other clients.")
            return message.boxes
        if isinstance(message, UnmaskShares):
            missing = set(self._boxes) - set(self._arrived)
            if set(message.seeds) != set(self._arrived) or set(message.keys) != missing:
                raise BadInput(f"client {sender} sent shares of other secrets than it was asked for.")
            return message
        if message.vector.dtype != self._masked.dtype or message.vector.shape != self._masked.shape:
            raise BadInput(
                f"client {sender} sent a masked input of {message.vector.size} integers of "
                f"{8 * message.vector.itemsize} bits, and {self.terms.length} of {self.terms.bits} bits are "
                "summed."
            )
        # Only the sum is kept: nothing here ever needs a single input, masked or not.
        np.add(self._masked, message.vector, out=self._masked)
        return None

    def roster(self) -> Roster:
        """End the stage of keys; return all public keys, for all who advertised theirs."""
        self._close(0)
        return Roster(session=self.terms.session, keys=dict(sorted(self._keys.items())))

    def deliveries(self) -> dict[int, Delivery]:
        """End the stage of shares; return what each client that shared its secrets is to be given."""
        self._close(1)
        return {
            name: Delivery(
                session=self.terms.session,
                receiver=name,
                boxes={other: boxes[name] for other, boxes in sorted(self._boxes.items()) if other != name},
            )
            for name in sorted(self._boxes)
        }

    def request(self) -> UnmaskRequest:
        """End the stage of inputs; return the request to all whose input arrived. Later ones are ignored."""
        self._close(2)
        missing = tuple(sorted(set(self._boxes) - set(self._arrived)))
        return UnmaskRequest(session=self.terms.session, arrived=self.arrived, missing=missing)

    def total(self) -> NDArray[np.int64]:
        """Return the exact sum of the integers of the clients in :attr:`arrived`, and of no others."""
        self._close(3)
        helpers = self._helpers
        threshold = self.terms.threshold
        taken = [
            secret_of({n: told.seeds[name] for n, told in helpers.items()}, threshold)
            for name in self.arrived
        ]
        added: list[bytes] = []
        for name in sorted(set(self._boxes) - set(self._arrived)):
            private = secret_of({n: told.keys[name] for n, told in helpers.items()}, threshold)
            if public_key_of(private) != self._masking(name):
                raise BadInput(
                    f"the shares of the key of client {name} do not give the key that it advertised."
                )
            for other in self.arrived:
                key = agreed_key(private, self._masking(other), session=self.terms.session, purpose=MASKING)
                # The client that stayed had added this mask if its number is the smaller one.
                (taken if other < name else added).append(key)
        ring = with_masks(self._masked, added=added, taken=taken)
        return ring.view(f"<i{ring.itemsize}").astype(np.int64)

    def _close(self, stage: int) -> None:
        if self._stage != stage:
            raise BadInput("the stages of a secure sum end in their order, each once.")
        self.terms.check_enough(len(self._came[stage]), f"sent {_STAGES[stage].what}")
        self._stage += 1 if stage < 3 else 0

    def _masking(self, name: int) -> bytes:
        return self._keys[name][PUBLIC_BYTES : 2 * PUBLIC_BYTES]


@dataclass(frozen=True, kw_only=True)
class _ClientState(Message):
    """What a client remembers between steps."""

    step: int
    sealing_key: bytes
    masking_key: bytes
    seed: bytes
    roster: dict[int, bytes]
    held: dict[int, bytes]


_REMEMBERED = [one.name for one in fields(_ClientState) if one.name != "session"]


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
        """Return its public keys, for the server."""
        self._begin(0)
        keys = public_key_of(self._sealing_key) + public_key_of(self._masking_key)
        if self._identity is not None:
            keys += signature_of(self._identity, session=self.terms.session, sender=self.name, keys=keys)
        self._step, self._roster = 1, {self.name: keys}
        return Advertisement(session=self.terms.session, sender=self.name, keys=keys)

    def share(self, roster: Roster) -> SealedShares:
        """Return shares of its two secrets, sealed for each other client of ``roster``."""
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
        """Return ``integers``, one for each entry of the vector, under all masks."""
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
        """Return shares for the sum over ``request.arrived``: of a client's seed or its key, never both."""
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
        """Return all this client must remember between steps; secret, for the client's own storage only."""
        kept = {name: getattr(self, f"_{name}") for name in _REMEMBERED}
        return _ClientState(session=self.terms.session, **kept).to_bytes()

    @classmethod
    def resumed(
        cls, terms: SecureSum, name: int, state: bytes, *, trusted: Mapping[int, bytes] | None = None
    ) -> SecureSumClient:
        """Return the client whose :meth:`state` this was."""
        client, found = cls(terms, name, trusted=trusted), _ClientState.from_bytes(state)
        for one in _REMEMBERED:
            setattr(client, f"_{one}", getattr(found, one))
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
