"""Programs that do what they should not: each ends, leaves nothing, and takes no agent with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.agents import plan as files
from gangline.agents import procfs
from gangline.agents.private import PrivateError, open_private
from gangline.events.batch import MemberPhase
from gangline.events.facts import MemberExited, MemberReady, MemberStarted
from gangline.events.spec import Private
from tests.agents import make
from tests.agents.cell import wait_for
from tests.agents.test_kill import Station, station

if TYPE_CHECKING:
    from tests.agents.cell import Cell

__all__ = ["station"]

FORKS_FASTER_THAN_IT_CAN_BE_LISTED = (
    sys.executable,
    "-c",
    """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    time.sleep(0.001)  # several for each listing, and not all the numbers that a machine has
    if os.fork():
        os._exit(0)
""",
)
MANY_LEVELS_DEEP = (
    sys.executable,
    "-c",
    """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
time.sleep(300)
""",
)

FLOOD = ("sh", "-c", "trap '' TERM; while :; do head -c 1000000 /dev/zero; done")


def folder(cell: Cell) -> Path:
    """Of the attempt."""
    return cell.folder / "n0/attempts/job.1"


def token(cell: Cell) -> str:
    """What its processes carry."""
    return str(json.loads((folder(cell) / files.INTENT).read_text())["token"])


@pytest.mark.parametrize(
    "command",
    [
        FORKS_FASTER_THAN_IT_CAN_BE_LISTED,
        MANY_LEVELS_DEEP,
        ("sh", "-c", "trap '' TERM; (setsid sleep 300 &) ; cd /; exec >&- 2>&-; sleep 300"),
    ],
    ids=["forks-fast", "forks-deep", "leaves-the-session"],
)
def test_whoever_forks_is_killed_to_the_last(cell: Cell, command: tuple[str, ...]) -> None:
    """After its grace nothing is left that carries its token."""
    with cell.agent(cgroup=None):
        run = cell.start(make.member(spec=make.spec(command)))
        mark = token(cell)
        cell.stop(run, grace_ms=200)
        ended = cell.ended()

    assert ended.reason in {"stopped", "exited"}
    assert procfs.with_token(mark) == []


def test_the_hostile_are_killed_to_the_last_though_their_agent_dies(station: Station) -> None:
    """Killed again and again among them, it finds all of them, and stops each as it was told."""
    orders = [
        make.member(f"job{at}", gpus=(at,), spec=make.spec(command))
        for at, command in enumerate((FORKS_FASTER_THAN_IT_CAN_BE_LISTED, MANY_LEVELS_DEEP, FLOOD))
    ]
    station.assign(*orders)
    ready = [station.wait(MemberReady, order.job) for order in orders]
    runs = [
        replace(order, phase=MemberPhase.RUN, address=meet.address, port=meet.port)
        for order, meet in zip(orders, ready, strict=True)
    ]
    station.assign(*runs)
    for run in runs:
        station.wait(MemberStarted, run.job)
    marks = [station.token(run.job) for run in runs]

    for _ in range(2):
        station.down()
        station.up()
    station.assign(
        *(replace(run, phase=MemberPhase.STOP, grace_ms=500, stop_cause="x") for run in runs)
    )
    station.down()
    station.up()

    for run in runs:
        assert station.ended(run.job).reason in {"stopped", "exited"}
    assert [procfs.with_token(mark) for mark in marks] == [[], [], []]


def test_output_without_end_does_not_fill_the_disk(cell: Cell) -> None:
    """Of 60 MB some parts of one MB are kept, and the program notices nothing.

    It writes for longer than the supervisor takes to look again.
    """
    command = "for i in $(seq 30); do head -c 2000000 /dev/zero; sleep 0.1; done; exit 7"
    with cell.agent(log_bytes=1_000_000, log_files=2):
        cell.start(make.member(spec=make.spec(command)))
        ended = cell.ended()
        rank = [each for each in folder(cell).glob("rank-0.out*") if each.suffix != ".cut"]
        kept = sum(path.stat().st_blocks * 512 for path in rank)

    assert ended.code == 7
    assert len(rank) <= 3
    assert kept < 60_000_000


@pytest.mark.parametrize(
    "damage",
    [
        'rm -rf "$D"',
        'chmod 000 "$D"',
        'rm -rf "$D/job"; mkdir -p "$D/job/notice.json/x"',
        'rm -f "$D/rank-0.out" "$D/supervisor.json" "$D/started.json"',
        'rm -rf "$D/job"; ln -s /nowhere "$D/job"',
    ],
)
def test_a_job_that_damages_its_own_folder_is_stopped_all_the_same(cell: Cell, damage: str) -> None:
    """Where it runs as the agent's own user it can; the agent goes on, and so do others."""
    go, ready = cell.folder / "go", cell.folder / "damaged"
    command = (
        f"while ! test -e {go}; do sleep 0.05; done; "
        f'D=$(dirname "$(dirname "$GANGLINE_HOSTFILE")"); {damage}; touch {ready}; '
        "trap 'exit 75' TERM; while :; do sleep 0.05; done"
    )
    with cell.agent():
        run = cell.start(make.member(spec=make.spec(command)))
        go.touch()
        wait_for(ready.exists, what="the damage")
        cell.stop(run, grace_ms=15_000)
        ended = cell.ended()
        cell.assign(make.member("other", gpus=(1,), spec=make.spec("no-such-program")))
        cell.wait(MemberExited, "other")

    assert (ended.code, ended.reason) == (75, "stopped")


def test_processes_of_a_folder_that_is_gone_end_before_their_member_does(cell: Cell) -> None:
    """An agent that comes up finds no folder, but a supervisor of ours: it is killed first."""
    go, ready = cell.folder / "go", cell.folder / "damaged"
    command = (
        f"while ! test -e {go}; do sleep 0.05; done; "
        f'rm -rf "$(dirname "$(dirname "$GANGLINE_HOSTFILE")")"; touch {ready}; sleep 300'
    )
    with cell.agent():
        cell.start(make.member(spec=make.spec(command)))
        mark = token(cell)
        go.touch()
        wait_for(ready.exists, what="the damage")
    assert procfs.with_token(mark)

    with cell.agent():
        ended = cell.ended()

    assert ended.reason == "infrastructure"
    assert procfs.with_token(mark) == []


def test_a_program_of_no_known_format_is_said_to_be_one(cell: Cell, tmp_path: Path) -> None:
    """As a shell would: code 126, and why, in its error output too."""
    program = tmp_path / "program"
    program.write_bytes(b"\x00\x01nothing that runs")
    program.chmod(0o755)
    with cell.agent():
        order = cell.start(make.member(spec=make.spec([str(program)])))
        ended = cell.ended()

    assert (ended.code, ended.reason) == (126, "exited")
    assert "Exec format error" in ended.detail
    assert "Exec format error" in cell.output(order)


def test_an_environment_that_is_too_large_is_the_jobs_own_fault(cell: Cell) -> None:
    """The kernel takes no text of more than 128 kB."""
    with cell.agent():
        cell.start(make.member(spec=make.spec("true", env={"HUGE": "x" * 200_000})))
        ended = cell.ended()

    assert (ended.code, ended.reason) == (126, "exited")
    assert "too long" in ended.detail


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        '{"command": ["true", "a\\u0000b"]}',
        '{"command": "true \\ud800"}',
        '{"command": ["true"], "env": {"\\ud800": "x"}}',
        '{"command": ["true"], "workdir": "/\\udfff"}',
    ],
)
def test_what_no_process_could_be_given_is_refused_before_the_start(text: str) -> None:
    """Who writes to the log itself can say anything; an agent must not end by it."""
    with pytest.raises(PrivateError):
        open_private(Private(ciphertext=text.encode()))


def test_a_link_in_the_place_of_a_file_of_ours_is_not_followed(tmp_path: Path) -> None:
    """The folder of a job is its user's: what it prepares there must not become ours."""
    other = tmp_path / "other"
    other.write_text("untouched")
    (tmp_path / f".notice.json.{os.getpid()}").symlink_to(other)

    files.write(tmp_path / files.NOTICE, {"cause": "preempted"})

    assert other.read_text() == "untouched"
    assert files.read(tmp_path / files.NOTICE) == {"cause": "preempted"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_checkpoint_root_that_a_job_names_is_made_with_its_own_rights(
    cell: Cell, tmp_path: Path
) -> None:
    """A link to where its user may not write gives it nothing there."""
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    protected, open_to_all = tmp_path / "protected", tmp_path / "open"
    protected.mkdir(mode=0o755)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "job").symlink_to(protected)
    spec = make.as_user(
        make.spec("exit 3", env={"GANGLINE_CHECKPOINT_ROOT": str(open_to_all)}), "nobody"
    )

    with cell.agent():
        cell.start(make.member(spec=spec))
        ended = cell.ended()

    assert ended.code == 3
    assert list(protected.iterdir()) == []


def test_a_whole_group_is_killed_by_the_handle_of_a_leader_that_is_gone() -> None:
    """Its number may be anybody's by now; the handle names the group for good."""
    words = ["sh", "-c", "sleep 300 & echo $!"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as leader:
        handle = os.pidfd_open(leader.pid)
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
    try:
        procfs.kill_groups([handle])
        wait_for(lambda: procfs.identity(child) is None, what="the child's end")
    except AssertionError:
        pytest.skip("this kernel is older than 6.9")
    finally:
        os.close(handle)
        procfs.send(child, signal.SIGKILL, still=lambda _: True)
