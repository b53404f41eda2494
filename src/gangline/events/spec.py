"""What a user asks for: the spec of a job, as it stands in JobSubmitted and JobQueued.

The public part is what the scheduler and everybody else may read, at most `MAX_SPEC_BYTES` encoded.
The private part (command, environment, working directory, user) is opaque to the core: clear JSON
when `key_id` is empty, else sealed with a key that lives outside the log, so that destroying the
key erases a person's text while every digest still holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

MAX_SPEC_BYTES: Final = 64 * 1024
MAX_NAME_CHARACTERS: Final = 128
UNLIMITED: Final = -1


class JobClass(IntEnum):
    """Priority classes, lowest first. The number is the order and what stands in the log."""

    LOW = 0
    NORMAL = 1
    HIGH = 2
    URGENT = 3

    @property
    def word(self) -> str:
        """The class as users write it."""
        return self.name.lower()


class TopologyKind(StrEnum):
    """How strictly a gang must stay within one domain of a level."""

    ANY = "any"
    PREFERRED = "preferred"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Where a gang may stand. level: the name of a level of the fleet's tree; empty with ANY."""

    kind: TopologyKind = TopologyKind.ANY
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """How a job saves its work. interval_ms: at most so much productive time between two saves."""

    interval_ms: int
    directory_variable: str = "GANGLINE_CHECKPOINT_DIR"
    resume_variable: str = "GANGLINE_RESUME_FROM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the processes of a member are started and told to stop.

    launcher: `per-node`, `per-gpu`, `torchrun` or `raw`. env_compat: which families of variables to
    export (`torch`, `slurm`, `jax`). stop_signal: sent first, `TERM` by default. stop_lead_ms: how
    long before the end of the grace it is sent at the latest (0: at once). progress_timeout_ms:
    without a sign of progress for so long, the attempt counts as hung (None: not watched).
    at_most_one_writer: members stop by themselves when they have not heard from the log for the
    lease.
    """

    launcher: str = "per-node"
    env_compat: tuple[str, ...] = ("torch",)
    stop_signal: str = "TERM"
    stop_lead_ms: int = 0
    progress_timeout_ms: int | None = None
    at_most_one_writer: bool = False
    container_image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """Command, environment, working directory and user.

    JSON `{command, env, workdir, user}`, clear or sealed.

    key_id: empty for clear text. nonce: empty for clear text.
    """

    key_id: str = ""
    nonce: bytes = b""
    ciphertext: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The spec of a job.

    gpus: of the whole gang. gpus_per_node: exactly so many on each node, None for any split.
    limit_ms: the user's declared maximum, None for none. grace_ms: between the stop signal and
    SIGKILL, None for the policy's. retries: restarts after the user's own failures, None for the
    policy's. after: ids of jobs whose success it waits for. count: tasks of an array, 1 for a plain
    job. selector: node labels that must be equal (`model`, `pool`). labels: free text of the
    user's, for filters.
    """

    team: str
    gpus: int
    gpus_per_node: int | None = None
    job_class: JobClass = JobClass.NORMAL
    limit_ms: int | None = None
    checkpoint: CheckpointSpec | None = None
    grace_ms: int | None = None
    topology: Topology = field(default_factory=Topology)
    retries: int | None = None
    after: tuple[str, ...] = ()
    count: int = 1
    preemptible: bool = True
    selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    launch: Launch = field(default_factory=Launch)
    private: Private = field(default_factory=Private)


def jobs_of(job: str, spec: Spec) -> list[str]:
    """The jobs that a submission makes: itself, or the tasks of an array, `JOB.1` and on."""
    return [job] if spec.count == 1 else [f"{job}.{task}" for task in range(1, spec.count + 1)]
