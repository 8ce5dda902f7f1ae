"""Members and non-members of one distribution: a random part of the training records is held out.

CompactDP (section 4.1) trains on 80% of the training records and takes the other 20% as non-members. Nobody
looks at a record to decide where it goes, so an attack that tells the two parts apart has found the model's
memory and not a difference between two distributions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["HeldOut", "held_out"]

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Which records a model is trained on, ``members``, and which are held out of it, ``nonmembers``."""

    members: Indices
    nonmembers: Indices


def held_out(records: int, *, share: float = 0.2, seed: int = 0) -> HeldOut:
    """Hold out ``share`` of ``records`` records, rounded to a whole number, each equally likely.

    Both parts are in ascending order. The split depends on ``records``, ``share`` and ``seed`` alone. Refused
    where a part would be empty.
    """
    if not 0.0 < share < 1.0:
        raise BadInput(
            f"`share` was {share!r}: the part that is held out lies strictly between 0 and 1.",
            parameter="share",
        )
    count = round(share * records)
    if not 0 < count < records:
        raise BadInput(
            f"holding out {share:g} of {records} records leaves one part empty: members and non-members are "
            "both needed."
        )
    order = np.random.default_rng(seed).permutation(records)
    return HeldOut(np.sort(order[count:]), np.sort(order[:count]))
