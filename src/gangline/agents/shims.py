"""Commands that programs written for Slurm call, for jobs that ask for `env_compat: slurm`.

Lightning runs `scontrol requeue` when it is told to stop; here the scheduler queues the job again
by itself, so that it is enough to say yes. `scontrol show hostnames` lists the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from gangline.events.batch import AssignedMember

_SCONTROL: Final = """#!/bin/sh
case "$1 $2" in
"show hostnames") printf '%s\\n' "$GANGLINE_NODES" | tr , '\\n' ;;
"requeue "*) echo "gangline queues this job again by itself" >&2 ;;
*) echo "scontrol: Gangline knows 'show hostnames' and 'requeue' only" >&2; exit 1 ;;
esac
"""


def put(order: AssignedMember, folder: Path) -> Path | None:
    """A folder with the commands for the job's PATH; None where it does not ask for them."""
    if "slurm" not in order.spec.launch.env_compat:
        return None
    folder.mkdir(exist_ok=True)
    command = folder / "scontrol"
    command.write_text(_SCONTROL)
    command.chmod(0o755)
    return folder
