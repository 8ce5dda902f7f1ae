"""Audits as jobs: their files are kept until the audit is done, their findings for good."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato
from sfumato.errors import BadInput
from sfumato.io import array_names, atomic_output, kind_of
from sfumato.release import refuse_media
from sfumato.reports import certificate_file, file_digest
from sfumato.serve.authentication import Caller
from sfumato.serve.jobs.job_lifecycle import Jobs
from sfumato.serve.jobs.job_store import JobFiles, JobRecord
from sfumato.serve.registry_database import Busy
from sfumato.serve.release_store import Resources
from sfumato.serve.request_models import AuditDescription

_EVIDENCE, _PAGE = "evidence.json", "report.html"


@dataclass(frozen=True)
class AuditFiles:
    """The files of an audit: ``released`` is a row-by-row release of ``original``.

    Without its ``certificate`` nothing is proven of the release. ``nonmembers`` are records that were not
    released; ``labels`` is a file of the attribute to infer, one value for each record.
    """

    original: Path
    released: Path
    certificate: Path | None = None
    nonmembers: Path | None = None
    labels: Path | None = None

    def parts(self) -> dict[str, Path]:
        """Return the files by their part names, without the certificate."""
        named = {name: value for name, value in vars(self).items() if name != "certificate"}
        return {name: file for name, file in named.items() if file is not None}


class Audits:
    """The audits of a service."""

    def __init__(self, resources: Resources, jobs: Jobs) -> None:
        self._resources, self._jobs = resources, jobs

    def submit(
        self, caller: Caller, asked: AuditDescription, files: AuditFiles, dataset: str, request: str | None
    ) -> JobRecord:
        """Accept an audit; a repeated ``request`` returns the same job."""
        _check(asked, files)
        parts = files.parts()
        digested = [*parts.values(), *([] if files.certificate is None else [files.certificate])]
        new = self._jobs.new(caller, "audit", dataset, request, asked.model_dump(), digested)

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
        """Run the attacks, write the evidence and return its summary."""
        from sfumato.release import Compared, audit_files, command_line
        from sfumato.reports import report as write

        asked = AuditDescription(**record.asked)
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
            schema="schema.json" if asked.columns is not None else None,
            confidence=None if asked.confidence == 0.99 else asked.confidence,
            seed=asked.seed or None,
        )
        schema = ["# schema.json holds the columns that were sent with the request"] * (
            asked.columns is not None
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
        """Return the whole evidence of an audit."""
        found: dict[str, Any] = json.loads((self._folder(record) / _EVIDENCE).read_bytes())
        return found

    def page(self, record: JobRecord) -> bytes:
        """Return the HTML report of an audit."""
        return (self._folder(record) / _PAGE).read_bytes()

    def _folder(self, record: JobRecord) -> Path:
        return self._resources.audits / record.tenant / record.id


def _check(asked: AuditDescription, files: AuditFiles) -> None:
    """Raise for files that can never be audited, and for names that the original does not contain."""
    for file in files.parts().values():
        refuse_media(file)
    if files.certificate is not None and files.certificate.name != certificate_file(files.released).name:
        raise BadInput("the certificate of the released file must stand beside it under its name.")
    table = kind_of(files.original) == "table"
    if table and asked.columns is None:
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
