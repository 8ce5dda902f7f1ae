"""What defaults of the learners are worth, on training pictures held back.

SFUMATO_DATA=… python benchmarks/compact_defaults.py [--runs 1] [--head | --certified] [--data NAME …]
    [--learned N] [--only CHANGE …]

CompactClassifier unless told otherwise; with --head it is CompactPrivate, at ε = 1 and δ = 1e-5, whose head
is varied; with --certified CertifiedCompact at ε = 3 and δ = 1e-5, whose head is that of PrivateSoftmax too.

Of the training pictures some are learned from, and others, training pictures too, are asked about; no test
picture is used. Each row changes one default. Its gain is the difference in accuracy on the same pictures, in
points, beside its error: the larger of the standard errors over pictures and over runs. A default gives way
to a value that gains a point, or more than twice the error in no more time, a tenth aside. Each data set is
a judge of its own, and the change that gains most there is said in a line of its own: whoever learns from
one data set may take what another, public to him, has chosen. What the paper states (γ, 50 anchors of a
class, batches, rate, adaptive bandwidth, as many dimensions as features) is not varied. One run takes about
ten minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learn import (
    CertifiedCompact,
    CompactClassifier,
    CompactPrivate,
    Learner,
    closed_contraction,
    make_extractor,
    noisy_descent,
)
from sfumato.learn.compact import contraction, kernel_density
from sfumato.noise import Seeded
from sfumato.papers.datasets import load_parts

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
}


@dataclass(frozen=True)
class Variant:
    """Defaults but for ``options`` of the classifier, or for one constant of a module."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    constant: Constant | None = None


def _bandwidth(factor: float) -> Constant:
    rule = kernel_density.adaptive_bandwidth
    return kernel_density, "adaptive_bandwidth", lambda *points: factor * rule(*points)


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
    Variant("loudness 3", constant=(contraction, "_LOUDNESS", 3.0)),
    Variant("loudness 12.5", constant=(contraction, "_LOUDNESS", 12.5)),
    Variant("loudness 200", constant=(contraction, "_LOUDNESS", 200.0)),
    Variant("loudness 800", constant=(contraction, "_LOUDNESS", 800.0)),
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
    Variant("path halved", constant=(noisy_descent, "REACH", 1.15)),
    Variant("path doubled", constant=(noisy_descent, "REACH", 4.6)),
    Variant("anchors 0.01", {"anchors": 0.01}),
    Variant("anchors 0.1", {"anchors": 0.1}),
    Variant("moments 0.05", {"moments": 0.05}),
    Variant("moments 0.4", {"moments": 0.4}),
    Variant("ridge 0.1", constant=(closed_contraction, "_RIDGE", 0.1)),
    Variant("ridge 1.6", constant=(closed_contraction, "_RIDGE", 1.6)),
)


@dataclass(frozen=True)
class Scan:
    """A learner with the options that are not varied, what it learns from, and what is varied."""

    learner: type[Learner]
    data: Data
    variants: tuple[Variant, ...]
    options: dict[str, Any] = field(default_factory=dict)


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


def parts(data: Data) -> dict[str, Part]:
    """Features of training pictures: those that are learned from or held back in any run."""
    found = {}
    for name, (extractor, learned, asked) in data.items():
        pictures, _ = load_parts(name)
        records, labels = pictures.sample(learned + asked, 0)
        made = make_extractor(extractor, pictures.shape)
        features = made.transform(records.reshape(-1, *pictures.shape) * np.float32(255.0))
        found[name] = Part(features, labels, learned)
    return found


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
    """Whether each picture was told right, by runs; processor seconds of one fit."""

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
    begun = time.process_time()
    told = np.array([hits(scan, variant, part, run) for run in runs])
    return Tried(told, (time.process_time() - begun) / len(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often pictures are parted anew")
    which = parser.add_mutually_exclusive_group()
    for name, scan in SCANS.items():
        if name is not None:
            said = f"vary {scan.learner.__name__}"
            which.add_argument(f"--{name}", dest="scan", action="store_const", const=name, help=said)
    parser.add_argument("--data", nargs="+", help="the data sets that judge; all unless given")
    parser.add_argument("--learned", type=int, help="pictures that are learned from, instead of the usual")
    parser.add_argument("--only", nargs="+", default=[], help="changes that are judged; all unless given")
    given = parser.parse_args()
    runs, scan = range(given.runs), SCANS[given.scan]
    judges = {name: scan.data[name] for name in given.data or scan.data}
    data = parts(
        {name: (by, given.learned or learned, asked) for name, (by, learned, asked) in judges.items()}
    )
    tried_here = [
        one for one in scan.variants if not given.only or one.name in (scan.variants[0].name, *given.only)
    ]
    best = dict.fromkeys(data, (0.0, scan.variants[0].name))
    print(f"| changed | {' | '.join(data)} |\n|{'---|' * (len(data) + 1)}")
    found: dict[str, Tried] = {}
    for variant in tried_here:
        cells = []
        for name, part in data.items():
            tried = attempt(scan, variant, part, runs)
            against = found.setdefault(name, tried)
            gain, error = tried.gain(against)
            cells.append(f"{tried.accuracy:.2f} ({gain:+.2f} ± {error:.2f}), {tried.seconds:.0f} s")
            if gain >= 1.0 or (gain > 2.0 * error and tried.seconds <= 1.1 * against.seconds):
                best[name] = max(best[name], (gain, variant.name))
        print(f"| {variant.name} | {' | '.join(cells)} |", flush=True)
    for name, (gain, chosen) in best.items():
        print(f"\n{name} alone chooses {chosen} ({gain:+.2f} points).")


if __name__ == "__main__":
    main()
