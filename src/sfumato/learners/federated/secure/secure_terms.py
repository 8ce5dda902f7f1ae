"""The terms of one secure sum: how many take part and must stay, how long vectors are, and in which ring."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.masks import RINGS

__all__ = ["SESSION_BYTES", "SecureSum", "usual_threshold"]

SESSION_BYTES = 16
_LONGEST = 2**40


def usual_threshold(clients: int) -> int:
    """Two thirds of ``clients``, rounded up: always more than half."""
    return -(-2 * clients // 3)


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """What server and clients agree on before a sum; a new ``session`` is drawn for each.

    ``clients`` is the most that take part and ``threshold`` (by default two thirds) the fewest that must stay
    to the end; it must be more than half. Each client is asked once, for one of the two secrets of each other
    client, so even a server that tells different clients different things then cannot collect ``threshold``
    shares of both, unless clients help it: with c of them that takes 2·``threshold`` ≤ ``clients`` + c.
    """

    clients: int
    length: int
    threshold: int = 0
    bits: int = 64
    session: bytes = field(default_factory=lambda: os.urandom(SESSION_BYTES))

    def __post_init__(self) -> None:
        for name in ("clients", "length", "threshold", "bits"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise BadInput(f"`{name}` was {value!r}: it must be a whole number.", parameter=name)
        if not 2 <= self.clients <= 10_000:
            raise BadInput(f"a secure sum is of 2 to 10,000 clients, not of {self.clients}.")
        if self.threshold == 0:
            object.__setattr__(self, "threshold", usual_threshold(self.clients))
        if not self.clients < 2 * self.threshold <= 2 * self.clients:
            raise BadInput(
                f"a threshold of {self.threshold} for {self.clients} clients: it must be more than half of "
                "them and no more than all."
            )
        if not 1 <= self.length <= _LONGEST:
            raise BadInput(f"vectors of {self.length} entries were agreed on: 1 to 2⁴⁰ are summed.")
        if self.bits not in RINGS:
            raise BadInput(
                f"a ring of {self.bits} bits was asked for: it has {', '.join(map(str, RINGS))} bits."
            )
        if not isinstance(self.session, bytes) or len(self.session) != SESSION_BYTES:
            raise BadInput(f"a session is named by {SESSION_BYTES} bytes.")
        if self.limit < 1:
            raise BadInput(f"a ring of {self.bits} bits is too small for sums of {self.clients} clients.")

    def check_enough(self, count: int, did: str) -> None:
        """Refuse to go on with fewer clients than the threshold."""
        if count < self.threshold:
            raise BadInput(
                f"only {count} clients {did}, and {self.threshold} of {self.clients} are needed: there is no "
                "sum."
            )

    @property
    def limit(self) -> int:
        """The largest size of an entry: ``clients`` of this size, of either sign, do not wrap around."""
        return ((1 << (self.bits - 1)) - 1) // self.clients
