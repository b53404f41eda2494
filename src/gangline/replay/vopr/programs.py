"""What the processes of gangs really do: the truth that no scheduler sees.

A gang works while all its members run, and stands still from the moment one of them is gone. It
saves on its own clock; what it has saved lies in a store that outlives machines, and the next
attempt goes on from the path that it is given. Told to stop, a prompt program saves and ends at
once, another one works through its whole grace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from gangline.agents.core import CheckpointSeen, Ended, Exit, Key
from gangline.events.batch import AssignedMember

if TYPE_CHECKING:
    from random import Random

    from gangline.replay.vopr.clock import Timeline

KILLED: Final = Exit(code=137, signal=9, reason="stopped")
TERMINATED: Final = Exit(code=143, signal=15, reason="stopped")
BROKEN: Final = Exit(code=1, reason="infrastructure", detail="the hardware failed it")
MOST_LATE_MS: Final = 300
"""So far apart the members of a gang end."""


class Host(Protocol):
    """The machine that processes run on, as far as they know it. boot: counts its boots."""

    name: str
    boot: int

    def exit(self, key: Key, how: Exit) -> None:
        """A member's processes are gone."""
        ...

    def saw_checkpoint(self, seen: CheckpointSeen) -> None:
        """A complete checkpoint lies there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a job does. runtime_ms: productive work until it ends with code 0.

    bad_attempts: so many first attempts end with code 3 after `bad_after_ms` of running. prompt:
    whether it ends at once when told to, rather than at the end of its grace.
    """

    runtime_ms: int
    bad_attempts: int = 0
    bad_after_ms: int = 0
    prompt: bool = True


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """One member's processes on a host. since_ms: when its ranks ran, 0 before."""

    key: Key
    order: AssignedMember
    since_ms: int = 0
    exit: Exit | None = None
    saved: CheckpointSeen | None = None
    told_ms: int | None = None
    frozen: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Gang:
    """One attempt as it really is.

    running: hosts whose member runs, by name. base_ms: productive work that was restored. since_ms:
    since when it works, None while it stands still. exits: of members that are gone.
    """

    key: Key
    order: AssignedMember
    program: Program
    base_ms: int
    running: dict[str, Host] = field(default_factory=dict)
    since_ms: int | None = None
    work_ms: int = 0
    began_ms: int = 0
    next_save_ms: int | None = None
    exits: dict[str, Exit] = field(default_factory=dict)
    plans: int = 0

    def done_ms(self, now_ms: int) -> int:
        """Productive work up to now, over all attempts."""
        fresh = 0 if self.since_ms is None else now_ms - self.since_ms
        return self.base_ms + self.work_ms + fresh


class Programs:
    """All gangs of a cell and what they have saved.

    stored: productive work, by path.
    """

    def __init__(self, timeline: Timeline, chance: Random) -> None:
        self._timeline = timeline
        self._chance = chance
        self.of_job: dict[str, Program] = {}
        self.gangs: dict[Key, Gang] = {}
        self.stored: dict[str, int] = {}
        self.saved_ms: dict[str, int] = {}
        self.lost_stores: list[str] = []

    def _late_ms(self) -> int:
        return self._chance.randrange(MOST_LATE_MS)

    # --- members ---------------------------------------------------------------------------------

    def join(self, host: Host, process: Process) -> None:
        """A member's ranks run; the last one sets the gang to work."""
        order = process.order
        gang = self.gangs.get(process.key)
        if gang is None:
            gang = self.gangs[process.key] = self._new_gang(process.key, order)
        if host.name in gang.exits:
            return
        gang.running[host.name] = host
        if gang.since_ms is None and not gang.exits and len(gang.running) == len(order.nodes):
            gang.since_ms = gang.began_ms = self._timeline.now_ms
            if order.spec.checkpoint is not None:
                gang.next_save_ms = self._timeline.now_ms + order.spec.checkpoint.interval_ms
            self._plan(gang)

    def _new_gang(self, key: Key, order: AssignedMember) -> Gang:
        base_ms = 0
        if order.resume_path:
            if order.resume_path not in self.stored:
                self.lost_stores.append(f"{key.job} resumes from {order.resume_path}")
            base_ms = self.stored.get(order.resume_path, 0)
        program = self.of_job.get(key.job, Program(runtime_ms=1_000))
        return Gang(key=key, order=order, program=program, base_ms=base_ms)

    def leave(self, host: Host, key: Key, how: Exit) -> None:
        """A member is gone; the others stand still."""
        gang = self.gangs.get(key)
        if gang is None:
            return
        gang.exits[host.name] = how
        gang.running.pop(host.name, None)
        self._halt(gang)

    def _halt(self, gang: Gang) -> None:
        if gang.since_ms is not None:
            gang.work_ms += self._timeline.now_ms - gang.since_ms
            gang.since_ms = None
        gang.plans += 1

    def works(self, key: Key) -> bool:
        """Whether all members run."""
        gang = self.gangs.get(key)
        return gang is not None and gang.since_ms is not None

    # --- what time brings ------------------------------------------------------------------------

    def _plan(self, gang: Gang) -> None:
        """Set the alarm for what happens to a working gang next."""
        gang.plans += 1
        plan, now_ms = gang.plans, self._timeline.now_ms
        end_ms = now_ms + max(0, gang.program.runtime_ms - gang.done_ms(now_ms))
        if gang.key.attempt <= gang.program.bad_attempts:
            end_ms = min(end_ms, gang.began_ms + gang.program.bad_after_ms)
        save_ms = gang.next_save_ms
        saves = save_ms is not None and save_ms < end_ms

        def ring() -> None:
            if plan != gang.plans or gang.since_ms is None:
                return
            if saves:
                self._save_on_time(gang)
            else:
                self._end(gang)

        due_ms = save_ms if saves and save_ms is not None else end_ms
        self._timeline.after(due_ms - now_ms, ring)

    def _save_on_time(self, gang: Gang) -> None:
        self.save(gang)
        checkpoint = gang.order.spec.checkpoint
        if checkpoint is not None:
            gang.next_save_ms = self._timeline.now_ms + checkpoint.interval_ms
        self._plan(gang)

    def save(self, gang: Gang) -> None:
        """A complete checkpoint exists; every member's agent may see it."""
        done_ms = gang.done_ms(self._timeline.now_ms)
        path = f"{gang.key.job}/{gang.key.attempt}/{done_ms}"
        self.stored[path] = done_ms
        self.saved_ms[gang.key.job] = max(self.saved_ms.get(gang.key.job, 0), done_ms)
        for host in list(gang.running.values()):
            seen = CheckpointSeen(
                key=gang.key,
                step=done_ms,
                path=path,
                at_ms=self._timeline.now_ms,
                productive_ms=done_ms,
            )
            host.saw_checkpoint(seen)

    def _end(self, gang: Gang) -> None:
        """The program ends by itself, on its hosts one after another."""
        done_ms = gang.done_ms(self._timeline.now_ms)
        code = 0 if done_ms >= gang.program.runtime_ms else 3
        for host in list(gang.running.values()):
            self._exit_late(host, gang.key, Exit(code=code))
        self._halt(gang)

    def _exit_late(self, host: Host, key: Key, how: Exit) -> None:
        boot = host.boot
        self._timeline.after(
            self._late_ms(), lambda: host.exit(key, how) if host.boot == boot else None
        )

    def told(self, host: Host, process: Process, *, signal_ms: int, deadline_ms: int) -> None:
        """A member was signalled, with so long until it is killed."""
        if process.told_ms is not None and process.told_ms <= deadline_ms:
            return
        process.told_ms = deadline_ms
        now_ms, boot = self._timeline.now_ms, host.boot
        gang = self.gangs.get(process.key)
        prompt = gang is None or gang.since_ms is None or gang.program.prompt
        at_ms = max(now_ms, signal_ms) if prompt else deadline_ms

        def stop() -> None:
            if host.boot == boot and process.exit is None and not process.frozen:
                self._stop(host, process)

        self._timeline.after(min(at_ms, deadline_ms) - now_ms, stop)

    def _stop(self, host: Host, process: Process) -> None:
        gang = self.gangs.get(process.key)
        if gang is not None and gang.since_ms is not None:
            if gang.order.spec.checkpoint is not None:
                self.save(gang)
            self._halt(gang)
        host.exit(process.key, TERMINATED)


def ended(process: Process) -> Ended | None:
    """What an agent sees of a process that is gone."""
    return None if process.exit is None else Ended(process.key, process.exit)
