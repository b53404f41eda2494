"""What the API reads: rows of the views, and how far they have come. The page reads the same."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Protocol

import anyio
from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from gangline.api.nearest import nearest
from gangline.api.problems import ProblemError
from gangline.events.log import Position, Topic

Row = Mapping[str, Any]
_POLL_S: Final = 0.03
_LONGEST_POLL_S: Final = 0.5
_MOST_TEXT: Final = 100
_FOLLOWED: Final = (
    Topic.JOBS,
    Topic.CONTROL,
    Topic.NODES,
    Topic.HEARTBEATS,
    Topic.DECISIONS,
)
"""Topics whose records change views; of others no view ever says that it has them."""
_MOST_OFFSET: Final = 2**63 - 1


class Views(Protocol):
    """Rows of one cell's views: what the API needs of `gangline.projections.queries.Views`.

    Every method may raise ViewsUnreachableError, and QueryError for a filter or key that is none.
    """

    def job(self, job: str) -> Row | None:
        """One job as `jobs` has it, or None; `spec` holds its public spec."""
        ...

    def rows(
        self, view: str, *, where: Mapping[str, object], after: str, limit: int
    ) -> Sequence[Row]:
        """Rows of a view in its own order, each with its `key`.

        where: columns and what they must equal. after: the key of the last row seen, '' for none.
        """
        ...

    def decisions(self, *, after: str, job: str, limit: int) -> Sequence[Row]:
        """Decisions in order after a position or key ('': from the first)."""
        ...

    def refusal(self, position: Position) -> Row | None:
        """Why a fact of late changed nothing (`reason`, `detail`); None where it did."""
        ...

    def end(self) -> str:
        """The position of the last decisions that the views contain; '' when they contain none."""
        ...

    def job_events(self, job: str, *, after: str, limit: int) -> Sequence[Row]:
        """One job's life in order: its decisions, and each change of why it waits."""
        ...

    def ledger(self, *, from_ms: int, to_ms: int, team: str | None) -> Sequence[Row]:
        """GPU-milliseconds in a window, by account."""
        ...

    def utilization(self, *, from_ms: int, to_ms: int, step_s: int) -> Sequence[Row]:
        """GPU-milliseconds by account, in steps."""
        ...

    def wait_bands(self, *, since_ms: int) -> Sequence[Row]:
        """How long jobs that first started since then had waited, by band."""
        ...

    def fleet(self) -> Row:
        """The fleet in columns: one letter a GPU."""
        ...

    def contains(self, position: Position) -> bool:
        """Whether the views contain what follows from the record at this position."""
        ...

    def lag(self) -> Sequence[Row]:
        """Position and lag of each view (`projection`)."""
        ...

    def numbers(self) -> Mapping[str, Any]:
        """Fleet, queue, job and team numbers for metrics and the page."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def parse_position(name: str, text: str) -> Position:
    """A position from a query or path, or an `invalid` problem. name: of the parameter."""
    try:
        position = Position.parse(text[:_MOST_TEXT])
    except ValueError as error:
        raise ProblemError("invalid", f"{name}: {error}") from error
    if position.topic not in _FOLLOWED:
        hint = nearest(position.topic, _FOLLOWED)
        known = ", ".join(_FOLLOWED)
        raise ProblemError("invalid", f"{name}: views follow {known}, not {position.topic!a}{hint}")
    if position.offset > _MOST_OFFSET or position.partition > _MOST_OFFSET:
        raise ProblemError("invalid", f"{name}: no log is so long as {text[:_MOST_TEXT]}")
    return position


def no_such_job(views: Views, job: str) -> ProblemError:
    """A `not-found` problem with the nearest name of a job."""
    known = [str(row["job"]) for row in views.rows("jobs", where={}, after="", limit=1_000)]
    return ProblemError("not-found", f"there is no job {job[:128]}{nearest(job, known)}")


async def read_your_writes(
    request: Request,
    min_position: Annotated[
        str, Query(description="Wait until the views contain this position")
    ] = "",
) -> None:
    """Dependency of every read: wait until the views contain a position that a write returned."""
    if not min_position:
        return
    position = parse_position("min_position", min_position)
    views: Views = request.app.state.views
    deadline = time.monotonic() + request.app.state.settings.wait_s
    pause_s = _POLL_S
    while not await run_in_threadpool(views.contains, position):
        if time.monotonic() > deadline:
            raise ProblemError(
                "not-yet",
                f"the views have not reached {position} yet",
                headers={"Retry-After": "1"},
            )
        await anyio.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
