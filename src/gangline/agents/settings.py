"""How an agent is set up."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How an agent is set up.

    bus, cell: which log. folder: the agent's own, on a local disk: journal, spool, attempts.
    gpus: how many to claim, None to ask nvidia-smi. path, levels: where the node stands in the
    fleet's tree; only believed under `auto_admit`. address: where other nodes reach this one,
    empty to find out. checkpoints: the root of all checkpoint folders, on a disk that all nodes
    share. log_address, log_port: where the logs are served (port 0: any, None: not at all);
    log_token: who has it may read them, empty for one made in the folder. health_command: run
    every health_interval_s, see health.py. supervisor_prefix: words before the supervisor's
    command (`systemd-run --scope …`). min_free_bytes: less on the folder's disk counts as a
    fault. keep_s: how long the files of ended attempts stay. lease_s, lease_grace_s: for
    at-most-one writers, together shorter than the scheduler's `lost_after`. container: the
    command line of docker or podman.
    """

    node: str
    folder: Path
    bus: str = ""
    cell: str = "default"
    gpus: int | None = None
    path: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    checkpoints: Path | None = None
    heartbeat_interval_s: float = 10.0
    watch_interval_s: float = 1.0
    log_address: str = "0.0.0.0"  # noqa: S104 - people read logs from other machines, with a token
    log_port: int | None = 0
    log_token: str = ""
    log_bytes: int = 64 * 1024 * 1024
    log_files: int = 3
    health_command: tuple[str, ...] = ()
    health_interval_s: float = 60.0
    supervisor_prefix: tuple[str, ...] = ()
    container: tuple[str, ...] = ("docker",)
    ports: tuple[int, int] = (20_000, 32_000)
    min_free_bytes: int = 64 * 1024 * 1024
    keep_s: float = 7 * 24 * 3600.0
    lease_s: float = 60.0
    lease_grace_s: float = 30.0

    @property
    def checkpoint_root(self) -> Path:
        """Where checkpoint folders are made."""
        return self.checkpoints or self.folder / "checkpoints"

    def reachable_address(self) -> str:
        """The address for others: as set, else what this host's name stands for, else loopback."""
        if self.address:
            return self.address
        try:
            return socket.gethostbyname(socket.gethostname())
        except OSError:
            return "127.0.0.1"
