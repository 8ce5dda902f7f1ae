"""How files of each kind are released to a tier, and what is charged for it.

Nested, where all tiers together cost what the most trusted one costs: arrays by ``TrustTier``, tables by
``TierRows``, pictures under Gaussian noise (δ > 0) by ``PlaneTier``. Not nested, where each tier is drawn
from noise of its own and charged by itself when it is first asked for: pictures under Laplace noise, sounds
and videos. The statement of every release says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.io.formats import MEDIA, Kind
from sfumato.mechanisms.parameters import epsilon_range, share, shown
from sfumato.mechanisms.trust_tier import TrustTier
from sfumato.media.images.plane_tier import PlaneTier
from sfumato.noise import Keyed
from sfumato.privacy import Statement, Unit
from sfumato.release import MediaMechanisms
from sfumato.release.payment import terms_of
from sfumato.release.record_files import RecordFiles
from sfumato.release.source_file import SourceFile
from sfumato.serve.release_request import Asked
from sfumato.serve.tier_tables import TierTables

__all__ = ["KINDS", "TierFile", "TierTerms"]

#: The kinds of files that can be declared, and the parameters of each.
KINDS: Mapping[Kind, tuple[str, ...]] = {
    "array": ("epsilon", "delta", "clip", "bounds", "neighbours"),
    "table": ("epsilon", "delta", "neighbours"),
    "picture": ("epsilon", "delta", "unit", "block", "restore", "chroma"),
    "sound": ("epsilon", "delta", "unit", "clip", "keep", "shapes", "cutoff", "weighting", "restore"),
    "video": ("epsilon", "delta", "unit", "block", "restore", "chroma"),
}
# A picture of this shape shows whether parameters are good, before there is one.
_SOME_PICTURE = (64, 64, 3)


@dataclass(frozen=True)
class TierFile:
    """A file opened for one tier: what to draw, what the budget is charged for, and what shapes the noise.

    ``nested`` is whether the charge is for all tiers at once.
    """

    file: SourceFile
    charged: Statement
    terms: Mapping[str, Any]
    nested: bool


@dataclass(frozen=True)
class TierTerms:
    """What an owner declares for files of one ``kind``; ``epsilon`` is the range (ε_min, ε_max) of the tiers.

    ``columns`` declares a table, ``array`` names one of several in an archive.
    """

    kind: Kind
    parameters: Mapping[str, Any]
    columns: Mapping[str, Any] | None = None
    array: str | None = None

    @property
    def nested(self) -> bool:
        """Whether all tiers are charged at once."""
        return self.kind in ("array", "table") or (self.kind == "picture" and self._delta() > 0.0)

    def check(self, levels: Sequence[float]) -> list[Statement]:
        """Refuse what could release nothing; what tiers state, as far as that is known before a file is."""
        if self.kind not in KINDS:
            raise BadInput(f"files are of the kinds {', '.join(KINDS)}, not {shown(self.kind)}.")
        for name in self.parameters:
            if name not in KINDS[self.kind]:
                raise BadInput(
                    f"{name[:40]!r} is no parameter of a {self.kind}; {', '.join(KINDS[self.kind])} are."
                )
        if "epsilon" not in self.parameters:
            raise BadInput(
                f"a {self.kind} needs a range of ε for its tiers, as in `epsilon=(1, 8)`.",
                parameter="epsilon",
            )
        low, high = epsilon_range(self.parameters["epsilon"])
        if len(levels) > 1 and low == high:
            raise BadInput(
                f"tiers differ in their `epsilon`, but that of a {self.kind} is one value.",
                parameter="epsilon",
            )
        if (self.columns is None) == (self.kind == "table"):
            raise BadInput("the columns of a table are declared, and those of nothing else.")
        if self.array is not None and self.kind != "array":
            raise BadInput(f"a {self.kind} holds no arrays to choose from.")
        return [self._tried(level, levels) for level in levels]

    def opened(
        self, path: Path, level: float, levels: Sequence[float], noise: Callable[[float | None], Keyed]
    ) -> TierFile:
        """The file at ``path`` for the tier ``level`` of ``levels``.

        ``noise(None)`` is that of all tiers together, ``noise(level)`` that of one which is not nested.
        """
        nested = self.nested
        opener = self._opener(level, levels, noise(None if nested else level))
        file = opener.open(path)
        charged = file.statement
        if nested:
            charged = self._opener(levels[0], levels, noise(None)).open(path).statement
        else:
            note = (
                f"tier {level:g} of {len(levels)}, which are not nested for this kind of file: each is "
                "charged by itself when it is first asked for"
            )
            file.statement = replace(file.statement, notes=(*file.statement.notes, note))
        declared = {"columns": file.declared, "tiers": list(levels), "array": self.array}
        return TierFile(file, charged, terms_of(charged, declared), nested)

    def _opener(
        self, level: float, levels: Sequence[float], noise: Keyed
    ) -> RecordFiles | TierTables | MediaMechanisms:
        made = self.mechanism(level, levels)
        if isinstance(made, MediaMechanisms):
            return made.keyed_by(noise)
        if self.kind == "table":
            return TierTables(made, self._schema()).keyed_by(noise)
        return RecordFiles(made, self.array).keyed_by(noise)

    def mechanism(self, level: float, levels: Sequence[float]) -> TrustTier | MediaMechanisms:
        """The mechanism of one tier, its noise not yet keyed."""
        given = dict(self.parameters)
        if self.kind in MEDIA:
            unit = Unit.parse(given["unit"]) if "unit" in given else None
            if self.nested:
                return MediaMechanisms(picture=PlaneTier(level, tuple(levels), **given), unit=unit)
            low, high = epsilon_range(given["epsilon"])
            asked = Asked(None, given | {"epsilon": high - level * (high - low)})
            return MediaMechanisms.of(asked.made(self.kind))
        if "bounds" in given:
            given["bounds"] = _pair(given["bounds"])
        return TrustTier(level, tuple(levels), **given)

    def _tried(self, level: float, levels: Sequence[float]) -> Statement:
        made = self.mechanism(level, levels)
        if isinstance(made, MediaMechanisms):
            if made.picture is not None:
                return made.picture.shaped(_SOME_PICTURE).statement()
            assert made.sound is not None
            return made.sound.shaped((8_000,), 8_000).statement()
        if self.kind == "table":
            self._schema()
            return TrustTier(**(made.get_params(deep=False) | {"bounds": (0.0, 1.0)})).statement()
        return made.statement()

    def _schema(self) -> Schema:
        return Schema.from_dict({"columns": dict(self.columns or {})})

    def _delta(self) -> float:
        return share("delta", self.parameters.get("delta", 0.0))


def _pair(bounds: Any) -> tuple[float, float]:
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise BadInput("`bounds` must be two numbers, the lowest and the highest value.", parameter="bounds")
    return bounds[0], bounds[1]
