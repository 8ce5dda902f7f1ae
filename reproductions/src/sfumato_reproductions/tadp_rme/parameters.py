"""Table 5: ε_min, ε_max and the clipping radius at τ = 0.5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sfumato_reproductions.tadp_rme.protocol import EPSILON, Run
from sfumato_reproductions.tadp_rme.published import PARAMETERS
from sfumato_reproductions.tadp_rme.settings import Setting, tadp_rme
from sfumato_reproductions.tadp_rme.sweep import PRIVACY, Need, Results
from sfumato_reproductions.tadp_rme.table import Line, Pair, Table

__all__ = ["needs", "table"]

_TRUST = 0.5
_NOTES = {
    ("ε_max", 40.0): "in the paper more accurate than ε = 31.25 in table 1 (40.6), which has less noise",
    ("ε_max", 60.0): "in the paper a lower error than ε_max = 80, which has less noise",
    ("clip C", 0.5): "σ as for C = 1: the records are smaller, so more is proven",
    ("clip C", 2.0): "σ as for C = 1: the records are larger, so less is proven",
}


def setting(parameter: str, value: float) -> Setting:
    """The paper's method at τ = 0.5 with one parameter changed."""
    usual = tadp_rme(_TRUST)
    if parameter == "ε_min":
        return replace(usual, epsilon=(value, EPSILON[1]))
    if parameter == "ε_max":
        return replace(usual, epsilon=(EPSILON[0], value))
    return replace(usual, clip=value)


def needs(run: Run) -> Iterator[Need]:
    """Everything behind the privacy score, for each value of each parameter."""
    for parameter, values in PARAMETERS.items():
        for value in values:
            yield from (Need(_data(run), setting(parameter, value), group) for group in PRIVACY)


def table(results: Results) -> Table:
    """The table, on MNIST as in the paper, or on the first data set where MNIST is not among them."""
    data = _data(results.run)
    lines = []
    for parameter, values in PARAMETERS.items():
        for value, paper in values.items():
            own = setting(parameter, value)
            low, high = own.epsilon
            pairs = tuple(
                Pair(paper[index] if data == "mnist" else None, results.values(data, own, measure), digits)
                for index, measure, digits in ((0, "accuracy", 1), (1, "privacy", 3), (2, "error", 3))
            )
            labels = (parameter, f"{value:g}", f"{high - _TRUST * (high - low):g}")
            note = _NOTES.get((parameter, value), "") if data == "mnist" or parameter == "clip C" else ""
            lines.append(Line(labels, pairs, results.proven(data, own), note))
    return Table(
        number=5,
        title=f"parameters at τ = 0.5, {data}",
        heads=("parameter", "value", "ε of the paper"),
        measures=("accuracy %", "privacy", "error"),
        lines=tuple(lines),
    )


def _data(run: Run) -> str:
    return "mnist" if "mnist" in run.data else run.data[0]
