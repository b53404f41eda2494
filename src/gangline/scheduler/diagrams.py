"""What the documents draw from the code: `python -m gangline.scheduler.diagrams [--check]`.

In docs/lifecycle.md and docs/scheduling.md, whatever stands between `<!-- generated: NAME -->` and
`<!-- end -->` is written from the core's tables: the diagrams of a job's phases, of a node's
service and health, and the table of policy keys. `--check` writes nothing and exits 1 when a
document is not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from gangline.events.decisions import Health, NodeHealthChanged, Service
from gangline.scheduler.core.apply_fleet import HEALTH_EVENTS
from gangline.scheduler.core.control import SERVICE
from gangline.scheduler.core.entities import Node
from gangline.scheduler.core.lifecycle import TRANSITIONS, Phase
from gangline.scheduler.core.policy import DAY, HOUR, KEYS, MINUTE, SECOND, PolicyKey
from gangline.scheduler.core.state import State

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
PAGES: Final = ("lifecycle.md", "scheduling.md")
BLOCK: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# What time does to a node's service, beside what operators ask (control.py).
BY_TIME: Final = (
    (Service.OPEN, "a maintenance begins", Service.MAINTENANCE),
    (Service.MAINTENANCE, "it is over", Service.OPEN),
)
# A node's health is three things at once, and the worst of them is shown.
REGIONS: Final[Mapping[str, Mapping[str, Mapping[str, int]]]] = {
    "silence": {
        "heard": {"silent_ms": 0, "lost": 0},
        "silent": {"silent_ms": 1, "lost": 0},
        "lost": {"silent_ms": 1, "lost": 1},
    },
    "readiness": {"ready": {"unready_until_ms": 0}, "unready": {"unready_until_ms": 1}},
    "strikes": {"trusted": {"quarantined_until_ms": 0}, "quarantined": {"quarantined_until_ms": 1}},
}

Edge = tuple[str, str, str]


def jobs() -> str:
    """A job's phases, and the decisions that move it."""
    edges = [
        (before.name.lower(), after.name.lower(), kind.__name__)
        for (before, kind), after in TRANSITIONS.items()
    ]
    named = [("[*]", Phase.QUEUED.name.lower(), "JobQueued")]
    return diagram([*named, *edges, (Phase.ENDED.name.lower(), "[*]", "")])


def service() -> str:
    """Whether operators let a node take new work."""
    asked = [(str(before), str(after), kind.__name__) for (before, kind), after in SERVICE.items()]
    by_time = [(str(before), str(after), what) for before, what, after in BY_TIME]
    return diagram([("[*]", str(Service.OPEN), "NodeAdded"), *asked, *by_time])


def health() -> str:
    """What can be known of a node: three parts, side by side."""
    lines = ["stateDiagram-v2", "    state health {"]
    for index, (region, states) in enumerate(REGIONS.items()):
        lines += ["        --"] if index else []
        lines += [f"        [*] --> {next(iter(states))}"]
        lines += [f"        {before} --> {after}: {what}" for before, after, what in moves(region)]
    return fenced("\n".join([*lines, "    }"]))


def moves(region: str) -> list[Edge]:
    """What each event of health does to one part, found by trying it."""
    found = []
    for before, flags in REGIONS[region].items():
        for cause, apply in HEALTH_EVENTS.items():
            after = _after(region, flags, cause, apply)
            if after not in ("", before):
                found.append((before, after, cause))
    return found


def _after(
    region: str,
    flags: Mapping[str, int],
    cause: str,
    apply: Callable[[State, Node, NodeHealthChanged], None],
) -> str:
    node = Node(name="n", order=1, path=(), levels=(), gpus=1, labels={}, public_key=b"")
    for name, value in flags.items():
        setattr(node, name, value)
    state = State()
    until_ms = state.cell.policy["lost_after"] + 1
    apply(
        state, node, NodeHealthChanged(node="n", health=Health.WELL, cause=cause, until_ms=until_ms)
    )
    for name, wanted in REGIONS[region].items():
        if all(bool(getattr(node, flag)) == bool(value) for flag, value in wanted.items()):
            return name
    return ""


def policy() -> str:
    """Every policy key with its default and what it means."""
    rows = [f"| `{key.name}` | {default(key)} | {key.doc} |" for key in KEYS.values()]
    return "\n".join(["| key | default | meaning |", "| --- | --- | --- |", *rows])


def default(key: PolicyKey) -> str:
    """A key's default as people write it."""
    if key.unit != "ms":
        return str(key.default)
    if key.default == DAY:
        return "24h"
    units = ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"), (1, "ms"))
    unit, word = next(one for one in units if key.default % one[0] == 0)
    return f"{key.default // unit}{word}"


def diagram(edges: Iterable[Edge]) -> str:
    """A mermaid state diagram; moves between the same two states share an arrow."""
    labels: dict[tuple[str, str], list[str]] = {}
    for before, after, what in edges:
        labels.setdefault((before, after), []).append(what)
    lines = ["stateDiagram-v2"]
    for (before, after), whats in labels.items():
        named = ", ".join(what for what in whats if what)
        lines.append(f"    {before} --> {after}" + (f": {named}" if named else ""))
    return fenced("\n".join(lines))


def fenced(text: str) -> str:
    """A mermaid block."""
    return f"```mermaid\n{text}\n```"


BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "jobs": jobs,
    "service": service,
    "health": health,
    "policy": policy,
}


def current(text: str) -> str:
    """A document with its generated blocks as the code says them now."""
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}", text)


def main() -> int:
    """Write the documents anew, or with `--check` say which are not current."""
    stale = 0
    for name in PAGES:
        path = DOCS / name
        text = path.read_text(encoding="utf-8")
        if current(text) == text:
            continue
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"docs/{name} is not current; run `make schemas`\n")
            stale = 1
        else:
            path.write_text(current(text), encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
