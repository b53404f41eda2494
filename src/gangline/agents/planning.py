"""From an order to a supervisor's plan.

Which processes, with which environment, in which folders.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from gangline.agents import cgroups, container, environment
from gangline.agents import plan as files
from gangline.agents.attempts import folder_name
from gangline.agents.core import Key
from gangline.agents.private import PrivateError, Run, open_order
from gangline.agents.shims import put

if TYPE_CHECKING:
    from gangline.agents.private import Unseal
    from gangline.agents.settings import AgentSettings
    from gangline.events.batch import AssignedMember

_log = structlog.get_logger(__name__)

ROOT_VARIABLE: Final = "GANGLINE_CHECKPOINT_ROOT"
_KEPT_VARIABLES: Final = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "USER",
    "LOGNAME",
    "SHELL",
)
"""What ranks take over from the agent's own environment; the rest may be secret."""


class Planner:
    """Makes plans by an agent's settings. unseal: opens sealed private parts, None for none."""

    def __init__(self, settings: AgentSettings, unseal: Unseal | None) -> None:
        self._settings = settings
        self._unseal = unseal

    def plan(self, order: AssignedMember, folder: Path, token: str) -> files.Plan:
        """Everything the supervisor needs; PrivateError when the private part cannot be read."""
        run = open_order(order, self._unseal)
        image = order.spec.launch.container_image
        return files.Plan(
            token=token,
            ranks=self._ranks(order, run, folder, token),
            workdir="" if image else run.workdir,
            user="" if image else run.user,
            cleanup=container.cleanup(order, self._settings),
            log_bytes=self._settings.log_bytes,
            log_files=self._settings.log_files,
            stuck_ms=int(self._settings.stuck_s * 1000),
            cgroup=str(self.make_cgroup(folder) or ""),
            checkpoints=str(self.checkpoint_folder(order)),
            checkpoints_named=ROOT_VARIABLE in run.env,
        )

    def _ranks(
        self, order: AssignedMember, run: Run, folder: Path, token: str
    ) -> tuple[files.RankPlan, ...]:
        first = environment.first_rank(order)
        place = self._place(order, run, folder, token)
        environments = environment.of_ranks(order, place)
        shims = put(order, folder / files.OPEN_FOLDER / "bin")
        for env in environments if shims else ():
            env["PATH"] = f"{env.get('PATH', os.defpath)}:{shims}"
        return tuple(
            files.RankPlan(
                rank=rank,
                argv=self._argv(order, run, env, rank),
                env=env,
                out=str(folder / f"rank-{rank}.out"),
                err=str(folder / f"rank-{rank}.err"),
            )
            for rank, env in enumerate(environments, start=first)
        )

    def _argv(
        self, order: AssignedMember, run: Run, env: dict[str, str], rank: int
    ) -> tuple[str, ...]:
        if not order.spec.launch.container_image:
            return run.argv
        return container.wrap(order, run, env, self._settings, rank=rank)

    def _place(
        self, order: AssignedMember, run: Run, folder: Path, token: str
    ) -> environment.Place:
        own = folder / files.OPEN_FOLDER
        hostfile = own / "hostfile"
        hostfile.write_text(environment.hostfile_text(order))
        return environment.Place(
            node=self._settings.node,
            token=token,
            checkpoint_dir=str(self.checkpoint_folder(order)),
            notice_file=str(own / files.NOTICE),
            progress_file=str(own / files.PROGRESS),
            hostfile=str(hostfile),
            base={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            user=run.env,
        )

    def make_cgroup(self, folder: Path) -> Path | None:
        """The attempt's own, None where there is none."""
        parent, most = self._settings.cgroup, self._settings.most_processes
        if parent is None:
            return None
        group = cgroups.make(parent, folder.name, most_processes=most)
        if group is None:
            _log.warning("no_cgroup", parent=str(parent))
        elif most and not cgroups.is_limited(group):
            _log.warning("processes_not_limited", cgroup=str(group), wanted=most)
        return group

    def checkpoint_folder(self, order: AssignedMember) -> Path:
        """Where the attempt saves: under the job's own root if its environment names one."""
        root = self._settings.checkpoint_root
        with contextlib.suppress(PrivateError):
            run = open_order(order, self._unseal)
            root = Path(run.workdir or "/") / run.env.get(ROOT_VARIABLE, root)
        job, attempt = folder_name(Key(order.job, order.attempt)).rsplit(".", 1)
        return root / job / f"attempt-{attempt}"
