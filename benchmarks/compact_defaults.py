"""What defaults of the learners are worth, on training pictures held back.

SFUMATO_DATA=… python benchmarks/compact_defaults.py [--runs 1] [--head | --certified] [--records N]
    [--data NAME …] [--keep FILE]

CompactClassifier unless told otherwise; with --head it is CompactPrivate, at ε = 1 and δ = 1e-5, whose head
is varied; with --certified CertifiedCompact at ε = 3 and δ = 1e-5, whose head is that of PrivateSoftmax too.

Of the training pictures some are learned from, and others, training pictures too, are asked about; no test
picture is used but for Kuzushiji-MNIST, of which nothing else is here. Each row changes one default. Its gain
is the difference in accuracy on the same pictures, in points, beside its error: the larger of the standard
errors over pictures and over runs. A default may give way to a value that gains a point, or more than twice
the error in no more time, a quarter aside, by which clocks differ here. Whoever learns from one data set may
take what the others, public to him, have chosen: of the changes that may be made by their mean, the one that
gains most. What the paper states (γ, 50 anchors of a class,
batches, rate, adaptive bandwidth, as many dimensions as features) is not varied.

With --records, certified learners get the noise they would have beside N records: ε is that at which μ·n of
the pictures that are learned from is μ·N of ε = 3. With --keep, rows that stand in the file are not measured
again: so several processes, each with its --data, may share the work. One run takes about ten minutes on one
core, with --certified about 16.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learners import CertifiedCompact, Learner, certified_compact, make_extractor
from sfumato.learners.compact import CompactClassifier, CompactPrivate, class_densities, contraction
from sfumato.noise import Seeded
from sfumato.privacy import gaussian_epsilon, gaussian_mu
from sfumato_reproductions.datasets import data_file, load_parts

Constant = tuple[Any, str, Any]
#: Data -> extractor, pictures learned from, pictures held back.
Data = dict[str, tuple[str, int, int]]
FEW: Data = {
    "fashion-mnist": ("efficientnet-lite0", 2_000, 3_000),
    "cifar-10": ("efficientnet-lite0", 2_000, 3_000),
    "digits": ("pixels", 600, 600),
}
MANY: Data = {
    "fashion-mnist": ("whitened-scattering", 20_000, 10_000),
    "mnist": ("whitened-scattering", 20_000, 10_000),
    "kmnist": ("whitened-scattering", 7_000, 3_000),
    "cifar-10": ("whitened-scattering", 15_000, 5_000),
}
DELTA = 1e-5


@dataclass(frozen=True)
class Variant:
    """Defaults but for ``options`` of the classifier, or for one constant of a module."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    constant: Constant | None = None


def _bandwidth(factor: float) -> Constant:
    rule = class_densities.adaptive_bandwidth
    return class_densities, "adaptive_bandwidth", lambda *points: factor * rule(*points)


VARIANTS = (
    Variant("the defaults"),
    Variant("width 64", {"width": 64}),
    Variant("width 256", {"width": 256}),
    Variant("width 512", {"width": 512}),
    Variant("width 2,048", {"width": 2_048}),
    Variant("5 epochs", {"epochs": 5}),
    Variant("10 epochs", {"epochs": 10}),
    Variant("40 epochs", {"epochs": 40}),
    Variant("whitened features", {"whiten": True}),
    Variant("batches of a fortieth", {"batch": 50}),
    Variant("bandwidth a quarter", constant=_bandwidth(0.25)),
    Variant("bandwidth halved", constant=_bandwidth(0.5)),
    Variant("bandwidth doubled", constant=_bandwidth(2.0)),
    Variant("bandwidth fourfold", constant=_bandwidth(4.0)),
    Variant("no momentum", constant=(contraction, "_MOMENTUM", 0.0)),
    Variant("hidden scale 3", constant=(contraction, "_HIDDEN_SCALE", 3.0)),
    Variant("hidden scale 12.5", constant=(contraction, "_HIDDEN_SCALE", 12.5)),
    Variant("hidden scale 200", constant=(contraction, "_HIDDEN_SCALE", 200.0)),
    Variant("hidden scale 800", constant=(contraction, "_HIDDEN_SCALE", 800.0)),
)


HEADS = (
    Variant("the defaults"),
    Variant("sampling 0.02", {"sampling": 0.02}),
    Variant("sampling 0.5", {"sampling": 0.5}),
    Variant("25 steps", {"steps": 25}),
    Variant("50 steps", {"steps": 50}),
    Variant("200 steps", {"steps": 200}),
    Variant("clip 0.3", {"clip": 0.3}),
    Variant("clip 3", {"clip": 3.0}),
    Variant("pace 1", {"pace": 1.0}),
    Variant("pace 4", {"pace": 4.0}),
    Variant("pace 8", {"pace": 8.0}),
    Variant("no momentum", {"momentum": 0.0}),
    Variant("momentum 0.9", {"momentum": 0.9}),
)


CERTIFIED = (
    Variant("the defaults"),
    Variant("50 steps", {"steps": 50}),
    Variant("100 steps", {"steps": 100}),
    Variant("400 steps", {"steps": 400}),
    Variant("clip 0.005", {"clip": 0.005}),
    Variant("clip 0.1", {"clip": 0.1}),
    Variant("clip 0.5", {"clip": 0.5}),
    Variant("no momentum", {"momentum": 0.0}),
    Variant("path halved", {"spread": 1.15}),
    Variant("path doubled", {"spread": 4.6}),
    Variant("anchors 0.01", {"anchors": 0.01}),
    Variant("anchors 0.1", {"anchors": 0.1}),
    Variant("moments 0.05", {"moments": 0.05}),
    Variant("moments 0.4", {"moments": 0.4}),
    Variant("ridge 0.1", constant=(certified_compact, "_RIDGE", 0.1)),
    Variant("ridge 1.6", constant=(certified_compact, "_RIDGE", 1.6)),
)


@dataclass(frozen=True)
class Scan:
    """A learner with the options that are not varied, what it learns from, and what is varied."""

    learner: type[Learner]
    data: Data
    variants: tuple[Variant, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def beside(self, learned: int, records: int) -> Scan:
        """With the noise of ``records`` records, for a learner that gets ``learned``."""
        mu = gaussian_mu(self.options["epsilon"], DELTA) * records / learned
        return replace(self, options=self.options | {"epsilon": gaussian_epsilon(mu, DELTA)})


SCANS = {
    None: Scan(CompactClassifier, FEW, VARIANTS),
    "head": Scan(CompactPrivate, FEW, HEADS),
    "certified": Scan(CertifiedCompact, MANY, CERTIFIED, {"epsilon": 3.0}),
}


@dataclass(frozen=True, eq=False)
class Part:
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    learned: int


def part(name: str, extractor: str, learned: int, asked: int) -> Part:
    """Features of pictures that are learned from or held back in any run."""
    pictures, labels = kuzushiji() if name == "kmnist" else trained_on(name)
    chosen = np.random.default_rng(0).permutation(len(labels))[: learned + asked]
    made = make_extractor(extractor, pictures.shape[1:])
    return Part(made.transform(pictures[chosen]), labels[chosen], learned)


def trained_on(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    pictures, _ = load_parts(name)
    return pictures.pictures * np.float32(255.0), pictures.labels


def kuzushiji() -> tuple[NDArray[Any], NDArray[np.int64]]:
    with np.load(data_file("kmnist", "kmnist_test10k.npz")) as archive:
        return archive["x"], archive["y"].astype(np.int64)


@contextmanager
def changed(constant: Constant | None) -> Iterator[None]:
    """A constant of a module, which no parameter sets, with another value."""
    if constant is None:
        yield
        return
    module, name, value = constant
    kept = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, kept)


def hits(scan: Scan, variant: Variant, part: Part, run: int) -> NDArray[np.float64]:
    """Whether each picture held back in ``run`` is told right."""
    order = np.random.default_rng(run).permutation(len(part.labels))
    learned, asked = np.split(order, [part.learned])
    with changed(variant.constant):
        model = scan.learner(randomness=Seeded(run), **scan.options, **variant.options)
        model.fit(part.features[learned], part.labels[learned])
        found = np.asarray(model.predict(part.features[asked])) == part.labels[asked]
    return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Tried:
    """Whether each picture was told right, by runs; the least processor seconds of a fit and its answers."""

    told: NDArray[np.float64]
    seconds: float

    @property
    def accuracy(self) -> float:
        return 100.0 * float(self.told.mean())

    def gain(self, against: Tried) -> tuple[float, float]:
        """Points more than ``against``, and the larger of their standard errors over pictures and runs."""
        apart = 100.0 * (self.told - against.told)
        over_pictures = apart.std() / apart.size**0.5
        over_runs = apart.mean(axis=1).std(ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else 0.0
        return float(apart.mean()), float(max(over_pictures, over_runs))


def attempt(scan: Scan, variant: Variant, part: Part, runs: range) -> Tried:
    told, seconds = [], []
    for run in runs:
        begun = time.process_time()
        told.append(hits(scan, variant, part, run))
        seconds.append(time.process_time() - begun)
    return Tried(np.array(told), min(seconds))


@dataclass(frozen=True)
class Gain:
    """What a change is worth: points, their error, seconds of a fit, and per cent told right."""

    points: float
    error: float
    seconds: float
    accuracy: float | None = None

    def __str__(self) -> str:
        return f"{self.accuracy:.2f} ({self.points:+.2f} ± {self.error:.2f}), {self.seconds:.0f} s"

    def wins(self, against: Gain) -> bool:
        return self.points >= 1.0 or (
            self.points > 2.0 * self.error and self.seconds <= 1.25 * against.seconds
        )


def mean(gains: list[Gain]) -> Gain:
    """Over data sets, each counted alike."""
    many = len(gains)
    return Gain(
        sum(one.points for one in gains) / many,
        hypot(*(one.error for one in gains)) / many,
        sum(one.seconds for one in gains) / many,
    )


def judged(scan: Scan, name: str, records: int | None, runs: range) -> Callable[[Variant], Gain]:
    """What a change is worth to the data set ``name``."""
    by, learned, asked = scan.data[name]
    taken = scan if records is None else scan.beside(learned, records)
    held = cache(lambda: part(name, by, learned, asked))
    defaults = cache(lambda: attempt(taken, scan.variants[0], held(), runs))

    def worth(variant: Variant) -> Gain:
        tried = defaults() if variant is scan.variants[0] else attempt(taken, variant, held(), runs)
        return Gain(*tried.gain(defaults()), tried.seconds, tried.accuracy)

    return worth


@dataclass(frozen=True)
class Kept:
    """Gains that were measured, in a file if there is one; ``asked`` is what they depend on."""

    file: Path | None
    asked: dict[str, Any]

    def known(self) -> dict[tuple[str, str], Gain]:
        lines = self.file.read_text("utf-8").splitlines() if self.file and self.file.exists() else []
        rows = [row for row in map(json.loads, lines) if row["asked"] == self.asked]
        return {(row["data"], row["change"]): Gain(**row["gain"]) for row in rows}

    def keep(self, data: str, change: str, gain: Gain) -> None:
        if self.file:
            row = {"asked": self.asked, "data": data, "change": change, "gain": vars(gain)}
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def verdicts(found: Mapping[str, Mapping[str, Gain]]) -> Iterator[str]:
    """What the others choose for whoever learns from one data set."""
    for name in found:
        others = [gains for other, gains in found.items() if other != name]
        if not others:
            continue
        changes = {change: mean([gains[change] for gains in others]) for change in others[0]}
        first, *rest = changes
        won = [change for change in rest if changes[change].wins(changes[first])]
        best = max(won, key=lambda change: changes[change].points, default=first)
        said = f" ({changes[best].points:+.2f} ± {changes[best].error:.2f} points)" if won else ""
        yield f"For {name} the others choose {best}{said}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often pictures are parted anew")
    which = parser.add_mutually_exclusive_group()
    for name, scan in SCANS.items():
        if name is not None:
            said = f"vary {scan.learner.__name__}"
            which.add_argument(f"--{name}", dest="scan", action="store_const", const=name, help=said)
    parser.add_argument("--records", type=int, help="records beside which certified learners are judged")
    parser.add_argument("--data", nargs="+", help="the data sets that judge; all unless given")
    parser.add_argument("--keep", type=Path, help="a file for rows that were measured")
    given = parser.parse_args()
    if given.records is not None and given.scan != "certified":
        parser.error("--records is for --certified.")
    runs, scan = range(given.runs), SCANS[given.scan]
    kept = Kept(given.keep, {"scan": given.scan, "records": given.records, "runs": given.runs})
    judges = {name: judged(scan, name, given.records, runs) for name in given.data or scan.data}
    known = kept.known()
    found: dict[str, dict[str, Gain]] = {name: {} for name in judges}
    print(f"| changed | {' | '.join(judges)} |\n|{'---|' * (len(judges) + 1)}")
    for change in scan.variants:
        for name, worth in judges.items():
            gain = known.get((name, change.name))
            if gain is None:
                gain = worth(change)
                kept.keep(name, change.name, gain)
            found[name][change.name] = gain
        print(
            f"| {change.name} | {' | '.join(str(gains[change.name]) for gains in found.values())} |",
            flush=True,
        )
    print()
    for verdict in verdicts(found):
        print(verdict)


if __name__ == "__main__":
    main()
