"""Fleets, teams and policies as TOML files.

A fleet: `gpus_per_node = 8`, `levels = ["spine", "block"]`, and either counts (`spines = 4`,
`blocks_per_spine = 8`, `nodes_per_block = 32`) or a `[[node]]` list with `name`, `path`, `gpus`.
Teams: a `[[team]]` list with `name`, `guaranteed`, `borrow`, `lend`, `weight`, `parent`.
A policy: `key = "10m"` or `key = 128`, one line a key.
"""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events.facts import NodeAdmitted, TeamSet
from gangline.events.spec import UNLIMITED
from gangline.replay.bad_input import BadInputError
from gangline.replay.scenario_values import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEFAULT_LEVELS: Final = ("spine", "block")
_TEAM_KEYS: Final = ("name", "guaranteed", "borrow", "lend", "weight", "parent", "by_model")
_WORDS: Final = {"unlimited": UNLIMITED, "none": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """A node. path: the name of its domain at each level, outermost first."""

    name: str
    path: tuple[str, ...]
    gpus: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The nodes of a cell and the names of the levels above them, outermost first."""

    levels: tuple[str, ...]
    nodes: tuple[FleetNode, ...]

    @property
    def gpus(self) -> int:
        """All GPUs of the fleet."""
        return sum(node.gpus for node in self.nodes)

    def admissions(self) -> tuple[NodeAdmitted, ...]:
        """The facts that make this fleet."""
        return tuple(
            NodeAdmitted(
                node=node.name,
                path=node.path,
                levels=self.levels,
                gpus=node.gpus,
                labels=node.labels,
            )
            for node in self.nodes
        )


def read_fleet(path: Path) -> Fleet:
    """The fleet of a TOML file; raises BadInputError."""
    table = _toml(path)
    levels = table.get("levels", list(DEFAULT_LEVELS))
    if not isinstance(levels, list) or not all(isinstance(name, str) and name for name in levels):
        raise BadInputError(path, f"levels: expected a list of names, got {levels!r}")
    gpus = _count(path, table, "gpus_per_node", least=1) if "gpus_per_node" in table else None
    if "node" in table:
        return Fleet(levels=tuple(levels), nodes=_listed_nodes(path, table["node"], levels, gpus))
    if gpus is None:
        raise BadInputError(path, "gpus_per_node: expected a count, got nothing")
    counts = [_count(path, table, key, least=1) for key in count_keys(levels)]
    return regular_fleet(counts, levels=levels, gpus_per_node=gpus)


def count_keys(levels: Sequence[str]) -> tuple[str, ...]:
    """The keys that count domains and nodes: `spines`, `blocks_per_spine`, `nodes_per_block`."""
    if not levels:
        return ("nodes",)
    inner = (f"{below}s_per_{above}" for above, below in itertools.pairwise([*levels, "node"]))
    return (f"{levels[0]}s", *inner)


def regular_fleet(counts: Sequence[int], *, levels: Sequence[str], gpus_per_node: int) -> Fleet:
    """A fleet of equal domains with nodes like `s0-b0-n0`. counts: per parent, outermost first."""
    letters = [name[0] for name in levels] + ["n"]
    nodes = []
    for place in itertools.product(*(range(count) for count in counts)):
        words = [f"{letter}{index}" for letter, index in zip(letters, place, strict=True)]
        path = tuple("-".join(words[: depth + 1]) for depth in range(len(levels)))
        nodes.append(FleetNode(name="-".join(words), path=path, gpus=gpus_per_node))
    return Fleet(levels=tuple(levels), nodes=tuple(nodes))


def read_teams(path: Path) -> tuple[TeamSet, ...]:
    """The teams of a TOML file, each after its parent; raises BadInputError."""
    table = _toml(path)
    strange = next((key for key in table if key != "team"), None)
    if strange is not None:
        raise BadInputError(path, f"{strange}: expected tables [[team]] or [team.NAME]")
    rows = table.get("team", [])
    if isinstance(rows, dict):
        rows = [{"name": name, **row} for name, row in rows.items() if isinstance(row, dict)]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadInputError(path, "expected tables [[team]]")
    teams = tuple(_team(path, row, index) for index, row in enumerate(rows, start=1))
    return tuple(_parents_first(path, teams))


def read_policy(path: Path) -> dict[str, int | str]:
    """Policy keys with milliseconds or counts as they stand in a TOML file; raises BadInputError.

    Durations are texts (`"10m"`); numbers are counts. Which keys exist is for the core to say.
    """
    values: dict[str, int | str] = {}
    for key, value in _toml(path).items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise BadInputError(path, f'{key}: expected "10m" or a count, got {value!r}')
        values[key] = value
    return values


def parse_duration_ms(text: str, *, where: object) -> int:
    """Milliseconds of `500ms`, `30s`, `10m`, `2h`, `1h30m`, `3d`, or `0`; raises BadInputError."""
    try:
        return 0 if text == "0" else duration(text)
    except ValueError as error:
        raise BadInputError(where, f"expected {error}, got {text!r}") from error


def split_guarantee(names: Sequence[str], gpus: int) -> tuple[TeamSet, ...]:
    """Teams of weight 1 that share `gpus` equally; what does not divide goes to the first ones."""
    share, left = divmod(gpus, max(1, len(names)))
    return tuple(
        TeamSet(team=name, guaranteed=share + (index < left), weight=1)
        for index, name in enumerate(names)
    )


def fleet_text(fleet: Fleet) -> str:
    """A fleet as TOML, node by node."""
    lines = [f"levels = [{', '.join(_quoted(name) for name in fleet.levels)}]"]
    for node in fleet.nodes:
        path = ", ".join(_quoted(name) for name in node.path)
        lines += ["", "[[node]]", f"name = {_quoted(node.name)}", f"path = [{path}]"]
        lines.append(f"gpus = {node.gpus}")
    return "\n".join(lines) + "\n"


def teams_text(teams: Sequence[TeamSet]) -> str:
    """Teams as TOML."""
    return "\n".join(_team_text(team) for team in teams)


def _team_text(team: TeamSet) -> str:
    lines = ["[[team]]", f"name = {_quoted(team.team)}"]
    for key in ("guaranteed", "borrow", "lend", "weight"):
        value = getattr(team, key)
        if value is not None:
            lines.append(f"{key} = " + ('"unlimited"' if value == UNLIMITED else str(value)))
    if team.parent:
        lines.append(f"parent = {_quoted(team.parent)}")
    if team.by_model:
        models = (f"{_quoted(model)} = {gpus}" for model, gpus in team.by_model.items())
        lines.append(f"by_model = {{ {', '.join(models)} }}")
    return "\n".join(lines) + "\n"


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(path, f"cannot be opened: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(path, f"expected TOML, got {error}") from error


def _count(path: Path, table: Mapping[str, Any], key: str, *, least: int) -> int:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        got = "nothing" if value is None else repr(value)
        raise BadInputError(path, f"{key}: expected a count of at least {least}, got {got}")
    return value


def _listed_nodes(
    path: Path, rows: object, levels: Sequence[str], gpus: int | None
) -> tuple[FleetNode, ...]:
    """The nodes of a `[[node]]` list; `gpus` is what a row that names none has."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise BadInputError(path, "node: expected tables [[node]]")
    nodes = tuple(
        _listed_node(path, {"gpus": gpus, **row}, levels, f"node {index}")
        for index, row in enumerate(rows, start=1)
    )
    name, times = Counter(node.name for node in nodes).most_common(1)[0]
    if times > 1:
        raise BadInputError(path, f"node {name}: expected once, got {times} times")
    return nodes


def _listed_node(
    path: Path, row: Mapping[str, Any], levels: Sequence[str], where: str
) -> FleetNode:
    name, place = row.get("name"), row.get("path")
    if not isinstance(name, str) or not name:
        raise BadInputError(path, f"{where}: name: expected a text, got {name!r}")
    place = place.split("/") if isinstance(place, str) else place
    if not isinstance(place, list) or len(place) != len(levels):
        raise BadInputError(path, f"{where}: path: expected {len(levels)} names, got {place!r}")
    labels = row.get("labels", {})
    if not isinstance(labels, dict):
        raise BadInputError(path, f"{where}: labels: expected a table, got {labels!r}")
    return FleetNode(
        name=name,
        path=tuple(str(part) for part in place),
        gpus=_count(path, row, "gpus", least=1),
        labels={str(key): str(value) for key, value in labels.items()},
    )


def _team(path: Path, row: Mapping[str, Any], index: int) -> TeamSet:
    name = row.get("name")
    where = f"team {name or index}"
    if not isinstance(name, str) or not name:
        raise BadInputError(path, f"{where}: name: expected a text, got {name!r}")
    unknown = next((key for key in row if key not in _TEAM_KEYS), None)
    if unknown is not None:
        known = ", ".join(_TEAM_KEYS)
        raise BadInputError(path, f"{where}: {unknown}: expected one of {known}")
    parent = row.get("parent")
    return TeamSet(
        team=name,
        guaranteed=_gpus(path, row, "guaranteed", where),
        borrow=_gpus(path, row, "borrow", where),
        lend=_gpus(path, row, "lend", where),
        weight=_count(path, row, "weight", least=1) if "weight" in row else None,
        parent=str(parent) if parent else None,
        by_model=_by_model(path, row, where),
    )


def _by_model(path: Path, row: Mapping[str, Any], where: str) -> dict[str, int]:
    """How much of a team's guarantee is of single GPU models."""
    table = row.get("by_model", {})
    if not isinstance(table, dict):
        raise BadInputError(path, f"{where}: by_model: expected a table, got {table!r}")
    found = {model: _count(path, table, model, least=0) for model in table}
    guaranteed = _gpus(path, row, "guaranteed", where) or 0
    if sum(found.values()) > guaranteed:
        got = f"{sum(found.values())} in all"
        raise BadInputError(path, f"{where}: by_model: expected at most {guaranteed}, got {got}")
    return found


def _parents_first(path: Path, teams: Sequence[TeamSet]) -> Iterator[TeamSet]:
    """The teams, each after its parent, else as they stand; refuses repeats, strangers, circles."""
    name, times = Counter(team.team for team in teams).most_common(1)[0] if teams else ("", 0)
    if times > 1:
        raise BadInputError(path, f"team {name}: expected once, got {times} times")
    known = {""}
    waiting = list(teams)
    while waiting:
        ready = [team for team in waiting if (team.parent or "") in known]
        if not ready:
            team = waiting[0]
            raise BadInputError(path, f"team {team.team}: no such parent: {team.parent}")
        yield from ready
        known.update(team.team for team in ready)
        waiting = [team for team in waiting if team.team not in known]


def _gpus(path: Path, row: Mapping[str, Any], key: str, where: str) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value in _WORDS and key != "guaranteed":
        return _WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInputError(path, f"{where}: {key}: expected GPUs, got {value!r}")
    return value


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
