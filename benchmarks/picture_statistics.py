"""Compute and print the constants of ``sfumato.media.images.restoration`` from public photographs.

Inputs: the photographs of ``photographs.for_statistics()``, whose names it prints. Corners and middle of each
are transformed by a DCT of 320 × 320; the power law is fitted to logarithms of mean squares in cells of
radius and direction.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn
from scipy.optimize import least_squares

from photographs import for_statistics, planes_of

SIDE = 320
RADII = np.geomspace(0.003, 0.25, 16)
DIRECTIONS = np.linspace(0.0, np.pi / 2, 7)


def crops(plane: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    height, width = plane.shape
    down, across = height - SIDE, width - SIDE
    if min(down, across) < 0:
        return []
    places = {(0, 0), (0, across), (down, 0), (down, across), (down // 2, across // 2)}
    return [plane[top : top + SIDE, left : left + SIDE] for top, left in sorted(places)]


def main() -> None:
    paths = for_statistics()
    print(f"{len(paths)} photographs:", ", ".join(path.name for path in paths))
    taken = [planes_of(path) for path in paths]
    frequency = np.arange(SIDE) / (2.0 * SIDE)
    fy, fx = np.meshgrid(frequency, frequency, indexing="ij")
    radius, direction = np.hypot(fy, fx), np.arctan2(fy, fx)
    for plane, name in enumerate(("luma", "blue", "red")):
        parts = [part for photograph in taken for part in crops(photograph[plane])]
        power = np.mean([dctn(part, norm="ortho") ** 2 for part in parts], axis=0)
        averages = np.array([part.mean() for part in parts])
        cells = []
        for low, high in itertools.pairwise(RADII):
            for start, end in itertools.pairwise(DIRECTIONS):
                inside = (radius >= low) & (radius < high) & (direction >= start) & (direction <= end)
                if inside.any():
                    where = np.log(radius[inside]).mean(), np.cos(4.0 * direction[inside]).mean()
                    cells.append((*where, np.log(power[inside].mean())))
        logs, turns, powers = np.array(cells).T

        def misfit(
            fit: NDArray[np.float64],
            logs: NDArray[np.float64] = logs,
            turns: NDArray[np.float64] = turns,
            powers: NDArray[np.float64] = powers,
        ) -> NDArray[np.float64]:
            return np.asarray(fit[0] - fit[1] * logs + np.log1p(fit[2] * turns) - powers)

        amplitude, slope, lean = least_squares(misfit, [0.0, 2.0, 0.0]).x
        print(
            f'"{name}": Spectrum({averages.mean():.1f}, {averages.std():.1f}, {np.exp(amplitude):.3g}, '
            f"{slope:.2f}, {lean:.2f})"
        )


if __name__ == "__main__":
    main()
