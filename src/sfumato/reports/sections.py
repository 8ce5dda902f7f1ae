"""What stands in each section of a report, ready to be printed: texts, rows and drawings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.audits.findings import Finding
from sfumato.privacy import Evidence, Guarantee
from sfumato.reports.columns import Column, columns
from sfumato.reports.contact_sheet import Shot
from sfumato.reports.embedded_images import Pictures, data_uri
from sfumato.reports.neighbour_histogram import Histogram
from sfumato.reports.numbers import at_least, at_most, delta_at_most, percent, plain, share
from sfumato.reports.release_entry import Entry
from sfumato.reports.ruler import Ruler, Strip
from sfumato.reports.sentences import bound, delta_bound
from sfumato.reports.utility_section import UtilityVerdict, utility_verdict
from sfumato.reports.verdicts import Verdict, verdict

__all__ = ["Attack", "Pair", "ReleaseSection"]

# Where else the proven curve is read off, for those who compare at another δ.
_DELTAS = (1e-3, 1e-5, 1e-7, 1e-9, 1e-12)


@dataclass(frozen=True)
class Attack:
    """One row of the table of attacks; ``sort`` holds the plain numbers that its columns are sorted by."""

    finding: Finding
    strip: Strip
    value: str
    interval: str
    confidence: str
    chance: str
    beats: str
    bound: str
    bound_at: str
    numbers: list[tuple[str, str]]

    @classmethod
    def of(cls, finding: Finding) -> Attack:
        """How ``finding`` is printed."""
        ends = finding.interval
        bounded = finding.epsilon_lower is not None
        at = [f"δ = {at_most(finding.delta)}"] if bounded and finding.delta is not None else []
        at += [percent(finding.confidence)] if bounded and finding.confidence is not None else []
        at += [f"per {finding.unit}"] if bounded else []
        at += [f"δ ≥ {at_least(finding.delta_lower)}"] if finding.delta_lower else []
        return cls(
            finding=finding,
            strip=Strip.of(finding),
            value=plain(finding.value),
            interval="no interval" if ends is None else f"{plain(ends[0])} to {plain(ends[1])}",
            confidence="" if finding.confidence is None else percent(finding.confidence),
            chance=plain(finding.chance),
            beats={True: "beats it", False: "does not beat it", None: "not judged"}[finding.beats_chance],
            bound="–" if finding.epsilon_lower is None else at_least(finding.epsilon_lower),
            bound_at=", ".join(at),
            numbers=[(name, plain(float(number))) for name, number in finding.numbers.items()],
        )


@dataclass(frozen=True)
class Pair:
    """An original picture and its release, as addresses of themselves, with their sizes in pixels."""

    caption: str
    before: Markup
    after: Markup
    before_size: tuple[int, int]
    after_size: tuple[int, int]

    @classmethod
    def of(cls, pictures: Pictures) -> list[Pair]:
        """All pairs of ``pictures``."""
        before, after = pictures.levels(pictures.before), pictures.levels(pictures.after)
        captions = pictures.captions or tuple(str(number + 1) for number in range(len(before)))
        return [
            # A data address is made of harmless characters only and must not be touched.
            cls(caption, Markup(data_uri(old)), Markup(data_uri(new)), old.shape[1::-1], new.shape[1::-1])
            for caption, old, new in zip(captions, before, after, strict=True)
        ]


@dataclass(frozen=True)
class ReleaseSection:
    """Everything that the page says about one release."""

    anchor: str
    entry: Entry
    verdict: Verdict
    useful: UtilityVerdict
    columns: list[Column]
    rulers: list[Ruler]
    units: list[tuple[str, str]]
    curve: list[tuple[str, str]]
    parameters: list[tuple[str, str]]
    provenance: list[tuple[str, str]]
    attacks: list[Attack]
    evidence: list[str]
    pairs: list[Pair]
    shots: list[Shot]
    clipped: str
    histograms: list[Histogram]
    document: list[str]

    @classmethod
    def of(cls, number: int, entry: Entry) -> ReleaseSection:
        """The section of the release that stands at ``number``."""
        found = [finding.evidence() for finding in entry.findings]
        pictures = entry.pictures
        return cls(
            anchor=f"release-{number}",
            entry=entry,
            verdict=verdict(entry),
            useful=utility_verdict(entry.measures),
            columns=columns(entry),
            rulers=Ruler.drawn(entry),
            units=_units(entry),
            curve=_curve(entry),
            parameters=_rows(entry.statement.parameters),
            provenance=_rows(entry.provenance),
            attacks=[Attack.of(finding) for finding in entry.findings],
            evidence=[_sentence(item) for item in entry.evidence if item not in found],
            pairs=[] if pictures is None else Pair.of(pictures),
            shots=[] if entry.sheet is None else entry.sheet.shots(),
            clipped=share(pictures.clipped) if pictures is not None and pictures.clipped > 0.0 else "",
            histograms=[] if entry.neighbourhood is None else Histogram.drawn(entry.neighbourhood),
            document=entry.statement.to_json().splitlines(),
        )


def _units(entry: Entry) -> list[tuple[str, str]]:
    """What is proven of units other than that of the headline."""
    return [(f"{part.unit}, {part.neighbours}", _epsilon(part)) for part in entry.statement.also_proven]


def _epsilon(part: Guarantee) -> str:
    epsilon = part.epsilon()
    return (
        f"{at_most(epsilon)} at δ = {delta_at_most(part.at_delta)}" if math.isfinite(epsilon) else "nothing"
    )


def _curve(entry: Entry) -> list[tuple[str, str]]:
    guarantee = entry.statement.proven
    if guarantee.proves_nothing:
        return []
    pairs = [(delta, guarantee.epsilon(delta)) for delta in _DELTAS]
    return [
        (plain(delta), at_most(epsilon) if math.isfinite(epsilon) else "no finite ε")
        for delta, epsilon in pairs
    ]


def _sentence(item: Evidence) -> str:
    said = [item.attack] if item.epsilon_lower is None else [f"{item.attack}: ε is at least {bound(item)}"]
    said += [delta_bound(item)] if item.delta_lower else []
    said += [f"per {item.unit} under {item.neighbours}"] if item.bounds else []
    return "; ".join([*said, *filter(None, [item.detail])])


def _rows(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name), _text(value)) for name, value in mapping.items()]


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return plain(value, 6)
    return json.dumps(value, ensure_ascii=False, default=str)
