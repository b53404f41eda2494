"""Random but possible histories: numbers become decisions that a scheduler could make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from gangline.events import decisions as d
from tests.projections import story as s

if TYPE_CHECKING:
    from collections.abc import Iterator

TEAMS = ("a", "b", "c", "p")
NODES = tuple(f"n{i}" for i in range(5))
GPUS = 4

moves = st.lists(
    st.tuples(
        st.integers(0, 19),  # what happens
        st.integers(0, 1 << 16),  # to whom
        st.integers(0, 1 << 16),  # and how
        st.sampled_from((0, 1, 7, 900, 61_000, 299_999, 300_000, 1_000_003)),  # after so many ms
    ),
    max_size=60,
)


@dataclass(slots=True)
class Gang:
    """A gang of the history. saved_ms: productive time of its last checkpoint."""

    attempt: int
    seats: dict[str, list[int]]
    started_ms: int | None = None
    resumed_ms: int = 0
    saved_ms: int = 0
    stopping: bool = False


@dataclass(slots=True)
class History:
    """What a scheduler would know, so that it makes possible decisions only."""

    now_ms: int = s.START_MS
    nodes: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    gangs: dict[str, Gang] = field(default_factory=dict)
    bad: set[tuple[str, int]] = field(default_factory=set)
    saved: dict[str, int] = field(default_factory=dict)
    lingering: list[tuple[str, int, str, list[int]]] = field(default_factory=list)
    jobs: int = 0
    attempts: int = 0

    def play(self, numbers: list[tuple[int, int, int, int]]) -> Iterator[tuple[int, d.Decision]]:
        """The decisions of a history, each with its time."""
        for what, who, how, after in numbers:
            self.now_ms += after
            for decision in self._move(what, who, how):
                yield self.now_ms, decision

    def _move(self, what: int, who: int, how: int) -> list[d.Decision]:
        doings = (
            self._add_node,
            self._submit,
            self._place,
            self._place,
            self._start,
            self._start,
            self._save,
            self._release,
            self._release,
            self._stop,
            self._set_team,
            self._gpu,
            self._health,
            self._service,
            self._reserve,
            self._explain,
            self._drop_node,
            self._submit,
            self._linger_over,
            self._abort,
        )
        return doings[what](who, how)

    def _add_node(self, who: int, how: int) -> list[d.Decision]:
        name = NODES[who % len(NODES)]
        if name in self.nodes:
            return []
        self.nodes[name] = 1 + how % GPUS
        return [s.node(name, gpus=self.nodes[name])]

    def _drop_node(self, who: int, how: int) -> list[d.Decision]:
        if not self.nodes or how % 3:
            return []
        name = sorted(self.nodes)[who % len(self.nodes)]
        del self.nodes[name]
        self.bad = {(n, g) for n, g in self.bad if n != name}
        self.lingering = [x for x in self.lingering if x[2] != name]
        for gang in self.gangs.values():
            gang.seats.pop(name, None)
        return [d.NodeDropped(node=name)]

    def _submit(self, who: int, how: int) -> list[d.Decision]:
        self.jobs += 1
        job = f"j{self.jobs}"
        self.waiting[job] = 1 + how % 6
        spec = s.spec(
            TEAMS[who % 3], gpus=self.waiting[job], checkpoint_ms=1000 if who % 2 else None
        )
        return [s.queued(job, number=self.jobs, of=spec, submitted_ms=self.now_ms)]

    def _free(self) -> dict[str, list[int]]:
        taken = {(n, g) for gang in self.gangs.values() for n, gs in gang.seats.items() for g in gs}
        taken |= {(n, g) for _, _, n, gs in self.lingering for g in gs}
        return {
            name: [g for g in range(gpus) if (name, g) not in taken]
            for name, gpus in self.nodes.items()
        }

    def _place(self, who: int, _how: int) -> list[d.Decision]:
        if not self.waiting:
            return []
        job = sorted(self.waiting)[who % len(self.waiting)]
        need, seats = self.waiting[job], dict[str, list[int]]()
        for name, free in self._free().items():
            if free[:need]:
                seats[name] = free[:need]
                need -= len(seats[name])
        if need:
            return []
        del self.waiting[job]
        self.attempts += 1
        self.gangs[job] = Gang(self.attempts, seats, saved_ms=self.saved.get(job, 0))
        given = tuple(d.Seat(node=n, gpus=tuple(g)) for n, g in seats.items())
        return [
            d.GangPlaced(
                job=job, attempt=self.attempts, seats=given, level="node", crossed=1, borrowed=0
            )
        ]

    def _start(self, who: int, _how: int) -> list[d.Decision]:
        ready = [j for j in sorted(self.gangs) if not self._begun(j)]
        if not ready:
            return []
        job = ready[who % len(ready)]
        gang = self.gangs[job]
        gang.started_ms, gang.resumed_ms = self.now_ms, gang.saved_ms
        return [s.started(job, attempt=gang.attempt, resumed_ms=gang.saved_ms)]

    def _begun(self, job: str) -> bool:
        gang = self.gangs[job]
        return gang.started_ms is not None or gang.stopping

    def _running_ms(self, gang: Gang) -> int:
        return 0 if gang.started_ms is None else self.now_ms - gang.started_ms

    def _save(self, who: int, how: int) -> list[d.Decision]:
        running = [j for j in sorted(self.gangs) if self.gangs[j].started_ms is not None]
        if not running:
            return []
        job = running[who % len(running)]
        gang = self.gangs[job]
        most = gang.resumed_ms + self._running_ms(gang)
        gang.saved_ms = max(gang.saved_ms, most - how % (most - gang.saved_ms + 1))
        self.saved[job] = gang.saved_ms
        return [s.saved(job, productive_ms=gang.saved_ms, attempt=gang.attempt)]

    def _stop(self, who: int, how: int) -> list[d.Decision]:
        if not self.gangs:
            return []
        job = sorted(self.gangs)[who % len(self.gangs)]
        gang = self.gangs[job]
        gang.stopping = True
        if how % 2:
            return [
                d.GangStopping(
                    job=job, attempt=gang.attempt, cause=d.StopCause.DRAINED, grace_ms=1000
                )
            ]
        return [
            d.GangPreempted(
                job=job,
                attempt=gang.attempt,
                claimant="j1",
                claimant_attempt=1,
                cause="class",
                grace_ms=1000,
            )
        ]

    def _abort(self, who: int, _how: int) -> list[d.Decision]:
        ready = [j for j in sorted(self.gangs) if not self._begun(j)]
        if not ready:
            return []
        job = ready[who % len(ready)]
        gang = self.gangs[job]
        gang.stopping = True
        return [d.GangStartAborted(job=job, attempt=gang.attempt, slow=(), why="slow")]

    def _release(self, who: int, how: int) -> list[d.Decision]:
        if not self.gangs:
            return []
        job = sorted(self.gangs)[who % len(self.gangs)]
        gang = self.gangs.pop(job)
        unsaved_ms = max(0, gang.resumed_ms + self._running_ms(gang) - gang.saved_ms)
        if gang.started_ms is None:
            unsaved_ms = 0
        gpus = sum(len(g) for g in gang.seats.values())
        if how % 3 == 0:
            kept = gang.saved_ms + unsaved_ms
            outcome = d.Outcome.SUCCEEDED if how % 2 else d.Outcome.FAILED
            return [
                s.released(job, attempt=gang.attempt, productive_ms=kept if how % 2 else 0),
                s.finished(job, outcome),
            ]
        self.waiting[job] = gpus or 1
        lingering = tuple(gang.seats)[: how % 2]
        for name in lingering:
            self.lingering.append((job, gang.attempt, name, gang.seats[name]))
        cause = d.StopCause.PREEMPTED if how % 5 else d.StopCause.INFRASTRUCTURE
        return [
            s.released(
                job,
                attempt=gang.attempt,
                cause=cause,
                lost_gpu_ms=unsaved_ms * gpus,
                productive_ms=gang.saved_ms,
                lingering=lingering,
            ),
            s.requeued(job, attempt=gang.attempt, cause=cause),
        ]

    def _linger_over(self, who: int, _how: int) -> list[d.Decision]:
        if not self.lingering:
            return []
        job, attempt, name, _ = self.lingering.pop(who % len(self.lingering))
        return [d.MemberEnded(job=job, attempt=attempt, node=name, code=0, reason="fenced")]

    def _set_team(self, who: int, how: int) -> list[d.Decision]:
        name = TEAMS[who % len(TEAMS)]
        parent = "p" if name in ("a", "b") else ""
        lend = -1 if how % 2 else how % 5
        return [s.team(name, guaranteed=how % 9, parent=parent, lend=lend, weight=1 + how % 3)]

    def _gpu(self, who: int, how: int) -> list[d.Decision]:
        if not self.nodes:
            return []
        name = sorted(self.nodes)[who % len(self.nodes)]
        gpu = how % self.nodes[name]
        if (name, gpu) in self.bad:
            self.bad.remove((name, gpu))
            return [d.GpuReturned(node=name, gpu=gpu)]
        self.bad.add((name, gpu))
        return [d.GpuWithdrawn(node=name, gpu=gpu, fault="xid")]

    def _health(self, who: int, how: int) -> list[d.Decision]:
        if not self.nodes:
            return []
        name = sorted(self.nodes)[who % len(self.nodes)]
        health, cause = (
            (d.Health.WELL, "heard"),
            (d.Health.SUSPECTED, "silent"),
            (d.Health.LOST, "lost"),
            (d.Health.QUARANTINED, "quarantine"),
            (d.Health.WELL, "quarantine over"),
        )[how % 5]
        return [d.NodeHealthChanged(node=name, health=health, cause=cause)]

    def _service(self, who: int, how: int) -> list[d.Decision]:
        if not self.nodes:
            return []
        name = sorted(self.nodes)[who % len(self.nodes)]
        service = (d.Service.OPEN, d.Service.CORDONED, d.Service.DRAINING)[how % 3]
        return [d.NodeServiceChanged(node=name, service=service, cause="fan")]

    def _reserve(self, who: int, how: int) -> list[d.Decision]:
        if not self.waiting or not self.nodes:
            return []
        job = sorted(self.waiting)[who % len(self.waiting)]
        if how % 3 == 0:
            return [d.ReservationReleased(job=job, why="expired")]
        seats = tuple(
            d.ReservedSeat(node=name, gpus=1 + how % GPUS)
            for name in sorted(self.nodes)[: 1 + how % 2]
        )
        return [
            d.ReservationPlanned(
                job=job, kind="plan", start_ms=self.now_ms, end_ms=self.now_ms, seats=seats
            )
        ]

    def _explain(self, who: int, how: int) -> list[d.Decision]:
        jobs = sorted(self.waiting)[: 1 + who % 3]
        causes = tuple(d.WaitCause)
        return [s.waits(*jobs, cause=causes[how % len(causes)])] if jobs else []
