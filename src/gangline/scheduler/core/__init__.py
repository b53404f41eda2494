"""The deterministic state machine: facts in, decisions out, the state is the fold of decisions.

Nothing here asks for time, ids, randomness, configuration or the outside; everything arrives in the
arguments of `step`. The names below are all that the drivers use.
"""

from gangline.scheduler.core import policy
from gangline.scheduler.core.apply import fold
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.quota import TeamNumbers, team_numbers
from gangline.scheduler.core.snapshot import STATE_SCHEMA, dump, load, state_digest
from gangline.scheduler.core.state import State
from gangline.scheduler.core.step import LOGIC_VERSION, next_wake, step
from gangline.scheduler.core.views import (
    FleetNumbers,
    assigned_members,
    explain,
    fleet_numbers,
    job_state,
    policy_value,
    take_touched,
)


def new_state() -> State:
    """The state of a cell in which nothing has happened yet."""
    state = State()
    state.touch(state.cell)  # so that its digest is that of its snapshot too
    return state


__all__ = [
    "LOGIC_VERSION",
    "STATE_SCHEMA",
    "Fact",
    "FleetNumbers",
    "State",
    "TeamNumbers",
    "assigned_members",
    "dump",
    "explain",
    "fleet_numbers",
    "fold",
    "job_state",
    "load",
    "new_state",
    "next_wake",
    "policy",
    "policy_value",
    "state_digest",
    "step",
    "take_touched",
    "team_numbers",
]
