"""Accuracy of certified learning on real pictures, with and without contraction; writes docs/learning.md.

SFUMATO_DATA=… python benchmarks/learning.py [--write docs/learning.md] [--runs 3] [--keep FILE] [mnist …]

With --keep, rows that stand in the file are not measured again: so several processes may share the work.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind

from sfumato.learners import CertifiedCompact, PrivateSoftmax, make_extractor

DELTA = 1e-5
FILES = {"mnist": "mnist", "fashion-mnist": "fashion_mnist", "cifar-10": "cifar10_20k_5k"}
#: Features of each dataset.
FEATURES = {
    "mnist": ("whitened-scattering",),
    "fashion-mnist": ("whitened-scattering",),
    "cifar-10": ("whitened-scattering", "efficientnet-lite0"),
}
#: Least accuracy in per cent at ε = 3 under zero-out neighbours (Tramèr & Boneh 2021, linear classifier).
TARGETS = {("mnist", "whitened-scattering"): 98.7, ("fashion-mnist", "whitened-scattering"): 89.7}
TARGETS |= {("cifar-10", name): 67.0 for name in FEATURES["cifar-10"]}
#: As many runs as usual, times this, in rows that decide whether something is reached.
DECIDING = 2
#: What the other data sets choose for each (compact_defaults.py); the defaults where nothing is said.
CHOSEN: dict[str, dict[str, Any]] = {
    "mnist": {"spread": 1.15},
    "fashion-mnist": {"spread": 1.15},
    "cifar-10": {},
}
METHODS = {"head alone": PrivateSoftmax, "contraction and head": CertifiedCompact}

ABOUT = """# What certified learning reaches

Written by `SFUMATO_DATA=… python benchmarks/learning.py --write docs/learning.md`. Accuracy on the real test
pictures, mean ± standard deviation of {runs} runs with fresh noise, {more} in the first rows of MNIST and of
Fashion-MNIST; δ = 1e-5; one (ε, δ) for one record covers everything that is computed from the private
pictures. *Head alone* is `PrivateSoftmax`, *contraction and head* is `CertifiedCompact`. CIFAR-10 has 20,000
training pictures here instead of 50,000.

Who chose the constants (steps, clip, momentum, spread, shares of the budget, ridge): the other data sets,
which are public to whoever learns from one. `SFUMATO_DATA=… python benchmarks/compact_defaults.py --certified
--runs 3 --records 60000` (20000 for CIFAR-10) changes one default at a time and asks MNIST, Fashion-MNIST,
Kuzushiji-MNIST and CIFAR-10 about pictures that are held back, with the noise of so many records; for each,
of the changes by which the others gain in their mean a point, or more than twice the error in no more time,
the one that gains most is taken. For MNIST and Fashion-MNIST the others let the head go half as far (a spread
of 1.15 instead of 2.3; +0.22 ± 0.08 and +0.24 ± 0.07 points), for CIFAR-10 they leave the defaults. It is
contraction and head that was asked about; the head alone has the same constants. The first row of MNIST and
of Fashion-MNIST has the defaults, in which their own pictures had a say that no ε covers: it is there to
compare with, and is not what counts.

How far that goes: the rule was fixed after the test pictures of Fashion-MNIST had been looked at with two
other choices (`docs/decisions/020-constants-from-another-dataset.md`), and what no scan varies was settled
while the code was written, with MNIST and Fashion-MNIST in view: the kind of features, how many axes they
have, and that the head is linear. The axes of `whitened-scattering` come from drawn pictures,
`efficientnet-lite0` was trained on ImageNet, which is public and holds classes like those of CIFAR-10.
Seconds are those of one fit on one core.

| data | features | constants | ε | neighbours | head alone | contraction and head | to reach | seconds |
|---|---|---|---|---|---|---|---|---|
"""

WHY = """
Contraction spends a quarter of the budget on class sums and second moments. It pays where these are known
well beside their noise, with many records; with few the axes of public pictures are as good, and the budget
is missed in the head. *Beats* and *is behind* mean that Welch's test of the runs gives a two-sided chance of
less than 5 % to methods that are alike on these test pictures: each line may be wrong by itself that often.
"""


Row = dict[str, Any]


def places(names: list[str], runs: int) -> Iterator[Row]:
    """What is measured: all but the accuracies of methods."""
    for name in names:
        for features in FEATURES[name]:
            for epsilon, neighbours in itertools.product((3.0, 1.0), ("zero-out", "replace")):
                row = {"data": name, "features": features, "epsilon": epsilon, "neighbours": neighbours}
                row |= {"runs": runs, "constants": CHOSEN[name]}
                if target_of(row) is not None and CHOSEN[name]:
                    row |= {"runs": runs * DECIDING}
                    yield row | {"constants": {}}
                yield row


def target_of(row: Row) -> float | None:
    first = row["epsilon"] == 3.0 and row["neighbours"] == "zero-out"
    return TARGETS.get((row["data"], row["features"])) if first else None


def measured(wanted: list[Row]) -> Iterator[Row]:
    """Rows with the accuracies of all runs in per cent, by method, and processor seconds of one fit."""
    for (name, features), group in itertools.groupby(wanted, lambda row: (row["data"], row["features"])):
        data = np.load(Path(os.environ["SFUMATO_DATA"]) / f"{FILES[name]}.npz")
        labels, truth = data["y_train"].astype(np.int64), data["y_test"].astype(np.int64)
        extractor = make_extractor(features, data["x_train"].shape[1:])
        given, asked = (extractor.transform(data[part]) for part in ("x_train", "x_test"))
        for row in group:
            found, begun = {}, time.process_time()
            for method, kind in METHODS.items():
                learners = (
                    kind(row["epsilon"], DELTA, neighbours=row["neighbours"], **row["constants"])
                    for _ in range(row["runs"])
                )
                fits = (learner.fit(given, labels) for learner in learners)
                found[method] = [100.0 * float((fit.predict(asked) == truth).mean()) for fit in fits]
            seconds = (time.process_time() - begun) / (row["runs"] * len(METHODS))
            yield row | {"found": found, "seconds": seconds}


def rows(names: list[str], runs: int, kept: Path | None) -> Iterator[Row]:
    """All rows in their order; those that are kept as they are."""
    lines = kept.read_text("utf-8").splitlines() if kept is not None and kept.exists() else []
    known = {_name(row): row for row in map(json.loads, lines)}
    wanted = list(places(names, runs))
    fresh = measured([row for row in wanted if _name(row) not in known])
    for row in wanted:
        if _name(row) in known:
            yield known[_name(row)]
            continue
        made = next(fresh)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(made) + "\n")
        yield made


def _name(row: Row) -> tuple[Any, ...]:
    return *(row[key] for key in ("data", "features", "epsilon", "neighbours", "runs")), str(row["constants"])


def constants_of(row: Row) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in row["constants"].items()) or "defaults"


def line(row: Row) -> str:
    target = target_of(row) if row["constants"] == CHOSEN[row["data"]] else None
    cells = [row["data"], row["features"], constants_of(row), f"{row['epsilon']:g}", row["neighbours"]]
    for method in METHODS:
        found = row["found"][method]
        cells.append(f"{np.mean(found):.2f} ± {np.std(found, ddof=1):.2f}")
    cells += ["" if target is None else f"{target:g}", f"{row['seconds']:.0f}"]
    return f"| {' | '.join(map(str, cells))} |"


def verdicts(made: list[Row]) -> Iterator[str]:
    """Where contraction helps by Welch's test, and where not."""
    for row in made:
        alone, both = (row["found"][method] for method in METHODS)
        gain, chance = np.mean(both) - np.mean(alone), ttest_ind(both, alone, equal_var=False).pvalue
        word = "is not told from" if not chance < 0.05 else "beats" if gain > 0 else "is behind"
        what = f"{row['data']}, {row['features']}, {constants_of(row)}"
        where = f"{what}, ε = {row['epsilon']:g}, {row['neighbours']}"
        yield f"- {where}: contraction and head {word} the head alone ({gain:+.2f} points, p = {chance:.2g})."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*FILES, []], help="datasets; all unless given")
    parser.add_argument("--runs", type=int, default=3, help="2 or more")
    parser.add_argument("--keep", type=Path, help="a file for rows that were measured")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    made = []
    for row in rows(arguments.names or list(FILES), arguments.runs, arguments.keep):
        made.append(row)
        print(line(row), flush=True)
    said = list(verdicts(made))
    print("\n".join(said))
    if arguments.write is not None:
        table = "\n".join(map(line, made))
        page = (
            ABOUT.format(runs=arguments.runs, more=DECIDING * arguments.runs) + table,
            WHY,
            "\n".join(said),
        )
        arguments.write.write_text("\n".join(page) + "\n", "utf-8")


if __name__ == "__main__":
    main()
