"""A bucket as its owner declares it: where objects come from, its tiers, and how each kind is released."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sfumato.errors import BadInput
from sfumato.io.formats import Kind, kind_of
from sfumato.serve.reader_tiers import TierLevels
from sfumato.serve.request_models import Name
from sfumato.serve.tier_files import TierTerms
from sfumato.serve.tier_store import Kept

__all__ = ["Bucket", "FileTerms", "NewBucket", "NewReader", "checked_bucket", "is_bucket"]

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class FileTerms(BaseModel):
    """How files of one kind are released."""

    model_config = _STRICT

    parameters: dict[str, bool | int | float | str | list[float]] = Field(
        description="epsilon, a range [least, most]; delta, clip, bounds, unit, …"
    )
    columns: dict[str, Any] | None = Field(None, description="Of a table: the columns of its schema.")
    array: str | None = Field(None, description="Which array of an archive.", max_length=200)


class NewBucket(BaseModel):
    """A bucket that is to be declared; it never changes afterwards."""

    model_config = _STRICT

    name: str = Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    source: str = Field(min_length=1, max_length=1000, description="s3://bucket/folder, file:///folder, …")
    dataset: Name
    tiers: list[float] = Field(min_length=1, max_length=16, description="Levels of distrust in [0, 1].")
    files: dict[Literal["array", "table", "picture", "sound", "video"], FileTerms] = Field(min_length=1)
    collected: date | None = Field(None, description="When the data was collected, for rules by its age.")
    public_names: bool = Field(
        False, description="Whether the keys of objects are public; otherwise readers see names made up here."
    )


class NewReader(BaseModel):
    """What the tenant says of a reader."""

    model_config = _STRICT

    authorisations: list[str] = Field(default_factory=list, max_length=100)
    jurisdiction: str | None = Field(None, min_length=1, max_length=200)


@dataclass(frozen=True)
class Bucket:
    """A declared bucket."""

    id: str
    tenant: str
    name: str
    dataset: str
    source: str
    tiers: TierLevels
    files: Mapping[Kind, TierTerms]
    collected: date | None
    created: datetime
    public_names: bool = True

    @classmethod
    def of(cls, kept: Kept) -> Bucket:
        """The bucket that is kept so."""
        document = kept.document
        collected = document["collected"]
        return cls(
            id=kept.id,
            tenant=kept.tenant,
            name=kept.name,
            dataset=document["dataset"],
            source=document["source"],
            tiers=TierLevels(tuple(document["tiers"])),
            files={kind: TierTerms(kind, **terms) for kind, terms in document["files"].items()},
            collected=None if collected is None else date.fromisoformat(collected),
            created=kept.created,
            # Of those that were declared before names could be private, readers know the keys.
            public_names=document.get("public_names", True),
        )

    def terms(self, key: str) -> TierTerms:
        """How object ``key`` is released; a kind that was not declared is refused, as an unknown one is."""
        kind = kind_of(key.rsplit("/", 1)[-1])
        if kind not in self.files:
            raise BadInput(f"this bucket releases no {kind}; released are {', '.join(sorted(self.files))}.")
        return self.files[kind]

    def releases(self, key: str) -> bool:
        """Whether object ``key`` is of a kind that was declared."""
        try:
            self.terms(key)
        except BadInput:
            return False
        return True

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for its owner; each kind says whether its tiers are charged at once."""
        files = {
            kind: {
                "parameters": dict(terms.parameters),
                "columns": terms.columns,
                "array": terms.array,
                "nested": terms.nested,
            }
            for kind, terms in self.files.items()
        }
        return {
            "name": self.name,
            "source": self.source,
            "dataset": self.dataset,
            "tiers": list(self.tiers.levels),
            "files": files,
            "collected": None if self.collected is None else self.collected.isoformat(),
            "public_names": self.public_names,
            "created": self.created.isoformat(),
        }


def is_bucket(name: str) -> bool:
    """Whether ``name`` could be that of a bucket."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def checked_bucket(name: str) -> str:
    """``name``, if it can be that of a bucket."""
    if not is_bucket(name):
        raise BadInput("the name of a bucket is 3 to 63 small letters, digits, dots and dashes.")
    return name
