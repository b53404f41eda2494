"""Decisions as the demo tells them: one line each, the uninteresting ones left out."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.client import GanglineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.client import Client


def _seats(detail: Mapping[str, Any]) -> str:
    return ", ".join(str(seat["node"]) for seat in detail.get("seats") or ())


def _resumed(detail: Mapping[str, Any]) -> str:
    at = detail.get("resumed_ms") or 0
    return f"starts again from its checkpoint at {at / 1000:.1f} s" if at else "starts"


_TELL: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "JobRejected": lambda d: f"is rejected: {d['text']}",
    "GangPlaced": lambda d: f"gets {_seats(d)} (attempt {d['attempt']})",
    "GangStarted": _resumed,
    "GangStartAborted": lambda d: f"could not start: {d['why']}",
    "GangPreempted": lambda d: f"is told to leave for {d['claimant']}",
    "GangStopping": lambda d: f"is told to stop: {d['cause']}",
    "JobRequeued": lambda d: f"is queued again: {d['cause']}",
    "JobHeld": lambda d: f"is held: {d['why']}",
    "JobFinished": lambda d: f"{d['outcome']}" + (f": {d['reason']}" if d.get("reason") else ""),
    "NodeAdded": lambda d: f"joins with {d['gpus']} GPUs",
    "NodeHealthChanged": lambda d: f"is {d['health']}: {d['cause']}",
    "LeadershipTaken": lambda d: f"{d['leader']} leads, term {d['term']} ({d['why']})",
}


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
        self._line(click.style(f"— {words}", bold=True))

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
        tell = _TELL.get(row["kind"])
        if tell is not None:
            about = row.get("job") or row.get("node") or ""
            self._line(f"  {about} {tell(detail)}".replace("   ", "  "))

    def _line(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self._began:6.1f}s {text}")
