"""Whether what a scenario expects is so, and what is so instead."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from gangline.replay import rules_of_place
from gangline.replay.scenario_commands import Place
from gangline.replay.scenario_values import show_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.replay.model import Model
    from gangline.replay.scenario_commands import Check
    from gangline.replay.scenario_tally import JobTally, Tally
    from gangline.replay.world import World

NEVER_STARTED: Final = "never started"

_OPERATORS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "=": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_DURATIONS: Final = frozenset({"wait", "lost", "resumed_from"})


class Unmet(Exception):  # noqa: N818 - what a scenario expects and does not find is no error
    """An expectation is not met: `expected …, got …`."""

    def __init__(self, expected: object, got: object) -> None:
        super().__init__(f"expected {expected}, got {got}")


class Scene:
    """What expectations look at: the world, and what was folded from its decisions."""

    def __init__(self, world: World, tally: Tally, model: Model) -> None:
        self.world = world
        self.tally = tally
        self.model = model

    def state_of(self, job: str) -> str:
        """A job's state in a word; `unknown` when the scheduler has not heard of it."""
        known = self.tally.jobs.get(job)
        live = self.world.core.job_state(self.world.state, job)
        if live:
            return live
        return known.outcome if known is not None and known.outcome else "unknown"

    def node_of(self, place: Place) -> str:
        """The node that a place means now; Unmet when the job has no such node."""
        if place.node:
            return place.node
        known = self.tally.jobs.get(place.job)
        nodes = known.nodes if known is not None else ()
        if place.member >= len(nodes):
            count = f"{len(nodes)} node{'s' * (len(nodes) > 1)}" if nodes else "no place yet"
            raise Unmet(f"a node {place}", f"{place.job} with {count}")
        return nodes[place.member]

    def check(self, what: str, name: str, checks: tuple[Check, ...]) -> None:
        """Raise Unmet, with all that is not so, unless everything is so."""
        wrong: list[Check] = []
        got: list[str] = []
        for check in checks:
            value = self._value(what, name, check)
            if not self._holds(check, value):
                wrong.append(check)
                got.append(f"{check.key}={_shown(check.key, value)}")
        if wrong:
            subject = f"{name or what} " if what == "job" else f"{what} {name} ".replace("  ", " ")
            raise Unmet(subject + " ".join(map(str, wrong)), " ".join(got))

    def _holds(self, check: Check, value: int | str | tuple[str, ...] | None) -> bool:
        if isinstance(check.value, Place):
            node = self.node_of(check.value)
            on = isinstance(value, tuple) and node in value
            return on if check.key == "on" else not on
        if isinstance(check.value, str):
            return value == check.value
        if not isinstance(value, int):
            return False
        return _OPERATORS[check.operator](value, check.value)

    def _value(self, what: str, name: str, check: Check) -> int | str | tuple[str, ...] | None:
        world = self.world
        if what == "team":
            numbers = world.core.team_numbers(world.state, name)
            return int(getattr(numbers, check.key))
        if what == "fleet":
            return int(getattr(world.core.fleet_numbers(world.state), check.key))
        if what == "total":
            key = "lost_ms" if check.key == "lost" else check.key
            return int(getattr(self.tally, key))
        if check.key == "state":
            return self.state_of(name)
        known = self.tally.jobs.get(name)
        return None if known is None else self._job_value(known, check)

    def _job_value(self, job: JobTally, check: Check) -> int | str | tuple[str, ...] | None:
        key = check.key
        if key in {"on", "not_on"}:
            return job.nodes
        if key == "within":
            return self._within(job, str(check.value))
        wait = None if job.first_start_ms is None else job.first_start_ms - job.submitted_ms
        values: dict[str, int | str | None] = {
            "attempts": job.attempts,
            "preemptions": job.preemptions,
            "wait": wait,
            "lost": job.lost_ms,
            "nodes": len(set(job.nodes)),
            "reserved": "yes" if job.reserved else "no",
            "resumed_from": job.resumed_ms,
        }
        return values[key]

    def _within(self, job: JobTally, level: str) -> str:
        """The level itself when one domain of it holds the place, else how many do."""
        nodes = [self.model.nodes[name] for name in job.nodes if name in self.model.nodes]
        domains = {rules_of_place.domain_of(node, level) for node in nodes}
        return level if len(domains) == 1 else f"{len(domains)} {level}s"


def _shown(key: str, value: int | str | tuple[str, ...] | None) -> str:
    if value is None:
        return NEVER_STARTED
    if isinstance(value, tuple):
        return ",".join(value) or "nowhere"
    return show_ms(value) if key in _DURATIONS and isinstance(value, int) else str(value)
