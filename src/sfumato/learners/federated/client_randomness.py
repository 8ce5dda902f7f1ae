"""Whose noise it is: every client draws its own in every round, also where a run can be repeated."""

from __future__ import annotations

import hashlib

from sfumato.noise import Keyed, Randomness, Secure, Seeded

__all__ = ["own"]


def own(randomness: Randomness | None, who: str, round: int) -> Randomness:
    """The randomness of ``who`` in ``round``; no two of a seeded or keyed run share any noise."""
    if randomness is None or isinstance(randomness, Secure):
        return Secure()
    if isinstance(randomness, Keyed):
        return randomness.part(f"round {round} of {who}")
    if isinstance(randomness, Seeded):
        label = f"sfumato federated\0{randomness.seed}\0{round}\0{who}".encode()
        return Seeded(int.from_bytes(hashlib.sha256(label).digest()[:16], "little"))
    return randomness
