"""The agent's core: what it is told and sees, to what it does and states."""

from __future__ import annotations

import pytest

from gangline.agents import core
from gangline.agents.core import Exit, Key, Stage
from gangline.agents.core.model import TRANSITIONS, Move
from gangline.events.batch import MemberPhase
from gangline.events.facts import (
    CheckpointSaved,
    FaultCleared,
    FaultDetected,
    MemberExited,
    MemberReady,
    MemberStarted,
)
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.node import Node

RUN, STOP = MemberPhase.RUN, MemberPhase.STOP
JOB = Key("job", 1)


def test_a_member_that_is_to_prepare_is_checked_and_stated_ready() -> None:
    """MemberReady carries where rank 0 would meet the others."""
    node = Node()

    node.told(make.member())
    assert node.kinds() == ["Check"]
    node.checked(port=20_005)

    assert node.facts() == [
        MemberReady(node="n0", job="job", attempt=1, address="10.0.0.1", port=20_005)
    ]


def test_a_ready_member_starts_when_told_to_run() -> None:
    """Only the order to run starts processes, and MemberStarted waits for them."""
    node = Node()
    node.told(make.member())
    node.checked()

    node.told(make.member(phase=RUN))
    assert node.kinds() == ["Start"]
    node.give(core.Started(JOB))

    assert node.facts() == [MemberStarted(node="n0", job="job", attempt=1)]


def test_a_record_that_is_not_newer_changes_nothing() -> None:
    """Neither the same (term, seq) again nor an older one, whatever it lists."""
    node = Node()
    node.running()

    for term, seq in ((1, 2), (1, 1), (0, 99)):
        node.give(core.Told(make.assignment(seq=seq, term=term)))
        assert node.actions == []

    assert node.stage() == "running"


def test_a_record_of_another_cell_changes_nothing_and_is_told() -> None:
    """A cell that was made anew has nothing to say to the processes of the old one."""
    node = Node()
    node.running()

    node.give(core.Told(make.assignment(seq=99, term=99, genesis="cell-2")))

    assert node.kinds() == ["Note"]
    assert node.stage() == "running"


def test_a_record_for_another_node_changes_nothing() -> None:
    """A misrouted record stops nobody."""
    node = Node()
    node.running()

    node.give(core.Told(make.assignment(seq=99, node="n1")))

    assert node.actions == []


def test_time_without_records_stops_nothing() -> None:
    """Neither a dead scheduler nor an unreachable log ends a job."""
    node = Node()
    node.running()

    node.now_ms += 30 * 24 * 3_600_000
    node.give(core.Tick())

    assert node.actions == []
    assert node.stage() == "running"


def test_a_running_member_that_is_not_listed_is_killed_at_once() -> None:
    """It is fenced: somebody else may run it now, and nobody wants its checkpoint."""
    node = Node()
    node.running()

    node.told()
    assert node.actions == [core.Kill(JOB)]
    node.give(core.Ended(JOB, Exit(code=137, signal=9, reason="stopped")))

    assert node.kinds() == ["MemberExited", "Forget"]
    assert node.stage() == ""


def test_a_new_attempt_waits_until_the_old_one_is_gone() -> None:
    """Two attempts of a member never run together."""
    node = Node()
    node.running(attempt=1)

    node.told(make.member(attempt=2))
    assert node.kinds() == ["Kill"]
    assert node.stage(attempt=2) == "waiting"
    node.give(core.Ended(JOB, Exit(code=137, signal=9, reason="stopped")))

    assert node.kinds() == ["MemberExited", "Forget", "Check"]
    assert node.stage(attempt=2) == "checking"


def test_another_job_waits_until_its_gpus_are_free_of_processes() -> None:
    """GPUs are nobody else's while a process of their old holder lives."""
    node = Node()
    node.running("old", gpus=(0, 1))

    node.told(make.member("new", gpus=(1, 2)), make.member("beside", gpus=(3,)))

    assert node.stage("new") == "waiting"
    assert node.stage("beside") == "checking"


def test_a_stop_gives_the_grace_from_its_receipt() -> None:
    """The signal goes out at once, and the kill is due a grace after the order was received."""
    node = Node()
    node.running()
    node.now_ms += 5_000

    node.told(make.member(phase=STOP, grace_ms=60_000, stop_cause="preempted"))

    assert node.actions == [
        core.Stop(
            key=JOB,
            signal="TERM",
            signal_ms=node.now_ms,
            deadline_ms=node.now_ms + 60_000,
            cause="preempted",
        )
    ]


def test_a_stop_lead_puts_the_signal_off_until_it_is_needed() -> None:
    """`USR2@10s`: the program works on for as long as the grace allows."""
    node = Node()
    spec = make.spec(launch=Launch(stop_signal="USR2", stop_lead_ms=10_000))
    node.running(spec=spec)

    node.told(make.member(phase=STOP, grace_ms=60_000, spec=spec))

    (stop,) = node.actions
    assert isinstance(stop, core.Stop)
    assert (stop.signal, stop.signal_ms) == ("USR2", node.now_ms + 50_000)


def test_a_second_stop_only_ever_shortens_the_grace() -> None:
    """A cancel in a running grace starts no second one."""
    node = Node()
    node.running()
    node.told(make.member(phase=STOP, grace_ms=60_000))
    deadline_ms = node.now_ms + 60_000

    node.now_ms += 30_000
    node.told(make.member(phase=STOP, grace_ms=60_000))
    assert node.actions == []
    node.told(make.member(phase=STOP, grace_ms=1_000))

    (stop,) = node.actions
    assert isinstance(stop, core.Stop)
    assert stop.deadline_ms == node.now_ms + 1_000 < deadline_ms


@pytest.mark.parametrize("ready", ["checking", "ready"])
def test_a_stop_before_the_start_is_answered_at_once(ready: str) -> None:
    """There are no processes to wait for."""
    node = Node()
    node.told(make.member())
    if ready == "ready":
        node.checked()

    node.told(make.member(phase=STOP))

    assert node.facts() == [
        MemberExited(node="n0", job="job", attempt=1, code=0, reason="not_started")
    ]


def test_a_stop_of_a_member_never_heard_of_is_answered_too() -> None:
    """The scheduler waits for the word of this node; absence would hold the GPUs for ever."""
    node = Node()

    node.told(make.member(phase=STOP))

    assert node.facts() == [
        MemberExited(node="n0", job="job", attempt=1, code=0, reason="not_started")
    ]


def test_a_repeated_stop_gets_the_same_answer_under_the_same_id() -> None:
    """However often it is asked, the fact is one."""
    node = Node()
    node.running()
    node.told(make.member(phase=STOP, grace_ms=1))
    node.give(core.Ended(JOB, Exit(code=0)))
    first = node.actions

    node.told(make.member(phase=STOP, grace_ms=1))

    assert node.actions == first
    (stated,) = node.actions
    assert isinstance(stated, core.State)
    assert stated.id == "n0/job/1/exited"


def test_an_order_to_run_what_was_never_ready_here_is_refused() -> None:
    """A rank that joins a gang long under way would do harm; the node lost its memory."""
    node = Node()

    node.told(make.member(phase=RUN))

    (fact,) = node.facts()
    assert isinstance(fact, MemberExited)
    assert fact.reason == "infrastructure"


def test_an_order_to_run_that_overtakes_the_check_starts_after_it() -> None:
    """Ready is stated first, as ever."""
    node = Node()
    node.told(make.member())
    node.told(make.member(phase=RUN))

    node.checked()

    assert node.kinds() == ["MemberReady", "Start"]


def test_the_port_of_a_check_that_came_too_late_is_let_go() -> None:
    """The member was stopped meanwhile; nothing else follows."""
    node = Node()
    node.told(make.member())
    node.told(make.member(phase=STOP))

    node.checked()

    assert node.actions == [core.Forget(JOB)]


def test_a_failed_check_ends_the_member_and_blames_the_gpu() -> None:
    """A sick node is turned away before the gang starts."""
    node = Node()
    node.told(make.member())

    node.give(core.Checked(key=JOB, problem="GPU 0 is gone", fault="gone", gpu=0))

    assert node.facts() == [
        FaultDetected(node="n0", gpu=0, fault="gone", detail="GPU 0 is gone", number=node.now_ms),
        MemberExited(
            node="n0",
            job="job",
            attempt=1,
            code=0,
            reason="infrastructure",
            detail="GPU 0 is gone",
        ),
    ]


def test_a_checkpoint_holds_what_was_restored_and_what_ran_since() -> None:
    """The time of its marker counts, not the time of our look."""
    node = Node()
    node.running(resumed_ms=100_000)
    node.now_ms += 30_000

    node.give(core.CheckpointSeen(key=JOB, step=5, path="/c/5", at_ms=node.now_ms - 10_000))

    assert node.facts() == [
        CheckpointSaved(node="n0", job="job", attempt=1, step=5, path="/c/5", productive_ms=120_000)
    ]


def test_an_older_checkpoint_is_not_stated_after_a_newer_one() -> None:
    """Steps only go up within an attempt."""
    node = Node()
    node.running()
    node.give(core.CheckpointSeen(key=JOB, step=5, path="/c/5", at_ms=node.now_ms))

    node.give(core.CheckpointSeen(key=JOB, step=4, path="/c/4", at_ms=node.now_ms))

    assert node.actions == []


def test_a_program_without_progress_is_stopped_as_hung() -> None:
    """The signal and a few seconds for dumps, then the kill; the reason is ours."""
    node = Node()
    node.running(spec=make.spec(launch=Launch(progress_timeout_ms=60_000)))
    node.now_ms += 40_000
    node.give(core.Progressed(key=JOB, at_ms=node.now_ms))
    assert core.next_wake(node.state) == node.now_ms + 60_000

    node.now_ms += 60_000
    node.give(core.Tick())
    assert node.kinds() == ["Stop"]
    node.give(core.Ended(JOB, Exit(code=143, signal=15, reason="stopped")))

    (fact,) = node.facts()
    assert isinstance(fact, MemberExited)
    assert (fact.reason, fact.code) == ("hung", 143)


def test_an_at_most_one_writer_stops_itself_when_its_lease_runs_out() -> None:
    """It cannot know whether it was replaced; what the log takes renews the lease."""
    node = Node()
    node.running(spec=make.spec(launch=Launch(at_most_one_writer=True)))
    node.now_ms += 50_000
    node.give(core.Heard())

    node.now_ms += 59_999
    assert node.give(core.Tick()) == []
    node.now_ms += 1
    node.give(core.Tick())

    assert node.kinds() == ["Stop"]


def test_a_supervisor_is_told_until_when_an_at_most_one_writer_may_go_on() -> None:
    """Before its start, and as often as the log hears us: it keeps the lease when we cannot."""
    node = Node()
    alone = make.spec(launch=Launch(at_most_one_writer=True))
    node.told(make.member(spec=alone))
    node.checked()
    node.told(make.member(phase=MemberPhase.RUN, spec=alone))
    first = core.Lease(key=JOB, until_ms=node.now_ms + 60_000, grace_ms=30_000)
    assert node.actions[0] == first
    node.give(core.Started(JOB))

    node.give(core.Heard())
    node.now_ms += 5_000
    assert node.give(core.Heard()) == []
    node.now_ms += 20_000
    sent_ms = node.now_ms - 2_000
    node.give(core.Heard(at_ms=sent_ms))

    assert node.actions == [core.Lease(key=JOB, until_ms=sent_ms + 60_000, grace_ms=30_000)]


def test_what_is_read_renews_no_lease() -> None:
    """Whether we are heard is what counts: who cannot send is lost, whatever it reads."""
    node = Node()
    alone = make.spec(launch=Launch(at_most_one_writer=True))
    node.running(spec=alone)
    node.now_ms += 61_000

    node.told(make.member(phase=MemberPhase.RUN, spec=alone))

    assert node.kinds() == ["Stop"]


def test_an_at_most_one_writer_begins_when_its_node_is_heard() -> None:
    """After a long silence it would be stopped again at once."""
    node = Node()
    alone = make.spec(launch=Launch(at_most_one_writer=True))
    node.told(make.member(spec=alone))
    node.checked()
    node.now_ms += 40_000
    assert node.told(make.member(phase=MemberPhase.RUN, spec=alone)) == []

    node.give(core.Heard())

    assert node.kinds() == ["Lease", "Start"]


def test_a_lost_supervisor_takes_its_attempt_with_it_as_infrastructure() -> None:
    """It is no fault of the program, whatever its processes say when they are killed."""
    node = Node()
    node.running()

    node.give(core.Lost(JOB))
    assert node.actions == [core.Kill(JOB)]
    node.give(core.Ended(JOB, Exit(code=137, signal=9)))

    (fact,) = node.facts()
    assert isinstance(fact, MemberExited)
    assert fact.reason == "infrastructure"


def test_a_process_that_survives_sigkill_takes_its_gpus_out_once() -> None:
    """They stay its own; others on the node are healthy and run on."""
    node = Node()
    node.running(gpus=(2, 3))
    node.told()

    node.give(core.Stuck(JOB, "pid 7"))
    assert node.facts() == [
        FaultDetected(
            node="n0", gpu=gpu, fault="unkillable", detail="pid 7", number=node.now_ms + gpu - 2
        )
        for gpu in (2, 3)
    ]
    assert node.give(core.Stuck(JOB, "pid 7")) == []

    assert node.stage() == "killing"


def test_an_unkillable_process_is_over_with_the_next_boot_only() -> None:
    """No reading of the hardware says anything about it."""
    node = Node()
    node.running()
    node.told()
    node.give(core.Stuck(JOB))
    assert node.give(core.Diagnosed(())) == []

    node.restart(boot_id="boot-2")

    assert "FaultCleared" in node.kinds()


def test_a_fault_is_stated_once_and_cleared_with_the_last_of_its_gpu() -> None:
    """Two faults of one GPU are two facts, and one clearing."""
    node = Node()
    ecc, hot = core.Fault(3, "ecc", "2 errors"), core.Fault(3, "thermal")
    node.give(core.Diagnosed((ecc, hot)))
    assert node.facts() == [
        FaultDetected(node="n0", gpu=3, fault="ecc", detail="2 errors", number=node.now_ms),
        FaultDetected(node="n0", gpu=3, fault="thermal", number=node.now_ms + 1),
    ]
    assert node.give(core.Diagnosed((ecc, hot))) == []

    assert node.give(core.Diagnosed((hot,))) == []
    node.give(core.Diagnosed(()))

    assert node.facts() == [FaultCleared(node="n0", gpu=3, number=node.now_ms + 2)]


def test_the_end_of_a_machines_fault_does_not_hide_that_of_a_gpu() -> None:
    """All its GPUs are well again by it, so what is still wrong with one is stated once more."""
    node = Node()
    machine, hot = core.Fault(-1, "nic"), core.Fault(3, "thermal")
    node.give(core.Diagnosed((machine, hot)))

    node.give(core.Diagnosed((hot,)))

    assert [(type(fact).__name__, getattr(fact, "gpu", None)) for fact in node.facts()] == [
        ("FaultCleared", -1),
        ("FaultDetected", 3),
    ]


def test_the_end_of_a_gpus_fault_waits_for_the_machines() -> None:
    """A GPU of a broken machine is not well."""
    node = Node()
    machine, hot = core.Fault(-1, "nic"), core.Fault(3, "thermal")
    node.give(core.Diagnosed((machine, hot)))

    assert node.give(core.Diagnosed((machine,))) == []
    node.give(core.Diagnosed(()))

    assert [(type(fact).__name__, getattr(fact, "gpu", None)) for fact in node.facts()] == [
        ("FaultCleared", -1)
    ]


def test_a_fault_that_went_away_while_the_agent_was_down_is_cleared() -> None:
    """What the journal remembers is compared with what is broken now."""
    node = Node()
    node.give(core.Diagnosed((core.Fault(1, "xid"),)))
    node.restart()

    node.give(core.Diagnosed(()))

    assert node.kinds() == ["FaultCleared"]


def test_the_table_has_a_way_out_of_every_stage_and_none_out_of_gone() -> None:
    """Whatever happens, a member can end; what has ended stays so."""
    for stage in Stage:
        assert ((stage, Move.END) in TRANSITIONS) == (stage is not Stage.GONE)
    assert not [move for stage, move in TRANSITIONS if stage is Stage.GONE]
