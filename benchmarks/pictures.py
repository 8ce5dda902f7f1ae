"""Pictures: how much closer ours stays than DP-Pix at equal unit and ε, and how long a picture takes.

Luma of the middle 224 × 224 pixels of the test photographs (see ``photographs``), any 16 pixels, pure ε. The
better DP-Pix over its sizes 4, 8, 16 and 32 is taken for each measure by itself; both are means over pictures
and over ``ROUNDS`` releases.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from photographs import for_tests, luma_crops
from sfumato.media.images import DPPix, PlaneMeans
from sfumato.utility import psnr, ssim
from timing import Row

UNIT, EPSILONS, SIZES, ROUNDS = "pixels(16)", (1.0, 4.0), (4, 8, 16, 32), 3
BUDGET = 0.6  # milliseconds a picture of 224 × 224 × 3 bytes on one core


def measure() -> list[Row]:
    return [*closeness(), *speed()]


def closeness() -> list[Row]:
    if not for_tests():
        return [Row("pictures: no photographs; SFUMATO_DATA names their folder", "skipped", 0.0)]
    originals, rows = luma_crops(), []
    for epsilon in EPSILONS:
        pixelated = [scores(originals, DPPix(epsilon, UNIT, size)) for size in SIZES]
        best = np.max(pixelated, axis=0)
        rows.append(Row(f"best DP-Pix, ε = {epsilon:g}", shown(best), 0.0))
        for restore in ("none", "smooth", "wiener", "learned"):
            found = scores(originals, PlaneMeans(epsilon, unit=UNIT, restore=restore))
            gained, wanted = found - best, restore == "learned"
            name = f"PlaneMeans, {restore}, ε = {epsilon:g}"
            rows.append(Row(f"{name}: dB above", shown(found), gained[0], at_least=1.5 if wanted else None))
            rows.append(Row(f"{name}: SSIM above", "", gained[1], at_least=0.05 if wanted else None))
    return rows


def scores(originals: NDArray[np.uint8], mechanism: PlaneMeans | DPPix) -> NDArray[np.float64]:
    """Mean PSNR and mean SSIM."""
    found = []
    for _ in range(ROUNDS):
        released = mechanism.shaped(originals.shape[1:]).release(originals).value
        both = psnr(originals, released, data_range=255.0), ssim(originals, released, data_range=255.0)
        found.append([each.mean() for each in both])
    return np.mean(found, axis=0)


def shown(found: NDArray[np.float64]) -> str:
    return f"{found[0]:.2f} dB {found[1]:.3f}"


def speed() -> list[Row]:
    """Processor time on one core, which other work does not lengthen as it does the clock's."""
    with threadpool_limits(1):
        return _speed()


def _speed() -> list[Row]:
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 256, (13, 224 * 224 * 3), dtype=np.uint8)
    best: dict[str, float] = {}
    for _ in range(20):
        for restore in ("wiener", "learned"):
            for unit, epsilon in (("region(16)", 4.0), (UNIT, 1.0), (UNIT, 4.0)):
                name = f"{restore}, {unit}, ε = {epsilon:g}"
                mechanism = PlaneMeans(epsilon, unit=unit, restore=restore, shape=(224, 224, 3))
                mechanism.perturb(pictures[:1])  # blocks and filters are chosen once
                start = time.process_time()
                mechanism.perturb(pictures)
                best[name] = min(best.get(name, np.inf), time.process_time() - start)
    rows = []
    for name, seconds in best.items():
        each = 1000.0 * seconds / len(pictures)
        limit = BUDGET if name.startswith("wiener") else None
        rows.append(Row(f"224 × 224 × 3 bytes, {name}: ms a picture", f"{each:.3f} ms", each, at_most=limit))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(
            f"{row.name:<60}{row.value:>18}{row.ratio:>8.3f}  {row.target} {'' if row.reached else 'MISSED'}"
        )
