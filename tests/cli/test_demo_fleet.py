"""`gangline demo`: a fleet to look at, and nothing left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from gangline.cli.local_process import free_port, port_is_free
from gangline.client import Client, JobSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _until_ready(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until it says where the page is."""
    deadline = time.monotonic() + 240
    while "The page is at" not in path.read_text(encoding="utf-8"):
        assert process.poll() is None, path.read_text(encoding="utf-8")
        assert time.monotonic() < deadline, path.read_text(encoding="utf-8")
        time.sleep(0.05)


@contextmanager
def _demo(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """One that is ready, with its port; ended at the end."""
    port, said = free_port(), tmp_path / "said"
    words = [sys.executable, "-m", "gangline.cli.main", "demo", "--port", str(port)]
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    tmp_path.chmod(0o711)  # the server runs as another account where the tests run as root
    with said.open("wb") as out:
        process = subprocess.Popen(
            [*words, "--nodes", "100"], stdout=out, stderr=subprocess.STDOUT, env=env
        )
    try:
        _until_ready(said, process)
        yield process, port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(400)  # on a busy machine its week takes minutes to make
def test_a_newcomer_sees_a_busy_fleet(tmp_path: Path) -> None:
    """It has a past, takes a job, ends when told to, and takes its folder with it."""
    with _demo(tmp_path) as (process, port), Client(f"http://127.0.0.1:{port}") as client:
        fleet = client.request("GET", "/v1/summary")["fleet"]
        assert (fleet["nodes"], fleet["total"]) == (100, 800)
        assert fleet["held"] > fleet["total"] // 2
        assert len(list(client.pages("/v1/faults"))) > 3
        asked = client.submit(JobSpec(team="vision", gpus=1, priority="urgent"), key="mine")
        job = client.job("mine", min_position=asked.position)
        assert job["state"] in {"queued", "starting", "running"}
    assert process.returncode == 0
    assert not list(tmp_path.glob("gangline-demo-*"))


@pytest.mark.slow
def test_a_demo_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    """Its servers are watched by guards that outlive it."""
    with _demo(tmp_path) as (process, port):
        process.kill()
        process.wait(30)

        deadline = time.monotonic() + 30
        while not port_is_free(port):
            assert time.monotonic() < deadline, "the API still listens"
            time.sleep(0.05)
