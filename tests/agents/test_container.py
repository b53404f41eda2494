"""The container driver, with a stand-in for docker's command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gangline.events.spec import Launch
from tests.agents import make

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.cell import Cell

# Writes down its words, and runs what follows the image.
_STAND_IN = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in
run) while test "$1" != my/image:1; do shift; done; shift; exec "$@";;
esac
"""


def _docker(folder: Path) -> tuple[str, ...]:
    script = folder / "docker"
    script.write_text(_STAND_IN.format(folder=folder))
    script.chmod(0o755)
    return (str(script),)


def test_a_rank_runs_in_its_image_and_its_container_is_removed(cell: Cell) -> None:
    """The exit code is the program's; what may be left is removed by name."""
    docker = _docker(cell.folder)
    spec = make.spec("echo $RANK; exit 3", launch=Launch(container_image="my/image:1"))
    with cell.agent(container=docker):
        order = cell.start(make.member(spec=spec))
        ended = cell.ended()

    assert ended.code == 3
    assert cell.output(order) == "0\n"
    run, remove = (cell.folder / "calls").read_text().splitlines()
    assert run.startswith("run --rm --init --network=host")
    name = run.split("--name ")[1].split()[0]
    assert remove == f"rm --force {name}"


def test_values_of_variables_do_not_stand_in_the_command_line(cell: Cell) -> None:
    """Everybody on the machine can read that; names alone tell docker to hand them on."""
    docker = _docker(cell.folder)
    spec = make.spec("echo $KEY", env={"KEY": "hush"}, launch=Launch(container_image="my/image:1"))
    with cell.agent(container=docker):
        order = cell.start(make.member(spec=spec))
        cell.ended()

    calls = (cell.folder / "calls").read_text()
    assert "--env KEY " in calls
    assert "hush" not in calls
    assert cell.output(order) == "hush\n"


def test_what_a_plan_kept_secret_is_gone_from_the_disk(cell: Cell) -> None:
    """The supervisor removes the plan once it has read it; the rest is for the agent alone."""
    spec = make.spec("true", env={"KEY": "hush"})
    with cell.agent():
        cell.start(make.member(spec=spec))
        cell.ended()

    folder = cell.folder / "n0/attempts/job.1"
    assert not (folder / "plan.json").exists()
    assert (folder / "intent.json").stat().st_mode & 0o077 == 0
    assert "hush" not in json.dumps([str(fact) for fact in cell.facts])
