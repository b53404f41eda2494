"""The container driver: a rank's words wrapped in the command line of docker or podman.

The client runs as the rank, so that output, signals (docker forwards them) and the exit code are
those of the container; what the client leaves is removed by name at the end.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangline.agents.private import Run
    from gangline.agents.settings import AgentSettings
    from gangline.events.batch import AssignedMember


def name(order: AssignedMember, rank: int) -> str:
    """The name of a rank's container."""
    digest = hashlib.blake2b(order.job.encode(), digest_size=8).hexdigest()
    return f"gangline-{digest}-{order.attempt}-{rank}"


def wrap(
    order: AssignedMember,
    run: Run,
    env: Mapping[str, str],
    settings: AgentSettings,
    *,
    rank: int,
) -> tuple[str, ...]:
    """The words that run a rank in its image. Values of variables stay out of the command line."""
    words = [*settings.container, "run", "--rm", "--init", "--network=host", "--ipc=host"]
    words += ["--name", name(order, rank)]
    for variable in sorted(set(env) - {"PATH", "HOME", "LD_LIBRARY_PATH"}):
        words += ["--env", variable]
    # Its own files, and the checkpoints of this job's attempts; nothing of other jobs.
    own = Path(env["GANGLINE_HOSTFILE"]).parent
    saved = Path(env["GANGLINE_CHECKPOINT_DIR"]).parent
    for folder in (own, saved):
        words += ["--volume", f"{folder}:{folder}"]
    if run.workdir:
        words += ["--volume", f"{run.workdir}:{run.workdir}", "--workdir", run.workdir]
    if run.user:
        words += ["--user", run.user]
    if settings.gpus is None:
        words += ["--gpus", f'"device={",".join(map(str, order.gpus))}"']
    return (*words, order.spec.launch.container_image, *run.argv)


def cleanup(order: AssignedMember, settings: AgentSettings) -> tuple[str, ...]:
    """The words that remove every container of an attempt here; empty where it has none."""
    if not order.spec.launch.container_image:
        return ()
    ranks = range(order.first_rank, order.first_rank + max(1, len(order.gpus)))
    names = {name(order, rank) for rank in ranks} | {name(order, order.member)}
    return (*settings.container, "rm", "--force", *sorted(names))
