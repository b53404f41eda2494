"""The whole agent with real processes, on a log in memory."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.agents import lookout, procfs
from gangline.agents.supervisor import FAILURE_TERM_MS
from gangline.agents.watch import Watch
from gangline.events.batch import MemberPhase
from gangline.events.facts import (
    CheckpointSaved,
    FaultDetected,
    MemberReady,
    MemberStarted,
    NodeRegistered,
)
from gangline.events.log import Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.cell import wait_for

if TYPE_CHECKING:
    from gangline.events.spec import Spec
    from tests.agents.cell import Cell

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN = (sys.executable, str(EXAMPLES / "train_counter.py"))
SLEEPER = "exec sleep 300"


def test_a_gang_on_two_nodes_meets_and_adds_up(cell: Cell) -> None:
    """Four ranks on two nodes, one a GPU: each knows its place, and their sum comes out."""
    spec = make.spec(
        (sys.executable, str(EXAMPLES / "allreduce.py")), gpus=4, launch=Launch(launcher="per-gpu")
    )
    nodes = ("n0", "n1")
    orders = [make.member(gpus=(0, 1), nodes=nodes, member=place, spec=spec) for place in (0, 1)]
    with cell.agent("n0"), cell.agent("n1"):
        for node, order in zip(nodes, orders, strict=True):
            cell.assign(order, node=node)
        meet = cell.wait(MemberReady, node="n0")
        cell.wait(MemberReady, node="n1")
        for node, order in zip(nodes, orders, strict=True):
            run = replace(order, phase=MemberPhase.RUN, address=meet.address, port=meet.port)
            cell.assign(run, node=node)
        codes = [cell.wait(type(cell.ended()), node=node).code for node in nodes]

    assert codes == [0, 0]
    said = [cell.output(orders[rank // 2], rank, node=nodes[rank // 2]) for rank in range(4)]
    assert said == [f"rank {rank} of 4: the sum is 10\n" for rank in range(4)]


@pytest.mark.parametrize(
    ("command", "code", "by_signal"), [("exit 7", 7, 0), ("kill -9 $$", 137, 9)]
)
def test_an_exit_code_or_signal_is_reported_as_such(
    cell: Cell, command: str, code: int, by_signal: int
) -> None:
    """The code as it is; a signal as its number, and as a shell would put it."""
    with cell.agent():
        cell.start(make.member(spec=make.spec(command)))
        ended = cell.ended()

    assert (ended.code, ended.signal, ended.reason) == (code, by_signal, "exited")


def test_a_stop_lets_the_program_save_and_leave(cell: Cell) -> None:
    """The signal is only a flag to it; it saves and says by its code that work is left."""
    spec = make.spec((*TRAIN, "--steps", "100000", "--step-s", "0.02"))
    with cell.agent():
        run = cell.start(make.member(spec=spec, resumed_ms=5_000))
        wait_for(lambda: "begins" in cell.output(run), what="the first step")
        cell.stop(run, grace_ms=20_000)
        ended = cell.ended()
        saved = cell.wait(CheckpointSaved)

    assert (ended.code, ended.reason) == (75, "stopped")
    assert cell.kinds().index("CheckpointSaved") < cell.kinds().index("MemberExited")
    assert Path(saved.path, "model.json").exists()
    assert "attempt-1" in saved.path
    assert saved.productive_ms > 5_000


def test_a_program_that_ends_well_in_its_grace_has_ended(cell: Cell) -> None:
    """Code 0 is success, whoever asked it to stop."""
    spec = make.spec("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    with cell.agent():
        run = cell.start(make.member(spec=spec))
        wait_for(lambda: "up" in cell.output(run), what="the trap")
        cell.stop(run, grace_ms=20_000)
        ended = cell.ended()

    assert (ended.code, ended.reason) == (0, "exited")


def test_who_ignores_the_signal_is_killed_at_the_end_of_the_grace(cell: Cell) -> None:
    """With everything below it, and it counts as stopped."""
    spec = make.spec("trap '' TERM; echo up; while :; do sleep 0.05; done")
    with cell.agent():
        run = cell.start(make.member(spec=spec))
        wait_for(lambda: "up" in cell.output(run), what="the trap")
        cell.stop(run, grace_ms=300)
        ended = cell.ended()

    assert (ended.code, ended.signal, ended.reason) == (137, 9, "stopped")


def test_nothing_of_an_attempt_outlives_it(cell: Cell) -> None:
    """Not even a grandchild in a session of its own whose parent is gone; and no zombie is left."""
    spec = make.spec("setsid sh -c 'trap \"\" TERM; sleep 300 & wait' & sleep 0.3; exit 0")
    with cell.agent():
        order = make.member(spec=spec)
        cell.start(order)
        token = _token(cell, "job")
        assert procfs.with_token(token)
        ended = cell.ended()

        assert ended.code == 0
        assert procfs.with_token(token) == []
        # One that stays is left; one that is about to be waited for is not.
        wait_for(lambda: not _zombies_below(procfs.myself().pid), what="the last zombie's end")


def test_the_first_rank_that_fails_takes_the_others_with_it(cell: Cell) -> None:
    """The code is that of the first; the others would wait in a collective for ever."""
    command = 'test "$LOCAL_RANK" = 1 && exit 9; exec sleep 300'
    spec = make.spec(command, gpus=2, launch=Launch(launcher="per-gpu"))
    before_ms = time.time_ns() // 1_000_000
    with cell.agent():
        order = cell.start(make.member(gpus=(0, 1), spec=spec))
        ended = cell.ended()
        first, other = cell.output(order, 1), cell.output(order, 0)

    assert (ended.code, ended.reason) == (9, "exited")
    assert first == "gangline: this rank failed first on its node: it ended with code 9\n"
    assert not other
    # That of the first failure, not of the end of the others, who were given time.
    heard_ms = time.time_ns() // 1_000_000 - FAILURE_TERM_MS
    assert before_ms <= ended.failed_at_ms <= heard_ms


def test_a_member_that_a_newer_record_does_not_list_is_killed(cell: Cell) -> None:
    """It is fenced at once, without a grace."""
    with cell.agent():
        cell.start(make.member(spec=make.spec("trap '' TERM; sleep 300 & wait")))
        cell.assign()
        ended = cell.ended()

    assert ended.reason == "stopped"


def test_a_new_attempt_starts_when_the_old_one_is_gone(cell: Cell) -> None:
    """They never run together, and each has its own folders and port."""
    with cell.agent():
        first = cell.start(make.member(spec=make.spec(SLEEPER)))
        second = make.member(attempt=2, spec=make.spec("echo $GANGLINE_CHECKPOINT_DIR"))
        cell.assign(second)
        assert cell.ended().attempt == 1
        wait_for(lambda: cell.kinds().count("MemberReady") == 2, what="the second attempt")
        ready = [fact for fact in cell.facts if isinstance(fact, MemberReady)][1]
        cell.assign(replace(second, phase=MemberPhase.RUN, address=ready.address, port=ready.port))
        wait_for(lambda: cell.kinds().count("MemberExited") == 2, what="its end")

    assert ready.port != first.port
    assert "attempt-2" in cell.output(second)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (make.spec("no-such-program-anywhere"), "program does not exist"),
        (make.spec("true", workdir="/no/such/folder"), "working directory does not exist"),
        (make.spec("true", launch=Launch(launcher="mpi")), "launcher is one of"),
        (make.spec("true", launch=Launch(stop_signal="FOO")), "no signal 'FOO'"),
    ],
)
def test_what_the_user_has_to_put_right_ends_the_member(cell: Cell, spec: Spec, says: str) -> None:
    """With the code a shell would give, before anything is started."""
    with cell.agent():
        cell.assign(make.member(spec=spec))
        ended = cell.ended()

    assert (ended.code, ended.reason) == (127, "exited")
    assert says in ended.detail
    printed = cell.folder / make.NODE / "attempts" / "job.1" / "rank-0.err"
    assert says in printed.read_text()
    assert "MemberStarted" not in cell.kinds()


def test_a_gpu_that_is_not_there_turns_the_node_away(cell: Cell) -> None:
    """The node is at fault, not the program."""
    with cell.agent(gpus=2):
        cell.assign(make.member(gpus=(0, 5)))
        ended = cell.ended()
        fault = cell.wait(FaultDetected)

    assert ended.reason == "infrastructure"
    assert (fault.gpu, fault.fault) == (5, "gone")


def test_programs_made_for_slurm_find_their_command(cell: Cell) -> None:
    """Lightning calls it when it is told to stop; the nodes are listed as Slurm does."""
    launch = Launch(env_compat=("torch", "slurm"))
    spec = make.spec(
        "scontrol show hostnames && scontrol requeue 7 && scontrol ping", launch=launch
    )
    with cell.agent():
        order = cell.start(make.member(spec=spec))
        ended = cell.ended()

    assert ended.code == 1, "what it does not know it refuses"
    assert cell.output(order).startswith("n0\ngangline queues this job again")


def test_a_shared_disk_that_hangs_holds_up_nobody(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a member waits for the last look at its checkpoints, but not for ever."""
    answers = threading.Event()
    monkeypatch.setattr(Watch, "look", lambda _self, *, now_ms: answers.wait(20) and [now_ms][:0])
    monkeypatch.setattr(lookout, "PATIENCE_S", 0.3)
    with cell.agent():
        cell.start(make.member(spec=make.spec("sleep 0.3; exit 3")))
        ended = cell.ended()
        answers.set()

    assert ended.code == 3


def test_an_agent_registers_and_beats(cell: Cell) -> None:
    """Its first fact is its registration; heartbeats go through their own topic."""
    with cell.agent(path=("s0", "b0"), levels=("spine", "block")):
        registered = cell.wait(NodeRegistered)
        beats = wait_for(
            lambda: len([*read_to_ends(cell.log, from_the_start([Topic.HEARTBEATS]))]) >= 2,
            what="heartbeats",
        )

    assert beats
    assert cell.kinds()[0] == "NodeRegistered"
    assert (registered.gpus, registered.path) == (8, ("s0", "b0"))


def test_a_clean_stop_of_the_agent_leaves_its_members_running(cell: Cell) -> None:
    """As an upgrade does; the next one adopts them and hears how they end."""
    flag = cell.folder / "go-on"
    spec = make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 5")
    with cell.agent():
        cell.start(make.member(spec=spec))
    token = _token(cell, "job")
    assert procfs.with_token(token)

    with cell.agent():
        wait_for(lambda: cell.kinds().count("NodeRegistered") == 2, what="the second agent")
        registered = [fact for fact in cell.facts if isinstance(fact, NodeRegistered)][1]
        flag.touch()
        ended = cell.ended()

    assert [(one.job, one.attempt) for one in registered.running] == [("job", 1)]
    assert ended.code == 5
    assert cell.ids.count("n0/job/1/started") == 2
    assert isinstance(cell.facts[2], MemberStarted)


def test_a_job_that_ends_while_the_agent_is_down_keeps_its_code(cell: Cell) -> None:
    """Its supervisor wrote it; it is stated before the registration without it."""
    flag = cell.folder / "go-on"
    spec = make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 6")
    with cell.agent():
        cell.start(make.member(spec=spec))
    flag.touch()
    wait_for((cell.folder / "n0/attempts/job.1/result.json").exists, what="the result")

    with cell.agent():
        ended = cell.ended()
        wait_for(lambda: cell.kinds().count("NodeRegistered") == 2, what="the registration")

    assert ended.code == 6
    assert cell.kinds()[-2:] == ["MemberExited", "NodeRegistered"]


def test_after_a_reboot_what_ran_before_is_infrastructures(cell: Cell) -> None:
    """The kept boot id is another; its pids name strangers now, and nothing is left to wait for."""
    with cell.agent():
        cell.start(make.member(spec=make.spec(SLEEPER)))
    token = _token(cell, "job")
    for path in (cell.folder / "n0/journal.json", cell.folder / "n0/attempts/job.1/intent.json"):
        path.write_text(path.read_text().replace(procfs.boot_id(), "another-boot"))

    with cell.agent():
        ended = cell.ended()
        left = procfs.with_token(token)

    assert (ended.reason, "booted" in ended.detail) == ("infrastructure", True)
    assert left, "in this test it is no stranger, and yet it must not be touched"
    for pid in left:
        os.kill(pid, signal.SIGKILL)


def _token(cell: Cell, job: str) -> str:
    intent = cell.folder / "n0/attempts" / f"{job}.1" / "intent.json"
    return str(json.loads(intent.read_text())["token"])


def _zombies_below(pid: int) -> list[int]:
    below = (procfs.stat(child) for child in procfs.descendants(pid))
    return [one.pid for one in below if one is not None and one.state == "Z"]
