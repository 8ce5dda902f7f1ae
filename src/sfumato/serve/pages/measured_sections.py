"""What audits have measured of releases: the third column, found by the digest of the released bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sfumato.audits.findings import Finding
from sfumato.privacy import Statement
from sfumato.reports.release_entry import Entry
from sfumato.reports.sections import ReleaseSection
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.pages.page_request import Visit

__all__ = ["section_of_audit", "sections_of"]

_MOST_JOBS = 1000


class _Released(Protocol):
    """What there are three columns of: a release, or an object that the proxy has drawn."""

    @property
    def name(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def statement(self) -> Mapping[str, Any]: ...


def sections_of(visit: Visit, releases: Sequence[_Released]) -> list[ReleaseSection]:
    """The three columns of each release, the third by the newest audit of its bytes that is done.

    Audits are looked for among the newest 1,000 jobs that the caller may see.
    """
    wanted = {one.sha256 for one in releases}
    audits: dict[str, str] = {}
    for job in visit.service.jobs(visit.caller, limit=_MOST_JOBS) if wanted else []:
        digest = (job.result or {}).get("sha256", "")
        if job.kind == "audit" and digest in wanted:
            audits.setdefault(digest, job.id)
    return [
        ReleaseSection.of(
            1,
            Entry(
                one.name,
                Statement.from_dict(one.statement),
                _findings(visit, audits[one.sha256]) if one.sha256 in audits else (),
            ),
        )
        for one in releases
    ]


def section_of_audit(visit: Visit, job: Job) -> ReleaseSection:
    """The three columns that an audit which is done has found; its release may be somebody else's."""
    found = visit.service.audit(visit.caller, job.id)
    name = (job.result or {}).get("name", job.id)
    findings = _findings(visit, job.id)
    return ReleaseSection.of(1, Entry(name, Statement.from_dict(found["statement"]), findings))


def _findings(visit: Visit, id_: str) -> list[Finding]:
    return [Finding.from_dict(one) for one in visit.service.audit(visit.caller, id_)["findings"]]
