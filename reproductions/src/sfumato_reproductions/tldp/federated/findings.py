"""What figure 3 says, in sentences; every number in them was computed in this run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sfumato_reproductions.tldp.federated.baselines import WHOLE
from sfumato_reproductions.tldp.federated.comparison import Row, learns
from sfumato_reproductions.tldp.federated.methods import AVERAGED, CLEAN, NOTHING, PAPER, Method, tldp_kinds
from sfumato_reproductions.tldp.federated.protocol import CLIENTS
from sfumato_reproductions.tldp.federated.sweep import Measured, Results
from sfumato_reproductions.tldp.promise import DELTA
from sfumato_reproductions.tldp.tables import shown

__all__ = ["chance", "fails", "holds", "says"]


def chance(hidden: float) -> str:
    """The chance 10^``hidden`` that nothing is shown, for people."""
    if hidden > -1e-12:
        return "1"
    return shown(10.0**hidden) if hidden > -9.0 else f"10^−{-hidden:.0f}"


def holds(results: Results) -> Iterator[str]:
    """What the paper's plots show and ours show too, at claimed ε."""
    claimed = results.run.claimed
    for data, found in results.found.items():
        means = {
            kind: [found.mean(Method(kind, e)) for e in claimed]
            for kind in ("TLDP-L", "TLDP-G", "LLAGP", "DPHSGD", *WHOLE)
        }
        best = [max(means[kind][place] for kind in WHOLE) for place in range(len(claimed))]
        above = sum(own >= other for own, other in zip(means["TLDP-L"], best, strict=True))
        beside = sum(own >= other for own, other in zip(means["TLDP-L"], means["LLAGP"], strict=True))
        yield (
            f"{data}, claimed ε from {claimed[0]:g} to {claimed[-1]:g} a round: TLDP-L goes from "
            f"{means['TLDP-L'][0]:.3f} to {means['TLDP-L'][-1]:.3f}, TLDP-G from {means['TLDP-G'][0]:.3f} to "
            f"{means['TLDP-G'][-1]:.3f}, LLAGP to {means['LLAGP'][-1]:.3f}, DPHSGD to "
            f"{means['DPHSGD'][-1]:.3f}; {found.mean(Method(CLEAN)):.3f} is reached without noise. TLDP-L is "
            f"at or above the best of Laplace, Gaussian, MVG and IDN at {above} of {len(claimed)} ε, and at "
            f"or above LLAGP at {beside}."
        )


def fails(results: Results, made: Sequence[Row]) -> Iterator[str]:
    """What is left at proven ε."""
    laplace = [row for row in made if row.tldp.kind.startswith("TLDP-L")]
    least = max(laplace, key=lambda row: row.hidden)
    nothing = sum(math.isinf(row.proven) for row in laplace)
    yield (
        f"Nothing is proven of TLDP-L at δ = {DELTA:g} at {nothing} of {len(laplace)} points: it keeps each "
        "parameter as it is with probability p, and over all rounds of a client the chance that none is "
        f"shown is {chance(least.hidden)} at best ({least.data}, claimed ε = {least.tldp.epsilon:g})."
    )
    gaussian = [row for row in made if row not in laplace and math.isfinite(row.proven)]
    if gaussian:
        largest = max(gaussian, key=lambda row: row.proven)
        yield (
            f"Of TLDP-G something is proven at {len(gaussian)} of {len(made) - len(laplace)} points: its p "
            "falls with e^−ε, so that at a large claimed ε nothing is kept and plain Gaussian noise is left. "
            f"The largest proven ε of a client is {shown(largest.proven)} ({largest.data}, claimed "
            f"ε = {largest.tldp.epsilon:g})."
        )
    yield _averaged_first(results)
    yield (
        "Below, both are compared at equal ε of a client over all rounds: TLDP's proven one, or, where "
        "nothing is proven of it, the ε that its noise would have if nothing were ever shown. The sound "
        f"mechanism keeps to that ε; δ = {DELTA:g} for both."
    )
    for data in results.found:
        yield f"{data}: " + _compared([row for row in made if row.data == data])
    if len(results.found) > 1:
        yield "All data sets together: " + _compared(made)


def says(results: Results, made: Sequence[Row]) -> Iterator[str]:
    """What else was measured."""
    for data, found in results.found.items():
        yield f"{data}: " + _hardness(results, found)
    for data, found in results.found.items():
        yield f"{data}: " + _at_face_value(results, found)
    above = sum(row.difference >= 0.0 for row in made)
    macro = sum(row.macro >= 0.0 for row in made)
    yield (
        f"Counting every point of all data sets, also where neither learns anything, the sound mechanism is "
        f"at or above TLDP at {above} of {len(made)} (with macro F1 at {macro})."
    )
    for data, found in results.found.items():
        narrow = [kind for kind in tldp_kinds(found.model) if kind not in PAPER]
        if narrow:
            claim = results.run.claimed[-1]
            scale = shown(found.model.span / claim)
            reached = " and ".join(f"{found.mean(Method(kind, claim)):.3f} by {kind}" for kind in narrow)
            yield (
                f"{data}: with the Δ = {found.model.span:,.0f} of table 4 the scale of TLDP-L's noise at "
                f"claimed ε = {claim:g} is {scale}, on parameters that are clipped to ±1, and its F1 is "
                f"{found.mean(Method('TLDP-L', claim)):.3f}, where the paper shows about 80%; with the Δ of "
                f"the other data {reached}."
            )


def _averaged_first(results: Results) -> str:
    """What is proven and learned where the server adds TLDP's noise to the average."""
    points = [
        (method.proven(found.model), found.mean(method), method, data)
        for data, found in results.found.items()
        for kind in AVERAGED
        for method in (Method(kind, claim) for claim in results.run.claimed)
    ]
    known = [point for point in points if math.isfinite(point[0])]
    text = (
        f"Noised by the server after averaging, something is proven of TLDP at {len(known)} of {len(points)} "
        "points, against everybody but the server"
    )
    if not known:
        return text + "."
    best = max(known, key=lambda point: point[1])
    return text + (
        f"; the best F1 among them is {best[1]:.3f}, at a proven ε of {shown(best[0])} ({best[3]}, "
        f"{best[2].kind}, claimed ε = {best[2].epsilon:g})."
    )


def _hardness(results: Results, found: Measured) -> str:
    totals = results.run.totals
    means = [found.mean(found.chosen[epsilon]) for epsilon in totals]
    first = next((e for e, mean in zip(totals, means, strict=True) if learns(found, mean)), None)
    least = found.chosen[totals[0]]
    how = "to send nothing was chosen there" if least.kind == NOTHING else f"with {least.kind}"
    text = (
        f"with {CLIENTS} clients and the client as the unit, noise is averaged over {CLIENTS} only: at "
        f"ε = {totals[0]:g} over all rounds a sound mechanism has an F1 of {means[0]:.3f} ({how}; guessing: "
        f"{found.guessing:.2f})"
    )
    if first is None:
        return text + f", and up to ε = {totals[-1]:g} nothing is learned."
    return text + f"; it learns from ε = {first:g} on, and has {means[-1]:.3f} at ε = {totals[-1]:g}."


def _at_face_value(results: Results, found: Measured) -> str:
    """Sound over all rounds beside TLDP-L at the same number, claimed of each round."""
    shared = [epsilon for epsilon in results.run.totals if epsilon in results.run.claimed]
    pairs = [(e, found.mean(found.chosen[e]), found.mean(Method("TLDP-L", e))) for e in shared]
    told = "; ".join(f"{ours:.3f} against {theirs:.3f} at {e:g}" for e, ours, theirs in pairs)
    return (
        "sound at an ε that is proven over all rounds, against TLDP-L at the same number, which it claims of "
        f"each round: {told}."
    )


def _compared(rows: Sequence[Row]) -> str:
    """How often the sound mechanism is ahead: at all points, then where either learns, and what is left."""
    parts = []
    for where, known in (("something is proven of TLDP", True), ("nothing is proven of TLDP", False)):
        every = [row for row in rows if math.isfinite(row.proven) is known]
        learned = [row for row in every if row.learned]
        if not every:
            continue
        told = f"where {where} the sound mechanism is at or above it at {_ahead(every)} of {_points(every)}"
        if learned:
            told += (
                f", and at {_ahead(learned)} of the {len(learned)} at which either learns anything "
                f"({_range(learned)})"
            )
        parts.append(told)
    if rest := [row for row in rows if not row.learned]:
        parts.append(f"at {_points(rest)} neither is above guessing by 0.1 ({_range(rest)})")
    return "; ".join(parts) + "."


def _ahead(rows: Sequence[Row]) -> int:
    return sum(row.difference >= 0.0 for row in rows)


def _points(rows: Sequence[Row]) -> str:
    return f"{len(rows)} point" + "s" * (len(rows) > 1)


def _range(rows: Sequence[Row]) -> str:
    by = sorted(rows, key=lambda row: row.difference)
    several = len({row.data for row in rows}) > 1
    if len(by) == 1:
        return f"difference {_difference(by[0], several)}"
    return f"differences from {_difference(by[0], several)} to {_difference(by[-1], several)}"


def _difference(row: Row, several: bool) -> str:
    error = "" if row.standard_error is None else f" ± {row.standard_error:.3f}"
    value = f"{row.difference:+.3f}".replace("-", "−")
    where = f" on {row.data}" if several else ""
    return f"{value}{error} for {row.tldp.kind} at claimed ε = {row.tldp.epsilon:g}{where}"
