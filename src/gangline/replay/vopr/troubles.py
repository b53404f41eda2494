"""What goes wrong at moments, and how all of it ends.

`FaultInjector.strike` does one thing of the kinds that the seed allows; most end by themselves some
time later, and `heal` ends them all.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from gangline.events.log import Message, Topic, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.replay.vopr.bus import Bus, Line
    from gangline.replay.vopr.crew import Post
    from gangline.replay.vopr.host import Host
    from gangline.replay.vopr.people import People
    from gangline.replay.vopr.plan import Plan

DAY_MS: Final = 86_400_000
DOWN_MS: Final = (8_000, 20_000, 60_000)
"""A machine is never back before what it sent has landed or is lost (`bus.LATEST_MS`)."""

CUT_MS: Final = (500, 5_000, 25_000, 60_000)
RESTARTED: Final = 0.6
"""How often the agent of a node that is cut off for the longest time starts anew meanwhile."""

_SNAPSHOTS: Final = TopicPartition(Topic.SNAPSHOTS, 0)


class FaultInjector:
    """Does the wrong things. done: how often each."""

    def __init__(
        self, plan: Plan, *, bus: Bus, posts: list[Post], hosts: list[Host], people: People
    ) -> None:
        self._plan = plan
        self._chance = plan.chance
        self._bus = bus
        self._posts = posts
        self._hosts = hosts
        self._people = people
        self.done: Counter[str] = Counter()
        self._cuts: Counter[str] = Counter()
        # Drawn apart, so that it changes nothing else of a seed.
        self._apart = Random(f"agents of {plan.seed}")  # noqa: S311 - a simulation is no secret
        self.over = False

    @property
    def _now_ms(self) -> int:
        return self._bus.timeline.now_ms

    def strike(self) -> None:
        """Do one thing."""
        if self.over or not self._plan.troubles:
            return
        kind = self._chance.choice(self._plan.troubles)
        strike = _STRIKES.get(kind)
        if strike is not None:
            self.done[kind] += 1
            strike(self)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._bus.timeline.after(delay_ms, action)

    # --- schedulers ------------------------------------------------------------------------------

    def kill_scheduler(self) -> None:
        """A scheduler's process dies between two turns."""
        self._chance.choice(self._posts).kill()

    def pause_scheduler(self) -> None:
        """A scheduler is stopped between two turns, and goes on later."""
        post = self._chance.choice(self._posts)
        post.paused_until_ms = self._now_ms + self._chance.choice((1_000, 4_000, 20_000))

    def cut_scheduler(self) -> None:
        """A scheduler cannot reach the log, or the log it."""
        self._cut(self._chance.choice(self._posts).line)

    def tear_commit(self) -> None:
        """Of the next commit that tells nodes something only the decisions are there."""
        self._chance.choice(self._posts).line.tears = True

    def turn_clock(self) -> None:
        """A scheduler's wall clock jumps."""
        post = self._chance.choice(self._posts)
        post.clocks.wall_error_ms = self._chance.choice((0, 1_500, -1_500, 60_000, DAY_MS, -DAY_MS))

    def wobble(self) -> None:
        """The broker's clock is off by a little, for a while."""
        self._bus.wobble_ms = self._chance.choice((0, 400, -400, 900, -900))

    def _cut(self, line: Line) -> int:
        """Cut a line for a while; for how long."""
        for_ms = self._chance.choice(CUT_MS)
        line.out, line.back = self._chance.choice(((False, True), (True, False), (False, False)))
        self._cuts[line.name] += 1
        cut = self._cuts[line.name]

        def heal() -> None:
            if self._cuts[line.name] == cut:
                line.out = line.back = True

        self._later(for_ms, heal)
        return for_ms

    # --- hosts -----------------------------------------------------------------------------------

    def crash_host(self) -> None:
        """A machine dies; it is back some time later, empty."""
        host = self._chance.choice(self._hosts)
        if host.up:
            for_ms = self._chance.choice(DOWN_MS)
            host.crash()
            self._later(for_ms, host.boot_up)

    def cut_host(self) -> None:
        """A node cannot reach the log, or the log it; sometimes its agent starts anew meanwhile."""
        host = self._chance.choice(self._hosts)
        for_ms = self._cut(host.line)
        if for_ms == CUT_MS[-1] and self._apart.random() < RESTARTED:

            def stop() -> None:
                if not self.over:
                    host.stop_agent()

            self._later(self._apart.randrange(for_ms), stop)
            self._later(for_ms, host.start_agent)

    def slow_host(self) -> None:
        """A node takes long to make ready from now on, or never is, or is quick again."""
        host = self._chance.choice(self._hosts)
        host.ready_ms = self._chance.choice((50, 50, 2_000, 12_000, None))

    def break_gpu(self) -> None:
        """A GPU breaks, or all of a node are mended."""
        host = self._chance.choice(self._hosts)
        if host.bad and self._chance.random() < 0.7:
            host.mend_gpus()
        elif host.up:
            host.break_gpu(self._chance.randrange(host.gpus), self._chance.choice(("xid", "nic")))

    def kill_agent(self) -> None:
        """An agent dies, and is started again."""
        host = self._chance.choice(self._hosts)
        for_ms = self._chance.choice((500, 4_000, 30_000, 60_000))
        host.stop_agent()
        self._later(for_ms, host.start_agent)

    def pause_agent(self) -> None:
        """An agent is stopped, and goes on later; its members run on."""
        host = self._chance.choice(self._hosts)
        for_ms = self._chance.choice((1_000, 10_000, 40_000))
        host.paused_until_ms = self._now_ms + for_ms

    # --- what stands in the log ------------------------------------------------------------------

    def lie(self) -> None:
        """A node states illegal facts."""
        self._people.lie(self._chance.choice(self._hosts))

    def litter(self) -> None:
        """Somebody writes bytes that mean nothing."""
        self._people.litter()

    def order(self) -> None:
        """An operator does something to a node."""
        self._people.give_orders()

    def change_mind(self) -> None:
        """A user wants something else."""
        self._people.change_mind()

    def change_quota(self) -> None:
        """An operator changes a team."""
        self._people.change_quota()

    def tear_snapshot(self) -> None:
        """A snapshot's record is written again with a byte changed, or a pointer to nothing."""
        records = self._bus.log.reader({_SNAPSHOTS: 0}).poll(0, limit=10_000)
        if not records:
            return
        record = self._chance.choice(records)
        value = bytearray(record.value)
        value[self._chance.randrange(len(value))] ^= 1 << self._chance.randrange(8)
        self._bus.land([Message(topic=Topic.SNAPSHOTS, key=record.key, value=bytes(value))])

    # --- the end ---------------------------------------------------------------------------------

    def heal(self, *, posts: list[Post], hosts: list[Host]) -> None:
        """Faults stop. Of the named core everything works; all others are gone for good."""
        self.over = True
        weather, fate = self._bus.weather, self._plan.fate
        weather.failing = weather.doubling = weather.stalling = 0.0
        fate.dying = fate.pausing = 0.0
        for post in self._posts:
            post.line.out = post.line.back = True
            post.line.tears = False
            post.paused_until_ms = 0
            if post not in posts:
                post.retire()
        for host in self._hosts:
            host.deadly = 0.0
            if host in hosts:
                self._mend(host)
            else:
                self._abandon(host)

    def _mend(self, host: Host) -> None:
        host.line.out = host.line.back = True
        host.paused_until_ms, host.ready_ms = 0, 50
        if self._chance.random() < 0.6:
            host.mend_gpus()

        def back() -> None:
            host.boot_up()
            host.start_agent()

        # Nobody comes back before what was sent has landed or is lost.
        self._later(DOWN_MS[0], back)

    def _abandon(self, host: Host) -> None:
        """A machine outside the core dies, or runs on where nobody reaches it."""
        host.gone = True
        if self._chance.random() < 0.5:
            host.crash()
        else:
            host.line.out = host.line.back = False
            self._cuts[host.line.name] += 1


_STRIKES: Final[Mapping[str, Callable[[FaultInjector], None]]] = {
    "scheduler dies": FaultInjector.kill_scheduler,
    "scheduler stands still": FaultInjector.pause_scheduler,
    "scheduler cut off": FaultInjector.cut_scheduler,
    "scheduler clock jumps": FaultInjector.turn_clock,
    "broker clock wobbles": FaultInjector.wobble,
    "host dies": FaultInjector.crash_host,
    "host cut off": FaultInjector.cut_host,
    "host slow": FaultInjector.slow_host,
    "gpu breaks": FaultInjector.break_gpu,
    "agent dies": FaultInjector.kill_agent,
    "agent stands still": FaultInjector.pause_agent,
    "lies": FaultInjector.lie,
    "garbage": FaultInjector.litter,
    "torn snapshot": FaultInjector.tear_snapshot,
    "orders": FaultInjector.order,
    "second thoughts": FaultInjector.change_mind,
    "quotas change": FaultInjector.change_quota,
    "torn commit": FaultInjector.tear_commit,
}
