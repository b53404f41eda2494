"""`gangline demo`: a fleet to look at, and nothing left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gangline.cli.local_process import free_port
from gangline.client import Client, JobSpec

if TYPE_CHECKING:
    from pathlib import Path


def _until_ready(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until it says where the page is."""
    deadline = time.monotonic() + 90
    while "The page is at" not in path.read_text(encoding="utf-8"):
        assert process.poll() is None, path.read_text(encoding="utf-8")
        assert time.monotonic() < deadline, path.read_text(encoding="utf-8")
        time.sleep(0.05)


@pytest.mark.slow
def test_a_newcomer_sees_a_busy_fleet(tmp_path: Path) -> None:
    """It has a past, takes a job, ends when told to, and takes its folder with it."""
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
        with Client(f"http://127.0.0.1:{port}") as client:
            fleet = client.request("GET", "/v1/summary")["fleet"]
            assert (fleet["nodes"], fleet["total"]) == (100, 800)
            assert fleet["held"] > fleet["total"] // 2
            assert len(list(client.pages("/v1/faults"))) > 3
            asked = client.submit(JobSpec(team="vision", gpus=1, priority="urgent"), key="mine")
            job = client.job("mine", min_position=asked.position)
            assert job["state"] in {"queued", "starting", "running"}
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 0
    assert not list(tmp_path.glob("gangline-demo-*"))
