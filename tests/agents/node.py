"""A node with the real core and no processes: what it is asked to do is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangline.agents import core
from gangline.agents.core import Key, NodeState, Presence
from gangline.events.batch import MemberPhase
from tests.agents import make

if TYPE_CHECKING:
    from gangline.events.batch import AssignedMember
    from gangline.events.facts import NodeFact

BOOT = "boot-1"


class Node:
    """Feeds cues at a time that the test moves; keeps the actions of the last cue."""

    def __init__(self) -> None:
        self.state = NodeState(node=make.NODE)
        self.now_ms = 1_000_000
        self.seq = 0
        self.actions: list[core.Action] = []
        self.give(core.Recovered(boot_id=BOOT, gpus=8))

    def give(self, cue: core.Cue) -> list[core.Action]:
        """One cue, now."""
        self.actions = core.step(self.state, cue, now_ms=self.now_ms)
        return self.actions

    def told(self, *members: AssignedMember) -> list[core.Action]:
        """The next record lists exactly these members."""
        self.seq += 1
        return self.give(core.Told(make.assignment(*members, seq=self.seq)))

    def checked(self, job: str = "job", attempt: int = 1, port: int = 20_001) -> None:
        """Its check found nothing wrong."""
        self.give(core.Checked(key=Key(job, attempt), address="10.0.0.1", port=port))

    def running(self, job: str = "job", *, attempt: int = 1, **more: Any) -> None:
        """Bring a member from nothing to its ranks running; it is the only one listed."""
        self.told(make.member(job, attempt=attempt, **more))
        self.checked(job, attempt)
        self.told(make.member(job, attempt=attempt, phase=MemberPhase.RUN, **more))
        self.give(core.Started(Key(job, attempt)))

    def restart(self, *found: core.Found, boot_id: str = BOOT) -> list[core.Action]:
        """The agent comes up again and finds this."""
        return self.give(core.Recovered(boot_id=boot_id, found=found, gpus=8))

    def stage(self, job: str = "job", attempt: int = 1) -> str:
        """How far a member is, empty when it is not known."""
        member = self.state.members.get(Key(job, attempt))
        return member.stage.value if member else ""

    def facts(self) -> list[NodeFact]:
        """The facts among the last actions."""
        return [action.fact for action in self.actions if isinstance(action, core.State)]

    def kinds(self) -> list[str]:
        """The last actions by name, facts by the name of the fact."""
        return [
            type(action.fact if isinstance(action, core.State) else action).__name__
            for action in self.actions
        ]


def found(presence: Presence, job: str = "job", *, attempt: int = 1, **more: object) -> core.Found:
    """What the executor finds of a running member."""
    order = make.member(job, attempt=attempt, phase=MemberPhase.RUN)
    return core.Found(order=order, presence=presence, **more)  # type: ignore[arg-type]
