"""Corners of the machine: cgroups, processes that cannot be killed, strangers' pids, torn files."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.agents import cgroups, procfs
from gangline.agents import plan as files
from gangline.events.facts import FaultDetected
from tests.agents import make
from tests.agents.cell import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agents.cell import Cell


FORKS_UNTIL_REFUSED = """
import os, time
children = 0
try:
    while os.fork():
        children += 1
    time.sleep(300)
except BlockingIOError:
    print(children, flush=True)
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A group of cgroup v2 that is ours; skipped where we may have none."""
    roots = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
    root = next((path for path in roots if (path / "cgroup.controllers").exists()), None)
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("there is no cgroup v2 here that we may write")
    group = root / f"gangline-test-{os.getpid()}"
    group.mkdir()
    yield group
    for child in sorted(group.rglob("*"), reverse=True):
        if child.is_dir():
            child.rmdir()
    group.rmdir()


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A group of the old freezer, whose frozen processes survive SIGKILL."""
    root = Path("/sys/fs/cgroup/freezer")
    if not os.access(root, os.W_OK):
        pytest.skip("there is no freezer of cgroup v1 here that we may write")
    group = root / f"gangline-test-{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    wait_for(lambda: not (group / "cgroup.procs").read_text(), what="an empty freezer")
    group.rmdir()


def test_an_attempt_has_a_cgroup_of_its_own_while_it_runs(cell: Cell, cgroup: Path) -> None:
    """Whoever forgets his token and his parent is still in it, and is killed with it."""
    spec = make.spec("setsid env -i sleep 300 & exec sleep 300")
    with cell.agent(cgroup=cgroup):
        cell.start(make.member(spec=spec))
        group = cgroup / "job.1"
        wait_for(lambda: len(cgroups.pids(str(group))) == 2, what="two processes in the group")
        assert (group / "supervisor/cgroup.procs").read_text()
        cell.assign()
        cell.ended()

    assert not group.exists()


def test_a_fork_bomb_does_not_get_beyond_its_limit(cell: Cell, cgroup: Path) -> None:
    """The kernel refuses its own processes, and the agent goes on."""
    if "pids" not in (cgroup / "cgroup.controllers").read_text().split():
        pytest.skip("this kernel does not count processes in cgroup v2")
    program = (sys.executable, "-c", FORKS_UNTIL_REFUSED)
    with cell.agent(cgroup=cgroup, most_processes=20):
        order = cell.start(make.member(spec=make.spec(program)))
        ended = cell.ended()

    assert ended.code == 0, cell.output(order)
    assert 0 < int(cell.output(order)) <= 20


@pytest.mark.parametrize(("wanted", "said"), [(500, "500"), (0, "max")])
def test_the_limit_of_processes_is_what_the_agent_is_told(
    tmp_path: Path, wanted: int, said: str
) -> None:
    """The files of a cgroup stood in for by those of a folder: where the kernel counts for us."""
    for part in ("ranks", "supervisor"):
        (tmp_path / "job.1" / part).mkdir(parents=True)
        (tmp_path / "job.1" / part / "cgroup.procs").touch()
    (tmp_path / "job.1/ranks/pids.max").write_text("max")

    group = cgroups.make(tmp_path, "job.1", most_processes=wanted)

    assert group == tmp_path / "job.1"
    assert (group / "ranks/pids.max").read_text() == said
    assert cgroups.is_limited(group) == bool(wanted)


def test_a_limit_that_the_kernel_does_not_keep_is_no_limit(tmp_path: Path) -> None:
    """The agent warns: with `pids` in a hierarchy of cgroup v1 nothing counts here."""
    assert not cgroups.is_limited(tmp_path / "job.1")


def test_a_grandchild_without_token_is_killed_without_cgroups_too(cell: Cell) -> None:
    """By descent: the supervisor is its reaper."""
    spec = make.spec("setsid env -i sleep 301 & sleep 0.2; exit 0")
    with cell.agent():
        cell.start(make.member(spec=spec))
        cell.ended()

    assert not [pid for pid in procfs.pids() if _words(pid)[:2] == ["sleep", "301"]]


def test_the_gpus_of_a_process_that_survives_sigkill_are_out(cell: Cell, freezer: Path) -> None:
    """Its member has not ended, and its GPUs are not free, until it is really gone."""
    spec = make.spec(f"echo $$ > {freezer}/cgroup.procs; echo in; exec sleep 300")
    with cell.agent(stuck_s=0.3):
        order = cell.start(make.member(spec=spec))
        wait_for(lambda: "in" in cell.output(order), what="the process in the freezer")
        (freezer / "freezer.state").write_text("FROZEN")
        cell.assign()
        fault = cell.wait(FaultDetected)
        assert "MemberExited" not in cell.kinds()
        (freezer / "freezer.state").write_text("THAWED")

        assert cell.ended().reason == "stopped"

    assert (fault.gpu, fault.fault) == (0, "unkillable")


def test_a_pid_that_belongs_to_somebody_else_now_is_not_touched() -> None:
    """After a reboot or a wrap of pids a kept pid names a stranger."""
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        who = procfs.identity(stranger.pid)
        assert who is not None
        older = procfs.Identity(who.boot_id, who.pid, who.start_ticks - 1)
        other_boot = procfs.Identity("another", who.pid, who.start_ticks)

        assert procfs.open_identity(older) is None
        assert procfs.open_identity(other_boot) is None
        assert not procfs.send(
            stranger.pid, signal.SIGKILL, still=lambda pid: procfs.has_token(pid, "ours")
        )
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_agent_with_more_than_a_thousand_open_files_works(cell: Cell) -> None:
    """As many people may follow the output of its jobs; `select` would refuse."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with cell.agent():
            cell.start(make.member(spec=make.spec("exit 3")))

            assert cell.ended().code == 3
    finally:
        for handle in opened:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_second_supervisor_of_an_attempt_ends_at_once(cell: Cell) -> None:
    """The lock of the folder is held for the first one's life, and its word stands after it."""
    with cell.agent():
        run = cell.start(make.member(spec=make.spec("exec sleep 300")))
        command = [sys.executable, "-m", "gangline.agents.supervisor"]
        folder = cell.folder / "n0/attempts/job.1"

        assert subprocess.run([*command, str(folder)], check=False).returncode == 3
        cell.stop(run, grace_ms=0)
        cell.ended()

        assert subprocess.run([*command, str(folder)], check=False).returncode == 3


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """And whoever reads a torn or missing one reads nothing."""
    files.write(tmp_path / "result.json", {"code": 3})
    assert files.read(tmp_path / "result.json") == {"code": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]

    (tmp_path / "result.json").write_text('{"code": ')

    assert files.load_result(tmp_path) is None


def test_a_newer_supervisors_result_is_read_by_an_older_agent(tmp_path: Path) -> None:
    """Fields are only ever added; supervisors outlive upgrades both ways."""
    files.write(tmp_path / "result.json", {"version": 9, "code": 3, "mood": "fine"})

    result = files.load_result(tmp_path)

    assert result is not None
    assert (result.code, result.reason) == (3, "exited")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_job_runs_as_its_user_and_may_save(cell: Cell) -> None:
    """Its checkpoint folder and its progress file are its own."""
    shutil.chown(cell.folder, "nobody")
    for parent in [cell.folder, *cell.folder.parents][:-2]:
        parent.chmod(0o755)
    spec = make.spec("id -un; touch $GANGLINE_CHECKPOINT_DIR/x $GANGLINE_PROGRESS_FILE")
    spec = make.as_user(spec, "nobody")
    with cell.agent():
        order = cell.start(make.member(spec=spec))
        ended = cell.ended()

    assert (ended.code, cell.output(order)) == (0, "nobody\n")


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
