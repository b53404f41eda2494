"""How an agent is set up."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How an agent is set up.

    bus, cell: which log. folder: the agent's own, on a local disk: journal, spool, attempts. gpus:
    how many to claim, None to ask nvidia-smi. path, levels: where the node stands in the fleet's
    tree; only believed under `auto_admit`. address: where other nodes reach this one, empty to
    find out. checkpoints: the root of all checkpoint folders, on a disk that all nodes share.

    log_address, log_port: where the logs are served (port 0: any, None: not at all). log_token:
    who has it may read them, empty for one made in the folder. log_bytes, log_files: when a log is
    rotated, and how many old parts are kept. keep_s: how long the files of ended attempts stay.

    health_command: run every health_interval_s, see health.py. check_command: the same before a
    member is stated ready, with GANGLINE_GPUS; within check_s. memory_test: a Python with PyTorch
    and CUDA, which writes and reads the memory of the member's GPUs then; empty for none.
    min_free_bytes: less on the folder's disk counts as a fault; min_free_memory_bytes: less memory.
    max_skew_s: how far this clock and that of the checkpoints' disk may be apart. stuck_s: who
    survives SIGKILL for so long makes the node faulty. lease_s, lease_grace_s: for at-most-one
    writers, together shorter than the scheduler's `lost_after`.

    seal_keys: the folder of keys that open sealed private parts of specs, None for no key.
    start_spread_s: it comes up within this, by chance, so that a fleet after a power cut does not
    meet the log at once.

    supervisor_prefix: words before the supervisor's command (`systemd-run --scope …`). container:
    the command line of docker or podman. cgroup: a folder of cgroup v2 that is ours, for one group
    an attempt below it, of most_processes (0: as many as it likes). ports: first and end of the
    range for rendezvous. metrics_port: where Prometheus metrics are served (None: nowhere).
    job_mapping: dcgm-exporter's folder, see dcgm.py.
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
    check_command: tuple[str, ...] = ()
    check_s: float = 60.0
    memory_test: tuple[str, ...] = ()
    supervisor_prefix: tuple[str, ...] = ()
    container: tuple[str, ...] = ("docker",)
    cgroup: Path | None = None
    most_processes: int = 16_384
    stuck_s: float = 60.0
    ports: tuple[int, int] = (20_000, 32_000)
    min_free_bytes: int = 64 * 1024 * 1024
    min_free_memory_bytes: int = 256 * 1024 * 1024
    max_skew_s: float = 10.0
    keep_s: float = 7 * 24 * 3600.0
    seal_keys: Path | None = None
    start_spread_s: float = 0.0
    lease_s: float = 60.0
    lease_grace_s: float = 30.0
    metrics_port: int | None = None
    job_mapping: Path | None = None

    def anchored(self) -> Self:
        """The same with absolute paths: supervisors do not share our working directory."""
        return replace(
            self, folder=self.folder.absolute(), checkpoints=self.checkpoint_root.absolute()
        )

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
