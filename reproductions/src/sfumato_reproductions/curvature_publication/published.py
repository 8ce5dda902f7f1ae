"""What the paper prints in tables 1 and 2: membership success, accuracy, FID and Inception score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["OURS", "STRATEGIES", "TABLE_1", "Printed", "attacked_records", "close_seconds", "rates"]

#: The paper's name for its own method.
OURS = "Ours"


@dataclass(frozen=True)
class Printed:
    """One row: membership success and test accuracy in percent, FID (none for the original), and IS."""

    membership: float
    accuracy: float
    fid: float | None
    score: float


_ROWS = ("Original", "Pixelation", "Blur", "K-anonymity", "VAEGAN-DP", "DPDM", OURS)


def _block(*lines: tuple[float, float, float | None, float]) -> dict[str, Printed]:
    return {name: Printed(*line) for name, line in zip(_ROWS, lines, strict=True)}


#: Data set -> method -> row of table 1. The names are the paper's where there are no data of that name here.
TABLE_1: dict[str, dict[str, Printed]] = {
    "mnist": _block(
        (70.51, 97.85, None, 2.5319),
        (58.98, 97.12, 1259.7742, 1.5675),
        (65.63, 94.13, 362.6897, 2.2335),
        (54.69, 98.48, 292.3094, 2.2688),
        (66.56, 76.74, 451.0217, 2.5719),
        (55.21, 96.62, 248.4533, 2.3321),
        (52.95, 96.57, 116.2198, 2.4618),
    ),
    "kmnist": _block(
        (67.73, 94.96, None, 2.4417),
        (62.98, 90.89, 1241.3593, 1.7498),
        (61.37, 93.80, 420.9563, 2.3659),
        (56.60, 91.14, 312.9801, 2.0537),
        (63.98, 79.81, 662.5486, 2.4978),
        (61.28, 90.64, 299.1109, 2.2643),
        (56.59, 93.22, 148.8800, 2.2833),
    ),
    "fashion-mnist": _block(
        (65.63, 88.29, None, 4.6867),
        (59.72, 86.27, 939.7923, 1.7141),
        (56.25, 87.79, 621.4550, 2.6904),
        (53.47, 84.56, 482.9207, 2.6112),
        (65.17, 65.79, 789.7272, 2.8319),
        (60.24, 80.69, 444.6866, 3.0555),
        (54.69, 87.37, 234.6177, 3.3117),
    ),
    "notMNIST": _block(
        (54.34, 95.62, None, 3.9396),
        (51.22, 94.66, 1017.024, 2.1068),
        (49.65, 93.57, 393.9886, 3.0679),
        (51.04, 86.50, 188.2756, 3.7985),
        (50.87, 78.80, 1407.0167, 2.7642),
        (51.91, 87.92, 1693.1748, 2.6338),
        (49.65, 89.37, 208.5805, 3.7380),
    ),
    "Math Symbols": _block(
        (56.51, 99.74, None, 2.8039),
        (54.08, 98.41, 1309.5963, 1.9217),
        (54.95, 82.35, 379.6156, 2.5815),
        (54.60, 75.63, 379.6761, 2.5685),
        (52.08, 70.20, 1040.022, 2.6180),
        (52.08, 92.56, 424.9383, 2.7880),
        (52.86, 87.40, 293.0328, 2.8568),
    ),
    "KANMNIST": _block(
        (58.42, 98.59, None, 2.6363),
        (55.47, 91.37, 1068.388, 1.7095),
        (56.34, 93.96, 272.1793, 2.1170),
        (54.42, 82.93, 405.6101, 2.0404),
        (57.73, 81.62, 362.4156, 2.4155),
        (58.85, 94.92, 277.1584, 1.9167),
        (55.64, 94.27, 227.5984, 2.2370),
    ),
    "AfroMNIST": _block(
        (55.90, 99.96, None, 1.7165),
        (50.52, 71.64, 1340.0431, 1.2620),
        (50.43, 22.70, 527.1374, 1.5693),
        (50.95, 79.16, 191.6329, 1.6976),
        (49.31, 87.74, 124.7246, 1.7157),
        (51.39, 75.68, 129.8099, 1.4014),
        (52.52, 88.95, 160.8828, 1.7725),
    ),
    "dSprites": _block(
        (52.08, 99.89, None, 1.6985),
        (48.35, 98.33, 420.2735, 1.5974),
        (49.13, 69.40, 412.8178, 1.3537),
        (50.17, 73.62, 347.6233, 1.3051),
        (49.65, 78.25, 382.0260, 1.2136),
        (51.74, 99.18, 124.1060, 1.4568),
        (50.87, 99.73, 65.9450, 1.6300),
    ),
    "OCTMNIST": _block(
        (64.75, 71.10, None, 2.3262),
        (59.72, 47.80, 1025.7683, 1.3694),
        (63.37, 34.10, 627.9113, 1.4763),
        (65.80, 29.10, 548.8842, 1.6482),
        (68.40, 32.00, 869.2015, 1.9823),
        (64.93, 49.00, 113.3422, 1.8090),
        (52.26, 56.50, 361.8458, 1.8595),
    ),
}

#: Strategy, by its name here -> row of table 2, on MNIST.
STRATEGIES: dict[str, Printed] = {
    "linear": Printed(53.65, 62.08, 232.5755, 2.3997),
    "highest": Printed(58.68, 89.40, 178.1020, 2.4985),
    "lowest": Printed(52.95, 96.57, 116.2198, 2.4618),
}


def rates() -> Iterator[float]:
    """Every membership success rate of table 1, in percent."""
    for block in TABLE_1.values():
        yield from (row.membership for row in block.values())


def attacked_records(records: int) -> tuple[int, float]:
    """How many of the rates are, as printed, a whole number out of ``records``; how many would be by chance.

    A rate is printed to 0.01 points, so that by chance ``records``/10,000 of all rates fall on a multiple.
    """
    printed = list(rates())
    hits = sum(
        abs(round(rate * records / 100.0) * 100.0 / records - rate) <= 0.005 + 1e-9 for rate in printed
    )
    return hits, len(printed) * min(records / 10_000.0, 1.0)


def close_seconds(reach: float) -> tuple[int, int]:
    """In how many data sets the paper's own rate and the lowest other are within ``reach`` points; of all."""
    gaps = []
    for block in TABLE_1.values():
        others = (row.membership for name, row in block.items() if name not in ("Original", OURS))
        gaps.append(abs(block[OURS].membership - min(others)))
    return sum(gap < reach for gap in gaps), len(gaps)
