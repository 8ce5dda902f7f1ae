"""What holds of the paper and what does not, each with the number that this run computed for it."""

from __future__ import annotations

import math
from typing import Any

from sfumato.privacy import Guarantee, ar1_factor, shuffled_epsilon
from sfumato_reproductions.information_bounds import pure_information
from sfumato_reproductions.multimedia_dp.allocation import moved_by_sensitivity
from sfumato_reproductions.multimedia_dp.calibration_table import readings
from sfumato_reproductions.multimedia_dp.part import Part, held, proven_epsilon
from sfumato_reproductions.multimedia_dp.published import ADAPTIVE_GAIN, DELTA

__all__ = ["fails", "holds"]

_RATE, _BETA, _BEST = 0.01, 0.9, 0.41
_REPORTS = (10_000, 1_000_000)


def holds(figure: dict[str, Any] | None) -> list[str]:
    """Theorems of the paper that stand; ``figure`` are the numbers of figure 2 where it was drawn."""
    told = [
        f"Poisson sampling: log(1 + q(e^ε − 1)) is right for a record that is added or removed; at ε = 1 and "
        f"q = {_RATE:g} it is {math.log1p(_RATE * math.expm1(1.0)):.4f}. Under `replace` it is not proven.",
        "Rényi orders add up under composition, and ε′ = kε + log(1/δ)/(α − 1) is a valid reading of them.",
        "The allocation problem is solved exactly in O(n log n) by water filling; a general solver ends "
        f"within {moved_by_sensitivity():.0e} of it.",
        "Projecting noisy values onto their range, temporal smoothing of public budgets and a reserve cost "
        "no privacy.",
    ]
    if figure is not None:
        last = {name: values[-1] for name, values in figure["epsilon"].items()}
        listed = ", ".join(f"{name} {value:.3g}" for name, value in last.items())
        told.append(
            f"Figure 2's order of composition theorems: after {figure['compositions'][-1]:,} compositions ε "
            f"at δ = {figure['delta']:g} is {listed}."
        )
    return told


def fails(parts: dict[str, Part]) -> list[str]:
    """The ten claims that do not hold, and those of the tables that were made."""
    return [
        _factors(),
        f"The objective Σ uᵢ log(εᵢ/sᵢ) does not depend on sensitivity: sᵢ adds a constant. With two very "
        f"different s a solver's optima differ by {moved_by_sensitivity():.0e}. An allocation in which "
        "sensitivity counts needs another objective; ours minimises Σ wᵢ/εᵢ² within table 1's ranges.",
        _maps(parts.get("allocation")),
        _channels(),
        _shuffling(),
        "A clipping bound that is the 90th percentile of gradient norms is computed from the gradients: one "
        "record moves it, and with it the noise and everybody's clipped gradient. It has to be tracked by a "
        "private quantile and paid for; σ·C noise alone proves nothing while C is read off the data.",
        _correlated(parts.get("video")),
        _fading(),
        "No ε makes a release compliant with a law. HIPAA's Safe Harbor is a list of eighteen kinds of "
        "identifiers to remove and names no ε; GDPR asks for an assessment of a case. What is printed here "
        "is evidence for such an assessment.",
        _whole(),
        *_tables(parts),
    ]


def _factors() -> str:
    listed = readings()
    single = "; ".join(
        f"{one.row.factor:g} on {one.row.feature}: {proven_epsilon(one.proven[0])}"
        for one in listed
        if one.name in ("pixels", "coefficients, Gaussian", "levels, noise that does not fade", "two-sided")
        or one.name.startswith("word left out")
    )
    pixels = listed[0]
    return (
        f"Scale factors below 1 break the claim even for one value. At claimed ε = 1 they prove ({single}); "
        "and Δ = 255 is one value of one pixel: for region(16) the first proves "
        f"{proven_epsilon(pixels.proven[1])}, for the picture {proven_epsilon(pixels.proven[2])}."
    )


def _maps(part: Part | None) -> str:
    text = (
        "An allocation that is read off private content gives that content away: where noise is weak and "
        "where strong says what stands there. It is free only if the map is public."
    )
    if part is None:
        return text
    proven = {one["map"]: one["proven"] for one in part.numbers["maps"]}
    return (
        f"{text} At ε = 4, {proven['public']} is proven for region(16) with a declared map, "
        f"{proven['private']} with a map that is itself released with noise and paid for, "
        f"{proven['unaccounted']} with the paper's."
    )


def _channels() -> str:
    one = Guarantee.pure(1.0, unit="clip")
    both = held(one + one)
    return (
        "Sound, pictures and metadata of one clip are no disjoint data: whoever is seen is often heard. The "
        f"maximum holds for the unit channel; for the clip two channels of ε = 1 are proven {both}, not 1."
    )


def _shuffling() -> str:
    told = ", ".join(
        f"{shuffled_epsilon(1.0, count, DELTA):.3g} for n = {count:,} (claimed {1.0 / count:g})"
        for count in _REPORTS
    )
    return (
        f"Shuffling does not amplify by 1/n. Of n reports of ε₀ = 1 the proven ε at δ = {DELTA:g} is "
        f"{told}; it falls as 1/√n."
    )


def _correlated(part: Part | None) -> str:
    frame, clip = ar1_factor(_BETA), ar1_factor(_BETA, "clip")
    least = math.sqrt((1.0 + _BEST**2) / (1.0 + _BEST))
    text = (
        f"Correlated noise is not free: n_t = βn_{{t−1}} + √(1−β²)w_t costs {frame:.2f} times the "
        f"sensitivity for one frame at β = {_BETA:g}, and up to {clip:.2f} times for a whole clip. At equal "
        f"ε it leaves at best {least:.2f} of the flicker of noise on frames as they are (β = {_BEST:g})."
    )
    if part is None:
        return text
    rows = {row["release"]: row for row in part.numbers["rows"]}
    paper = next(row for name, row in rows.items() if "paper" in name)
    same = next(row for name, row in rows.items() if f"β = {_BETA:g}, same ε" in name)
    ours = rows["filter that follows motion, our default"]
    if any(row["flicker"] is None for row in (paper, same, ours)):
        return text
    return (
        f"{text} Measured: with the paper's σ the flicker is {paper['flicker']:.2f} of that of independent "
        f"noise, but {paper['proven']} is proven where {paper['claimed_epsilon']:g} is claimed; at equal ε "
        f"it is {same['flicker']:.2f}, after a restoration that smooths more noise more and changes PSNR "
        f"where it moves by {_signed(same['psnr'])} dB. A filter of what is already released leaves "
        f"{ours['flicker']:.2f}, changes it by {_signed(ours['psnr'])} dB and costs no privacy."
    )


def _fading() -> str:
    fading, steady = (one for one in readings() if one.row.feature == "MFCC features")
    return (
        "Noise that fades with |t − t₀| leaves distant samples bare. For the worst 20 ms of a clip of 3 s, "
        f"{proven_epsilon(fading.proven[1])} is proven where 1 is claimed, and "
        f"{proven_epsilon(steady.proven[1])} if it does not fade, since a window reaches hundreds of levels."
    )


def _whole() -> str:
    bits = pure_information(1.0) / math.log(2.0)
    return (
        "ε = 1 for a whole raw picture leaves nothing of it: a pure ε lets through ε·tanh(ε/2) nats at "
        f"most, {bits:.2f} bit at ε = 1, however large the item. A figure such as 91.3% of accuracy at ε = "
        "1 is about a smaller unit, and means nothing until that unit is named."
    )


def _tables(parts: dict[str, Part]) -> list[str]:
    told = []
    if (part := parts.get("table 1")) is not None:
        ends = part.numbers["ranges"]["identity documents"]["proven"]
        low, high = (proven_epsilon(end["region(16)"]) for end in ends)
        told.append(
            f"Table 1's strictest range, 0.01 to 0.1, proves {low} to {high} for region(16) with table 2's "
            "noise; its *pass-through* proves nothing."
        )
    if (part := parts.get("table 2")) is not None:
        loss = {row["release"]: row for row in part.numbers["loss"]}
        gaussian = loss["the paper's noise on coefficients, Gaussian"]
        needed = part.numbers["needed"]
        told.append(
            "Table 2's losses are not those of ε = 1: noise on DCT coefficients loses "
            f"{100.0 * (1.0 - gaussian['ssim']):.0f}% of SSIM there, not 3.8%. That takes a claimed ε of "
            f"about {needed['claimed_epsilon']:.0f}, which proves "
            f"{proven_epsilon(needed['proven_epsilon']['region(16)'])} for region(16)."
        )
    if (part := parts.get("table 4")) is not None:
        shown = [one["ways"]["functional, the paper's"]["shows_a_score"] for one in part.numbers["kinds"]]
        low, high = (f"{100.0 * share:.0f}%" for share in (min(shown), max(shown)))
        often = low if low == high else f"{low} to {high}"
        told.append(
            "Table 4: the functional mechanism on a staircase proves nothing. The threshold it released was "
            f"the score of a record, but for its last bit, in {often} of draws."
        )
    if (part := parts.get("table 5")) is not None:
        rows = [row for row in part.numbers["rows"] if row["proven"] == "nothing"]
        bare = [row["shown"] for row in rows]
        told.append(
            "Table 5: no theorem stands behind 0.90ε to 0.93ε. Strategies that choose by content released "
            f"{100.0 * min(bare):.0f}% to {100.0 * max(bare):.0f}% of the pixels of people as they are."
        )
    if (part := parts.get("allocation")) is not None:
        rows = part.numbers["rows"]
        worst, total = (
            [row[f"measured, {where}, equal {equal}"] for row in rows for where in ("everywhere", "outside")]
            for equal in ("worst case", "total")
        )
        modelled = [row["modelled, outside, equal total"] for row in rows]
        often = sum(saved >= ADAPTIVE_GAIN for saved in worst + total)
        told.append(
            f"The 38.7%: of {len(worst + total)} measured comparisons {often} reach them. By squared error "
            f"the adaptive allocation saves {_span(worst)} of the loss of a uniform one at equal worst case "
            f"and {_span(total)} at equal total; below 0% it adds loss. Only in a model of noise alone, at "
            f"equal total and with sensitive places left out of the count, does it save {_span(modelled)}; "
            "there a region is promised less than by the uniform one."
        )
    return told


def _span(values: list[float]) -> str:
    low, high = (f"{100.0 * value:.0f}%".replace("-", "−") for value in (min(values), max(values)))
    return f"{low} to {high}"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")
