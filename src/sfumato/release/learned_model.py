"""What ``sfumato learn`` left behind, and the page about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sfumato
from sfumato.audits.findings import Finding
from sfumato.io.atomic import atomic_output
from sfumato.privacy import Statement
from sfumato.release.class_views import ClassViews
from sfumato.release.model_evidence import ModelAudit
from sfumato.release.protected_file import Protected
from sfumato.release.publication_place import PRIVATE
from sfumato.reports import Entry
from sfumato.reports.page import render_report

if TYPE_CHECKING:
    from sfumato.release.held_out_accuracy import Accuracy

__all__ = ["Learned", "write_learning_report"]


@dataclass(frozen=True)
class Learned:
    """What ``learn`` wrote, and what its audit found.

    ``certified`` is the manifest of the folder ``output``, which carries the certificate. ``statement`` has
    the measured column, which the certificate leaves out. ``classes`` is what was found of each class, and
    ``accuracy`` was measured on records that were held out, if any were given. ``folders`` says which class
    is of which folder, for the owner alone.
    """

    output: Path
    certified: Protected
    audit: ModelAudit
    classes: ClassViews
    class_names: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    accuracy: Accuracy | None = None
    page: Path | None = None
    folders: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> Statement:
        """What stays with whoever learned."""
        return self.audit.statement

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the audit found."""
        return self.audit.findings

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "classes": list(self.class_names),
            "class_folders": dict(self.folders),
            "statement": self.statement.to_dict(),
            "findings": [item.to_dict() for item in self.findings],
            "audit": self.audit.to_dict(),
            "class_by_class": self.classes.to_dict(),
            "warnings": list(self.warnings),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            "report": None if self.page is None else str(self.page),
        }


def write_learning_report(
    page: Path, name: str, audit: ModelAudit, classes: ClassViews, accuracy: Accuracy | None
) -> None:
    """Write the HTML file ``page`` about a model called ``name``, which its owner alone may read.

    It shows no record; what was measured is computed from records, and no guarantee covers it.
    """
    measures: list[dict[str, Any]] = []
    if accuracy is not None:
        note = f"{accuracy.records:,} held-out records in {accuracy.file.name}"
        measures.append({"name": "accuracy", "value": accuracy.share, "note": note})
    remarks = [f"noise of Theorem 3: {classes.missing}"] if classes.missing else []
    entry = Entry(
        name,
        audit.statement,
        audit.findings,
        utility={"measures": measures, "remarks": remarks},
        classes=classes.tables(),
    )
    lines = [f"sfumato verify {name}", f"# Sfumato {sfumato.__version__}"]
    text = render_report([entry], title="Model report", reproduce=lines)
    with atomic_output(page, mode=PRIVATE) as file:
        file.write(text.encode("utf-8"))
