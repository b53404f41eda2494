"""Random lives of a small cell: everything that may happen does, by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from gangline.events import facts as f
from gangline.events.batch import Edge
from gangline.scheduler import core
from gangline.scheduler.core.lifecycle import Phase
from tests.core import make

FLEET = {"s0/b0": 2, "s0/b1": 2, "s1/b2": 2}
POLICY = {
    "min_runtime": make.MINUTE,
    "large_gang_gpus": 24,
    "large_gang_wait_bound": make.HOUR,
    "hold_after": 2,
    "unready_for": make.MINUTE,
    "quarantine_for": make.MINUTE,
}
TEAMS = [
    make.team("p", 32),
    make.team("a", 16, parent="p"),
    make.team("b", 8, parent="p", lend=4),
    make.team("c", 16, borrow=16),
]


class Life:
    """A cell and what a seed does to it. models: whether its nodes are of two GPU models."""

    def __init__(self, seed: int, *, models: bool = False) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a seeded draw
        self.world = make.world(nodes=FLEET, teams=TEAMS)
        self.world.step(f.PolicySet(values=POLICY))
        self.count = 0
        self.deeds: list[Callable[[], list[Any]]] = [
            *[self.submit] * 4,
            *[self.members] * 12,
            self.ask,
            self.operate,
            self.fail,
        ]
        self.models = models
        if models:
            self.world.step(*(f.NodeWithdrawn(node=f"n{index}") for index in range(6)))
            self.world.step(*(self.admitted(f"n{index}") for index in range(6)))
            self.world.step(make.team("a", by_model={"x": 8}), make.team("c", by_model={"y": 4}))
            self.deeds += [self.change_models] * 2

    def run(self, steps: int) -> make.World:
        """So many steps more."""
        for _ in range(steps):
            self.step()
        return self.world

    def step(self) -> None:
        """A few things happen at one time, or only time passes."""
        world, chance = self.world, self.chance
        wake = core.next_wake(world.state)
        if wake is not None and chance.random() < 0.4:
            world.now_ms = max(world.now_ms, min(wake, world.now_ms + make.HOUR))
        else:
            world.later(chance.choice([0, 1, make.SECOND, make.MINUTE, 10 * make.MINUTE]))
        bodies = [body for _ in range(chance.randrange(4)) for body in chance.choice(self.deeds)()]
        edges = self.edges() if chance.random() < 0.1 else []
        world.step(*bodies, edges=edges, caught_up=chance.random() < 0.9)

    # --- what may happen --------------------------------------------------------------------------

    def admitted(self, node: str) -> f.NodeAdmitted:
        """A node of either model, in the block where it was."""
        path = list(dict.fromkeys(p for p, count in FLEET.items() for _ in range(count)))
        where = path[int(node[1:]) // 2]
        return make.admitted(node, where, model=self.chance.choice("xy"))

    def change_models(self) -> list[Any]:
        """A guarantee of a model changes, or a node leaves and another comes in its place."""
        team, model = self.chance.choice("abcp"), self.chance.choice("xy")
        gpus = self.chance.choice([0, 2, 4, 8])
        if self.chance.random() < 0.7:
            return [make.team(team, by_model={model: gpus})]
        node = f"n{self.chance.randrange(6)}"
        return [f.NodeWithdrawn(node=node), self.admitted(node)]

    def submit(self) -> list[Any]:
        """A job, or an array of small ones."""
        chance = self.chance
        self.count += 1
        per_node = chance.choice([None, None, 1, 4, 8])
        gpus = (per_node or 1) * chance.choice([1, 2, 3, 4, 6]) * (1 if per_node else 4)
        known = [*self.world.state.jobs][:3]
        job = make.submitted(
            f"j{self.count}",
            gpus,
            team=chance.choice("aabbccp"),
            gpus_per_node=per_node,
            job_class=chance.choice([make.LOW, make.NORMAL, make.NORMAL, make.HIGH, make.URGENT]),
            limit_ms=chance.choice([None, make.HOUR, 10 * make.MINUTE]),
            grace_ms=chance.choice([None, 0, make.MINUTE]),
            retries=chance.choice([None, 0, 1]),
            preemptible=chance.random() < 0.9,
            saves=chance.random() < 0.5,
            level=chance.choice(["", "", "", "block", "spine"]),
            after=tuple(chance.sample(known, 1)) if known and chance.random() < 0.1 else (),
            count=1 if gpus > 2 else chance.choice([1, 1, 3]),
            **self.selector(),
        )
        return [job]

    def selector(self) -> dict[str, Any]:
        """What a job says of the model that it wants."""
        if not self.models:
            return {}
        return self.chance.choice([{}, {"selector": {"model": "x"}}, {"selector": {"model": "y"}}])

    def members(self) -> list[Any]:
        """A member says something of itself."""
        chance = self.chance
        holding = [*self.world.state.holding.values()]
        if not holding:
            return []
        job = chance.choice(holding)
        node = chance.choice(job.seats).node
        if node not in self.world.state.nodes:
            return []
        if job.phase is Phase.STARTING and chance.random() < 0.9:
            return [
                f.MemberReady(node=seat.node, job=job.id, attempt=job.attempt) for seat in job.seats
            ]
        if job.phase is Phase.STOPPING:
            return [self.world.exited(job.id, s.node, reason="stopped") for s in job.seats]
        if job.can_save and chance.random() < 0.5:
            return [self.world.saved(job.id, job.saved_ms + make.SECOND)]
        code, reason = chance.choice(
            [(0, "exited"), (0, "exited"), (1, "exited"), (1, "infrastructure"), (0, "not_started")]
        )
        ends = job.seats if chance.random() < 0.8 else job.seats[:1]
        return [self.world.exited(job.id, s.node, code=code, reason=reason) for s in ends]

    def ask(self) -> list[Any]:
        """Somebody wants something of a job."""
        jobs = [*self.world.state.jobs, "ghost"]
        job = self.chance.choice(jobs)
        return [
            self.chance.choice(
                [
                    f.JobCancelRequested(job=job),
                    f.JobHoldRequested(job=job),
                    f.JobHoldReleased(job=job),
                    f.JobPriorityChangeRequested(job=job, job_class=make.HIGH),
                ]
            )
        ]

    def operate(self) -> list[Any]:
        """An operator does something."""
        node = f"n{self.chance.randrange(6)}"
        return [
            self.chance.choice(
                [
                    f.NodeCordoned(node=node),
                    f.NodeUncordoned(node=node),
                    f.DrainRequested(node=node, deadline_ms=make.MINUTE),
                    f.MaintenanceScheduled(node=node, in_ms=make.HOUR, for_ms=make.MINUTE),
                    f.NodeUncordoned(node=node),
                    f.PolicySet(values={"reservations": self.chance.randrange(1, 9)}),
                    make.team("b", self.chance.choice([4, 8, 12])),
                ]
            )
        ]

    def fail(self) -> list[Any]:
        """Hardware breaks, or is well again; or a machine is started anew."""
        node, gpu = f"n{self.chance.randrange(6)}", self.chance.randrange(8)
        self.count += 1
        return [
            self.chance.choice(
                [
                    f.FaultDetected(node=node, gpu=gpu, fault="xid"),
                    f.FaultCleared(node=node, gpu=-1),
                    f.FaultCleared(node=node, gpu=-1),
                    f.NodeRegistered(node=node, boot_id=f"b{self.count}", gpus=8),
                ]
            )
        ]

    def edges(self) -> list[Edge]:
        """A node falls silent or is heard; or there is a new leader."""
        node, now_ms = f"n{self.chance.randrange(6)}", self.world.now_ms
        return [
            self.chance.choice(
                [
                    make.silent(node, now_ms),
                    make.heard(node, now_ms),
                    make.heard(node, now_ms),
                    Edge(kind="led", node="s1", at_ms=now_ms, why="takeover"),
                ]
            )
        ]
