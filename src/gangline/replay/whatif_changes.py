"""What is to be otherwise in a fork of a history: `KEY=VALUE`, of the policy, a team or the fleet.

- `min_runtime=30m`: a key of the policy.
- `team.NAME.guaranteed=64` (or borrow, lend, weight): a number of a team; none and unlimited too.
- `node.NAME=withdrawn`, `node.NAME=cordoned`: a node is gone, or takes no new work.
- `nodes=+4`: so many more nodes like the last one that was admitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import facts as f
from gangline.replay.bad_input import BadInputError
from gangline.replay.scenario_values import borrow, count, duration, policy_number
from gangline.scheduler.core.policy import KEYS, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.scheduler.core import State
    from gangline.scheduler.core.entities import Node

TEAM_KEYS: Final = {"guaranteed": count, "borrow": borrow, "lend": borrow, "weight": count}
NODE_WORDS: Final = ("withdrawn", "cordoned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Everything that is to be otherwise. nodes: name to `withdrawn` or `cordoned`."""

    policy: Mapping[str, int] = field(default_factory=dict)
    teams: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    more_nodes: int = 0

    def standing(self) -> Iterator[Any]:
        """What operators would have to state for it, again after each change of their own."""
        if self.policy:
            yield f.PolicySet(values=dict(self.policy))
        for name, values in self.teams.items():
            yield f.TeamSet(
                team=name,
                guaranteed=values.get("guaranteed"),
                borrow=values.get("borrow"),
                lend=values.get("lend"),
                weight=values.get("weight"),
            )

    def of_nodes(self, state: State) -> Iterator[Any]:
        """The same for nodes that there are; once."""
        for name, word in self.nodes.items():
            if name not in state.nodes:
                raise BadInputError(f"--set node.{name}", "expected a node of that moment")
            kind = f.NodeWithdrawn if word == "withdrawn" else f.NodeCordoned
            yield kind(node=name, why="what if")

    def new_nodes(self, state: State) -> list[f.NodeAdmitted]:
        """The nodes that there are not."""
        if not self.more_nodes:
            return []
        if not state.nodes:
            raise BadInputError("--set nodes", "expected a fleet with a node to take as a model")
        like = next(reversed(list(state.nodes.values())))
        return [_admitted(like, index) for index in range(1, self.more_nodes + 1)]


def _admitted(like: Node, index: int) -> f.NodeAdmitted:
    return f.NodeAdmitted(
        node=f"more-{index}",
        path=like.path,
        levels=like.levels,
        gpus=like.gpus,
        labels=dict(like.labels),
    )


def parse_changes(pairs: Sequence[str], state: State) -> Changes:
    """The changes that pairs of `KEY=VALUE` say; BadInputError names the one that cannot be."""
    policy: dict[str, int] = {}
    teams: dict[str, dict[str, int]] = {}
    nodes: dict[str, str] = {}
    more = 0
    for pair in pairs:
        key, equals, value = pair.partition("=")
        where = f"--set {pair}"
        if not equals:
            raise BadInputError(where, "expected KEY=VALUE")
        if key.startswith("team."):
            team, _, name = key.removeprefix("team.").rpartition(".")
            teams.setdefault(team, {})[name] = _team_value(where, state, (team, name), value)
        elif key.startswith("node."):
            if value not in NODE_WORDS:
                raise BadInputError(where, "expected withdrawn or cordoned")
            nodes[key.removeprefix("node.")] = value
        elif key == "nodes":
            more += _number(where, count, value.removeprefix("+"))
        else:
            policy[key] = _policy_value(where, key, value)
    return Changes(policy=policy, teams=teams, nodes=nodes, more_nodes=more)


def _team_value(where: str, state: State, key: tuple[str, str], value: str) -> int:
    team, name = key
    if name not in TEAM_KEYS:
        raise BadInputError(where, f"expected team.NAME.KEY of {', '.join(TEAM_KEYS)}")
    if team not in state.teams:
        raise BadInputError(where, f"expected a team of that moment, got {team!r}")
    number = _number(where, TEAM_KEYS[name], value)
    of_models = sum(state.teams[team].by_model.values())
    if name == "guaranteed" and number < of_models:
        raise BadInputError(where, f"expected at least the {of_models} guaranteed of single models")
    return number


def _policy_value(where: str, key: str, value: str) -> int:
    if key not in KEYS:
        raise BadInputError(where, "expected a policy key, team.NAME.KEY, node.NAME or nodes")
    read = duration if KEYS[key].unit == "ms" else policy_number
    number = _number(where, read, value)
    wrong = problem(key, number)
    if wrong:
        raise BadInputError(where, wrong)
    return number


def _number(where: str, read: Any, value: str) -> int:  # noqa: ANN401 - of scenario_values
    try:
        number: int = read(value)
    except ValueError as error:
        raise BadInputError(where, str(error)) from error
    return number
