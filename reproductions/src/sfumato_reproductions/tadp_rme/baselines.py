"""Table 2: the paper's method against its baselines at matched budgets, with paired t-tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sfumato_reproductions.tadp_rme.comparison import compare
from sfumato_reproductions.tadp_rme.protocol import Run
from sfumato_reproductions.tadp_rme.published import BASELINES, OTHERS, Number
from sfumato_reproductions.tadp_rme.settings import Setting, baseline, gaussian, tadp_rme
from sfumato_reproductions.tadp_rme.sweep import PRIVACY, Need, Results
from sfumato_reproductions.tadp_rme.table import Line, Pair, Table

__all__ = ["BUDGETS", "needs", "table"]

_OURS = "TADP-RME"
_TRUSTS = {15.0: 1.0, 47.5: 0.5, 80.0: 0.0}
_TWO = ", two bases"
_PROJECTED = ("Random projection", "LSH", "Reconstruction-resistant")

_NOTES = {
    "Gaussian DP": "the paper's σ, whose proof ends at ε = 1 and holds for zero-out only",
    "Laplace DP": "scale 1/ε on records clipped in L2: the L1 distance of two records is up to 2√d, so 2√d·ε",
    "Personalised DP": "the paper's accuracy does not depend on the budget; ours keeps what it names",
    "Additive noise": "no clipping, so two records may lie any distance apart",
    "Binary encoding": "neither bits nor the chance of a flip is given; every bit is a randomised response",
    "Random projection": "one public projection for all rows",
    "LSH": "one set of hyperplanes for all rows; deterministic",
    "Reconstruction-resistant": "one public projection for all rows",
}
_TWO_BASES = (
    "rows to learn from and rows to test on projected differently: the probe is left with chance and the "
    "membership attack tells projections apart, which is what the paper's numbers look like"
)

#: Budget -> method -> setting.
BUDGETS: Mapping[float, Mapping[str, Setting]] = {
    epsilon: {
        "Gaussian DP": gaussian(trust),
        "Laplace DP": baseline("Laplace DP", epsilon),
        "Personalised DP": baseline("Personalised DP", epsilon),
        _OURS: tadp_rme(trust),
    }
    for epsilon, trust in _TRUSTS.items()
}


def others() -> dict[str, Setting]:
    """The methods without a budget; projections also as the paper seems to have run them."""
    found = {method: baseline(method) for method in OTHERS}
    return found | {method + _TWO: replace(baseline(method), bases=2) for method in _PROJECTED}


def needs(run: Run) -> Iterator[Need]:
    """Everything behind the privacy score, for each method."""
    for data in run.data:
        for methods in (*BUDGETS.values(), others()):
            for setting in methods.values():
                yield from (Need(data, setting, group) for group in PRIVACY)


def table(results: Results) -> Table:
    """The table for all data sets of the run."""
    lines: list[Line] = []
    for data in results.run.data:
        for epsilon, methods in BUDGETS.items():
            published = {method: BASELINES[epsilon][method].get(data) for method in methods}
            lines += _lines(results, data, f"{epsilon:g}", methods, published, methods[_OURS])
        free = others()
        published = {method: OTHERS[method.removesuffix(_TWO)].get(data) for method in free}
        lines += _lines(results, data, "none", free, published, BUDGETS[80.0][_OURS])
    return Table(
        number=2,
        title="baselines at matched budgets",
        heads=("data", "ε of the paper", "method"),
        measures=("accuracy %", "privacy"),
        extra=("p (accuracy)", "p (privacy)"),
        lines=tuple(lines),
        remarks=(
            "p: paired t-test against TADP-RME at the same budget (without a budget: against τ = 0) over the "
            "seeds, adjusted by Holm within each group of methods.",
        ),
    )


def _lines(
    results: Results,
    data: str,
    budget: str,
    methods: Mapping[str, Setting],
    published: Mapping[str, tuple[Number, Number] | None],
    ours: Setting,
) -> Iterator[Line]:
    tests = [_tests(results, data, methods, ours, measure) for measure in ("accuracy", "privacy")]
    for method, setting in methods.items():
        paper = published[method]
        pairs = tuple(
            Pair(None if paper is None else paper[index], results.values(data, setting, measure), digits)
            for index, measure, digits in ((0, "accuracy", 1), (1, "privacy", 3))
        )
        note = _TWO_BASES if setting.bases == 2 else _NOTES.get(method, "")
        if method == _OURS and setting.noiseless:
            note = "without noise, as in the paper"
        yield Line(
            labels=(data, budget, method),
            pairs=pairs,
            proven=results.proven(data, setting),
            note=note,
            extra=tuple(test.get(method, "–") for test in tests),
        )


def _tests(
    results: Results, data: str, methods: Mapping[str, Setting], ours: Setting, measure: str
) -> dict[str, str]:
    """The adjusted p-value of each method against the paper's, where a test can be made."""
    values = {method: results.values(data, setting, measure) for method, setting in methods.items()}
    compared = compare(values | {_OURS: results.values(data, ours, measure)}, baseline=_OURS, test="t")
    return {one.method: "–" if one.adjusted is None else f"{one.adjusted:.2g}" for one in compared}
