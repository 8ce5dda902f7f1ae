"""Protect the handwritten digits that ship with scikit-learn for three readers, attack that, and report it.

Run by ``make demo``. Writes the data, a release with its certificate, a picture and a report into the folder
given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import sfumato as sf

DISTRUSTS = (0.0, 0.5, 1.0)
EPSILON = (8.0, 60.0)


def main(folder: Path) -> None:
    """Write everything into ``folder`` and say so."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SFUMATO_HOME", str(folder / "home"))  # the demo's own key, not yours
    digits = load_digits()
    X = (digits.data / 16.0).astype(np.float32)  # grey values in [0, 1], known without looking at the data
    np.savez(folder / "digits.npz", X=X, y=digits.target)

    # One reader, through a file: what `sfumato protect` does.
    mechanism = sf.TrustAdaptive(distrust=0.5, epsilon=EPSILON, delta=1e-6, clip=4.0)
    # The demo may be run again: its older release is replaced, which has to be said.
    output = folder / "digits-protected.npz"
    done = sf.protect(folder / "digits.npz", output, mechanism, array="X", overwrite=True)
    print(done.statement)

    # Three readers at the price of the most trusted one.
    tiers = mechanism.tiers(DISTRUSTS)
    releases = tiers.release(X)
    print(f"\nthree readers together: {tiers.guarantee()}")
    for distrust, release in releases.items():
        error = np.sqrt(np.mean((release.value - X) ** 2))
        print(f"  τ = {distrust:<3g}: {release.statement.proven}; root mean square error {error:.2f}")

    # Attack what each reader gets, and write down what was promised and what was found.
    audits = {}
    for distrust, release in releases.items():
        audits[distrust] = sf.audit(release, original=X, labels=digits.target)
        found = audits[distrust]
        print(f"  τ = {distrust:<3g}: attacked, ε is at least {found.epsilon_lower:.3g} ({found.attack})")
    page = sf.report(
        list(audits.values()),
        folder / "report.html",
        original=X,
        labels=digits.target,
        names=[f"digits for τ = {distrust:g}" for distrust in audits],
        image_shape=(8, 8),
        show_originals=8,
        title="Handwritten digits for three readers",
        reproduce=["make demo"],
    )

    picture = folder / "digits.png"
    draw(X, {distrust: release.value for distrust, release in releases.items()}, digits.target, picture)
    print("\nfiles:")
    for file in (folder / "digits.npz", done.output, done.certificate_file, picture, page):
        print(f"  {file}")


def draw(original: np.ndarray, released: dict[float, np.ndarray], labels: np.ndarray, file: Path) -> None:
    """Five records and five averages, as they are and as each reader sees them.

    The averages are taken over the owner's labels, which are not part of the release.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [("original", original)] + [(f"τ = {distrust:g}", value) for distrust, value in released.items()]
    figure = pyplot.figure(figsize=(9.6, 0.9 * len(rows) + 0.4), layout="constrained")
    halves = figure.subfigures(1, 2, wspace=0.04, width_ratios=(1.12, 1.0))
    for half, title in zip(halves, ("one record", "average of about 180 records"), strict=True):
        half.suptitle(title, fontsize=11)
        grid = half.subplots(len(rows), 5)
        for line, (name, values) in zip(grid, rows, strict=True):
            means = [values[labels == digit].mean(axis=0) for digit in range(5)]
            for axis, record in zip(line, values if half is halves[0] else means, strict=False):
                axis.imshow(record.reshape(8, 8), cmap="gray_r", vmin=-0.2, vmax=1.2)
                axis.set_xticks([])
                axis.set_yticks([])
            if half is halves[0]:
                line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output"))
