"""What the demo submits, and what must have come of it: real processes of two teams on four nodes.

The fleet has four nodes of eight GPUs. First come small jobs and a gang of two nodes that adds up
numbers over its rendezvous address. Then `train` (two nodes), `patient` (low) and `steady` fill the
fleet, so that `urgent` has to preempt, and the cheapest victim is `patient`. Later a node of
`train` dies.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gangline.client import JobSpec

TEAMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "vision": {"guaranteed": 16, "borrow": "unlimited", "lend": "unlimited"},
    "speech": {"guaranteed": 16, "borrow": "unlimited", "lend": "unlimited"},
}
# Everything happens faster than on a real fleet, so that it can be watched.
POLICY: Final[Mapping[str, int]] = {
    "heartbeat_interval": 1_000,
    "suspect_after": 3_000,
    "lost_after": 6_000,
    "start_timeout": 20_000,
    "preemption_grace": 5_000,
    "min_runtime": 2_000,
    "min_runtime_max": 5_000,
    "crash_loop_under": 1_000,
    "crash_loop_backoff": 500,
    "cause_interval": 500,
}
EXAMPLES: Final = Path(__file__).parents[3] / "examples"


def _program(name: str, *words: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / name), *words]


def _train(steps: int, *words: str) -> list[str]:
    """A program that counts, ten steps a second."""
    return _program("train_counter.py", "--steps", str(steps), "--step-s", "0.1", *words)


def _small(index: int) -> JobSpec:
    team = "vision" if index % 2 else "speech"
    return JobSpec(team=team, gpus=1 + index % 2, command=_train(10 + 3 * index), name="small")


FIRST: Final[Mapping[str, JobSpec]] = {
    **{f"small-{index}": _small(index) for index in range(1, 7)},
    "ring": JobSpec(
        team="vision", gpus=4, gpus_per_node=2, command=_program("allreduce.py"), name="ring"
    ),
    "flaky": JobSpec(
        team="speech", gpus=1, retries=2, command=_train(20, "--fail-at", "8"), name="flaky"
    ),
    "mistake": JobSpec(team="vision", gpus=1, command=["sleep", "600"], name="mistake"),
}
SECOND: Final[Mapping[str, JobSpec]] = {
    "train": JobSpec(
        team="speech", gpus=16, gpus_per_node=8, checkpoint="1s", priority="high",
        command=_train(280), name="train",
    ),
    "patient": JobSpec(
        team="vision", gpus=8, gpus_per_node=8, checkpoint="2s", priority="low",
        command=_train(120), name="patient",
    ),
    "steady": JobSpec(
        team="vision", gpus=8, gpus_per_node=8, command=_train(110), name="steady"
    ),
}  # fmt: skip
LAST: Final[Mapping[str, JobSpec]] = {
    "urgent": JobSpec(
        team="vision", gpus=8, gpus_per_node=8, priority="urgent", command=_train(30), name="urgent"
    ),
}
IMPOSSIBLE: Final = JobSpec(team="vision", gpus=4_096, command=["true"], name="impossible")

Job = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that the demo shows. kept: whether it came about."""

    words: str
    kept: bool


def promises(
    jobs: Mapping[str, Job], *, dead_node: str, leaders: Sequence[str], ring_said: str
) -> list[Promise]:
    """What must have come about.

    jobs: rows by name, each with its attempts. leaders: in order. ring_said: its output.
    """
    ok = {name: job["state"] == "succeeded" for name, job in jobs.items()}
    train, flaky = jobs["train"]["attempts_list"], jobs["flaky"]
    return [
        Promise("all small jobs succeeded", all(ok[n] for n in jobs if n.startswith("small"))),
        Promise(
            "ring added up 1 + 2 over its rendezvous on two nodes",
            ok["ring"] and len(jobs["ring"]["nodes"]) == 2 and "the sum is 3" in ring_said,
        ),
        Promise("flaky failed once and succeeded again", ok["flaky"] and flaky["attempts"] == 2),
        Promise("mistake was cancelled", jobs["mistake"]["state"] == "cancelled"),
        Promise("impossible was rejected at once", jobs["impossible"]["state"] == "rejected"),
        Promise("urgent preempted patient", ok["urgent"] and jobs["patient"]["preemptions"] >= 1),
        Promise(
            "patient resumed from its checkpoint and succeeded",
            ok["patient"] and (jobs["patient"]["attempts_list"][-1]["resumed_s"] or 0) > 0,
        ),
        Promise("steady was left alone", ok["steady"] and jobs["steady"]["preemptions"] == 0),
        Promise(
            f"{dead_node} died, and train resumed elsewhere from its checkpoint",
            ok["train"] and _moved(train, dead_node),
        ),
        Promise("the standby took over from the dead leader", len(set(leaders)) >= 2),
    ]


def _moved(attempts: Sequence[Mapping[str, Any]], dead_node: str) -> bool:
    """Whether an attempt stood on the node, and the last one resumed without it."""
    on_it = any(dead_node in nodes_of(attempt) for attempt in attempts[:-1])
    last = attempts[-1]
    return on_it and dead_node not in nodes_of(last) and (last["resumed_s"] or 0) > 0


def nodes_of(attempt: Mapping[str, Any]) -> list[str]:
    """The nodes of an attempt, in rank order."""
    return [str(seat["node"]) for seat in attempt["seats"]]
