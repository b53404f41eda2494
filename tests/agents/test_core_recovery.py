"""Coming up again: what the journal remembers meets what is found."""

from __future__ import annotations

from gangline.agents import core
from gangline.agents.core import Exit, Key, Presence
from gangline.events.batch import MemberPhase
from gangline.events.facts import MemberExited, NodeRegistered, RunningMember
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.node import Node, found

JOB = Key("job", 1)


def test_a_running_member_is_adopted_and_registered() -> None:
    """NodeRegistered names it, and nothing is started or stopped."""
    node = Node()
    node.running()

    node.restart(found(Presence.RUNNING))

    assert node.kinds() == ["NodeRegistered", "MemberStarted"]
    registered = node.facts()[0]
    assert isinstance(registered, NodeRegistered)
    assert registered.running == (RunningMember(job="job", attempt=1),)


def test_what_ended_meanwhile_is_stated_before_the_registration() -> None:
    """A reader that sees the registration without it must already know how it ended."""
    node = Node()
    node.running()
    saved = core.CheckpointSeen(key=JOB, step=9, path="/c/9", at_ms=node.now_ms + 500)

    node.restart(found(Presence.ENDED, exit=Exit(code=3), saved=saved))

    assert node.kinds() == ["CheckpointSaved", "MemberExited", "NodeRegistered"]
    ended = node.facts()[1]
    assert isinstance(ended, MemberExited)
    assert ended.code == 3


def test_a_start_that_was_cut_short_is_done_again() -> None:
    """The intent was written and nothing ran: nothing can run twice."""
    node = Node()
    node.told(make.member())
    node.checked()
    node.told(make.member(phase=MemberPhase.RUN))

    node.restart(found(Presence.ABSENT))

    assert node.kinds() == ["NodeRegistered", "Start"]


def test_a_member_without_processes_and_result_is_infrastructure() -> None:
    """Nobody can say how it ended, so it was not the program's fault."""
    node = Node()
    node.running()

    node.restart()

    ended = node.facts()[0]
    assert isinstance(ended, MemberExited)
    assert ended.reason == "infrastructure"


def test_after_a_reboot_nothing_is_adopted() -> None:
    """Pids of another boot name nobody; a result that was written still counts."""
    node = Node()
    node.running("lost")
    node.told(make.member("lost", phase=MemberPhase.RUN), make.member("ended", gpus=(1,)))
    node.checked("ended")
    run = make.member("ended", gpus=(1,), phase=MemberPhase.RUN)
    node.told(make.member("lost", phase=MemberPhase.RUN), run)

    node.restart(found(Presence.ENDED, "ended", exit=Exit(code=0)), boot_id="boot-2")

    exits = [fact for fact in node.facts() if isinstance(fact, MemberExited)]
    assert [(fact.job, fact.reason) for fact in exits] == [
        ("ended", "exited"),
        ("lost", "infrastructure"),
    ]


def test_a_running_grace_goes_on_with_its_old_deadline() -> None:
    """A restart of the agent gives nobody more time."""
    node = Node()
    node.running()
    node.told(make.member(phase=MemberPhase.STOP, grace_ms=60_000))
    deadline_ms = node.now_ms + 60_000
    node.now_ms += 20_000

    node.restart(found(Presence.RUNNING))

    stop = node.actions[-1]
    assert isinstance(stop, core.Stop)
    assert stop.deadline_ms == deadline_ms


def test_a_kill_goes_on() -> None:
    """What was fenced before the crash is fenced after it."""
    node = Node()
    node.running()
    node.told()

    node.restart(found(Presence.RUNNING))

    assert node.kinds() == ["NodeRegistered", "Kill"]


def test_a_member_that_only_the_machine_remembers_is_taken_in() -> None:
    """The journal is lost, the job is well: it runs on, until a record says otherwise."""
    node = Node()

    node.restart(found(Presence.RUNNING))
    assert node.kinds() == ["NodeRegistered", "MemberStarted"]
    node.seq = 5
    node.told(make.member(phase=MemberPhase.RUN))

    assert node.actions == []
    assert node.stage() == "running"


def test_a_ready_member_is_looked_at_again_on_its_published_port() -> None:
    """The reservation of the port died with the old agent."""
    node = Node()
    node.told(make.member())
    node.checked(port=20_009)

    node.restart()

    check = node.actions[-1]
    assert isinstance(check, core.Check)
    assert check.port == 20_009


def test_a_ready_member_at_whose_port_nobody_meets_takes_any() -> None:
    """On a machine of several agents it may be the port of its own gang by now."""
    node = Node()
    second = make.member(nodes=("n1", make.NODE), member=1)
    node.told(second)
    node.checked(port=20_009)

    node.restart()

    check = node.actions[-1]
    assert isinstance(check, core.Check)
    assert check.port == 0


def test_a_restart_does_not_renew_a_lease() -> None:
    """An agent that comes up again and again behind a partition must not keep its writers alive."""
    node = Node()
    node.running(spec=make.spec(launch=Launch(at_most_one_writer=True)))
    node.now_ms += 61_000

    node.restart(found(Presence.RUNNING))

    assert node.kinds() == ["NodeRegistered", "MemberStarted", "Stop"]


def test_a_member_that_is_gone_is_stated_again_under_the_same_id() -> None:
    """The fact may have been lost with the spool; a reader knows it as the same."""
    node = Node()
    node.running()
    node.give(core.Ended(JOB, Exit(code=4)))
    before = node.actions

    node.restart(found(Presence.ENDED, exit=Exit(code=4)))

    assert node.actions[:1] == before
