"""Table 3: the paper's three attacks at τ = 0 and τ = 1, beside those of a reader who knows more."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato_reproductions.tadp_rme.protocol import Run, budget
from sfumato_reproductions.tadp_rme.published import ATTACKS, TRUST_SWEEP
from sfumato_reproductions.tadp_rme.settings import Setting, tadp_rme
from sfumato_reproductions.tadp_rme.sweep import PRIVACY, Need, Results
from sfumato_reproductions.tadp_rme.table import Line, Pair, Table

__all__ = ["ROWS", "needs", "table"]

_AGREED = 0.03  # a score of the paper that is farther from its own definition gets a note

#: What the row is called, its τ, its setting, and whether the paper has it.
ROWS: tuple[tuple[str, float, Setting, bool], ...] = (
    ("0", 0.0, tadp_rme(0.0), True),
    ("0, noise", 0.0, tadp_rme(0.0, noiseless=False), False),
    ("1", 1.0, tadp_rme(1.0), True),
    ("1, α = 1", 1.0, tadp_rme(1.0, alpha=1.0), False),
)
_SCORES = (("membership", 0), ("reconstruction", 1), ("attribute", 2))
_INFORMED = (
    ("inversion error", "relative error of undoing the embedding: what was embedded is read off"),
    ("posterior error", "error of the posterior mean after inversion, beside ridge: {ridge:.3f}"),
    ("pairs recovered", "share of pairs found with neither α nor the column order, from 64 records"),
    ("likelihood AUC", "AUC of membership by likelihood, who holds all candidates: the honest game"),
)


def needs(run: Run) -> Iterator[Need]:
    """The paper's attacks and the informed ones, for each row."""
    for data in run.data:
        for _, _, setting, _ in ROWS:
            yield from (Need(data, setting, group) for group in PRIVACY)
            yield from (Need(data, setting, group, first_seed_only=True) for group in ("informed", "pairing"))


def table(results: Results) -> Table:
    """The table for all data sets of the run: one row a score, then one row an attack of ours."""
    lines: list[Line] = []
    for data in results.run.data:
        for name, trust, setting, published in ROWS:
            labels = (data, name, f"{budget(trust):g}")
            proven = results.proven(data, setting)
            for score, index in _SCORES:
                paper = ATTACKS[data][trust][index] if published and data in ATTACKS else None
                pair = Pair(paper, results.values(data, setting, score))
                note = _inconsistent(data, trust, score) if paper is not None else ""
                lines.append(Line((*labels, f"{score} score"), (pair,), proven, note))
            for measure, note in _INFORMED:
                values = results.values(data, setting, measure)
                if values:
                    text = note.format(ridge=results.mean(data, setting, "error"))
                    digits = None if measure == "inversion error" else 3
                    lines.append(Line((*labels, measure), (Pair(None, values, digits),), proven, text))
    return Table(
        number=3,
        title="attacks at τ = 0 and τ = 1",
        heads=("data", "τ", "ε of the paper", "attack"),
        measures=("value",),
        lines=tuple(lines),
        remarks=(
            "Scores are the paper's: 1 is full resistance. The published membership attack looks at "
            "protected rows only; where each row is protected by itself, members and non-members are "
            "exchangeable and the score of any mechanism, also of none, is 1 up to chance.",
            "The rows below the scores, from the inversion error on, are measured on the first seed.",
        ),
    )


def _inconsistent(data: str, trust: float, score: str) -> str:
    """Where the paper's score cannot follow from its own definition and table 1, and why."""
    membership, reconstruction, attribute = (number[0] for number in ATTACKS[data][trust])
    accuracy, _, error = (number[0] for number in TRUST_SWEEP[data][trust])
    defined = 1.0 - (accuracy / 100.0 - 0.1) / 0.9
    if score == "attribute" and abs(attribute - defined) > _AGREED:
        needed = 100.0 * (1.0 - 0.9 * attribute)
        note = (
            f"cannot follow: table 1 has accuracy {accuracy:g}%, which is a score of {defined:.3f}; "
            f"{attribute:.3f} would be an accuracy of {needed:.0f}%"
        )
        rest = membership + attribute - defined
        if rest <= 1.0:
            note += f". The sum of both scores would fit a membership score of {rest:.3f}"
        return note
    if score == "membership" and membership < 1.0 - 4.0 * _AGREED:
        auc = 1.0 - membership / 2.0
        return (
            f"cannot follow: an AUC of {auc:.2f} of a linear classifier between two exchangeable sets of rows"
        )
    if score == "reconstruction" and abs(reconstruction - error) < 5e-4:
        return "the paper prints the error of table 1 as the score; ours is 1 − exp(−error)"
    return ""
