"""The server's side of a secure sum: it passes sealed boxes on and learns the sum of what arrived."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.key_agreement import MASKING, PUBLIC_BYTES, agreed_key, public_key_of
from sfumato.learners.federated.secure.key_signatures import ADVERTISED_BYTES
from sfumato.learners.federated.secure.masks import RINGS, with_masks
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    Delivery,
    MaskedInput,
    Roster,
    SealedShares,
    UnmaskRequest,
    UnmaskShares,
)
from sfumato.learners.federated.secure.secure_terms import SecureSum
from sfumato.learners.federated.secure.shamir import secret_of

__all__ = ["SecureSumServer"]

FromClient = Advertisement | SealedShares | MaskedInput | UnmaskShares
_STAGES = (Advertisement, SealedShares, MaskedInput, UnmaskShares)


class SecureSumServer:
    """Takes the clients' messages, stage by stage; a closing call ends a stage, and whoever is late is out.

    The four stages end with :meth:`roster`, :meth:`deliveries`, :meth:`request` and :meth:`total`. Each asks
    for at least ``terms.threshold`` messages and can be called again after more have come.
    """

    def __init__(self, terms: SecureSum) -> None:
        self.terms = terms
        self._stage = 0
        self._keys: dict[int, bytes] = {}
        self._boxes: dict[int, dict[int, bytes]] = {}
        self._masked = np.zeros(terms.length, dtype=RINGS[terms.bits])
        self._arrived: set[int] = set()
        self._helpers: dict[int, UnmaskShares] = {}

    @property
    def arrived(self) -> tuple[int, ...]:
        """The clients whose input is in the sum."""
        return tuple(sorted(self._arrived))

    def receive(self, message: FromClient) -> None:
        """Take one client's message of the current stage; anything else is refused and changes nothing."""
        sender, what = message.sender, message.what
        if message.session != self.terms.session:
            raise BadInput(f"client {sender} sent {what} of another session.")
        if not isinstance(message, _STAGES[self._stage]):
            order = "after that stage was over" if _STAGES.index(type(message)) < self._stage else "too early"
            raise BadInput(f"client {sender} sent {what} {order}.")
        if self._stage and sender not in self._expected():
            raise BadInput(f"client {sender} sent {what} and takes no part in this stage.")
        if sender in self._senders():
            raise BadInput(f"client {sender} sent {what} twice; the first counts.")
        if isinstance(message, Advertisement):
            self._take_keys(message)
        elif isinstance(message, SealedShares):
            if set(message.boxes) != set(self._keys) - {sender}:
                raise BadInput(f"client {sender} did not seal shares for exactly the other clients.")
            self._boxes[sender] = message.boxes
        elif isinstance(message, MaskedInput):
            self._take_input(message)
        else:
            if set(message.seeds) != self._arrived or set(message.keys) != set(self._boxes) - self._arrived:
                raise BadInput(f"client {sender} sent shares of other secrets than it was asked for.")
            self._helpers[sender] = message

    def roster(self) -> Roster:
        """Ends the stage of keys: everybody's public keys, for all who advertised theirs."""
        self._close(0)
        return Roster(session=self.terms.session, keys=dict(sorted(self._keys.items())))

    def deliveries(self) -> dict[int, Delivery]:
        """Ends the stage of shares: what each client that shared its secrets is to be given."""
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
        """Ends the stage of inputs: the question to all whose input arrived; later ones are not taken."""
        self._close(2)
        missing = tuple(sorted(set(self._boxes) - self._arrived))
        return UnmaskRequest(session=self.terms.session, arrived=self.arrived, missing=missing)

    def total(self) -> NDArray[np.int64]:
        """The exact sum of the integers of the clients in :attr:`arrived`; nothing of the others is in it."""
        self._close(3)
        helpers = self._helpers
        taken = [self._secret({n: told.seeds[name] for n, told in helpers.items()}) for name in self.arrived]
        added: list[bytes] = []
        for name in sorted(set(self._boxes) - self._arrived):
            private = self._secret({n: told.keys[name] for n, told in helpers.items()})
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

    def _take_keys(self, message: Advertisement) -> None:
        if len(message.keys) not in ADVERTISED_BYTES:
            raise BadInput(
                f"client {message.sender} advertised {len(message.keys)} bytes, which are no two keys."
            )
        if len(self._keys) == self.terms.clients:
            raise BadInput(f"client {message.sender} came after all {self.terms.clients} clients were there.")
        self._keys[message.sender] = message.keys

    def _take_input(self, message: MaskedInput) -> None:
        if message.vector.dtype != self._masked.dtype or message.vector.shape != self._masked.shape:
            raise BadInput(
                f"client {message.sender} sent a masked input of {message.vector.size} integers of "
                f"{8 * message.vector.itemsize} bits, and {self.terms.length} of {self.terms.bits} bits are "
                "summed."
            )
        # Only the sum is kept: nothing here ever needs a single input, masked or not.
        np.add(self._masked, message.vector, out=self._masked)
        self._arrived.add(message.sender)

    def _senders(self) -> set[int]:
        """Who has sent a message in the current stage."""
        return set((self._keys, self._boxes, self._arrived, self._helpers)[self._stage])

    def _expected(self) -> set[int]:
        """Who may send one: whoever sent one in the stage before."""
        return set((self._keys, self._boxes, self._arrived)[self._stage - 1])

    def _close(self, stage: int) -> None:
        if self._stage != stage:
            raise BadInput("the stages of a secure sum end in their order, each once.")
        self.terms.check_enough(len(self._senders()), f"sent {_STAGES[stage].what}")
        self._stage += 1 if stage < 3 else 0

    def _secret(self, shares: dict[int, bytes]) -> bytes:
        return secret_of(shares, self.terms.threshold)

    def _masking(self, name: int) -> bytes:
        return self._keys[name][PUBLIC_BYTES : 2 * PUBLIC_BYTES]
