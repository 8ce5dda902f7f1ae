"""Audits as jobs: their files are kept until the audit is done, their findings for good."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

import sfumato
from sfumato.errors import BadInput
from sfumato.io import Schema, array_names, atomic_output, kind_of
from sfumato.release import refuse_media
from sfumato.reports import file_digest
from sfumato.serve.jobs.job_store import JobFiles, JobRecord
from sfumato.serve.release_store import Resources

#: The files of an audit: ``released`` is a row-by-row release of ``original``, ``nonmembers`` has records
#: that were not released, and ``labels_file`` the attribute to infer, one value for each record.
AUDIT_FILES = ("original", "released", "nonmembers", "labels_file")
_EVIDENCE, _PAGE = "evidence.json", "report.html"


class AuditDescription(BaseModel):
    """How to attack a release."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    labels: str | None = Field(None, description="What to infer: an array or a column of the original.")
    array: str | None = Field(None, description="The name of an array of the original.")
    columns: dict[str, Any] | None = Field(None, description="The columns of the schema, for tables.")
    confidence: float = Field(0.99, gt=0.5, lt=1, description="The confidence of all intervals and bounds.")
    seed: int = Field(0, ge=0, lt=2**32, description="The seed of the attackers' random choices.")

    def schema_of_tables(self) -> Schema | None:
        """Return the schema of tables."""
        return None if self.columns is None else Schema.from_dict({"columns": self.columns})

    def check(self, files: Mapping[str, Path]) -> None:
        """Raise for files that can never be audited, and for names that the original does not contain."""
        for file in files.values():
            refuse_media(file)
        original, table = files["original"], kind_of(files["original"]) == "table"
        if table and self.columns is None:
            raise BadInput(
                "a table needs `schema`, which declare the bounds or the categories of its columns.",
                parameter="schema",
            )
        if self.labels is not None and "labels_file" in files:
            raise BadInput("`labels` are named or sent as a file, not both.", parameter="labels")
        # Elsewhere a name may be that of a file; here it is a client's, and no file of ours is read by it.
        if self.labels is not None and not table and self.labels not in array_names(original):
            raise BadInput(f"`labels` must name an array of {original.name}.", parameter="labels")
        if "labels_file" in files and table:
            raise BadInput("the labels of a table are one of its columns: name it.")
        self.schema_of_tables()


class Audits:
    """The audits of a service: their work and their results."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def work(
        self, record: JobRecord, files: JobFiles, report: Callable[[str, float | None], None]
    ) -> dict[str, Any]:
        """Run the attacks, write the evidence and return its summary."""
        from sfumato.release import Compared, audit_files, command_line
        from sfumato.reports import report as write_report

        asked = AuditDescription(**record.asked)
        original, released, nonmembers, labels_file = (files.find(record.id, part) for part in AUDIT_FILES)
        if original is None or released is None:
            raise BadInput("the files of the audit are not stored any more; send them again.")
        compared = Compared(
            original,
            like=released,
            labels=asked.labels if labels_file is None else str(labels_file),
            array=asked.array,
            schema=asked.schema_of_tables(),
            keys=self._resources.keys,
        )
        found = audit_files(
            compared,
            released,
            nonmembers=nonmembers,
            confidence=asked.confidence,
            seed=asked.seed,
            report=report,
        )
        folder = self._folder(record)
        for place in (folder.parent, folder):
            place.mkdir(mode=0o700, exist_ok=True)
        evidence = found.to_dict()
        with atomic_output(folder / _EVIDENCE, mode=0o600) as file:
            file.write(json.dumps(evidence, ensure_ascii=False).encode())
        names = [original.name, released.name]
        if original.name == released.name:
            names = [f"original/{original.name}", f"released/{released.name}"]
        command = command_line(
            "audit",
            *names,
            labels=asked.labels if labels_file is None else labels_file.name,
            nonmembers=None if nonmembers is None else nonmembers.name,
            array=asked.array,
            schema="schema.json" if asked.columns is not None else None,
            confidence=None if asked.confidence == 0.99 else asked.confidence,
            seed=asked.seed or None,
        )
        reproduce = [command, f"# Sfumato {sfumato.__version__}"]
        if asked.columns is not None:
            reproduce.insert(0, "# schema.json holds the columns that were sent with the request")
        write_report(
            [found],
            folder / _PAGE,
            original=compared.records.values,
            labels=compared.labels,
            names=[released.name],
            image_shape=compared.image_shape,
            title=f"Audit of {released.name}",
            fields=compared.records.fields,
            reproduce=reproduce,
            progress=report,
        )
        summary = ("attack", "epsilon_lower", "delta", "confidence", "consistent")
        named = {"audit": record.id, "name": released.name, "sha256": file_digest(released)}
        return named | {name: evidence[name] for name in summary}

    def evidence(self, record: JobRecord) -> dict[str, Any]:
        """Return the whole evidence of an audit."""
        found: dict[str, Any] = json.loads((self._folder(record) / _EVIDENCE).read_bytes())
        return found

    def page(self, record: JobRecord) -> bytes:
        """Return the HTML report of an audit."""
        return (self._folder(record) / _PAGE).read_bytes()

    def _folder(self, record: JobRecord) -> Path:
        return self._resources.audits / record.tenant / record.id
