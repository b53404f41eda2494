"""Random scenario files: a small fleet, teams, jobs, and whatever can go wrong, drawn from a seed.

A story is text in the grammar of scenarios, so that a seed that fails is a file that can be read,
cut down and kept. Each seed leaves some kinds of trouble out altogether. After the trouble comes a
long quiet time in which everything is healed: whatever can run must have run at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, kw_only=True)
class Story:
    """A story in the making. lines: its commands; jobs: their names; quiet: what heals it.

    models: what draws the models of GPU, where the fleet has two of them.
    """

    seed: int
    random: Random
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)
    teams: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    quiet: dict[str, None] = field(default_factory=dict)
    models: Random | None = None

    @property
    def text(self) -> str:
        """The whole file."""
        heal = ["log normal", "run 2h", *self.quiet, *(f"release {job}" for job in self.jobs)]
        return "\n".join([f"# seed {self.seed}", *self.lines, *heal, "run 30d", ""])

    @property
    def total(self) -> int:
        """All GPUs of the fleet."""
        return self.gpus * len(self.nodes)

    def say(self, line: str) -> None:
        """Add a command."""
        self.lines.append(line)

    def chance(self, part: float) -> bool:
        """Whether something of this probability happens."""
        return self.random.random() < part

    def one(self, *options: object) -> str:
        """One of some words."""
        return str(self.random.choice(options))


MIXED = 0.25
"""So many stories are of fleets with two models of GPU."""


def story_of(seed: int, *, commands: int = 40) -> Story:
    """The story of a seed, with about so many commands before the quiet."""
    story = Story(seed=seed, random=Random(seed))  # noqa: S311 - a story is no secret
    apart = Random(f"models of {seed}")  # noqa: S311 - nor is this; other draws stay as they are
    if apart.random() < MIXED:
        story.models = apart
    _fleet(story)
    _policy(story)
    _teams(story)
    _guarantee_models(story)
    kinds = [kind for kind in TROUBLE if story.chance(0.7)]
    weights = [TROUBLE[kind] for kind in kinds]
    for _ in range(commands):
        if story.chance(0.45):
            _submit(story)
        elif story.chance(0.4) or not kinds:
            _run(story)
        else:
            story.random.choices(kinds, weights)[0](story)
    return story


# --- how it begins --------------------------------------------------------------------------------


def _fleet(story: Story) -> None:
    spines, blocks, nodes = story.random.choice(
        [(1, 1, 2), (1, 2, 2), (1, 2, 4), (2, 2, 2), (1, 1, 5)]
    )
    story.gpus = story.random.choice([2, 4, 8])
    story.nodes = [
        f"s{spine}-b{block}-n{node}"
        for spine in range(spines)
        for block in range(blocks)
        for node in range(nodes)
    ]
    line = f"fleet spines={spines} blocks={blocks} nodes={nodes} gpus={story.gpus}"
    if story.models is None:
        story.say(line)
        return
    story.say(f"{line} model=x")
    others = story.models.randint(1, 2)
    story.nodes += [f"s{spines}-b0-n{node}" for node in range(others)]
    story.say(f"fleet spines=1 blocks=1 nodes={others} gpus={story.gpus} model=y")


def _policy(story: Story) -> None:
    half = max(1, story.total // 2)
    options = (
        (0.7, "min_runtime=" + story.one("0s", "1m", "10m")),
        (0.3, "start_timeout=" + story.one("30s", "5m")),
        (0.3, f"large_gang_gpus={half} large_gang_wait_bound=" + story.one("30m", "2h")),
        (0.3, "hold_after=" + story.one(2, 3)),
        (0.3, "quarantine_after=" + story.one(2, 100)),
        (0.2, "preemption_grace=" + story.one("0s", "5m")),
    )
    said = [text for part, text in options if story.chance(part)]
    if said:
        story.say("policy " + " ".join(said))


def _teams(story: Story) -> None:
    total = story.total
    story.teams = ["t0", "t1", "t2"][: story.random.choice([1, 2, 3])]
    if len(story.teams) == 3 and story.chance(0.5):
        story.say(f"team root guaranteed={total // 2}")
        story.say(f"team t0 guaranteed={total // 4} parent=root")
        story.say(f"team t1 guaranteed={total // 4} parent=root")
        story.say(f"team t2 guaranteed={story.one(0, total // 2, total // 4)}")
        return
    left = total
    for team in story.teams:
        guaranteed = story.random.choice([0, left // 2, left])
        left -= guaranteed
        line = f"team {team} guaranteed={guaranteed}"
        if story.chance(0.25):
            line += " borrow=" + story.one("none", story.gpus, 2 * story.gpus)
        if story.chance(0.2):
            line += " lend=" + story.one("none", story.gpus)
        if story.chance(0.3):
            line += " weight=" + story.one(2, 3)
        story.say(line)


def _guarantee_models(story: Story) -> None:
    for team in story.teams if story.models is not None else ():
        _guarantee_model(story, team)


def _guarantee_model(story: Story, team: str) -> None:
    """Of one model; refused where it is more than the team is guaranteed in all."""
    if story.models is not None:
        gpus = story.models.choice([0, 1, story.gpus, 2 * story.gpus])
        story.say(f"team {team} guaranteed.{story.models.choice('xy')}={gpus}")


# --- what happens ---------------------------------------------------------------------------------


def _submit(story: Story) -> None:
    gpus = story.gpus
    size = story.random.choice(
        [1, 1, max(1, gpus // 2), gpus, gpus, 2 * gpus, 4 * gpus, story.total // 2, story.total]
    )
    minutes = story.random.choice([1, 5, 10, 30, 60, 180])
    limit = max(1, int(minutes * story.random.choice([0.5, 1, 1.5, 3])))
    options = (
        (0.3, "priority=" + story.one("low", "high", "urgent")),
        (0.7, f"limit={limit}m"),
        (0.6, "checkpoint=" + story.one("1m", "5m", "10m")),
        (0.3, "grace=" + story.one("0s", "10s", "5m")),
        (
            0.25,
            f"topology={story.one('required', 'preferred')}:{story.one('node', 'block', 'spine')}",
        ),
        (0.2, f"gpus_per_node={story.one(1, 2, gpus)}"),
        (0.2, "retries=" + story.one(0, 1)),
        (0.15, f"exits={story.one(0, 1)} exits_after={story.one('10s', '4m', '20m')}"),
        (0.1, "after=" + story.one(*story.jobs or ["nobody"])),
        (0.12, "preemptible=no"),
    )
    job = f"j{len(story.jobs)}"
    said = [text for part, text in options if story.chance(part)]
    if story.models is not None and story.models.random() < MIXED * 2:
        said.append(f"model={story.models.choice('xy')}")
    team = story.one(*story.teams)
    story.say(" ".join([f"submit {job} team={team} gpus={size} runtime={minutes}m", *said]))
    story.jobs.append(job)


def _run(story: Story) -> None:
    story.say("run " + story.one("1s", "10s", "30s", "1m", "3m", "5m", "10m", "20m", "1h"))


def _cancel(story: Story) -> None:
    story.say("cancel " + story.one(*story.jobs or ["nobody"]))


def _hold(story: Story) -> None:
    story.say(f"{story.one('hold', 'release')} " + story.one(*story.jobs or ["nobody"]))


def _raise(story: Story) -> None:
    job = story.one(*story.jobs or ["nobody"])
    story.say(f"priority {job} " + story.one("low", "normal", "high", "urgent"))


def _fail(story: Story) -> None:
    story.say(f"fail {story.one(*story.nodes)} for=" + story.one("10s", "1m", "5m", "30m"))


def _partition(story: Story) -> None:
    story.say(f"partition {story.one(*story.nodes)} for=" + story.one("10s", "1m", "5m", "30m"))


def _fault(story: Story) -> None:
    gpu = story.random.randrange(story.gpus)
    story.say(f"fault {story.one(*story.nodes)} gpu={gpu} kind=" + story.one("xid", "nic"))


def _slow(story: Story) -> None:
    node = story.one(*story.nodes)
    story.say(f"slow {node} ready=" + story.one("10s", "1m", "4m", "never"))
    story.quiet[f"slow {node} ready=0s"] = None


def _cordon(story: Story) -> None:
    node = story.one(*story.nodes)
    story.say(story.one(f"cordon {node}", f"uncordon {node}"))
    story.quiet[f"uncordon {node}"] = None


def _drain(story: Story) -> None:
    node = story.one(*story.nodes)
    story.say(f"drain {node}" + story.one("", " deadline=0s", " deadline=10m"))
    story.quiet[f"uncordon {node}"] = None


def _maintain(story: Story) -> None:
    node = story.one(*story.nodes)
    story.say(f"maintenance {node} at={story.one('0s', '5m', '1h')} for={story.one('10m', '1h')}")


def _crash(story: Story) -> None:
    story.say("scheduler crash")


def _stop(story: Story) -> None:
    story.say("scheduler stop for=" + story.one("10s", "5m", "1h"))


def _log(story: Story) -> None:
    story.say("log " + story.one("duplicate", "reorder", "normal"))


def _garbage(story: Story) -> None:
    story.say("garbage topic=" + story.one("jobs", "nodes", "control"))


def _quota(story: Story) -> None:
    guaranteed = story.one(0, story.gpus, story.total // 2)
    team = story.one(*story.teams)
    story.say(f"team {team} guaranteed={guaranteed}")
    _guarantee_model(story, team)


TROUBLE: dict[Callable[[Story], None], int] = {
    _cancel: 4,
    _hold: 3,
    _raise: 2,
    _fail: 6,
    _partition: 6,
    _fault: 1,
    _slow: 3,
    _cordon: 3,
    _drain: 2,
    _maintain: 2,
    _crash: 4,
    _stop: 2,
    _log: 3,
    _garbage: 1,
    _quota: 2,
}
"""What can go wrong, and how often beside each other."""
