"""The Python client: submit jobs, see why they wait, wait for their end.

Plain HTTP, one dependency.

with Client() as gangline: job = gangline.submit(JobSpec(team="vision", gpus=8, command=["python",
"train.py"])) sys.exit(gangline.wait(job.job))

Every submission carries an idempotency key, so a request whose answer was lost is sent again
without fear of a second job. Where the API is comes from `url`, else GANGLINE_URL, else the stack
that `gangline up` started (GANGLINE_DIR, `.gangline`); the token is `token`, or GANGLINE_API_TOKEN.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import httpx2

from gangline.client_errors import (
    UNSENDABLE,
    ConflictError,
    DeniedError,
    GanglineError,
    InvalidError,
    NotFoundError,
    NotYetError,
    UnreachableError,
    asks_for_patience,
    error_of,
)

if TYPE_CHECKING:
    from gangline.async_client import AsyncClient as AsyncClient  # noqa: PLC0414 - is exported

__all__ = [
    "AsyncClient",
    "Client",
    "ConflictError",
    "DeniedError",
    "GanglineError",
    "Happening",
    "InvalidError",
    "JobSpec",
    "NotFoundError",
    "NotYetError",
    "Submitted",
    "UnreachableError",
]
STATE_FILE: Final = "state.json"
ENDED: Final = frozenset({"succeeded", "failed", "cancelled", "rejected"})
_SCHEMES: Final = frozenset({"http", "https"})
_AGAIN: Final = frozenset({429, 502, 503, 504})
_PATIENCE_S: Final = 30.0
_LONGEST_NAME: Final = 200  # the server says what is right; of a longer one it gets no URL
_BATCH: Final = 1_000
_CODE_OF_STATE: Final = {"succeeded": 0, "failed": 1, "rejected": 1, "cancelled": 143}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """`AsyncClient` belongs here too, and is imported when it is asked for."""
    if name == "AsyncClient":
        return import_module("gangline.async_client").AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job.

    Durations are texts like `10m`, or seconds; None leaves a field to the server's default.
    """

    team: str
    gpus: int
    command: Sequence[str] | str | None = None
    name: str | None = None
    gpus_per_node: int | None = None
    priority: str | None = None
    limit: str | float | None = None
    checkpoint: str | float | None = None
    grace: str | float | None = None
    topology: str | None = None
    retries: int | None = None
    after: Sequence[str] | None = None
    preemptible: bool | None = None
    count: int | None = None
    env: Mapping[str, str] | None = None
    workdir: str | None = None
    labels: Mapping[str, str] | None = None
    selector: Mapping[str, str] | None = None
    launcher: str | None = None
    env_compat: Sequence[str] | None = None
    stop_signal: str | None = None
    progress_timeout: str | float | None = None
    at_most_one_writer: bool | None = None
    image: str | None = None
    runtime: str | float | None = None
    exits: int | None = None
    exits_after: str | float | None = None

    def as_json(self) -> dict[str, Any]:
        """What is sent: the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Submitted:
    """An accepted submission. position: pass it as `min_position` to read what followed from it."""

    job: str
    position: str


@dataclass(frozen=True, slots=True)
class Happening:
    """One decision of the stream. position: where to go on after it."""

    position: str
    kind: str
    job: str
    row: Mapping[str, Any]

    @property
    def ended(self) -> tuple[str, ...]:
        """The job that ended by it and the array that this job may be a task of; () for none."""
        if self.kind not in ("JobFinished", "JobRejected"):
            return ()
        array, dot, _ = self.job.rpartition(".")
        return (self.job, array) if dot else (self.job,)


def state_of(directory: Path) -> dict[str, Any] | None:
    """What `gangline up` wrote down about the stack in a folder; None where there is none.

    PermissionError where it is somebody else's.
    """
    try:
        found = json.loads((directory / STATE_FILE).read_text(encoding="utf-8"))
    except PermissionError:
        raise
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def stack_folder() -> Path:
    """The folder of the stack that `gangline up` starts: GANGLINE_DIR, else `.gangline`."""
    return Path(os.environ.get("GANGLINE_DIR") or ".gangline")


def find_url() -> str:
    """Where the API is, or an UnreachableError that says how to tell."""
    if url := os.environ.get("GANGLINE_URL"):
        return url
    directory = stack_folder()
    try:
        state = state_of(directory)
    except PermissionError as error:
        raise UnreachableError(f"the stack in {directory} is somebody else's") from error
    if state is None or not state.get("url"):
        raise UnreachableError(
            f"no API is known: set GANGLINE_URL, or start one with `gangline up` (no stack in "
            f"{directory})"
        )
    return str(state["url"])


class Client:
    """A client of one API; for any number of threads."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        patience_s: float = _PATIENCE_S,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """patience_s: for how long requests are repeated while the API cannot be reached."""
        named = url or find_url()
        self.url = named.rstrip("/")
        noted = not url and not os.environ.get("GANGLINE_URL")  # by the stack of this folder
        self._start_it = "; `gangline up` starts it" if noted else ""
        self._closed = False
        self._patience_s = patience_s
        token = os.environ.get("GANGLINE_API_TOKEN") if token is None else token
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidError("the token (GANGLINE_API_TOKEN) has other than printing characters")
        try:
            self._http = httpx2.Client(
                base_url=self.url,
                timeout=timeout_s,
                transport=transport,
                headers={"Authorization": f"Bearer {token}"} if token else {},
            )
            if not self._http.base_url.host or self.url.partition(":")[0] not in _SCHEMES:
                raise InvalidError(f"{named!r} is no URL like http://host:8642")
        except UNSENDABLE as error:
            raise InvalidError(f"{named!r} is no URL: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections; streams end."""
        self._closed = True
        self._http.close()

    # ------------------------------------------------------------ jobs

    def submit(self, spec: JobSpec | Mapping[str, Any], *, key: str | None = None) -> Submitted:
        """Submit a job. key: its id and idempotency key; one is made where none is given."""
        wanted = _plain(spec)
        key = key or new_key(wanted)
        answer = self.request("POST", "/v1/jobs", body=wanted, headers={"Idempotency-Key": key})
        return Submitted(answer["job"], answer["position"])

    def dry_run(self, spec: JobSpec | Mapping[str, Any]) -> dict[str, Any]:
        """When and where a job would start, and why not sooner; nothing is submitted.

        A server that knows no dry runs may submit: that is an error which names the one job.
        """
        wanted = _plain(spec)
        key = new_key(wanted)
        found: dict[str, Any] = self.request(
            "POST",
            "/v1/jobs",
            body=wanted,
            params={"dry_run": "1"},
            headers={"Idempotency-Key": key},
        )
        if "verdict" not in found:
            raise GanglineError(
                f"the server knows no dry runs: {found.get('job', key)} may be submitted; cancel it"
            )
        return found

    def submit_many(
        self, specs: Iterable[JobSpec | Mapping[str, Any]], *, keys: Iterable[str] = ()
    ) -> list[Submitted]:
        """Submit many jobs in few requests, in this order. keys: one a spec, or none at all."""
        wanted = [_plain(spec) for spec in specs]
        given = list(keys) or [new_key(spec) for spec in wanted]
        items = [{"id": k, "spec": s} for k, s in zip(given, wanted, strict=True)]
        done: list[Submitted] = []
        for start in range(0, len(items), _BATCH):
            body = {"jobs": items[start : start + _BATCH]}
            answer = self.request("POST", "/v1/jobs/batch", body=body)
            done += [Submitted(each["job"], each["position"]) for each in answer["jobs"]]
        return done

    def job(self, job: str, *, min_position: str = "") -> dict[str, Any]:
        """A job with its attempts."""
        found: dict[str, Any] = self.request(
            "GET", self.route("jobs", job), params={"min_position": min_position}
        )
        return found

    def cancel(self, job: str, *, why: str = "") -> Submitted:
        """Cancel a job."""
        return self._change(job, "cancel", {"why": why})

    def hold(self, job: str, *, why: str = "") -> Submitted:
        """Keep a job from starting."""
        return self._change(job, "hold", {"why": why})

    def release(self, job: str) -> Submitted:
        """Let a held job start."""
        return self._change(job, "release", None)

    def set_priority(self, job: str, priority: str) -> Submitted:
        """Put a job in another class."""
        return self._change(job, "priority", {"priority": priority})

    def _change(self, job: str, verb: str, body: Any) -> Submitted:  # noqa: ANN401 - JSON
        answer = self.request("POST", self.route("jobs", job, verb), body=body)
        return Submitted(job, answer["position"])

    def wait(self, job: str, *, timeout_s: float | None = None) -> int:
        """The exit code of a job's program once the job has ended (143 when it was cancelled).

        Of an array: 0 when all tasks succeeded, else the code of the first one that did not.
        NotYetError after the timeout.
        """
        return self.wait_all([job], timeout_s=timeout_s)[job]

    def wait_all(self, jobs: Iterable[str], *, timeout_s: float | None = None) -> dict[str, int]:
        """The exit codes of jobs once all have ended, by one stream however many they are."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        codes: dict[str, int] = {}
        left = set(jobs)
        for happening in self.events(deadline=deadline):
            for job in sorted(left.intersection(left if happening is None else happening.ended)):
                if (code := self._code(job)) is not None:
                    codes[job] = code
                    left.discard(job)
            if not left:
                return codes
        raise NotYetError(f"not ended in time: {', '.join(sorted(left)[:5])}")

    def _code(self, job: str) -> int | None:
        """The exit code of a job that has ended, else None."""
        try:
            found = self.job(job)
        except NotFoundError:
            return None  # submitted, and in no view yet
        state = found["state"]
        if state not in ENDED:
            return None
        code = found.get("exit_code")
        return int(code) if state == "failed" and code else _CODE_OF_STATE[state]

    # ------------------------------------------------------------ lists and streams

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        """All rows of a list, page by page; `path` like `/v1/queue`."""
        wanted = {name: value for name, value in params.items() if value not in (None, "")}
        while True:
            answer = self.request("GET", path, params=wanted)
            yield from answer["items"]
            if answer["next"] is None:
                return
            wanted["after"] = answer["next"]

    def events(
        self, *, job: str = "", after: str = "end", deadline: float | None = None
    ) -> Iterator[Happening | None]:
        """Decisions as they are made, for ever; None whenever the stream was (re)connected.

        after: a position, `end`, or '' for the first decision. deadline: of time.monotonic().
        """
        cursor = after
        while not self._closed and (deadline is None or time.monotonic() < deadline):
            try:
                for happening in self._stream(cursor, job, deadline):
                    cursor = happening.position or cursor
                    yield happening if happening.kind else None
            except httpx2.TransportError:
                time.sleep(0.5)
            except (httpx2.StreamError, RuntimeError):
                if not self._closed:  # by another thread, to end this
                    raise

    def _stream(self, cursor: str, job: str, deadline: float | None) -> Iterator[Happening]:
        """One connection's events; the first has no kind and says where the stream begins."""
        params = {"after": cursor, "job": job} if job else {"after": cursor}
        left_s = None if deadline is None else max(0.1, deadline - time.monotonic())
        timeout = httpx2.Timeout(10.0, read=min(left_s or 40.0, 40.0))
        with self._http.stream("GET", "/v1/events", params=params, timeout=timeout) as response:
            if response.status_code in _AGAIN:
                time.sleep(0.5)
                return
            if response.status_code != 200:
                response.read()
                raise error_of(response)
            yield from _happenings(response.iter_lines())

    # ------------------------------------------------------------ requests

    @staticmethod
    def route(*names: str) -> str:
        """The path of a route, like `/v1/jobs/JOB/why`; InvalidError for what can be no name.

        Of a name with a slash, or of none, the server would see another path, and say only that.
        """
        for name in names:
            if not name:
                raise InvalidError("a name has at least one character")
            if "/" in name or name.startswith("."):
                raise InvalidError(f"a name has no / and no . at its start: {name!r}")
            if len(name) > _LONGEST_NAME:
                raise InvalidError(
                    f"a name has at most {_LONGEST_NAME} characters, not {len(name)}"
                )
        return "/".join(("/v1", *(quote(name, safe="") for name in names)))

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,  # noqa: ANN401 - JSON
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """One request, repeated while the API is unreachable or busy; the JSON of its answer.

        Raises GanglineError. Facts may be repeated: each has an id, or says what already holds.
        """
        deadline = time.monotonic() + self._patience_s
        pause_s = 0.1
        shown = {name: value for name, value in (params or {}).items() if value not in (None, "")}
        while True:
            failure, wait_s = self._once(method, path, body, shown, dict(headers or {}))
            if not isinstance(failure, GanglineError):
                return failure
            if wait_s is None or time.monotonic() + max(wait_s, pause_s) > deadline:
                raise failure
            time.sleep(max(wait_s, pause_s * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter
            pause_s = min(pause_s * 2, 2.0)

    def read_part(self, path: str, *, attempt: int, offset: int) -> tuple[bytes, int]:
        """Bytes of a job's output from an offset on, and where to go on."""
        params = {"attempt": attempt, "offset": offset}
        try:
            response = self._http.get(path, params=params)
        except httpx2.TransportError as error:
            raise self._no_answer(error) from error
        if not response.is_success:
            raise error_of(response)
        return response.content, int(response.headers.get("x-next-offset", offset))

    def _no_answer(self, error: httpx2.TransportError) -> UnreachableError:
        reason = str(error) or type(error).__name__
        return UnreachableError(f"no API answers at {self.url}: {reason}{self._start_it}")

    def _once(
        self, method: str, path: str, body: object, params: dict[str, Any], headers: dict[str, str]
    ) -> tuple[Any, float | None]:
        """An answer or an error, and after how many seconds to try again (None: never)."""
        odd = next((name for name, value in headers.items() if not value.isprintable()), None)
        if odd is not None:
            return InvalidError(f"{odd}: a name has printing characters only"), None
        try:
            sent = {name.encode(): value.encode() for name, value in headers.items()}
            response = self._http.request(method, path, json=body, params=params, headers=sent)
        except UNSENDABLE as error:
            return InvalidError(f"this cannot be sent: {error}"), None
        except httpx2.TransportError as error:
            return self._no_answer(error), 0.0
        if response.is_success:
            return response.json() if response.content else None, None
        again = response.status_code in _AGAIN and not asks_for_patience(response)
        retry_s = response.headers.get("retry-after", "0")
        return error_of(response), float(retry_s if retry_s.isdecimal() else 0) if again else None


def _plain(spec: JobSpec | Mapping[str, Any]) -> dict[str, Any]:
    return spec.as_json() if isinstance(spec, JobSpec) else dict(spec)


def new_key(spec: Mapping[str, Any]) -> str:
    """A job id of its own, that says a little."""
    name = str(spec.get("name") or spec.get("team") or "job")[:100]
    # Of what is no name the server says so; a header could not carry it there.
    return f"{name if name.isprintable() else 'job'}-{uuid.uuid4().hex[:10]}"


def _happenings(lines: Iterator[str]) -> Iterator[Happening]:
    """Server-sent events from their lines."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if line and name:
            fields[name] = value.removeprefix(" ")
        elif not line and fields:
            row = json.loads(fields.get("data", "{}"))
            yield Happening(
                fields.get("id", ""), str(row.get("kind", "")), str(row.get("job") or ""), row
            )
            fields = {}
