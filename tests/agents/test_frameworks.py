"""Lightning's and JAX's own detection code reads the environment that ranks are given.

It runs in a Python that has them, which GANGLINE_FRAMEWORKS_PYTHON names; they are not among the
dependencies, so where there is none these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from gangline.agents import environment
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.test_environment import PLACE

_LIGHTNING = """
import json
from lightning_fabric.plugins.environments import SLURMEnvironment as Slurm
assert Slurm.detect()
slurm = Slurm()
print(json.dumps([slurm.world_size(), slurm.global_rank(), slurm.local_rank(), slurm.node_rank(),
                  slurm.main_address, slurm.main_port]))
"""
_TORCHELASTIC = """
import json
from lightning_fabric.plugins.environments import TorchElasticEnvironment as Torch
assert Torch.detect()
torch = Torch()
print(json.dumps([torch.world_size(), torch.global_rank(), torch.local_rank(), torch.node_rank(),
                  torch.main_address, torch.main_port]))
"""
_JAX = """
import json, os
from jax._src.clusters import ClusterEnv
address = os.environ["JAX_COORDINATOR_ADDRESS"]
found = ClusterEnv.auto_detect_unset_distributed_params(address, None, None, None, None, 5)
print(json.dumps(found))
"""


def _asked(module: str, program: str, *families: str) -> list[Any]:
    """What the framework reads in the last rank of the second of two nodes with two GPUs."""
    python = os.environ.get("GANGLINE_FRAMEWORKS_PYTHON", "")
    if not python or subprocess.run([python, "-c", f"import {module}"], check=False).returncode:
        pytest.skip(f"no Python with {module} here (GANGLINE_FRAMEWORKS_PYTHON names one)")
    spec = make.spec(gpus=4, launch=Launch(launcher="per-gpu", env_compat=families))
    order = make.member(
        gpus=(0, 1),
        nodes=("n0", "n1"),
        member=1,
        spec=spec,
        address="10.0.0.1",
        port=20_001,
        number=123_456,
    )
    env = environment.of_ranks(order, PLACE)[1]
    done = subprocess.run(
        [python, "-W", "ignore", "-c", program], env=env, capture_output=True, text=True, check=True
    )
    answer: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_lightning_finds_its_place_by_slurm() -> None:
    """It prefers Slurm's words, and takes address and port from MASTER_*."""
    answer = _asked("lightning_fabric", _LIGHTNING, "torch", "slurm")

    assert answer == [4, 3, 1, 1, "10.0.0.1", 20_001]


def test_lightning_finds_its_place_by_torchelastic() -> None:
    """By default, without any word of Slurm's."""
    answer = _asked("lightning_fabric", _TORCHELASTIC, "torch")

    assert answer == [4, 3, 1, 1, "10.0.0.1", 20_001]


def test_jax_finds_its_place() -> None:
    """As its initialize() does: address, processes, own number, devices."""
    assert _asked("jax", _JAX, "jax") == ["10.0.0.1:20001", 4, 3, [1]]
