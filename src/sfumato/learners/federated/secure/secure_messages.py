"""The messages of a secure sum, in the order in which they travel, each to bytes and back.

| stage | client → server | server → client |
|---|---|---|
| keys | :class:`Advertisement` | :class:`Roster` |
| shares | :class:`SealedShares` | :class:`Delivery` |
| inputs | :class:`MaskedInput` | :class:`UnmaskRequest` |
| unmasking | :class:`UnmaskShares` | |

On the wire a message is a JSON header behind its length, bytes in it as hexadecimal digits, and, for a masked
input, the vector itself as little-endian integers. What is read is checked: kind, fields and types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.masks import RINGS, Ring

__all__ = [
    "Advertisement",
    "Delivery",
    "MaskedInput",
    "Message",
    "Roster",
    "SealedShares",
    "UnmaskRequest",
    "UnmaskShares",
]

_LENGTH_BYTES = 4
_CLIENT_LIMIT = 2**64


@dataclass(frozen=True, kw_only=True)
class Message:
    """Anything that travels; ``session`` says to which sum it belongs."""

    session: bytes

    def to_bytes(self) -> bytes:
        """The bytes that travel."""
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
        """The message of this kind that ``data`` holds; anything else is refused."""
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
    """What the other clients sealed for ``receiver``, by its sender."""

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
    """Whose input arrived (their self-masks are wanted) and whose did not (their keys are)."""

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
