"""Search for records stored in a model: anchors, prototypes, support vectors, neighbours, kept batches.

Attacks by a model's answers miss them. This one reads every array of the model's file, or of its attributes
if it has no file, in which a row is as wide as a record, or as what the model makes of one. A record is found
if a row, or its direction, is equal to it up to a thousandth of the spread of all records.

**Bound on ε.** Members and non-members must be a random split of one set of records, made independently of
them. Then members and non-members are put into pairs at random, and in each pair a fair coin, independent of
all others, decided which of the two was learned from: given the pairs, all ways of orienting them are equally
likely. The attacker sees the model and both records of a pair, in random order, and guesses the one that was
found. That is the game of :mod:`~sfumato.audits.one_run`, with one record in the place of another as its
neighbours. Nothing is learned from the records that are asked about, and nothing is chosen by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.findings import Finding, stated_bound
from sfumato.audits.one_run import guess_bound
from sfumato.errors import BadInput
from sfumato.privacy import DELTA, Neighbours

__all__ = ["stored_records"]


Floats = NDArray[np.float64]

# Of the spread of records: finer than any two of them are by chance, coarser than half precision.
_SAME = 1e-3
# Shorter records have too few directions to be told apart by these alone.
_DIRECTED = 8
# Objects of a model that are looked into.
_MOST_OBJECTS = 100_000
_THREAT = "reads the model and looks for records among the rows of its arrays"


def stored_records(
    model: Any,
    members: NDArray[np.floating],
    nonmembers: NDArray[np.floating],
    *,
    neighbours: Neighbours | str = Neighbours.REPLACE,
    delta: float = DELTA,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """Look for ``members`` (n, d) and ``nonmembers`` (m, d) in a fitted ``model``.

    The value is the share of members that are found, with its Clopper–Pearson interval; chance that of
    non-members. The bound on ε is for ``neighbours``: a coin that decides between two records replaces one,
    or takes one away and adds one, and the bound is then for one of these.
    """
    inside, outside = (np.asarray(side, dtype=np.float64) for side in (members, nonmembers))
    if inside.ndim != 2 or outside.ndim != 2 or inside.shape[1] != outside.shape[1] or not outside.size:
        raise BadInput(
            f"members of shape {inside.shape} and non-members of shape {outside.shape} were given: (n, d) "
            "and (m, d) are needed."
        )
    arrays = model_arrays(model)
    found = np.zeros(len(inside) + len(outside), dtype=bool)
    for rows in record_forms(model, np.concatenate([inside, outside])).values():
        for array in arrays.values():
            stored = _rows(array, rows.shape[1])
            found |= _found(stored, rows)
            if rows.shape[1] >= _DIRECTED:
                found |= _found(_directions(stored), _directions(rows))
    rng = np.random.default_rng(seed)
    first, second = found[: len(inside)], found[len(inside) :]
    pairs = min(len(first), len(second))
    difference = rng.permutation(first)[:pairs].astype(float) - rng.permutation(second)[:pairs]
    coins = rng.integers(0, 2, pairs)
    game = Neighbours(neighbours)
    steps = 1 if game is Neighbours.REPLACE else 2
    certainty = np.where(coins == 1, difference, -difference)
    bound = guess_bound(certainty, coins, delta=delta, confidence=confidence, zero_outs=steps)
    if not difference.any():
        bound = replace(bound, epsilon=0.0)
    note = f"{pairs} random pairs of a member and another record, of which a coin chose the member"
    if steps == 2:
        note += f"; that is two steps of {game}, and the bound is for one"
    stated = stated_bound(bound, "record", game)
    counts = {
        "members_found": float(first.sum()),
        "members": float(len(first)),
        "nonmembers_found": float(second.sum()),
        "nonmembers": float(len(second)),
    }
    stated["numbers"] = counts | stated["numbers"]
    return Finding.of_count(
        "stored records",
        _THREAT,
        "share of members found in the model",
        int(first.sum()),
        len(first),
        confidence,
        chance=float(second.mean()),
        note=note,
        **stated,
    )


def model_arrays(model: Any) -> dict[str, NDArray[Any]]:
    """Return arrays of numbers in ``model`` by name: of its file, ``tensors()``, or all of its attributes."""
    if hasattr(model, "tensors"):
        return {name: np.asarray(array) for name, array in model.tensors().items()}
    return dict(_walk(model))


def record_forms(model: Any, records: Floats) -> dict[str, Floats]:
    """Return the forms that ``records`` (n, d) may have in ``model``: as they are, or as it transforms them.

    A model says by ``forms(records)`` what it makes of records, and scikit-learn's by ``transform``; of a
    pipeline the last step is left out.
    """
    forms: dict[str, Any] = {"as they are": records}
    if hasattr(model, "forms"):
        forms |= model.forms(records)
    steps = getattr(model, "steps", None)
    before_last: Any = model[:-1] if isinstance(steps, list) and len(steps) > 1 else None
    for name, part in (("transformed", model), ("before the last step", before_last)):
        if hasattr(part, "transform"):
            forms[name] = part.transform(records)
    usable = {name: np.asarray(rows, dtype=np.float64) for name, rows in forms.items()}
    return {name: rows.reshape(len(rows), -1) for name, rows in usable.items() if len(rows) == len(records)}


def _walk(model: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays in ``model`` and in what it holds, each object once; functions and modules are not entered."""
    waiting: list[tuple[str, Any]] = [("model", model)]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_OBJECTS:
        name, item = waiting.pop()
        if id(item) in seen or isinstance(item, type | ModuleType | FunctionType | MethodType | str | bytes):
            continue
        seen.add(id(item))
        if hasattr(item, "detach") and hasattr(item, "numpy"):
            if getattr(item, "is_meta", False):
                continue  # no values
            kept = item.detach().cpu()
            # NumPy has no bfloat16 and no eight bits of a fraction.
            item = (kept.float() if kept.is_floating_point() and kept.element_size() < 4 else kept).numpy()
        elif hasattr(item, "toarray"):
            item = item.toarray()
        if isinstance(item, np.ndarray):
            if item.dtype.kind in "biuf":
                yield name, item
            elif item.dtype.kind == "O":
                waiting += [(f"{name}[{place}]", inner) for place, inner in enumerate(item.ravel())]
        elif isinstance(item, Mapping):
            waiting += [(f"{name}.{key}", inner) for key, inner in item.items()]
        elif isinstance(item, list | tuple | set | frozenset):
            if item and all(isinstance(inner, int | float) for inner in item):
                yield name, np.asarray(list(item), dtype=np.float64)
            else:
                waiting += [(f"{name}[{place}]", inner) for place, inner in enumerate(item)]
        elif hasattr(item, "__dict__"):
            waiting += [(f"{name}.{key}", inner) for key, inner in vars(item).items()]


def _rows(array: NDArray[Any], width: int) -> Floats:
    """Whatever in ``array`` could be a row of ``width`` numbers: along its last axis, its first, or flat."""
    parts = []
    if array.dtype.kind in "biuf" and array.size >= width:
        if array.ndim == 1 and array.size % width == 0:
            parts.append(array.reshape(-1, width))
        if array.ndim >= 2 and array.shape[-1] == width:
            parts.append(array.reshape(-1, width))
        if array.ndim >= 2 and array.shape[0] == width:
            parts.append(np.moveaxis(array, 0, -1).reshape(-1, width))
        if array.ndim >= 3 and array[0].size == width:
            parts.append(array.reshape(-1, width))
    rows = np.concatenate(parts).astype(np.float64) if parts else np.empty((0, width))
    return np.asarray(rows[np.isfinite(rows).all(axis=1)])


def _found(stored: Floats, records: Floats) -> NDArray[np.bool_]:
    """Return which of ``records`` (n, w) are among the rows ``stored`` (m, w)."""
    middle = records.mean(axis=0)
    spread = float(np.sqrt(np.square(records - middle).sum(axis=1).mean()))
    if not len(stored) or not np.isfinite(spread) or spread == 0.0:
        return np.zeros(len(records), dtype=bool)
    from sklearn.metrics import pairwise_distances_argmin

    nearest = pairwise_distances_argmin(records - middle, stored - middle)
    distance = np.linalg.norm(records - stored[nearest], axis=1)
    return np.asarray(distance <= _SAME * spread)


def _directions(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
