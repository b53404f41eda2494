"""Decisions as the demo tells them: one line each, the uninteresting ones left out."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.output import styled
from gangline.client import GanglineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.client import Client


def _seats(detail: Mapping[str, Any]) -> str:
    return ", ".join(str(seat["node"]) for seat in detail.get("seats") or ())


def _resumed(detail: Mapping[str, Any]) -> str:
    at = detail.get("resumed_ms") or 0
    return f"starts again from its checkpoint at {at / 1000:.1f} s" if at else "starts"


_CAUSES: Final = {
    "user": "a program of it failed",
    "infrastructure": "it lost a node",
    "preempted": "it was preempted",
    "limit": "it reached its limit",
    "drained": "its node is emptied",
}
"""Causes whose codes say little to somebody who sees them for the first time."""


def _cause(detail: Mapping[str, Any]) -> str:
    return _CAUSES.get(detail["cause"], str(detail["cause"]))


def _ended(detail: Mapping[str, Any]) -> str:
    """The outcome, and why, unless that says the same."""
    outcome, reason = detail["outcome"], detail.get("reason") or ""
    return f"{outcome}: {reason}" if reason not in ("", outcome) else str(outcome)


def _health(detail: Mapping[str, Any]) -> str:
    """What a node is, and why, unless that says the same."""
    health, cause = detail["health"], detail["cause"]
    return f"is {health}" + (f": {cause}" if cause not in ("", health) else "")


_TELL: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "JobRejected": lambda d: f"is rejected: {d['text']}",
    "GangPlaced": lambda d: f"gets {_seats(d)} (attempt {d['attempt']})",
    "GangStarted": _resumed,
    "GangStartAborted": lambda d: f"could not start: {d['why']}",
    "GangPreempted": lambda d: f"is told to leave for {d['claimant']}",
    "GangStopping": lambda d: f"is told to stop: {_cause(d)}",
    "JobRequeued": lambda d: f"is queued again: {_cause(d)}",
    "JobHeld": lambda d: f"is held: {d['why']}",
    "JobFinished": _ended,
    "NodeAdded": lambda d: f"joins with {d['gpus']} GPUs",
    "NodeHealthChanged": _health,
    "LeadershipTaken": lambda d: f"{d['leader']} leads, term {d['term']} ({d['why']})",
}


def words_of(row: Mapping[str, Any]) -> str:
    """A decision in one line; empty for those that are not told."""
    tell = _TELL.get(row["kind"])
    if tell is None:
        return ""
    about = row.get("job") or row.get("node") or ""
    return f"{about} {tell(row.get('detail') or {})}".lstrip()


_STOP_WITHIN_S: Final = 2.0


class Narrator:
    """Tells decisions as they are made, from a thread of its own, and remembers who led."""

    def __init__(self, client: Client) -> None:
        self.leaders: list[str] = []
        self._client = client
        self._began = time.monotonic()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="narrator", daemon=True)

    def start(self) -> None:
        """Begin with the first decision of the log."""
        self._thread.start()

    def stop(self) -> None:
        """Say no more; closes the client."""
        self._stopped = True
        self._client.close()
        self._thread.join(_STOP_WITHIN_S)

    def say(self, words: str) -> None:
        """What the demo itself does."""
        self._line(styled(f"— {words}", bold=True))

    def _run(self) -> None:
        try:
            for happening in self._client.events(after=""):
                if self._stopped:
                    return
                if happening is not None:
                    self._tell(happening.row)
        except GanglineError as error:
            self._line(f"the stream of decisions ended: {error}")

    def _tell(self, row: Mapping[str, Any]) -> None:
        detail = row.get("detail") or {}
        if row["kind"] == "LeadershipTaken":
            self.leaders.append(str(detail["leader"]))
        words = words_of(row)
        if words:
            self._line(f"  {words}")

    def _line(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self._began:6.1f}s {text}")
