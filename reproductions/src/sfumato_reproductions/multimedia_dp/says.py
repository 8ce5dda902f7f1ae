"""What else the numbers say, beyond what the paper claims."""

from __future__ import annotations

from statistics import fmean

from sfumato.media.images import CATEGORIES
from sfumato_reproductions.multimedia_dp.part import Part
from sfumato_reproductions.multimedia_dp.published import AGREEMENT

__all__ = ["says"]


def says(parts: dict[str, Part]) -> list[str]:
    """Sentences about the parts that were made."""
    told = []
    if (part := parts.get("table 1")) is not None:
        claimed = {category.name: category.mean for category in CATEGORIES}
        listed = "; ".join(
            f"{name} {fmean(one['detected']):.2f} ({claimed[name]:.2f})"
            for name, one in part.numbers["scores"].items()
            if name in claimed
        )
        told.append(f"Mean scores of our detectors, the paper's in brackets: {listed}.")
    if (part := parts.get("table 2")) is not None:
        theirs, ours = part.numbers["loss"][0], part.numbers["loss"][1]
        told.append(
            "At the ε that table 2's noise on pixels really proves for region(16), PlaneMeans reaches "
            f"{ours['psnr']:.1f} dB and SSIM {ours['ssim']:.2f} where that noise leaves "
            f"{theirs['psnr']:.1f} dB and {theirs['ssim']:.2f}."
        )
    if (part := parts.get("closeness")) is not None:
        best = [row for row in part.numbers["rows"] if row["release"] == "PlaneMeans, learned"]
        listed = " and ".join(
            f"{row['gain'][0]:+.2f} dB and {row['gain'][1]:+.3f} SSIM at ε = {row['epsilon']:g}"
            for row in best
        ).replace("-", "−")
        told.append(f"Over the best DP-Pix at equal unit and ε, PlaneMeans gains {listed}.")
    if (part := parts.get("table 4")) is not None:
        listed = "; ".join(
            f"{one['kind']} {one['ways']['exponential']['cost']:.3f} ({one['optimum']:.3f})"
            for one in part.numbers["kinds"]
        )
        told.append(
            "What a private threshold costs: at pure ε = 1 the exponential mechanism reaches, beside the "
            f"optimum in brackets, a J of {listed}."
        )
        for one in part.numbers["kinds"]:
            if one["kind"].startswith("sensitivity"):
                told.append(
                    f"The learned scorer decides {100.0 * (1.0 - one['optimum'] / 2.0):.0f}% of tiles right "
                    f"at its best threshold (claimed agreement with people: {100.0 * AGREEMENT:.0f}%); it "
                    "sees one tile and a public embedding."
                )
    if (part := parts.get("table 5")) is not None:
        row = {one["strategy"]: one for one in part.numbers["rows"] if one["epsilon"] == 1.0}
        told.append(
            "What stands out is often nobody: of the pixels that hybrid chooses, "
            f"{100.0 * row['hybrid']['precision']:.0f}% lie in boxes of people, where "
            f"{100.0 * row['uniform']['precision']:.0f}% of all pixels do (claimed 74.2% and 15.3%). Noise "
            "on block sums at the promise of the uniform row keeps "
            f"{100.0 * row['PlaneMeans']['retention']:.0f}% of structural similarity; uniform noise keeps "
            f"{100.0 * row['uniform']['retention']:.0f}%, hybrid {100.0 * row['hybrid']['retention']:.0f}% "
            "with nothing proven."
        )
    if (part := parts.get("video")) is not None:
        rows = {one["release"]: one for one in part.numbers["rows"]}
        ours, steady = (
            rows[name]
            for name in ("filter that follows motion, pure ε", "steady filter of the release, pure ε")
        )
        if ours["flicker"] is not None and steady["flicker"] is not None:
            told.append(
                f"At the same pure ε a filter that follows motion leaves {ours['flicker']:.2f} of the "
                f"flicker and is {ours['lag']:.2f} frames late; one that does not, {steady['flicker']:.2f} "
                f"and {steady['lag']:.2f}."
            )
    if (part := parts.get("speech")) is not None:
        rows = {one["release"]: one for one in part.numbers["rows"]}
        theirs, ours = rows["mel levels, fading noise: the paper's"], rows["BandNoise, ε = 4"]
        told.append(
            "A guarantee for 20 ms is none for a voice: after BandNoise at ε = 4 an attacker with "
            f"protected recordings still names the speaker in {100.0 * ours['speaker'][2]:.0f}% of cases "
            f"and the digit in {100.0 * ours['digit'][2]:.0f}%; after the paper's noise, "
            f"{100.0 * theirs['speaker'][2]:.0f}% and {100.0 * theirs['digit'][2]:.0f}%."
        )
    return told
