"""The agent's memory: the core's whole state in one small file.

It is replaced whole and synced before anything is done.

Times in it are milliseconds since the machine's boot, good as long as the boot id is the same;
after another boot nothing of it runs any more, and the core settles what was left.

Agents are upgraded, and taken back, under running jobs: a field that another version has or lacks
is no damage.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

from gangline.agents import procfs
from gangline.agents.attempts import order_text, orders_of
from gangline.agents.core import Exit, Member, NodeState, Stage

if TYPE_CHECKING:
    from pathlib import Path

_VERSION: Final = 1
_NODE_FIELDS: Final = (
    "node",
    "boot_id",
    "genesis",
    "term",
    "seq",
    "incarnation",
    "fault_number",
    "heard_ms",
)
_MEMBER_FIELDS: Final = (
    "listed",
    "address",
    "port",
    "started_ms",
    "progress_ms",
    "deadline_ms",
    "verdict",
    "detail",
    "saved_step",
    "saving_step",
)


class JournalError(Exception):
    """The journal cannot be read; its message is one line saying what to do."""


class Journal:
    """One file. `keep` writes only what has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = b""

    def load(self, node: str) -> NodeState | None:
        """What was kept, None for nothing; JournalError when it is damaged or another node's."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            state = _state(json.loads(data))
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{self._path} is damaged ({error}); move it away") from error
        if state.node != node:
            raise JournalError(f"{self._path} belongs to node {state.node}, not to {node}")
        return state

    def keep(self, state: NodeState) -> None:
        """Put the state on the disk, if it is not there."""
        data = json.dumps(_plain(state), indent=1).encode()
        if data != self._kept:
            procfs.write_whole(self._path, data)
            self._kept = data


def _plain(state: NodeState) -> dict[str, Any]:
    members = [state.members[key] for key in sorted(state.members)]
    return {
        "version": _VERSION,
        **{name: getattr(state, name) for name in _NODE_FIELDS},
        "faults": [[gpu, fault, number] for (gpu, fault), number in sorted(state.faults.items())],
        "orders": order_text(*(member.order for member in members)),
        "members": [_plain_member(member) for member in members],
    }


def _plain_member(member: Member) -> dict[str, Any]:
    plain = {name: getattr(member, name) for name in _MEMBER_FIELDS}
    # Signs of progress come often and are looked for anew after a restart.
    plain["progress_ms"] = 0
    exit_ = None if member.exit is None else asdict(member.exit)
    return {**plain, "stage": member.stage.value, "exit": exit_}


def _state(plain: dict[str, Any]) -> NodeState:
    """Fields that another version has are left alone; those that it lacks are as at the start."""
    known = {name: plain[name] for name in _NODE_FIELDS if name in plain}
    state = NodeState(**{"node": plain["node"], **known})
    state.faults = {(gpu, fault): number for gpu, fault, number in plain["faults"]}
    for order, kept in zip(orders_of(plain["orders"]), plain["members"], strict=True):
        member = Member(order=order, stage=Stage(kept["stage"]))
        for name in _MEMBER_FIELDS:
            setattr(member, name, kept.get(name, getattr(member, name)))
        member.exit = _exit(kept.get("exit"))
        state.members[member.key] = member
    return state


def _exit(kept: dict[str, Any] | None) -> Exit | None:
    if kept is None:
        return None
    return Exit(**{field.name: kept[field.name] for field in fields(Exit) if field.name in kept})
