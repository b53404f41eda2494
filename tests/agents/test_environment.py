"""The environment of ranks: what PyTorch, Slurm's friends and JAX look for."""

from __future__ import annotations

import pytest

from gangline.agents import environment, hostlist
from gangline.events.spec import CheckpointSpec, Launch
from tests.agents import make

PLACE = environment.Place(
    node="n1",
    token="t",
    checkpoint_dir="/c/job/attempt-2",
    notice_file="/a/notice.json",
    progress_file="/a/progress",
    hostfile="/a/hostfile",
    base={"PATH": "/bin"},
    user={"LR": "0.1", "RANK": "mine", "PATH": "/opt/bin"},
)


def _second_of_two(launcher: str, *families: str) -> list[dict[str, str]]:
    """The ranks of the second node of a gang with 4 and 2 GPUs."""
    spec = make.spec(gpus=6, launch=Launch(launcher=launcher, env_compat=families or ("torch",)))
    order = make.member(
        attempt=2,
        gpus=(3, 5),
        nodes=("n0", "n1"),
        gpus_by_node=(4, 2),
        member=1,
        spec=spec,
        address="10.0.0.1",
        port=20_001,
        number=17,
    )
    return environment.of_ranks(order, PLACE)


def test_one_process_a_gpu_counts_ranks_by_gpus() -> None:
    """The second node's ranks follow the first's; each sees all GPUs of its node."""
    ranks = _second_of_two("per-gpu")

    assert [rank["RANK"] for rank in ranks] == ["4", "5"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1"]
    assert {rank["CUDA_VISIBLE_DEVICES"] for rank in ranks} == {"3,5"}
    words = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR")
    assert [ranks[0][word] for word in words] == ["6", "2", "1", "1", "10.0.0.1"]


def test_one_process_a_node_counts_ranks_by_nodes() -> None:
    """The program makes what it wants of its GPUs."""
    (rank,) = _second_of_two("per-node")

    words = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [rank[word] for word in words] == ["1", "2", "0", "1"]


def test_torchrun_is_told_by_its_own_variables_and_nothing_else() -> None:
    """RANK of ours would be taken for its workers'."""
    (rank,) = _second_of_two("torchrun")

    assert rank["PET_NNODES"] == "2"
    assert rank["PET_NPROC_PER_NODE"] == "2"
    assert rank["PET_MASTER_PORT"] == "20001"
    assert "WORLD_SIZE" not in rank


def test_raw_gets_its_gpus_and_no_rendezvous() -> None:
    """Whoever asks for raw finds its own way, by GANGLINE_* and the hostfile."""
    (rank,) = _second_of_two("raw")

    assert rank["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert rank["GANGLINE_HOSTFILE"] == "/a/hostfile"
    assert "MASTER_ADDR" not in rank


def test_the_users_variables_go_before_the_machines_and_ours_before_all() -> None:
    """Nobody can forge its rank by mistake."""
    ranks = _second_of_two("per-gpu")

    assert (ranks[0]["PATH"], ranks[0]["LR"], ranks[0]["RANK"]) == ("/opt/bin", "0.1", "4")


def test_the_attempt_stands_in_run_id_and_checkpoint_folder() -> None:
    """A store or a folder of the attempt before is never met again."""
    ranks = _second_of_two("per-gpu")

    assert ranks[0]["TORCHELASTIC_RUN_ID"] == "job.2"
    assert ranks[0]["GANGLINE_CHECKPOINT_DIR"].endswith("attempt-2")


def test_a_spec_may_name_its_own_variables_for_saving_and_resuming() -> None:
    """Programs that have such names already need no change."""
    checkpoint = CheckpointSpec(
        interval_ms=90_000, directory_variable="SAVE_TO", resume_variable="LOAD_FROM"
    )
    order = make.member(spec=make.spec(checkpoint=checkpoint), resume_path="/c/old", resume_step=40)

    (rank,) = environment.of_ranks(order, PLACE)

    assert (rank["SAVE_TO"], rank["LOAD_FROM"]) == ("/c/job/attempt-2", "/c/old")
    assert rank["GANGLINE_RESUME_STEP"] == "40"
    assert rank["GANGLINE_CHECKPOINT_INTERVAL_S"] == "90"


def test_slurm_variables_match_the_processes_really_started() -> None:
    """Lightning counts tasks, and raises where their number is not said."""
    ranks = _second_of_two("per-gpu", "slurm")

    words = ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID")
    assert [ranks[1][word] for word in words] == ["6", "5", "1", "1", "17"]
    assert ranks[1]["SLURM_TASKS_PER_NODE"] == "4,2"
    assert ranks[1]["SLURM_NODELIST"] == "n[0-1]"
    assert "SLURM_NTASKS_PER_NODE" not in ranks[1]


def test_slurm_names_the_tasks_of_each_node_where_they_are_equal() -> None:
    """One process a node, whatever the GPUs."""
    (rank,) = _second_of_two("per-node", "slurm")

    assert (rank["SLURM_NTASKS"], rank["SLURM_NTASKS_PER_NODE"]) == ("2", "1")


def test_jax_is_told_its_coordinator_and_place() -> None:
    """As jax.distributed.initialize takes them."""
    ranks = _second_of_two("per-gpu", "jax")

    words = ("JAX_COORDINATOR_ADDRESS", "SLURM_NTASKS", "SLURM_PROCID", "JAX_LOCAL_DEVICE_IDS")
    assert [ranks[1][word] for word in words] == ["10.0.0.1:20001", "6", "5", "1"]


def test_one_jax_process_a_node_has_all_devices_of_it() -> None:
    """Left alone it would take the one of its local rank."""
    (rank,) = _second_of_two("per-node", "jax")

    assert rank["JAX_LOCAL_DEVICE_IDS"] == "0,1"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("n1", "n2", "n3"), "n[1-3]"),
        (("n1", "n2", "n4"), "n[1-2,4]"),
        (("n08", "n09", "n10"), "n[08-09],n10"),
        (("n9", "n10"), "n[9-10]"),
        (("s0-b0-n0", "s0-b0-n1", "s0-b1-n0"), "s0-b0-n[0-1],s0-b1-n0"),
        (("alpha", "beta"), "alpha,beta"),
        (("n2", "n1"), "n[2,1]"),
    ],
)
def test_names_are_put_together_in_their_order(names: tuple[str, ...], text: str) -> None:
    """Ranks follow the list, so it is never sorted."""
    assert hostlist.compress(names) == text


def test_equal_neighbours_are_counted_together() -> None:
    """As in SLURM_TASKS_PER_NODE."""
    assert hostlist.repeat((8, 8, 4)) == "8(x2),4"
