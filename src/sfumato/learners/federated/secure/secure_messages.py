"""Terms of a secure sum, quantisation of vectors to integers, and the messages, each to bytes and back.

| stage | client → server | server → client |
|---|---|---|
| keys | :class:`Advertisement` | :class:`Roster` |
| shares | :class:`SealedShares` | :class:`Delivery` |
| inputs | :class:`MaskedInput` | :class:`UnmaskRequest` |
| unmasking | :class:`UnmaskShares` | |

On the wire a message is a JSON header behind its length, bytes in it as hexadecimal digits, and, for a masked
input, the vector itself as little-endian integers. What is read is checked: kind, fields and types.

:class:`SecureSum` holds the terms: how many take part and must stay, how long vectors are, and in which ring.

:class:`Quantiser` takes clipped floating-point vectors to integers whose sum neither wraps around nor loses a
bit, and back. Values are clipped to [−``clip``, ``clip``], divided by ``step`` and rounded toward zero:
integers of size at most ⌊clip / step⌋. A value that stands on the grid already, such as grid-exact noise on a
grid at least as coarse, stays what it is. The sum of n clients is at most n·⌊clip / step⌋ in size, which must
be at most 2^(bits−1) − 1, so that it does not wrap around, and at most 2⁵³, so that float64 holds it; times a
power of two it is then exact. Rounding and clipping what a mechanism released is post-processing: it costs
nothing.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_primitives import RINGS, Ring

__all__ = ["MaskedInput", "Quantiser", "SecureSum"]

SESSION_BYTES = 16
_LONGEST = 2**40
_LENGTH_BYTES = 4
_CLIENT_LIMIT = 2**64


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """The terms that server and clients agree on before a sum; a new ``session`` is drawn for each.

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
            # Two thirds, rounded up: always more than half.
            object.__setattr__(self, "threshold", -(-2 * self.clients // 3))
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


@dataclass(frozen=True, kw_only=True)
class Quantiser:
    """The public grid of a secure sum; ``step`` is a power of two. The same for all clients."""

    clip: float = 1024.0
    step: float = 2.0**-30

    def __post_init__(self) -> None:
        for name in ("clip", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
                raise BadInput(f"`{name}` was {value!r}: it must be a positive number.", parameter=name)
        if not 1e-300 < self.step < 1e300 or math.frexp(self.step)[0] != 0.5:
            raise BadInput(
                f"`step` was {self.step!r}: it must be a power of two, such as 2⁻³⁰.", parameter="step"
            )
        if not 1.0 <= self.clip / self.step <= 2.0**53:
            raise BadInput(
                f"a clip of {self.clip:g} and a step of {self.step:g}: the clip must be 1 to 2⁵³ steps wide."
            )

    @property
    def largest(self) -> int:
        """The largest size of an integer that a value becomes."""
        return math.floor(self.clip / self.step)

    def check(self, terms: SecureSum) -> None:
        """Refuse ``terms`` under which a sum of these integers could wrap around or lose bits."""
        if self.largest > terms.limit or self.largest * terms.clients > 2**53:
            raise BadInput(
                f"{terms.clients} clients with values up to {self.clip:g} in steps of {self.step:g} do not "
                f"fit into sums of {min(terms.bits, 54)} bits; declare a smaller clip or a larger step."
            )

    def integers(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return one integer a value, in a new array of the same shape."""
        given = np.asarray(values, dtype=np.float64)
        if not np.isfinite(given).all():
            raise BadInput("a vector to be summed holds NaN or infinities: finite numbers are summed.")
        cells = np.clip(given, -self.clip, self.clip)
        cells /= self.step
        return np.trunc(cells, out=cells).astype(np.int64)

    def values(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of ``integers``; exact for sums that ``check`` admits."""
        return integers.astype(np.float64) * self.step


@dataclass(frozen=True, kw_only=True)
class Message:
    """Anything that travels; ``session`` says to which sum it belongs."""

    session: bytes

    def to_bytes(self) -> bytes:
        """Return the bytes that travel."""
        header: dict[str, Any] = {"kind": type(self).__name__}
        payload = b""
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                header["bits"], payload = 8 * value.itemsize, value.tobytes()
            else:
                header[one.name] = _written(value)
        text = json.dumps(header, separators=(",", ":")).encode()
        return len(text).to_bytes(_LENGTH_BYTES, "big") + text + payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the message of this kind that ``data`` holds; anything else is refused."""
        if not isinstance(data, bytes):
            raise BadInput(f"a {type(data).__name__} came in place of a {cls.__name__} of a secure sum.")
        try:
            size = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
            header, payload = json.loads(data[_LENGTH_BYTES:size]), data[size:]
            if header.pop("kind") != cls.__name__:
                raise ValueError
            found: dict[str, Any] = {}
            for one in fields(cls):
                if one.type == "Ring":
                    found[one.name] = np.frombuffer(payload, dtype=RINGS[header.pop("bits")])
                    payload = b""
                else:
                    found[one.name] = _READERS[str(one.type)](header.pop(one.name))
            if header or payload:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadInput(
                f"{len(data)} bytes were read that are no {cls.__name__} of a secure sum."
            ) from None
        return cls(**found)


@dataclass(frozen=True, kw_only=True)
class Advertisement(Message):
    """Two public keys of ``sender``, 32 bytes each (for sealing, for masks), and perhaps a signature."""

    what: ClassVar[str] = "advertised keys"
    sender: int
    keys: bytes


@dataclass(frozen=True, kw_only=True)
class Roster(Message):
    """The advertised keys of every client that takes part, by client."""

    keys: dict[int, bytes]


@dataclass(frozen=True, kw_only=True)
class SealedShares(Message):
    """Shares of the secrets of ``sender``, sealed for each other client."""

    what: ClassVar[str] = "sealed shares"
    sender: int
    boxes: dict[int, bytes]


@dataclass(frozen=True, kw_only=True)
class Delivery(Message):
    """The shares that other clients sealed for ``receiver``, by sender."""

    receiver: int
    boxes: dict[int, bytes]


@dataclass(frozen=True, kw_only=True)
class MaskedInput(Message):
    """The vector of ``sender`` under all its masks."""

    what: ClassVar[str] = "masked input"
    sender: int
    vector: Ring


@dataclass(frozen=True, kw_only=True)
class UnmaskRequest(Message):
    """The clients whose input arrived (self-masks are wanted) and whose did not (keys are)."""

    arrived: tuple[int, ...]
    missing: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class UnmaskShares(Message):
    """Shares held by ``sender``: of the seeds of those whose input arrived, of the keys of the others."""

    what: ClassVar[str] = "unmasking shares"
    sender: int
    seeds: dict[int, bytes]
    keys: dict[int, bytes]


def _written(value: int | bytes | tuple[int, ...] | dict[int, bytes]) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): one.hex() for name, one in value.items()}
    return value


def _client(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _CLIENT_LIMIT:
        raise ValueError
    return value


def _clients(value: Any) -> tuple[int, ...]:
    return tuple(_client(one) for one in value)


def _map(value: Any) -> dict[int, bytes]:
    found = {_client(int(name)): bytes.fromhex(one) for name, one in value.items()}
    if len(found) < len(value):
        raise ValueError
    return found


_READERS = {"int": _client, "bytes": bytes.fromhex, "tuple[int, ...]": _clients, "dict[int, bytes]": _map}
