"""What a request needs measured: which sources, which methods, and whether they are attacked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sfumato.errors import BadInput
from sfumato.learners import EXTRACTORS, CertifiedCompact, make_extractor
from sfumato_reproductions.compactdp.bench import Bench
from sfumato_reproductions.compactdp.features import Features
from sfumato_reproductions.compactdp.methods import CERTIFIED, COMBINED, DP_SGD, MAIN, METHODS
from sfumato_reproductions.compactdp.pool import Pool, Source
from sfumato_reproductions.compactdp.protocol import LARGEST, TABLE_DATA, Run
from sfumato_reproductions.compactdp.results import Counted, Measures, Results
from sfumato_reproductions.compactdp.tables import BACKBONE_METHODS, SPECIFIED
from sfumato_reproductions.datasets import available
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.regenerate import Report

__all__ = ["Rows"]

_BACKBONES = 7
# What the paper's ViT is nearest to, and what is there without any package.
_PREFERRED = ("efficientnet-lite0", "scattering")
_QUICK = ("pixels", "scattering")


class Rows:
    """Measures the rows of tables and figures; ``data`` takes the place of the paper's, where it is given."""

    def __init__(
        self, run: Run, data: tuple[str, ...], memory: Memory, features: Features, report: Report
    ) -> None:
        self.run, self.data, self.memory, self._report = run, data, memory, report
        self._benches: dict[tuple[Source, int], Bench] = {}
        # Features of one source are large: only the latest are held.
        self._pool = lru_cache(maxsize=2)(lambda source: Pool.of(source, features, report))

    def sources(self, table: int) -> tuple[Source, ...]:
        """What ``table`` is made of."""
        names = self.data or available([TABLE_DATA[table]]) or ("digits",)
        if table == _BACKBONES:
            found = _QUICK if self.run.quick else tuple(filter(_usable, EXTRACTORS))
            size = self.run.backbones
            return tuple(Source(name, each, size, size, attacked=False) for name in names for each in found)
        return tuple(self.main(name) for name in names)

    def main(self, name: str) -> Source:
        """The data set ``name`` by the extractor of all tables but 7."""
        extractor = _QUICK[0] if self.run.quick else next(filter(_usable, _PREFERRED))
        return Source(
            name, extractor, min(self.run.records, LARGEST.get(name, self.run.records)), self.run.tests
        )

    def bench(self, source: Source, seed: int) -> Bench:
        """Where methods are measured."""
        if (source, seed) not in self._benches:
            self._benches[source, seed] = Bench(
                source, lambda: self._pool(source), self.run, seed, self.memory, self._report
            )
        return self._benches[source, seed]

    def measure(self, tables: tuple[int, ...], figures: tuple[int, ...]) -> Results:
        """All that ``tables`` and ``figures`` need."""
        wanted: dict[Source, list[str]] = {}
        used = {number: self.sources(number) for number in tables}
        for number, sources in used.items():
            for source in sources:
                methods = BACKBONE_METHODS if number == _BACKBONES else SPECIFIED[number].methods
                wanted.setdefault(source, []).extend(methods)
        first = self.sources(2)[0]
        if 13 in figures:
            wanted.setdefault(first, []).extend(MAIN)
        if 16 in figures:
            curves = [*DP_SGD.items(), *COMBINED.items(), *CERTIFIED.items()]
            wanted.setdefault(first, []).extend(
                name for epsilon, name in curves if epsilon in self.run.epsilons
            )
        for source, names in wanted.items():
            if source.attacked:
                names += [DP_SGD[epsilon] for epsilon in self.run.known]
        rows = {source: self._rows(source, names) for source, names in wanted.items()}
        lines = {
            source: tuple(
                (made.auc, epsilon) for epsilon, name in DP_SGD.items() for made in found.get(name, ())
            )
            for source, found in rows.items()
            if source.attacked
        }
        return Results(self.run, {source: self._counted(source) for source in rows}, rows, used, lines)

    def _rows(self, source: Source, names: list[str]) -> Measures:
        budgets = {**_by_name(DP_SGD), **_by_name(COMBINED), **_by_name(CERTIFIED)}
        too_wide = self._counted(source).dimension > CertifiedCompact.most_features
        left_out = CERTIFIED.values() if too_wide else ()
        found = {}
        for name in METHODS:
            if name in names and name not in left_out and budgets.get(name, 1.0) in self.run.epsilons:
                found[name] = tuple(
                    self.bench(source, seed).measure(METHODS[name]) for seed in self.run.seeds
                )
        return found

    def _counted(self, source: Source) -> Counted:
        bench = self.bench(source, self.run.seeds[0])
        return Counted(**bench.remembered("counts", lambda: self._counts(source)))

    def _counts(self, source: Source) -> dict[str, int]:
        pool = self._pool(source)
        return {
            "records": len(pool.records),
            "tests": len(pool.tests),
            "classes": pool.classes,
            "dimension": pool.records.features.shape[1],
        }


def _by_name(named: Mapping[float, str]) -> dict[str, float]:
    return {name: epsilon for epsilon, name in named.items()}


def _usable(extractor: str) -> bool:
    """Whether the package that it needs is there."""
    try:
        make_extractor(extractor, (32, 32, 3))
    except BadInput:
        return False
    return True
