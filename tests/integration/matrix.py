"""One death at one moment of a gang's life, and the judge.

The judge is the training program's own log of steps: whose death is nothing to the programs costs
no step, anybody else's at most one checkpoint interval; and no GPU ever runs two members.
GANGLINE_MOMENTS=all (`make chaos-agents`) tries every victim at every moment; without it each
victim dies once on each bus, and each moment is met.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.cli import local_postgres
from gangline.cli import stack as stacks
from gangline.client import Client
from tests.integration.moments import MOMENTS, OF_THE_JOB, OTHER, VICTIMS, mend, settle
from tests.integration.training import MOST_LOST, Training, judge_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Cell = tuple[str, str]
"""A moment and a victim."""

ONLY_ON_KAFKA: Final = {"broker", "cable"}
POLICY: Final = {"unready_for": 1_000, "quarantine_after": 1_000}
"""A node whose supervisor died soon after a start is suspected: here not for ten minutes."""


def cells(bus: str, chosen: Sequence[Cell]) -> list[Cell]:
    """Who dies when: those, or where it is asked for, all that there can be."""
    if os.environ.get("GANGLINE_MOMENTS") != "all":
        return list(chosen)
    every = [(moment, victim) for moment in MOMENTS for victim in VICTIMS]
    return [cell for cell in every if _can_be(bus, *cell)]


def _can_be(bus: str, moment: str, victim: str) -> bool:
    """Before the start and after the end a job has nobody to kill."""
    if victim in OF_THE_JOB:
        return moment not in {"preparing", "ended"}
    return bus == "kafka" or victim not in ONLY_ON_KAFKA


@contextmanager
def stack_on(bus: str) -> Iterator[Training]:
    """A stack for all that happens on a bus."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-moments-"))
    folder.chmod(0o711)  # Postgres runs as another account where the tests run as root
    try:
        yield Training(folder, bus, agents=3, **POLICY)
    finally:
        stacks.down(folder)
        local_postgres.remove(folder / "postgres")
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def one_death(training: Training, moment: str, victim: str) -> None:
    """A training run in which somebody dies, and is started again, as systemd would."""
    training.call(f"{moment}-{victim}")
    try:
        _one_death(training, moment, victim)
    finally:
        _tidy(training)


def _one_death(training: Training, moment: str, victim: str) -> None:
    costs = victim in OF_THE_JOB and moment != "grace"
    attempts = 1 + (costs or moment == "grace")
    with training.behind_proxy(OTHER) if victim == "cable" else nullcontext():
        with MOMENTS[moment](training):
            VICTIMS[victim](training)
            if moment in {"running", "saving"} and not costs:
                training.advance(12)
        mend(training, victim)
        settle(training, moment, attempts=attempts)
        steps = training.finish()

    training.judge(most_lost=MOST_LOST if victim in OF_THE_JOB else 0)
    judge_gpus(training.folder)
    _judge_attempts(training, moment, attempts)
    print(f"{moment}-{victim}: {steps} steps, attempts {training.attempts()}")


def _judge_attempts(training: Training, moment: str, attempts: int) -> None:
    """Nobody healthy was started again, and nobody was evicted who did not have to be."""
    assert set(training.attempts()) <= set(range(1, attempts + 1))
    with Client(training.stack.url) as client:
        job = client.job(training.name)
    assert job["attempts"] == attempts, job
    assert job["preemptions"] == (moment == "grace"), job


def _tidy(training: Training) -> None:
    """What a failed test leaves behind is no burden for the next."""
    training.mend()
    with Client(training.stack.url) as client:
        for row in list(client.pages("/v1/jobs")):
            if row["state"] not in {"succeeded", "failed", "cancelled", "rejected"}:
                client.cancel(row["job"])
