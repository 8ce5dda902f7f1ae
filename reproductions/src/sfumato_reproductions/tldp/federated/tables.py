"""Tables of figure 3 as Markdown: every method at every claimed ε, and TLDP beside a sound mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sfumato_reproductions.tldp.federated.comparison import Row
from sfumato_reproductions.tldp.federated.findings import chance
from sfumato_reproductions.tldp.federated.methods import Method, kinds
from sfumato_reproductions.tldp.federated.protocol import FederatedRun
from sfumato_reproductions.tldp.federated.sweep import Measured
from sfumato_reproductions.tldp.tables import plus_minus, shown

__all__ = ["comparison_markdown", "methods_markdown", "sound_markdown"]

_HEADS = (
    "method",
    "claimed ε of a round",
    "proven ε of a client, all rounds",
    "chance that no parameter is shown",
    "compared at ε",
    "F1 of TLDP",
    "sound mechanism",
    "its proven ε, all rounds",
    "its F1",
    "difference ± standard error",
)


def _markdown(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *body])


def _epsilon(value: float) -> str:
    return shown(value) if math.isfinite(value) else "nothing"


def methods_markdown(found: Measured, run: FederatedRun) -> str:
    """F1 of the paper's methods, in brackets the proven ε of a client over all rounds."""
    heads = ["method", *(f"claimed ε = {epsilon:g}" for epsilon in run.claimed)]
    body = []
    for kind in kinds(found.model):
        methods = [Method(kind, epsilon) for epsilon in run.claimed]
        cells = [
            f"{plus_minus(found.values(method))} ({_epsilon(method.proven(found.model))})"
            for method in methods
        ]
        body.append([kind, *cells])
    return _markdown(heads, body)


def sound_markdown(found: Measured, run: FederatedRun) -> str:
    """F1 of the sound mechanism at the ε of a client over all rounds, and what was chosen."""
    heads = ["", *(f"proven ε = {epsilon:g}" for epsilon in run.totals)]
    chosen = [found.chosen[epsilon] for epsilon in run.totals]
    return _markdown(
        heads,
        [
            ["F1", *(plus_minus(found.values(method)) for method in chosen)],
            ["chosen on held-back records", *map(str, chosen)],
        ],
    )


def comparison_markdown(rows: Sequence[Row]) -> str:
    """One row for every point of TLDP."""
    body = []
    for row in rows:
        error = row.standard_error
        body.append(
            [
                row.tldp.kind,
                f"{row.tldp.epsilon:g}",
                _epsilon(row.proven),
                chance(row.hidden),
                shown(row.epsilon),
                plus_minus(row.score),
                str(row.sound),
                shown(row.sound_proven),
                plus_minus(row.sound_score),
                f"{row.difference:+.3f}".replace("-", "−") + ("" if error is None else f" ± {error:.3f}"),
            ]
        )
    return _markdown(_HEADS, body)
