"""Questions about the present that no view answers: the policy, and what would become of a job.

They are answered from the log by a state of our own, which is kept from one question to the next.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel

from gangline.api.jobs import Caller
from gangline.api.query import only_known
from gangline.api.turns import one_at_a_time
from gangline.events.log import Log
from gangline.events.spec import Spec
from gangline.replay.present import Present
from gangline.replay.trial import Forecast

Answer = TypeVar("Answer")

router = APIRouter(prefix="/v1", tags=["present"], dependencies=[Depends(only_known)])

_WAIT_S: Final = 10.0
_PATIENCE_S: Final = 5.0
ASSUMING: Final = (
    "nothing breaks, nothing else is submitted, and gangs run as long as their limits "
    "(without one: default_limit) allow"
)


class DryRun(BaseModel):
    """What would become of a job that was submitted now.

    verdict: now, later, rejected, or unknown (no start was found in the time for looking). reason,
    reason_text: why not now. nearest: of a rejected job, the nearest request that could start.
    position: in the queue. start_at, start_in_s: when it would be placed, under `assuming`. nodes:
    where, in rank order. preempts: jobs that it would move out.
    """

    dry_run: bool = True
    verdict: str
    reason: str
    reason_text: str
    nearest: str
    position: int
    start_at: datetime | None
    start_in_s: float | None
    level: str
    nodes: list[str]
    preempts: list[str]
    assuming: str = ASSUMING


class Clerk:
    """Who keeps the present state; one question at a time, others wait a little."""

    def __init__(self, log: Log) -> None:
        self._present = Present(log)
        self._lock = threading.Lock()

    def ask(self, question: Callable[[Present], Answer]) -> Answer:
        """The answer, or an `unavailable` problem."""
        with one_at_a_time(self._lock, wait_s=_WAIT_S, busy="others ask about the state"):
            return question(self._present)

    def dry_run(self, spec: Spec) -> DryRun:
        """What would become of a job."""
        now_ms = time.time_ns() // 1_000_000
        deadline = time.monotonic() + _PATIENCE_S

        def enough() -> bool:
            return time.monotonic() > deadline

        found = self.ask(lambda present: present.try_out(spec, now_ms=now_ms, enough=enough))
        return _shown(found, now_ms)


def _shown(found: Forecast, now_ms: int) -> DryRun:
    start_ms = found.start_ms
    return DryRun(
        verdict=found.verdict,
        reason=found.reason,
        reason_text=found.text,
        nearest=found.nearest,
        position=found.position,
        start_at=None if start_ms is None else datetime.fromtimestamp(start_ms / 1_000, UTC),
        start_in_s=None if start_ms is None else max(0, start_ms - now_ms) / 1_000,
        level=found.level,
        nodes=[seat.node for seat in found.seats],
        preempts=found.preempts,
    )


def clerk_of(request: Request) -> Clerk:
    """The clerk of the application."""
    clerk: Clerk = request.app.state.clerk
    return clerk


OpenClerk = Annotated[Clerk, Depends(clerk_of)]


@router.get("/policy")
def policy(clerk: OpenClerk, _: Caller) -> dict[str, Any]:
    """Every key of the policy: its value now, default, unit (durations in ms), and meaning."""
    return {"items": clerk.ask(Present.policy), "next": None}
