"""The environment of a member's ranks: what training frameworks look for.

The words are those of PyTorch's launcher. `launcher` says which processes are started here: one a
node (`per-node`), one a GPU (`per-gpu`), one that starts its own (`torchrun`, told by PET_*), or
one that is told nothing but its GPUs (`raw`). `env_compat` adds the families that other
frameworks read; SLURM_* always match the processes that are really started, as Lightning and JAX
count them. Pure: text in, text out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gangline.agents import hostlist

if TYPE_CHECKING:
    from gangline.events.batch import AssignedMember

LAUNCHERS: Final = ("per-node", "per-gpu", "torchrun", "raw")
FAMILIES: Final = ("torch", "slurm", "jax")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a member runs.

    base: variables of the machine (PATH and the like). user: those of the spec. checkpoint_dir has
    the attempt in its path. token: what its processes are found by.
    """

    node: str
    token: str
    checkpoint_dir: str
    notice_file: str
    progress_file: str
    hostfile: str
    workdir: str = ""
    base: Mapping[str, str] = field(default_factory=dict)
    user: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The processes of the whole gang. tasks: how many on each node, in rank order."""

    tasks: tuple[int, ...]
    member: int

    @property
    def world(self) -> int:
        return sum(self.tasks)

    @property
    def local(self) -> int:
        return self.tasks[self.member]

    @property
    def first(self) -> int:
        return sum(self.tasks[: self.member])


def run_id(order: AssignedMember) -> str:
    """The id of a rendezvous: another one for each attempt, as stores remember."""
    return f"{order.job}.{order.attempt}"


def first_rank(order: AssignedMember) -> int:
    """The rank of the first process on this node."""
    return _layout(order).first


def of_ranks(order: AssignedMember, place: Place) -> list[dict[str, str]]:
    """One environment for each process to start here, in order of their ranks."""
    layout = _layout(order)
    return [
        {
            **place.base,
            **place.user,
            **_gangline(order, place),
            **_gpus(order),
            **_families(order, layout, local),
        }
        for local in range(layout.local)
    ]


def _layout(order: AssignedMember) -> _Layout:
    per_gpu = order.spec.launch.launcher == "per-gpu"
    tasks = order.gpus_by_node if per_gpu else tuple(1 for _ in order.nodes)
    return _Layout(tasks, order.member)


def _gangline(order: AssignedMember, place: Place) -> dict[str, str]:
    checkpoint = order.spec.checkpoint
    save = checkpoint.directory_variable if checkpoint else "GANGLINE_CHECKPOINT_DIR"
    resume = checkpoint.resume_variable if checkpoint else "GANGLINE_RESUME_FROM"
    found = {
        "GANGLINE_JOB": order.job,
        "GANGLINE_JOB_NUMBER": str(order.number),
        "GANGLINE_ATTEMPT": str(order.attempt),
        "GANGLINE_NODE": place.node,
        "GANGLINE_NODES": ",".join(order.nodes),
        "GANGLINE_GPUS": ",".join(map(str, order.gpus)),
        "GANGLINE_ATTEMPT_TOKEN": place.token,
        "GANGLINE_HOSTFILE": place.hostfile,
        "GANGLINE_NOTICE_FILE": place.notice_file,
        "GANGLINE_PROGRESS_FILE": place.progress_file,
        **dict.fromkeys(("GANGLINE_CHECKPOINT_DIR", save), place.checkpoint_dir),
    }
    if checkpoint:
        found["GANGLINE_CHECKPOINT_INTERVAL_S"] = f"{checkpoint.interval_ms / 1000:g}"
    if order.resume_path:
        found |= dict.fromkeys(("GANGLINE_RESUME_FROM", resume), order.resume_path)
        found["GANGLINE_RESUME_STEP"] = str(order.resume_step)
    return found


def _gpus(order: AssignedMember) -> dict[str, str]:
    """All of the member's GPUs for each of its processes; LOCAL_RANK picks, as under torchrun."""
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, order.gpus)),
    }


def _families(order: AssignedMember, layout: _Layout, local: int) -> dict[str, str]:
    launcher = order.spec.launch.launcher
    if launcher == "raw":
        return {}
    wanted = order.spec.launch.env_compat
    found = _torchrun(order) if launcher == "torchrun" else {}
    if "torch" in wanted and launcher != "torchrun":
        found |= _torch(order, layout, local)
    if "slurm" in wanted:
        found |= _slurm(order, layout, local)
    if "jax" in wanted:
        found |= _jax(order, layout, local)
    return found


def _torch(order: AssignedMember, layout: _Layout, local: int) -> dict[str, str]:
    rank, member = str(layout.first + local), str(order.member)
    world = str(layout.world)
    return {
        "MASTER_ADDR": order.address,
        "MASTER_PORT": str(order.port),
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(layout.local),
        "GROUP_RANK": member,
        "GROUP_WORLD_SIZE": str(len(order.nodes)),
        "NODE_RANK": member,
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "TORCHELASTIC_RUN_ID": run_id(order),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _torchrun(order: AssignedMember) -> dict[str, str]:
    """What a bare `torchrun script.py` takes instead of flags."""
    return {
        "PET_NNODES": str(len(order.nodes)),
        "PET_NPROC_PER_NODE": str(len(order.gpus)),
        "PET_NODE_RANK": str(order.member),
        "PET_MASTER_ADDR": order.address,
        "PET_MASTER_PORT": str(order.port),
        "PET_RDZV_ID": run_id(order),
        "PET_MAX_RESTARTS": "0",
    }


def _slurm(order: AssignedMember, layout: _Layout, local: int) -> dict[str, str]:
    nodes, count = hostlist.compress(order.nodes), str(len(order.nodes))
    tasks = hostlist.repeat(layout.tasks)
    found = {
        "SLURM_JOB_ID": str(order.number),
        "SLURM_JOBID": str(order.number),
        "SLURM_JOB_NAME": order.job,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": count,
        "SLURM_STEP_NUM_TASKS": str(layout.world),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NNODES": count,
        "SLURM_NTASKS": str(layout.world),
        "SLURM_NPROCS": str(layout.world),
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_NODEID": str(order.member),
        "SLURM_PROCID": str(layout.first + local),
        "SLURM_LOCALID": str(local),
        "SLURM_GPUS_ON_NODE": str(len(order.gpus)),
        "SLURM_RESTART_COUNT": str(max(0, order.attempt - 1)),
        "SLURMD_NODENAME": order.nodes[order.member],
    }
    if len(set(layout.tasks)) == 1:
        found["SLURM_NTASKS_PER_NODE"] = str(layout.local)
    return found


def _jax(order: AssignedMember, layout: _Layout, local: int) -> dict[str, str]:
    """JAX reads its coordinator and devices by its own names, and the rest by Slurm's."""
    devices = range(len(order.gpus)) if layout.local == 1 else (local,)
    return {
        **_slurm(order, layout, local),
        "JAX_COORDINATOR_ADDRESS": f"{order.address}:{order.port}",
        "JAX_LOCAL_DEVICE_IDS": ",".join(map(str, devices)),
        "JAX_NUM_PROCESSES": str(layout.world),
        "JAX_PROCESS_ID": str(layout.first + local),
    }


def hostfile_text(order: AssignedMember) -> str:
    """Node and slots a line, in rank order, as MPI's and DeepSpeed's launchers read it."""
    pairs = zip(order.nodes, order.gpus_by_node, strict=True)
    return "".join(f"{node} slots={gpus}\n" for node, gpus in pairs)
