"""What docs/agents.md and docs/operations.md say is what the code does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gangline.agents import environment, planning, supervisor
from gangline.agents.core.model import TRANSITIONS
from gangline.events.spec import CheckpointSpec, Launch
from tests.agents import make
from tests.agents.test_environment import PLACE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "agents.md"


def _diagram() -> str:
    """The stages of a member, drawn from the table."""
    lines = ["    [*] --> waiting", "    gone --> [*]"]
    for (stage, move), then in sorted(TRANSITIONS.items()):
        lines.append(f"    {stage.value} --> {then.value}: {move.value}")
    return "\n".join(lines)


def test_the_diagram_of_stages_is_that_of_the_table() -> None:
    """Copy what this test expects into the page when the table has changed."""
    drawn = re.search(r"stateDiagram-v2\n(.*?)\n```", PAGE.read_text(), re.DOTALL)

    assert drawn is not None
    assert drawn.group(1) == _diagram()


def test_every_variable_of_the_page_is_really_set() -> None:
    """In the table of variables, by the default launcher of a job that checkpoints."""
    spec = make.spec(launch=Launch(), checkpoint=CheckpointSpec(interval_ms=1_000))
    order = make.member(spec=spec, resume_path="/c/x", resume_step=1, address="h", port=1)
    (given,) = environment.of_ranks(order, PLACE)
    table = PAGE.read_text().split("### What a process is told")[1].split("The spec's `launch`")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    told = {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}

    assert len(told) > 20
    assert told <= given.keys()


def test_every_variable_of_ours_is_on_the_page() -> None:
    """Nobody has to read the code to know what a program gets."""
    spec = make.spec(checkpoint=CheckpointSpec(interval_ms=1_000))
    order = make.member(spec=spec, resume_path="/c/x", resume_step=1)
    (given,) = environment.of_ranks(order, PLACE)
    text = PAGE.read_text()

    assert [name for name in given if name.startswith("GANGLINE_") and name not in text] == []
    assert planning.ROOT_VARIABLE in text


def test_the_numbers_of_the_page_are_those_of_the_supervisor() -> None:
    """Seconds for dumps, and for what is left behind."""
    text = " ".join(PAGE.read_text().split())

    seconds = [supervisor.FAILURE_TERM_MS, supervisor.FAILURE_KILL_MS - supervisor.FAILURE_TERM_MS]
    assert (
        f"{seconds[0] // 1000} s for dumps, SIGTERM, and SIGKILL {seconds[1] // 1000} s later"
        in text
    )
    assert f"is killed after {supervisor.LEFTOVER_KILL_MS // 1000} s" in text
    assert f"`checkpoint.STOPPED` ({supervisor.STOPPED_CODE})" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_of_the_agent_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """As the page prints it; only the program is one that is there."""
    text = (ROOT / "docs/operations.md").read_text()
    unit = text.split("```ini\n")[1].split("```")[0]
    file = tmp_path / "gangline-agent.service"
    file.write_text(unit.replace("/opt/gangline/bin/gangline", sys.executable))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "KillMode=process" in unit
    assert "gangline-agent.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
