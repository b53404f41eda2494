"""Routes of jobs: submit, cancel, hold, release, change the class."""

import contextlib
import hashlib
import json
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from gangline.api.auth import Principal, Verb, authorise, principal_of
from gangline.api.names import Name
from gangline.api.problems import ProblemError
from gangline.api.publisher import Publisher, message
from gangline.api.spec_json import JobRequest, optional_body
from gangline.api.views import Views, no_such_job
from gangline.events import codec, facts
from gangline.events.log import Message, Position, Topic
from gangline.events.names import check_name
from gangline.events.sealing import KeyStore, SealError, binding
from gangline.events.spec import MAX_SPEC_BYTES, JobClass, Private, Spec
from gangline.projections.queries import ViewsUnreachableError

router = APIRouter(prefix="/v1", tags=["jobs"])

Caller = Annotated[Principal, Depends(principal_of)]
_REMEMBERED: Final = 100_000


class Accepted(BaseModel):
    """A fact stands in the log.

    position: pass it as `min_position` to read what followed from it.
    """

    job: str = ""
    position: str


class AcceptedBatch(BaseModel):
    """Submissions stand in the log, in the order they came."""

    jobs: list[Accepted]


class Why(BaseModel):
    """What a colleague should read."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: Annotated[str, Field(max_length=200)] = ""


class PriorityRequest(BaseModel):
    """Another class for a job."""

    model_config = ConfigDict(extra="forbid", strict=True)

    priority: Literal["low", "normal", "high", "urgent"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission as it was accepted.

    digest: of its spec, so that a key is not used for two jobs.
    """

    team: str
    digest: bytes
    position: str


class Submissions:
    """The last submissions of this process by job: repeats, and jobs that no view shows yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Submission] = OrderedDict()
        self._handed_in: set[str] = set()
        self._done = threading.Condition(self._lock)

    @contextlib.contextmanager
    def alone_with(self, jobs: Collection[str]) -> Iterator[None]:
        """Nobody else hands in these jobs meanwhile: a repeat waits for what it repeats."""
        mine = set(jobs)
        with self._done:
            self._done.wait_for(lambda: mine.isdisjoint(self._handed_in))
            self._handed_in |= mine
        try:
            yield
        finally:
            with self._done:
                self._handed_in -= mine
                self._done.notify_all()

    def find(self, job: str) -> Submission | None:
        """The submission of a job, if it is remembered."""
        with self._lock:
            return self._known.get(job)

    def remember(self, job: str, submission: Submission) -> None:
        """Keep one; the oldest beyond 100,000 are forgotten."""
        with self._lock:
            self._known[job] = submission
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


class Desk:
    """Where jobs are handed in: what the routes of one application share."""

    def __init__(self, publisher: Publisher, views: Views, *, keys: KeyStore | None = None) -> None:
        self.publisher = publisher
        self.keys = keys
        self.views = views
        self.submissions = Submissions()

    def submit(self, wanted: list[tuple[str, Spec]], caller: Principal) -> list[Accepted]:
        """Append what is new, answer what is known; all or none."""
        for _, spec in wanted:
            authorise(caller, Verb.CHANGE_JOBS, spec.team)
        _check_twins(wanted)
        with self.submissions.alone_with([job for job, _ in wanted]):
            return self._hand_in(wanted, caller)

    def _hand_in(self, wanted: list[tuple[str, Spec]], caller: Principal) -> list[Accepted]:
        before = [self._repeated(job, spec) for job, spec in wanted]
        new = [i for i, known in enumerate(before) if known is None]
        messages = [
            submission(wanted[i][0], _small(self._sealed(*wanted[i], caller)), actor=caller.actor)
            for i in new
        ]
        positions = dict(zip(new, self.publisher.append_all(messages), strict=True))
        for i in new:
            job, spec = wanted[i]
            self.submissions.remember(job, Submission(spec.team, digest_of(spec), positions[i]))
        return [
            Accepted(job=job, position=positions.get(i) or before[i] or "")
            for i, (job, _) in enumerate(wanted)
        ]

    def _repeated(self, job: str, spec: Spec) -> str | None:
        """The position of the same submission before; a `conflict` problem for another one."""
        known = self.submissions.find(job) or self._submitted_before(job)
        if known is None:
            return None
        if known.digest != digest_of(spec):
            raise ProblemError("conflict", f"another job was submitted as {job}; take another key")
        return known.position

    def _submitted_before(self, job: str) -> Submission | None:
        """What the views and the log know of a key, for repeats that outlive this process.

        Without views nothing is known, and the scheduler rejects the repeat.
        """
        try:
            row = self.views.job(job)
            position = Position.parse(str(row.get("submission"))) if row else None
            event = self.publisher.record(position) if position else None
        except (ViewsUnreachableError, ProblemError, ValueError):
            return None
        if row is None or event is None:
            return None
        if not isinstance(event.body, facts.JobSubmitted) or event.body.job != job:
            return None
        spec = self._clear(job, event.body.spec)
        return Submission(spec.team, digest_of(spec), str(row["submission"]))

    def _sealed(self, job: str, spec: Spec, caller: Principal) -> Spec:
        """As it stands in the log: its private part sealed with its owner's key, if there are keys.

        An owner has one key, whose file is all that has to go to erase what they wrote.
        """
        if self.keys is None:
            return spec
        bound_to = binding(job, team=spec.team, count=spec.count)
        clear = spec.private.ciphertext
        return replace(spec, private=self.keys.seal(clear, key_id=caller.actor, bound_to=bound_to))

    def _clear(self, job: str, spec: Spec) -> Spec:
        """As it was submitted; still sealed when its key is gone."""
        if self.keys is None or not spec.private.key_id:
            return spec
        try:
            bound_to = binding(job, team=spec.team, count=spec.count)
            clear = self.keys.unseal(spec.private, bound_to=[bound_to])
            return replace(spec, private=Private(ciphertext=clear))
        except SealError:
            return spec

    def private_part(self, submission: str) -> dict[str, Any]:
        """The private part of a spec, by its submission; a `denied` problem where it is sealed."""
        submitted = self.publisher.record(Position.parse(submission)).body
        spec = self._clear(submitted.job, submitted.spec)
        if spec.private.key_id:
            raise ProblemError("denied", f"its private part is sealed: {spec.private.key_id}")
        private: dict[str, Any] = json.loads(spec.private.ciphertext or b"{}")
        return private

    def team_of(self, job: str) -> str:
        """The team of a job, or a `not-found` problem."""
        known = self.submissions.find(job)
        if known is not None:
            return known.team
        row = self.views.job(job)
        if row is not None:
            return str(row["team"])
        for task in self.views.rows("jobs", where={"array_of": job}, after="", limit=1):
            return str(task["team"])
        raise no_such_job(self.views, job)

    def change(self, job: str, body: Any, caller: Principal) -> Accepted:  # noqa: ANN401
        """Append a fact about a job that the caller may change."""
        authorise(caller, Verb.CHANGE_JOBS, self.team_of(job))
        position = self.publisher.append(Topic.JOBS, body, key=job, actor=caller.actor)
        return Accepted(job=job, position=position)


def _check_twins(wanted: list[tuple[str, Spec]]) -> None:
    """A `conflict` problem where two jobs of one batch have the same id."""
    digests: dict[str, bytes] = {}
    for job, spec in wanted:
        digest = digest_of(spec)
        if digests.setdefault(job, digest) != digest:
            raise ProblemError("conflict", f"two jobs of this batch have the id {job}")


def _small(spec: Spec) -> Spec:
    """The spec, or an `invalid` problem where the scheduler would reject it for its size."""
    size = len(codec.body_of_spec(spec))
    if size > MAX_SPEC_BYTES:
        raise ProblemError(
            "invalid", f"a spec has at most {MAX_SPEC_BYTES:,} bytes, this one {size:,} in the log"
        )
    return spec


def submission(job: str, spec: Spec, *, actor: str) -> Message:
    """A submission as it is appended: its id is the job's."""
    body = facts.JobSubmitted(job=job, spec=spec)
    return message(Topic.JOBS, body, key=job, actor=actor, fact_id=job)


def digest_of(spec: Spec) -> bytes:
    """What makes two submissions the same."""
    return hashlib.blake2b(repr(spec).encode(), digest_size=16).digest()


def job_id(key: str, request: JobRequest) -> str:
    """The job's id: the client's key (UTF-8, without RFC 8941's quotes), else from its name."""
    if not key:
        return f"{(request.name or request.team)[:100]}-{secrets.token_hex(5)}"
    with contextlib.suppress(UnicodeError):  # a header's bytes, read one by one
        key = key.encode("latin-1").decode()
    if re.fullmatch(r'"[^"\\]*"', key):
        key = key[1:-1]
    try:
        return check_name(key)
    except ValueError as error:
        raise ProblemError("invalid", f"Idempotency-Key: {error}") from error


def desk_of(request: Request) -> Desk:
    """The desk of the application."""
    desk: Desk = request.app.state.desk
    return desk


OpenDesk = Annotated[Desk, Depends(desk_of)]


@router.post("/jobs/{job}/cancel", status_code=202)
async def cancel(job: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Cancel a job: at once where it waits, after its grace where it runs."""
    body: Why = await optional_body(request, Why)
    fact = facts.JobCancelRequested(job=job, why=body.why)
    return await run_in_threadpool(desk.change, job, fact, caller)


@router.post("/jobs/{job}/hold", status_code=202)
async def hold(job: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Keep a job from starting until it is released."""
    body: Why = await optional_body(request, Why)
    fact = facts.JobHoldRequested(job=job, why=body.why)
    return await run_in_threadpool(desk.change, job, fact, caller)


@router.post("/jobs/{job}/release", status_code=202)
async def release(job: Name, desk: OpenDesk, caller: Caller) -> Accepted:
    """Let a held job start again."""
    return await run_in_threadpool(desk.change, job, facts.JobHoldReleased(job=job), caller)


@router.post("/jobs/{job}/priority", status_code=202)
async def priority(job: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Put a job in another class."""
    body: PriorityRequest = await optional_body(request, PriorityRequest)
    fact = facts.JobPriorityChangeRequested(job=job, job_class=JobClass[body.priority.upper()])
    return await run_in_threadpool(desk.change, job, fact, caller)
