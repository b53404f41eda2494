"""docker-compose.yml describes a whole cell, and Docker can read it where there is Docker."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.support.sources import ROOT

COMPOSE = ROOT / "docker-compose.yml"


def _services() -> dict[str, Any]:
    """Read the services, with their anchors resolved."""
    loaded = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    services: dict[str, Any] = loaded["services"]
    return services


def test_the_cell_is_complete() -> None:
    """A broker, a database, two schedulers, views, four agents and the API."""
    commands = [service["command"][0] for service in _services().values() if "command" in service]
    counted = {command: commands.count(command) for command in commands}
    assert counted == {"init": 1, "scheduler": 2, "projector": 1, "agent": 4, "api": 1}
    assert {"kafka", "postgres"} <= _services().keys()


def test_every_process_waits_for_the_servers_it_needs() -> None:
    """Both servers tell their health, and nobody starts before they are well and have topics."""
    services = _services()
    for name in ("kafka", "postgres"):
        assert services[name]["healthcheck"]["test"]
    for service in services.values():
        for name, needed in service.get("depends_on", {}).items():
            wanted = "completed_successfully" if name == "init" else "healthy"
            assert needed == {"condition": f"service_{wanted}"}
    assert all("init" in services[name]["depends_on"] for name in ("scheduler-0", "agent-0", "api"))


def test_docker_reads_it() -> None:
    """`docker compose config` accepts the file; it needs the client, but no engine."""
    if shutil.which("docker") is None or not _has_compose():
        pytest.skip("there is no docker compose here; the file was read as YAML above")
    done = subprocess.run(
        ["docker", "compose", "--file", str(COMPOSE), "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _has_compose() -> bool:
    """Tell whether the Docker client has its compose plugin."""
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return asked.returncode == 0
