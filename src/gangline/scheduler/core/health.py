"""Suspicion, strikes and quarantine of nodes."""

from __future__ import annotations

from typing import Final

from gangline.events import decisions as d
from gangline.events.decisions import Health
from gangline.scheduler.core.entities import Job, Node
from gangline.scheduler.core.turn import Turn

_MOST_DOUBLINGS: Final = 20
_DISTINCT_JOBS: Final = 2


def change(
    turn: Turn,
    node: Node,
    health: Health,
    *,
    cause: str,
    until_ms: int = 0,
    strike: bool = False,
) -> None:
    """Decide a change of health."""
    turn.decide(
        d.NodeHealthChanged(
            node=node.name, health=health, cause=cause, until_ms=until_ms, strike=strike
        )
    )


def mark_unready(turn: Turn, node: Node, job: Job) -> None:
    """Suspect a node whose member was not ready; each time for twice as long."""
    for_ms = turn.state.cell.policy["unready_for"] << min(node.unready_times, _MOST_DOUBLINGS)
    turn.decide(
        d.NodeHealthChanged(
            node=node.name,
            health=Health.SUSPECTED,
            cause="unready",
            until_ms=turn.now_ms + for_ms,
            job=job.id,
        )
    )
    check_strikes(turn, node)


def strikes_of(turn: Turn, node: Node) -> int:
    """Strikes within the window; unreadiness counts once two distinct jobs have met it."""
    oldest = turn.now_ms - turn.state.cell.policy["quarantine_window"]
    recent = [s for s in node.strikes if s.at_ms > oldest]
    unready = [s for s in recent if s.job]
    met_by = len({s.job for s in unready})
    return len(recent) - (len(unready) if met_by < _DISTINCT_JOBS else 0)


def check_strikes(turn: Turn, node: Node) -> None:
    """Quarantine a node that has too many strikes."""
    policy = turn.state.cell.policy
    if node.quarantined_until_ms or strikes_of(turn, node) < policy["quarantine_after"]:
        return
    for_ms = policy["quarantine_for"] << min(node.quarantines, _MOST_DOUBLINGS)
    change(turn, node, Health.QUARANTINED, cause="quarantine", until_ms=turn.now_ms + for_ms)
