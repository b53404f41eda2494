"""Routes about the past: the whole state at a moment, from the log and not from views.

Answers fold decisions (`replay/moments.py`), so one is made at a time; others wait a little.
"""

import contextlib
import threading
import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request

from gangline.api.jobs import Caller
from gangline.api.moment import parse_moment
from gangline.api.nearest import nearest
from gangline.api.present import OpenClerk
from gangline.api.problems import ProblemError
from gangline.api.query import only_known
from gangline.api.turns import one_at_a_time
from gangline.events.log import Log, LogError
from gangline.replay.moments import Moments
from gangline.replay.present import Present
from gangline.replay.timetravel import When

router = APIRouter(prefix="/v1", tags=["history"], dependencies=[Depends(only_known)])

_WAIT_S: Final = 20.0
At = Annotated[
    str,
    Query(
        max_length=60,
        description="a time, `03:00` (the last), ms since the epoch, `seq:N`, `10m` ago, `now`",
    ),
]


class Past:
    """What was, from the log."""

    def __init__(self, log: Log) -> None:
        self._moments = Moments(log)
        self._lock = threading.Lock()
        self._prepared = False

    def state(self, when: When) -> dict[str, Any]:
        """The whole state then, or a problem."""
        with one_at_a_time(self._lock, wait_s=_WAIT_S, busy="others look into the past"):
            return self._moments.state(when)

    def prepare(self) -> None:
        """Read the whole history once beside what else is done, so that answers come soon."""
        if not self._prepared:
            self._prepared = True
            threading.Thread(target=self._read_all, name="past", daemon=True).start()

    def _read_all(self) -> None:
        """A log that cannot be read now is read by the first question."""
        with self._lock, contextlib.suppress(LogError):
            self._moments.state(When())

    def why(self, job: str, when: When) -> dict[str, Any]:
        """Why a job waited then, or what it did; a problem where it was not there."""
        state = self.state(when)
        for kind in ("queue", "placements"):
            for row in state[kind]:
                if row["job"] == job:
                    found = {"state": "queued", "reason": "", "reason_text": "", **row}
                    waited_s = found.pop("waited_ms", 0) / 1_000
                    return {**found, "waited_s": waited_s, "at_ms": state["at_ms"]}
        known = [row["job"] for kind in ("queue", "placements") for row in state[kind]]
        raise ProblemError(
            "not-found", f"at that time there was no live job {job}{nearest(job, known)}"
        )


def moment_of(text: str, *, now_ms: int) -> When:
    """A moment from a query, or an `invalid` problem. One that is to come is now."""
    try:
        when = parse_moment(text, now_ms=now_ms)
    except ValueError as error:
        raise ProblemError("invalid", f"at: {error}") from error
    is_to_come = when.at_ms is not None and when.at_ms > now_ms
    return When(at_ms=now_ms) if is_to_come else when


def past_of(request: Request) -> Past:
    """The past of the application's cell."""
    past: Past = request.app.state.past
    return past


OpenPast = Annotated[Past, Depends(past_of)]


@router.get("/state")
def state(past: OpenPast, clerk: OpenClerk, _: Caller, at: At = "now") -> dict[str, Any]:
    """The whole state at a moment: queue with reasons, placements, teams, nodes, policy."""
    if at == "now":
        return clerk.ask(Present.plain)
    return past.state(moment_of(at, now_ms=now()))


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
