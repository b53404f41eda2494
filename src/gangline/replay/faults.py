"""What breaks in a simulated fleet, and when.

A fault model is written `BASE[+PART…]`. BASE is `none`, `rsc1`, `rsc2`, a number of failures per
1,000 node-days, or a CSV file of faults to replay. The parts:

- `groups`: some faults take several nodes of a block within a minute and a half;
- `lemons`: a tenth of the nodes gets much more than its share;
- `jobs`: gangs also die of what is no node's fault (software, NCCL, hangs);
- `stragglers`: some jobs run slower than they should.

Faults of a model are a stream in order of time without an end; the simulation takes as many as it
lives to see. All chance comes from one seeded generator, so the same seed breaks the same things.
"""

from __future__ import annotations

import csv
import heapq
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gangline.replay.bad_input import BadInputError
from gangline.replay.traces import open_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gangline.replay.fleet_file import Fleet, FleetNode

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

# Node failures per 1,000 node-days: Meta RSC-1 and RSC-2 (HPCA'25, arXiv 2410.21680) [V], [S].
RATES: Final[Mapping[str, float]] = {"none": 0.0, "rsc1": 6.50, "rsc2": 2.34}
PARTS: Final = ("groups", "lemons", "jobs", "stragglers")

# What breaks, how often of 584, median hours to repair: StepFun InfiniteHBD-Trace (SIGCOMM'25) [C].
# The first takes one GPU out of its node, the others the whole node.
KINDS: Final = (
    ("xid", 158, 17.0),
    ("unknown", 144, 16.0),
    ("stress-test", 97, 14.0),
    ("cable", 40, 47.0),
    ("fan", 33, 74.0),
    ("nic", 30, 12.0),
    ("power", 26, 351.0),
    ("other", 56, 56.0),
)
GPU_KINDS: Final = ("xid", "ecc", "nvlink", "gpu")
# Repair times of all kinds together are near a log-normal with sigma 2.1; max 3,143 h (same) [C].
REPAIR_SIGMA: Final = 2.1
LONGEST_REPAIR_MS: Final = 3143 * HOUR_MS
SHORTEST_REPAIR_MS: Final = 60_000
# 20 % of the faults start within 1.4 minutes of another, up to 14 nodes at once (same) [C].
GROUPED: Final = 0.20
GROUP_NODES: Final = (2, 14)
GROUP_SPREAD_MS: Final = 84_000
# The worst tenth of the nodes has 41 % of the faults (same) [C].
LEMON_NODES: Final = 0.10
LEMON_SHARE: Final = 0.41
# RSC-1's jobs of 1,024 GPUs fail every 7.9 h, of which node hardware explains one in 28.8 h [S];
# the rest is a rate per GPU and hour of gangs that die on well nodes.
JOB_FAILURES_PER_GPU_HOUR: Final = (1 / 7.9 - 1 / 28.8) / 1024
# 42.5 % of jobs straggle by 10 % or more (ByteDance, OSDI'25) [S]. How much: chosen, 10 to 30 %.
STRAGGLERS: Final = 0.425
STRAGGLE: Final = (0.10, 0.30)


class FaultEvent(NamedTuple):
    """Something breaks.

    at_ms: from the simulation's start. kind: `node` (the machine dies), `gpu` (one GPU is out) or
    `crash` (the gang on this GPU dies, the hardware is well). gpu: an index, -1 for the whole node.
    for_ms: until it is repaired, 0 for at once. what: the cause.
    """

    at_ms: int
    node: str
    kind: str
    gpu: int
    for_ms: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultModel:
    """What breaks. rate: node failures per 1,000 node-days. file: faults to replay instead."""

    rate: float = 0.0
    file: Path | None = None
    parts: tuple[str, ...] = ()

    def events(self, fleet: Fleet, *, seed: int) -> Iterator[FaultEvent]:
        """The faults of this fleet in order of time, without an end unless the file ends."""
        streams = []
        if self.file is not None:
            streams.append(iter(read_faults(self.file, fleet)))
        if self.rate > 0:
            streams.append(_node_faults(self, fleet, _chance(seed, "nodes")))
        if "jobs" in self.parts:
            streams.append(_crashes(fleet, _chance(seed, "jobs")))
        return heapq.merge(*streams)

    def stretch(self, *, seed: int) -> Iterator[float]:
        """How much longer than it should each job takes, in order of submission."""
        chance = _chance(seed, "stragglers")
        while True:
            slow = "stragglers" in self.parts and chance.random() < STRAGGLERS
            yield 1 + chance.uniform(*STRAGGLE) if slow else 1.0


def parse_faults(text: str) -> FaultModel:
    """The model that `--faults` names; raises BadInputError."""
    base, *parts = text.split("+")
    for part in parts:
        if part not in PARTS:
            raise BadInputError("--faults", f"no part {part!r}; expected {', '.join(PARTS)}")
    if base in RATES:
        return FaultModel(rate=RATES[base], parts=tuple(parts))
    if Path(base).is_file():
        return FaultModel(file=Path(base), parts=tuple(parts))
    try:
        rate = float(base)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1e6:
        names = ", ".join(RATES)
        raise BadInputError("--faults", f"expected {names}, a rate or a file, got {base!r}")
    return FaultModel(rate=rate, parts=tuple(parts))


def read_faults(path: Path, fleet: Fleet) -> list[FaultEvent]:
    """The faults of a CSV file with `node,start_s,end_s` and perhaps `class`; raises BadInputError.

    Nodes that the fleet does not have get places of their own, in order of their names and spread
    evenly, as such files name no places; a file of more nodes than the fleet shares them.
    """
    rows: list[tuple[int, str, int, str]] = []
    with open_text(path) as file:
        reader = csv.DictReader(file)
        lacking = [c for c in ("node", "start_s", "end_s") if c not in (reader.fieldnames or ())]
        if lacking:
            raise BadInputError(f"{path}:1", f"expected a column {lacking[0]}")
        for row in reader:
            where = f"{path}:{reader.line_num}"
            start_ms, end_ms = _seconds(row["start_s"], where), _seconds(row["end_s"], where)
            if end_ms < start_ms:
                raise BadInputError(where, "expected an end after the start")
            rows.append(
                (start_ms, row["node"], end_ms - start_ms, (row.get("class") or "").lower())
            )
    places = _places(sorted({name for _, name, _, _ in rows}), fleet)
    return sorted(
        FaultEvent(
            at_ms=start_ms,
            node=places[name],
            kind="gpu" if what in GPU_KINDS else "node",
            gpu=0 if what in GPU_KINDS else -1,
            for_ms=for_ms,
            what=what or "unknown",
        )
        for start_ms, name, for_ms, what in rows
    )


def _places(names: Sequence[str], fleet: Fleet) -> dict[str, str]:
    """Which node of the fleet stands for each of the file."""
    own = {node.name for node in fleet.nodes}
    if all(name in own for name in names):
        return {name: name for name in names}
    count = len(fleet.nodes)
    step = max(1, count // max(1, len(names)))
    return {name: fleet.nodes[index * step % count].name for index, name in enumerate(names)}


def _seconds(text: str | None, where: str) -> int:
    try:
        value = float(text or "")
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e12:
        raise BadInputError(where, f"expected seconds, got {text!r}")
    return round(value * 1000)


def _chance(seed: int, purpose: str) -> random.Random:
    """A generator of its own for each purpose, so that one part does not shift another."""
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 (a simulation, to be repeated)


def _node_faults(model: FaultModel, fleet: Fleet, chance: random.Random) -> Iterator[FaultEvent]:
    """Poisson faults of nodes; with `groups`, the same number in fewer, larger strikes."""
    per_ms = model.rate * len(fleet.nodes) / 1000 / DAY_MS
    strike = _Strike(fleet, chance, model.parts)
    per_ms /= strike.mean_nodes
    at_ms = 0.0
    pending: list[FaultEvent] = []
    while True:
        at_ms += chance.expovariate(per_ms)
        # What strikes later cannot be earlier than this one: the rest of former groups is due.
        while pending and pending[0].at_ms <= at_ms:
            yield heapq.heappop(pending)
        for event in strike.draw(round(at_ms)):
            heapq.heappush(pending, event)


class _Strike:
    """Draws what one strike takes: a node, or with `groups` sometimes several of a block."""

    def __init__(self, fleet: Fleet, chance: random.Random, parts: Sequence[str]) -> None:
        self._chance = chance
        self._nodes = fleet.nodes
        self._weights = self._lemons() if "lemons" in parts else None
        self._blocks: dict[tuple[str, ...], list[FleetNode]] = {}
        for node in fleet.nodes:
            self._blocks.setdefault(node.path, []).append(node)
        group_nodes = sum(GROUP_NODES) / 2
        # Of all faults GROUPED are in groups, so strikes are groups this often:
        grouped = GROUPED / (group_nodes - GROUPED * (group_nodes - 1))
        self._group_chance = grouped if "groups" in parts else 0.0
        self.mean_nodes = 1 + self._group_chance * (group_nodes - 1)

    def draw(self, at_ms: int) -> Iterator[FaultEvent]:
        """The faults of a strike at this time."""
        chance = self._chance
        first = chance.choices(self._nodes, self._weights)[0]
        if chance.random() >= self._group_chance:
            yield self._fault(first, at_ms)
            return
        block = self._blocks[first.path]
        for node in chance.sample(block, min(len(block), chance.randint(*GROUP_NODES))):
            yield self._fault(node, at_ms + chance.randrange(GROUP_SPREAD_MS))

    def _fault(self, node: FleetNode, at_ms: int) -> FaultEvent:
        chance = self._chance
        what, _, median_h = chance.choices(KINDS, [count for _, count, _ in KINDS])[0]
        repair_ms = median_h * HOUR_MS * math.exp(chance.gauss(0.0, REPAIR_SIGMA))
        one_gpu = what in GPU_KINDS
        return FaultEvent(
            at_ms=at_ms,
            node=node.name,
            kind="gpu" if one_gpu else "node",
            gpu=chance.randrange(node.gpus) if one_gpu else -1,
            for_ms=round(min(LONGEST_REPAIR_MS, max(SHORTEST_REPAIR_MS, repair_ms))),
            what=what,
        )

    def _lemons(self) -> list[float]:
        """Weights of nodes: a few of them draw LEMON_SHARE of the faults."""
        count = max(1, round(len(self._nodes) * LEMON_NODES))
        lemons = {node.name for node in self._chance.sample(self._nodes, count)}
        well = max(1, len(self._nodes) - count)
        return [
            LEMON_SHARE / count if node.name in lemons else (1 - LEMON_SHARE) / well
            for node in self._nodes
        ]


def _crashes(fleet: Fleet, chance: random.Random) -> Iterator[FaultEvent]:
    """Gangs die on well hardware: a GPU is drawn, and whatever gang holds it then dies."""
    per_ms = fleet.gpus * JOB_FAILURES_PER_GPU_HOUR / HOUR_MS
    gpus = [node.gpus for node in fleet.nodes]
    at_ms = 0.0
    while True:
        at_ms += chance.expovariate(per_ms)
        node = chance.choices(fleet.nodes, gpus)[0]
        gpu = chance.randrange(node.gpus)
        yield FaultEvent(round(at_ms), node.name, "crash", gpu, 0, "software")
