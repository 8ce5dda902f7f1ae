"""Jobs: work that is accepted now and done when there is time for it."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.request_models import JobShown, Name
from sfumato.serve.rest.dependencies import Asking, Here
from sfumato.serve.rest.multipart import Form
from sfumato.serve.rest.pagination import PAGED, Cursor, Limit, link_next
from sfumato.serve.rest.rest_uploads import DESCRIPTION, Asked, Key, Named, body_of, described, uploaded

__all__ = ["ACCEPTED", "accepted", "router"]

router = APIRouter(tags=["jobs"])

#: What an accepted job is answered by, for the OpenAPI document.
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The job was accepted; the header Location says where to ask how it stands.",
        "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}},
    }
}


@router.post(
    "/datasets/{dataset}/jobs", status_code=202, openapi_extra=body_of(asked=DESCRIPTION), responses=ACCEPTED
)
async def submit(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    dataset: Name,
    named: Named = None,
    asked: Asked = None,
    key: Key = None,
) -> JobShown:
    """Release a file as a job: its price is set aside now, and spent when the job begins to draw."""

    def submitted(sent: Form) -> Job:
        return service.submit(asking, described(sent), sent.files["file"], dataset, request=key)

    return accepted(response, await uploaded(request, service, asking, named, {"asked": asked}, submitted))


@router.get("/jobs", responses=PAGED)
def jobs(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> list[JobShown]:
    """A page of the jobs that the key may see, newest first."""
    page = service.jobs(asking, limit=limit, cursor=cursor)
    link_next(request, response, page, limit)
    return [JobShown(**one.to_dict()) for one in page]


@router.get("/jobs/{job}")
def job(service: Here, asking: Asking, job: str) -> JobShown:
    """How a job stands."""
    return JobShown(**service.job(asking, job).to_dict())


@router.delete("/jobs/{job}")
def cancel(service: Here, asking: Asking, job: str) -> JobShown:
    """Cancel a job: before it begins to draw its price is given back, afterwards it stays spent.

    One that is worked on is cancelling, and ends at its next step; one that has ended stays as it is.
    """
    return JobShown(**service.cancel(asking, job).to_dict())


def accepted(response: Response, job: Job) -> JobShown:
    """The answer to what was accepted as ``job``."""
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return JobShown(**job.to_dict())
