"""Whatever the agent's core is told, and whenever it crashes: what must always hold.

A model of the machine carries out what the core asks for, late or at once, and may lose the agent
at any moment. The core's state goes through the journal's own encoding at each crash.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangline.agents import core, journal
from gangline.agents.core import Exit, Key, NodeState, Presence
from gangline.events.batch import AssignedMember, MemberPhase
from gangline.events.facts import MemberExited
from tests.agents import make

JOBS = ("a", "b", "c")
BOOTS = 3


class AgentMachine(RuleBasedStateMachine):
    """A node's core on a model of a machine."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.seq = 0
        self.boot = 0
        self.state = NodeState(node=make.NODE)
        self.checks: dict[Key, AssignedMember] = {}
        self.alive: dict[Key, AssignedMember] = {}
        self.up: set[Key] = set()
        self.dying: set[Key] = set()
        self.results: dict[Key, Exit] = {}
        self.ever_started: set[Key] = set()
        self.listed: dict[str, AssignedMember] = {}
        self.attempts: dict[str, int] = {}
        self.exits: dict[str, MemberExited] = {}
        self.give(core.Recovered(boot_id="boot-0"))

    # --- the machine -----------------------------------------------------------------------------

    def give(self, cue: core.Cue, *, crash_after: int | None = None) -> None:
        """One cue; of the actions only so many are done when the agent dies among them."""
        actions = core.step(self.state, cue, now_ms=self.now_ms)
        for action in actions[:crash_after]:
            self.do(action)

    def do(self, action: core.Action) -> None:
        """Carry out one action as the executor would."""
        match action:
            case core.Check(order=order):
                self.checks[Key(order.job, order.attempt)] = order
            case core.Start(order=order):
                self.start(order)
            case core.Stop(key=key) | core.Kill(key=key):
                assert key in self.ever_started, f"{key} was signalled and never started here"
                self.dying.add(key)
            case core.State(id=name, fact=fact) if isinstance(fact, MemberExited):
                assert self.exits.setdefault(name, fact) == fact, "one id, two facts"
                assert Key(fact.job, fact.attempt) not in self.alive, "stated gone, and alive"
            case _:
                pass

    def start(self, order: AssignedMember) -> None:
        """A supervisor refuses to be the second of its attempt."""
        key = Key(order.job, order.attempt)
        if key in self.ever_started:
            return
        self.ever_started.add(key)
        self.alive[key] = order

    def end(self, key: Key, how: Exit) -> None:
        """All processes of an attempt are gone, and its result is on the disk."""
        del self.alive[key]
        self.up.discard(key)
        self.dying.discard(key)
        self.results[key] = how

    # --- what may happen -------------------------------------------------------------------------

    def publish(self, *, crash_after: int | None = None) -> None:
        """A record with everything that should be here."""
        self.seq += 1
        members = [self.listed[job] for job in sorted(self.listed)]
        record = core.Told(make.assignment(*members, seq=self.seq))
        self.give(record, crash_after=crash_after)

    @rule(job=st.sampled_from(JOBS), gpus=st.sampled_from([(0,), (1,), (0, 1)]))
    def a_job_is_placed(self, job: str, gpus: tuple[int, ...]) -> None:
        """A new attempt; an older one of it, and whoever has these GPUs, is not listed any more."""
        self.attempts[job] = self.attempts.get(job, 0) + 1
        for other, order in sorted(self.listed.items()):
            if set(order.gpus) & set(gpus):
                del self.listed[other]
        self.listed[job] = make.member(job, attempt=self.attempts[job], gpus=gpus)
        self.publish()

    @rule(job=st.sampled_from(JOBS), gpus=st.sampled_from([(0,), (1,), (0, 1)]))
    def a_job_comes_up(self, job: str, gpus: tuple[int, ...]) -> None:
        """The usual way, all of it that is possible now."""
        self.a_job_is_placed(job, gpus)
        for key in sorted(self.checks):
            del self.checks[key]
            self.give(core.Checked(key=key, address="h", port=20_000))
        self.gangs_start()
        for key in sorted(set(self.alive) - self.up):
            self.up.add(key)
            self.give(core.Started(key))

    @precondition(lambda self: self.listed)
    @rule()
    def gangs_start(self) -> None:
        """Whoever is listed is to run: mostly those that said they are ready."""
        self.all_are_to(MemberPhase.RUN)
        self.publish()

    @precondition(lambda self: self.listed)
    @rule()
    def gangs_stop(self) -> None:
        """Whoever is listed is to stop."""
        self.all_are_to(MemberPhase.STOP)
        self.publish()

    def all_are_to(self, phase: MemberPhase) -> None:
        """Phases only go on."""
        for job, order in self.listed.items():
            if order.phase is not MemberPhase.STOP:
                self.listed[job] = replace(order, phase=phase, grace_ms=5_000)

    @precondition(lambda self: self.listed)
    @rule(data=st.data())
    def a_job_is_not_listed_any_more(self, data: st.DataObject) -> None:
        """It is released, or fenced."""
        del self.listed[data.draw(st.sampled_from(sorted(self.listed)))]
        self.publish()

    @rule(back=st.integers(0, 3))
    def an_old_record_comes(self, back: int) -> None:
        """Delivered twice, or from a scheduler that was replaced."""
        before = sorted(self.state.members)
        self.give(core.Told(make.assignment(seq=max(0, self.seq - back))))
        assert sorted(self.state.members) == before

    @precondition(lambda self: self.checks)
    @rule(data=st.data(), problem=st.sampled_from(["", "", "", "sick"]))
    def a_check_is_answered(self, data: st.DataObject, problem: str) -> None:
        """The node could start it, or not."""
        key = data.draw(st.sampled_from(sorted(self.checks)))
        del self.checks[key]
        self.give(core.Checked(key=key, address="h", port=20_000, problem=problem))

    @precondition(lambda self: set(self.alive) - self.up)
    @rule(data=st.data())
    def ranks_come_up(self, data: st.DataObject) -> None:
        """The supervisor says so."""
        key = data.draw(st.sampled_from(sorted(set(self.alive) - self.up)))
        self.up.add(key)
        self.give(core.Started(key))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), code=st.integers(0, 2))
    def an_attempt_ends(self, data: st.DataObject, code: int) -> None:
        """By itself, or as it was told to."""
        key = data.draw(st.sampled_from(sorted(self.alive)))
        how = Exit(code=code, reason="stopped" if key in self.dying else "exited")
        self.end(key, how)
        self.give(core.Ended(key, how))

    @rule(seconds=st.integers(0, 100))
    def time_passes(self, seconds: int) -> None:
        """Nothing ends by that."""
        self.now_ms += seconds * 1000
        self.give(core.Tick())

    @rule(data=st.data())
    def the_agent_crashes(self, data: st.DataObject) -> None:
        """At any moment; some attempts end while it is down, and then it comes up."""
        self.checks.clear()
        self.state = _through_the_journal(self.state)
        for key in sorted(self.alive):
            if data.draw(st.booleans(), label=f"{key} ends meanwhile"):
                self.end(key, Exit(code=0))
        self.give(core.Recovered(boot_id=f"boot-{self.boot}", found=self.what_is_found()))

    @precondition(lambda self: self.listed)
    @rule(data=st.data(), done=st.integers(0, 2))
    def the_agent_dies_amid_its_actions(self, data: st.DataObject, done: int) -> None:
        """The journal is written, and only some of what follows is done."""
        self.all_are_to(MemberPhase.RUN)
        self.publish(crash_after=done)
        self.the_agent_crashes(data)

    @precondition(lambda self: self.boot < BOOTS)
    @rule()
    def the_machine_is_booted(self) -> None:
        """All processes are gone without a word."""
        self.boot += 1
        self.checks.clear()
        self.alive.clear()
        self.up.clear()
        self.dying.clear()
        self.state = _through_the_journal(self.state)
        self.give(core.Recovered(boot_id=f"boot-{self.boot}", found=self.what_is_found()))

    def what_is_found(self) -> tuple[core.Found, ...]:
        """The folders of attempts as the executor would read them."""
        found: dict[Key, core.Found] = {}
        for key, order in self.alive.items():
            presence = Presence.RUNNING if key in self.up else Presence.STARTING
            found[key] = core.Found(order=order, presence=presence, started_ms=1)
        for key, how in self.results.items():
            order = make.member(key.job, attempt=key.attempt)
            found[key] = core.Found(order=order, presence=Presence.ENDED, exit=how)
        return tuple(found[key] for key in sorted(found))

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def no_job_runs_two_attempts(self) -> None:
        """Not even for a moment."""
        jobs = [key.job for key in self.alive]
        assert len(jobs) == len(set(jobs))

    @invariant()
    def no_gpu_has_two_members(self) -> None:
        """A GPU is free when the processes of its holder are gone, not before."""
        held = [gpu for order in self.alive.values() for gpu in order.gpus]
        assert len(held) == len(set(held))

    @invariant()
    def whatever_lives_is_known(self) -> None:
        """No process is forgotten, and none is imagined that was seen to end."""
        for key in self.alive:
            assert self.state.members[key].live

    @invariant()
    def what_is_not_listed_is_on_its_way_out(self) -> None:
        """A fenced member has been told to go."""
        for key, member in self.state.members.items():
            if not member.listed and key in self.alive:
                assert key in self.dying


def _through_the_journal(state: NodeState) -> NodeState:
    plain: dict[str, Any] = json.loads(json.dumps(journal._plain(state)))
    return journal._state(plain)


TestAgentMachine = AgentMachine.TestCase
TestAgentMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
