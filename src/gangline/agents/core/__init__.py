"""The pure core of an agent: what it is told and what it sees, to what it does and states.

`step(state, cue, now_ms=…) -> list[Action]` is the only verb, live, after a restart and in
simulation. `now_ms` is milliseconds since the machine's boot: the clock that goes on while the
agent is down.
"""

from gangline.agents.core.actions import (
    Action,
    Check,
    Forget,
    Kill,
    Lease,
    Note,
    Start,
    State,
    Stop,
)
from gangline.agents.core.cues import (
    Checked,
    CheckpointSeen,
    Cue,
    Diagnosed,
    Ended,
    Fault,
    Found,
    Heard,
    Lost,
    Presence,
    Progressed,
    Recovered,
    SavingSeen,
    Started,
    Stuck,
    Tick,
    Told,
)
from gangline.agents.core.model import Exit, Key, Member, NodeState, Stage
from gangline.agents.core.reconcile import step
from gangline.agents.core.timing import next_wake

__all__ = [
    "Action",
    "Check",
    "Checked",
    "CheckpointSeen",
    "Cue",
    "Diagnosed",
    "Ended",
    "Exit",
    "Fault",
    "Forget",
    "Found",
    "Heard",
    "Key",
    "Kill",
    "Lease",
    "Lost",
    "Member",
    "NodeState",
    "Note",
    "Presence",
    "Progressed",
    "Recovered",
    "SavingSeen",
    "Stage",
    "Start",
    "Started",
    "State",
    "Stop",
    "Stuck",
    "Tick",
    "Told",
    "next_wake",
    "step",
]
