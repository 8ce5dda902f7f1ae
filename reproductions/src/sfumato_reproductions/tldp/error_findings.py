"""What table 5 says, in sentences; every number in them was computed in this run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sfumato_reproductions.tldp.error_table import Block, Line
from sfumato_reproductions.tldp.printed_proof import CLAIMED, claimed_point
from sfumato_reproductions.tldp.promise import DELTA
from sfumato_reproductions.tldp.sound_candidates import MIDDLE
from sfumato_reproductions.tldp.tables import shown

__all__ = ["fails", "holds", "says"]


def holds(made: Sequence[Block]) -> Iterator[str]:
    """What is right about the paper's column."""
    first = made[0]
    own = first.line("TLDP-L")
    yield (
        f"The formula of table 5 for TLDP-L: {shown(_printed(own))} for {first.sizes.name} at claimed "
        f"ε = {CLAIMED:g}, and {shown(own.drawn)} ± {own.standard_error:.2g} is drawn."
    )


def fails(made: Sequence[Block]) -> Iterator[str]:
    """What the paper says and is not so."""
    first = made[0]
    paper = _printed(first.line("Laplace")) / _printed(first.line("TLDP-L"))
    better = sum(_closed(block.line("TLDP-L")) < _closed(block.line("Laplace")) for block in made)
    yield (
        "**The gain of table 5 is a change of unit.** Its baselines have the noise of a whole tensor "
        f"(b = IΔ/ε), its TLDP that of one component (b = Δ/ε); for {first.sizes.name} that makes the "
        f"paper's factor of {shown(paper)} between Laplace noise and TLDP-L. At the same proven unit, ε and "
        f"δ TLDP-L has a smaller error than plain Laplace noise in {better} of {len(made)} blocks."
    )
    for sizes in dict.fromkeys(block.sizes for block in made):
        component, tensor = (claimed_point("TLDP-L", sizes, unit) for unit in ("component", "tensor"))
        noise = claimed_point("TLDP-G", sizes, "component")
        yield (
            f"TLDP is not ε-LDP. {sizes.name}, claimed ε = {CLAIMED:g}: proven of TLDP-L are "
            f"({shown(component.epsilon)}, {shown(component.delta)}) for a component and "
            f"({shown(tensor.epsilon)}, {shown(tensor.delta)}) for a tensor, of TLDP-G "
            f"({shown(noise.epsilon)}, {shown(noise.delta)}) for a component; with probability "
            f"{shown(tensor.delta)} TLDP-L shows some component of a tensor exactly, and at δ = {DELTA:g} "
            "nothing is proven of either."
        )
    size, printed = first.sizes, _printed(first.line("TLDP-G"))
    true = size.span * math.sqrt(size.count / (2.0 * CLAIMED))
    yield (
        f"Equation 23 reads Δ²/4ε² for the σ² = Δ²/2ε of algorithm 1: for {size.name} at ε = {CLAIMED:g} "
        f"table 5 gives {shown(printed)} for TLDP-G, and its noise is {shown(true)}."
    )


def says(made: Sequence[Block]) -> Iterator[str]:
    """Table 5 at equal promises, block by block."""
    for block in made:
        own, theirs, middle = (block.line(name) for name in ("TLDP-L", "Laplace", MIDDLE))
        ours = (line for line in block.lines if not line.candidate.shown and not line.candidate.biased)
        sound = min(ours, key=_closed)
        promise = block.promise
        nothing = shown(_closed(middle) / _closed(sound))
        yield (
            f"{block.sizes.name}, unit {promise.unit}, ε = {shown(promise.epsilon)}, "
            f"δ = {shown(promise.delta)}: the error of TLDP-L is {shown(_closed(own) / _closed(theirs))} "
            f"times that of plain Laplace noise and {shown(_closed(own) / _closed(sound))} times that of "
            f"{sound.candidate.name}, the smallest of an unbiased mechanism that shows nothing (the "
            f"middle of the range, looking at nothing, has {nothing} times that)."
        )
    wrong = sum(not line.agrees for block in made for line in block.lines)
    total = sum(len(block.lines) for block in made)
    largest = max(abs(line.apart) for block in made for line in block.lines)
    yield (
        f"Closed form and drawn errors agree in {total - wrong} of {total} rows; the largest distance is "
        f"{largest:.1f} standard errors."
    )


def _closed(line: Line) -> float:
    return line.candidate.closed


def _printed(line: Line) -> float:
    assert line.printed is not None  # it has a column in table 5
    return line.printed.value
