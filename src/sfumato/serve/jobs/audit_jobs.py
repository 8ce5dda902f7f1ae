"""Audits as jobs: files to attack are kept until it is done, what was found is kept for good."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sfumato
from sfumato.errors import BadInput
from sfumato.io import Schema, array_names, kind_of
from sfumato.io.atomic import atomic_output
from sfumato.release.record_reader import refuse_media
from sfumato.reports import certificate_file, file_digest
from sfumato.serve.auth.access_rules import known
from sfumato.serve.auth.callers import Caller
from sfumato.serve.jobs.job_files import JobFiles
from sfumato.serve.jobs.job_store import KeptJobs
from sfumato.serve.jobs.job_table import JobRecord
from sfumato.serve.registry_errors import Busy
from sfumato.serve.resources import Resources

__all__ = ["AskedAudit", "AuditFiles", "Audits"]

_EVIDENCE, _PAGE = "evidence.json", "report.html"


@dataclass(frozen=True)
class AskedAudit:
    """How to attack: ``labels`` and ``array`` name arrays, or a column, of the original and never a file.

    ``schema`` declares tables.
    """

    labels: str | None = None
    array: str | None = None
    schema: Mapping[str, Any] | None = None
    confidence: float = 0.99
    seed: int = 0

    def declared(self) -> Schema | None:
        """The schema of a table."""
        return None if self.schema is None else Schema.from_dict(self.schema)


@dataclass(frozen=True)
class AuditFiles:
    """What is attacked: ``released``, a release of ``original`` row by row, and what else is known.

    Nothing is proven of a release without its ``certificate``. ``nonmembers`` are records that were not
    released; ``labels`` is a file of what to infer, one value a record.
    """

    original: Path
    released: Path
    certificate: Path | None = None
    nonmembers: Path | None = None
    labels: Path | None = None

    def parts(self) -> dict[str, Path]:
        """The files by their names here, but for the certificate."""
        named = {name: value for name, value in vars(self).items() if name != "certificate"}
        return {name: file for name, file in named.items() if file is not None}


class Audits:
    """The audits of a service."""

    def __init__(self, resources: Resources, jobs: KeptJobs) -> None:
        self._resources, self._jobs = resources, jobs

    def submit(
        self, caller: Caller, asked: AskedAudit, files: AuditFiles, dataset: str, request: str | None
    ) -> JobRecord:
        """Accept an audit; a repeated ``request`` is the same job."""
        known(self._resources.ledger, caller, "audit", dataset)
        _check(asked, files)
        parts = files.parts()
        digested = [*parts.values(), *([] if files.certificate is None else [files.certificate])]
        new = self._jobs.new(caller, "audit", dataset, request, asdict(asked), digested)

        def take(folder: Path) -> None:
            for name, file in parts.items():
                beside = files.certificate if name == "released" else None
                self._jobs.files.take(folder, name, file, beside)

        before = self._jobs.repeated(new, take)
        if before is not None:
            return before
        accepted = self._jobs.accepted(new, take)
        if accepted.id != new.id:
            return accepted
        queued = self._jobs.queued(new.id, accepted.worker or "")
        if queued is None:
            raise Busy("accepting the job took too long, and it was given up; ask again.")
        return queued

    def work(
        self, record: JobRecord, files: JobFiles, report: Callable[[str, float | None], None]
    ) -> dict[str, Any]:
        """Attack, write down what was found, and return what a client is told first."""
        from sfumato.release.file_audit import Compared, audit_files, command_line
        from sfumato.reports import report as write

        asked = AskedAudit(**record.asked)
        found_files = {name: files.find(record.id, name) for name in AuditFiles.__dataclass_fields__}
        original, released, labels = (found_files[name] for name in ("original", "released", "labels"))
        if original is None or released is None:
            raise BadInput("the files of the audit are not there any more; ask for it again.")
        compared = Compared(
            original,
            like=released,
            labels=asked.labels if labels is None else str(labels),
            array=asked.array,
            schema=asked.declared(),
            keys=self._resources.keys,
        )
        found = audit_files(
            compared,
            released,
            nonmembers=found_files["nonmembers"],
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
        files_named = [original.name, released.name]
        if original.name == released.name:
            files_named = [f"original/{original.name}", f"released/{released.name}"]
        command = command_line(
            "audit",
            *files_named,
            labels=asked.labels if labels is None else labels.name,
            nonmembers=found_files["nonmembers"] and found_files["nonmembers"].name,
            array=asked.array,
            schema="schema.json" if asked.schema is not None else None,
            confidence=None if asked.confidence == 0.99 else asked.confidence,
            seed=asked.seed or None,
        )
        schema = ["# schema.json holds the columns that were sent with the request"] * (
            asked.schema is not None
        )
        write(
            [found],
            folder / _PAGE,
            original=compared.records.values,
            labels=compared.labels,
            names=[released.name],
            image_shape=compared.image_shape,
            title=f"Audit of {released.name}",
            fields=compared.records.fields,
            reproduce=[*schema, command, f"# Sfumato {sfumato.__version__}"],
            progress=report,
        )
        told = ("attack", "epsilon_lower", "delta", "confidence", "consistent")
        named = {"audit": record.id, "name": released.name, "sha256": file_digest(released)}
        return named | {name: evidence[name] for name in told}

    def evidence(self, record: JobRecord) -> dict[str, Any]:
        """All that an audit found."""
        found: dict[str, Any] = json.loads((self._folder(record) / _EVIDENCE).read_bytes())
        return found

    def page(self, record: JobRecord) -> bytes:
        """The report of an audit, as HTML."""
        return (self._folder(record) / _PAGE).read_bytes()

    def _folder(self, record: JobRecord) -> Path:
        return self._resources.audits / record.tenant / record.id


def _check(asked: AskedAudit, files: AuditFiles) -> None:
    """Refuse at once what could never be audited, and a name that is none inside of the original."""
    for file in files.parts().values():
        refuse_media(file)
    if files.certificate is not None and files.certificate.name != certificate_file(files.released).name:
        raise BadInput("the certificate of the released file must stand beside it under its name.")
    table = kind_of(files.original) == "table"
    if table and asked.schema is None:
        raise BadInput(
            "a table needs `schema`, which declare the bounds or the categories of its columns.",
            parameter="schema",
        )
    if asked.labels is not None and files.labels is not None:
        raise BadInput("`labels` are named or sent as a file, not both.", parameter="labels")
    # Elsewhere a name may be that of a file; here it is a client's, and no file of ours is ever read by it.
    if asked.labels is not None and not table and asked.labels not in array_names(files.original):
        raise BadInput(f"`labels` must name an array of {files.original.name}.", parameter="labels")
    if files.labels is not None and table:
        raise BadInput("the labels of a table are one of its columns: name it.")
    asked.declared()
