"""What a classifier learns from certified pictures alone: accuracy on real test pictures.

The classifier is fixed before any test picture is read: pictures scaled to length 1, 14×14 low cosine
coefficients, a support vector machine with an RBF kernel (γ = 3, C = 10), 20,000 released pictures.
Grain is told by two ratios to the pictures that were fitted: total variation, and connected pieces above 15%
of the range.

    SFUMATO_DATA=… python benchmarks/publishing.py [mnist fashion_mnist]
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import label
from sklearn.svm import SVC

from sfumato.publishers import CertifiedPublisher
from sfumato.publishers.mixture import CosineBasis

RELEASED = 20_000
SHOWN = 3000
#: Least accuracy in per cent, by dataset and ε.
TARGETS = {("mnist", 1.0): 90, ("mnist", 10.0): 94, ("fashion_mnist", 1.0): 78, ("fashion_mnist", 10.0): 82}


def directions(pictures: np.ndarray) -> np.ndarray:
    return CosineBasis((28, 28), 14).coordinates(pictures / 255.0)[:, :-1]


def variation(pictures: np.ndarray) -> float:
    """Mean total variation of a picture."""
    values = pictures.astype(np.float64)
    return float(sum(np.abs(np.diff(values, axis=axis)).sum() for axis in (1, 2)) / len(values))


def pieces(pictures: np.ndarray) -> float:
    """Mean number of connected pieces of a picture."""
    return float(np.mean([label(picture > 0.15 * 255.0)[1] for picture in pictures]))


def measured(name: str, epsilon: float, neighbours: str) -> tuple[float, float, float, float]:
    """Accuracy on the real test set, seconds of fitting and publishing, variation and pieces to real ones."""
    data = np.load(Path(os.environ["SFUMATO_DATA"]) / f"{name}.npz")
    publisher = CertifiedPublisher(epsilon, 1e-5, neighbours=neighbours)
    start = time.process_time()
    publisher.fit(data["x_train"], data["y_train"].astype(np.int64))
    pictures, labels = publisher.publish(RELEASED).value
    seconds = time.process_time() - start
    classifier = SVC(C=10.0, gamma=3.0).fit(directions(pictures), labels)
    score = float(classifier.score(directions(data["x_test"]), data["y_test"]))
    some, real = pictures[:SHOWN], data["x_train"][:SHOWN]
    return score, seconds, variation(some) / variation(real), pieces(some) / pieces(real)


def main() -> None:
    names = sys.argv[1:] or ["mnist", "fashion_mnist"]
    print("dataset         ε   neighbours   accuracy  target  variation  pieces  processor time")
    for (name, epsilon), target in TARGETS.items():
        for neighbours in ("replace", "add/remove"):
            if name in names:
                score, seconds, varied, split = measured(name, epsilon, neighbours)
                row = f"{name:14} {epsilon:3.0f}  {neighbours:11}"
                grain = f"{varied:9.2f}  {split:6.2f}"
                print(f"{row}   {100 * score:5.2f}%    {target}%  {grain}  {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
