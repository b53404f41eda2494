"""Routes that submit jobs: one, many at once, or none (a dry run)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from gangline.api.auth import Verb, authorise
from gangline.api.jobs import Accepted, AcceptedBatch, Caller, OpenDesk, job_id
from gangline.api.present import DryRun, OpenClerk
from gangline.api.problems import ProblemError
from gangline.api.spec_json import JobRequest, parse_body, parse_request

router = APIRouter(prefix="/v1", tags=["jobs"])

_MAX_BATCH: Final = 10_000
_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": JobRequest.model_json_schema()}},
    }
}


@router.post(
    "/jobs",
    status_code=202,
    openapi_extra=_BODY,
    response_model=Accepted,
    responses={200: {"model": DryRun, "description": "What would become of it (`dry_run`)"}},
)
async def submit(
    request: Request,
    desk: OpenDesk,
    clerk: OpenClerk,
    caller: Caller,
    idempotency_key: Annotated[str, Header(max_length=300)] = "",
    *,
    dry_run: Annotated[
        bool, Query(description="Submit nothing; say when and where it would start, and why")
    ] = False,
) -> Accepted | Response:
    """Submit a job. The same `Idempotency-Key` again is the same job, however often it is sent."""
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise ProblemError("invalid", "Idempotency-Key: it is given twice")
    wanted = parse_request(parse_body(await request.body()))
    job = job_id(idempotency_key, wanted)
    spec = wanted.spec()
    if dry_run:
        authorise(caller, Verb.CHANGE_JOBS, spec.team)
        found = await run_in_threadpool(clerk.dry_run, spec)
        return JSONResponse(found.model_dump(mode="json"))
    return (await run_in_threadpool(desk.submit, [(job, spec)], caller))[0]


@router.post("/jobs/batch", status_code=202)
async def submit_batch(request: Request, desk: OpenDesk, caller: Caller) -> AcceptedBatch:
    """Submit many jobs: `{"jobs": [{"id": KEY, "spec": SPEC}, …]}`; all of them, or none."""
    wanted = []
    for index, item in enumerate(_items(parse_body(await request.body()))):
        try:
            spec = parse_request(item["spec"])
            wanted.append((job_id(item.get("id", ""), spec), spec.spec()))
        except ProblemError as problem:
            raise ProblemError(problem.slug, f"jobs.{index}: {problem.detail}") from problem
    return AcceptedBatch(jobs=await run_in_threadpool(desk.submit, wanted, caller))


def _items(body: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    """The items of a batch, or an `invalid` problem."""
    items = body.get("jobs") if isinstance(body, dict) else None
    if not isinstance(items, list) or not 0 < len(items) <= _MAX_BATCH:
        raise ProblemError("invalid", f"jobs: a list of 1 to {_MAX_BATCH:,} submissions")
    for index, item in enumerate(items):
        keys = set(item) if isinstance(item, dict) else set()
        if "spec" not in keys or not keys <= {"id", "spec"} or not isinstance(
            item.get("id", ""), str
        ):  # fmt: skip
            raise ProblemError("invalid", f"jobs.{index}: an object of `spec` and, at most, `id`")
    return items
