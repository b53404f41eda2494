"""The grammar of scenario files: text to commands, with file and line in every error.

One command a line; `#` at the start of a word starts a comment. Nothing is guessed: a key that is
unknown, said twice or missing, a unit that is wrong, a number out of range, a name that nobody
made before is an error that says what would be right. Pure: it reads text, not files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gangline.agents.simulated_gang import Program
from gangline.events.decisions import WaitCause
from gangline.events.facts import TeamSet
from gangline.events.spec import CheckpointSpec, Spec
from gangline.replay import scenario_commands as c
from gangline.replay import scenario_values as v
from gangline.replay.bad_input import BadInputError
from gangline.replay.fleet_file import DEFAULT_LEVELS, Fleet, FleetNode, regular_fleet
from gangline.replay.scenario_words import Names, Words, split_words
from gangline.scheduler.core import policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_NODES: Final = 100_000
MOST_REPEATS: Final = 100_000
DEFAULT_MAX_MS: Final = 30 * 86_400_000

_RESERVED: Final = ("team", "fleet", "total", "reason", "until")
_CHECK: Final = re.compile(r"([a-z_]+)(<=|>=|<|>|=)(.*)")
_PLACE: Final = re.compile(r"([^#]+)#(\d{1,6})", re.ASCII)
_KINDS: Final = ("xid", "ecc", "nvlink", "nic", "thermal")
_WORDS: Final = frozenset({"state", "within", "on", "not_on", "reserved"})

_FLEET: Final[Mapping[str, Callable[[str], Any]]] = {
    "spines": v.count_from(1, MOST_NODES),
    "blocks": v.count_from(1, MOST_NODES),
    "nodes": v.count_from(1, MOST_NODES),
    "gpus": v.count_from(1, 1024),
    "model": v.name,
}
_TEAM: Final[Mapping[str, Callable[[str], Any]]] = {
    "guaranteed": v.count,
    "borrow": v.borrow,
    "lend": v.borrow,
    "weight": v.count_from(1, 1_000_000),
    "parent": v.name,
}
_SUBMIT: Final[Mapping[str, Callable[[str], Any]]] = {
    "team": v.name,
    "gpus": v.count_from(1),
    "gpus_per_node": v.count_from(1),
    "priority": v.job_class,
    "runtime": v.duration,
    "limit": v.positive_duration,
    "checkpoint": v.positive_duration,
    "grace": v.duration,
    "topology": v.topology,
    "retries": v.count_from(0, 1_000_000),
    "exits": v.count_from(0, 255),
    "exits_after": v.duration,
    "after": v.names,
    "preemptible": v.yes_or_no,
    "count": v.count_from(1, 10_000),
    "model": v.name,
}
_EXPECT: Final[Mapping[str, Mapping[str, Callable[[str], Any]]]] = {
    "job": {
        "state": v.one_of(*v.STATES),
        "attempts": v.count,
        "preemptions": v.count,
        "wait": v.duration,
        "lost": v.duration,
        "nodes": v.count,
        "within": v.one_of(*v.LEVELS),
        "on": str,
        "not_on": str,
        "reserved": v.one_of("yes", "no"),
        "resumed_from": v.duration,
    },
    "team": dict.fromkeys(("used", "guaranteed_used", "borrowed", "lent", "queued"), v.count),
    "fleet": dict.fromkeys(("held", "free", "unhealthy"), v.count),
    "total": {
        "preemptions": v.count,
        "lost": v.duration,
        "rejected_inputs": v.count,
        "aborted_starts": v.count,
    },
}


def parse(text: str, *, file: str) -> list[c.Command]:
    """The commands of a file; raises BadInputError with file and line."""
    reading = Reading(file)
    for content in text.rstrip("\n").split("\n"):
        reading.take(content)
    if not reading.commands:
        raise BadInputError(f"{file}:{max(1, reading.line)}", "expected a fleet, got no command")
    return reading.commands


class Reading:
    """A file that is read line by line. commands: of the lines so far; line: how many those are."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.commands: list[c.Command] = []
        self.line = 0
        self._names = Names()

    def take(self, content: str) -> c.Command | None:
        """The command of the next line, or None; raises BadInputError with file and line."""
        self.line += 1
        words = split_words(content)
        if not words:
            return None
        taken = Words(words, where=f"{self.file}:{self.line}", line=self.line)
        command = _command(taken, self._names, self.commands)
        self.commands.append(command)
        return command


def submit_of(repeat: c.Repeat, index: int, *, file: str) -> c.Submit:
    """The `index`-th submission of a repetition, from 1."""
    words = [word.replace("{i}", str(index)) for word in repeat.template]
    taken = Words(words, where=f"{file}:{repeat.line}", line=repeat.line)
    return _submission(taken)


def _command(words: Words, names: Names, before: Sequence[c.Command]) -> c.Command:
    verb = words.next("a command")
    read = VERBS.get(verb)
    if read is None:
        raise words.wrong(f"one of {', '.join(VERBS)}", repr(verb))
    fleet = verb == "fleet"
    if not fleet and not before:
        raise words.wrong("the fleet first", repr(verb))
    if fleet and any(not isinstance(command, c.MakeFleet) for command in before):
        raise words.wrong("the fleet before everything else", "another command before it")
    command = read(words, names)
    words.end()
    return command


# --- fleet, policy, teams -------------------------------------------------------------------------


def _fleet(words: Words, names: Names) -> c.Command:
    counts = words.fields(_FLEET, required=("spines", "blocks", "nodes", "gpus"))
    shape = (counts["spines"], counts["blocks"], counts["nodes"])
    total = shape[0] * shape[1] * shape[2] + len(names.nodes)
    if total > MOST_NODES:
        raise words.wrong(f"at most {MOST_NODES} nodes", total)
    fleet = regular_fleet(
        (names.spines + shape[0], *shape[1:]), levels=DEFAULT_LEVELS, gpus_per_node=counts["gpus"]
    )
    labels = {"model": counts["model"]} if "model" in counts else {}
    new = [node for node in fleet.nodes if _spine(node) >= names.spines]
    named = (
        FleetNode(name=node.name, path=node.path, gpus=node.gpus, labels=labels) for node in new
    )
    names.nodes.update((node.name, node.gpus) for node in new)
    names.spines += shape[0]
    admitted = Fleet(levels=DEFAULT_LEVELS, nodes=tuple(named)).admissions()
    return c.MakeFleet(line=words.line, nodes=admitted)


def _spine(node: FleetNode) -> int:
    return int(node.path[0].removeprefix("s"))


def _policy(words: Words, _names: Names) -> c.Command:
    readers = {
        name: v.duration if key.unit == "ms" else v.policy_number
        for name, key in policy.KEYS.items()
    }
    values = words.fields(readers)
    if not values:
        raise words.wrong("KEY=VALUE", "the end of the line")
    for key, value in values.items():
        problem = policy.problem(key, value)
        if problem:
            raise words.wrong(problem.removeprefix(f"{key} must be "), value, key=key)
    return c.SetPolicy(line=words.line, values=values)


def _team(words: Words, names: Names) -> c.Command:
    team = words.take("a team", v.name)
    fields = words.rest()
    models = [word for word in fields if word.startswith("guaranteed.")]
    plain = Words([w for w in fields if w not in models], where=words.where, line=words.line)
    values = plain.fields(_TEAM, required=() if team in names.teams else ("guaranteed",))
    parent = values.get("parent")
    if parent is not None and parent not in names.teams:
        raise words.wrong("a team named above", repr(parent), key="parent")
    names.teams.add(team)
    by_model = _by_model(words, models)
    return c.SetTeam(line=words.line, team=TeamSet(team=team, by_model=by_model, **values))


def _by_model(words: Words, fields: Sequence[str]) -> dict[str, int]:
    """`guaranteed.MODEL=N`: what is guaranteed of single GPU models."""
    values: dict[str, int] = {}
    for word in fields:
        key, _, text = word.partition("=")
        model = words.value(key, key.removeprefix("guaranteed."), v.name)
        if model in values:
            raise words.wrong("it once", "it twice", key=key)
        values[model] = words.value(key, text, v.count)
    return values


# --- jobs -----------------------------------------------------------------------------------------


def _submit(words: Words, names: Names) -> c.Command:
    submit = _submission(words)
    _remember(names, submit)
    return submit


def _submission(words: Words) -> c.Submit:
    job = words.take("a job", v.name)
    if job in _RESERVED:
        raise words.wrong(f"another name than {', '.join(_RESERVED)}", repr(job))
    values = words.fields(_SUBMIT, required=("team", "gpus"))
    if "exits_after" in values and "exits" not in values:
        raise words.wrong("exits=CODE beside it", "exits_after alone", key="exits_after")
    program = Program(
        runtime_ms=values.pop("runtime", None),
        code=values.pop("exits", 0),
        exits_after_ms=values.pop("exits_after", None),
    )
    return c.Submit(line=words.line, job=job, spec=_spec(values), program=program)


def _spec(values: dict[str, Any]) -> Spec:
    checkpoint = values.get("checkpoint")
    renamed = {
        "job_class": values.get("priority"),
        "limit_ms": values.get("limit"),
        "grace_ms": values.get("grace"),
        "checkpoint": None if checkpoint is None else CheckpointSpec(interval_ms=checkpoint),
        "selector": {"model": values["model"]} if "model" in values else None,
    }
    same = ("gpus_per_node", "topology", "retries", "after", "preemptible", "count")
    said: dict[str, Any] = {**renamed, **{key: values.get(key) for key in same}}
    return Spec(
        team=values["team"],
        gpus=values["gpus"],
        **{key: value for key, value in said.items() if value is not None},
    )


def _remember(names: Names, submit: c.Submit) -> None:
    tasks = submit.spec.count
    if tasks == 1:
        names.jobs.add(submit.job)
        return
    names.arrays[submit.job] = tasks
    names.jobs.update(f"{submit.job}.{task}" for task in range(1, tasks + 1))


def _repeat(words: Words, names: Names) -> c.Command:
    count = words.take("a count", v.count_from(1, MOST_REPEATS))
    every = words.next("every=D:")
    if not every.startswith("every=") or not every.endswith(":"):
        raise words.wrong("every=D:", repr(every))
    every_ms = words.value("every", every.removeprefix("every=")[:-1], v.positive_duration)
    verb = words.next("submit")
    if verb != "submit":
        raise words.wrong("submit", repr(verb))
    repeat = c.Repeat(line=words.line, count=count, every_ms=every_ms, template=tuple(words.rest()))
    if repeat.template and "{i}" not in repeat.template[0]:
        raise words.wrong("a job with {i} in its name", repr(repeat.template[0]))
    file = words.where.rpartition(":")[0]
    first = submit_of(repeat, 1, file=file)
    for index in range(1, count + 1):
        name = repeat.template[0].replace("{i}", str(index))
        _remember(names, c.Submit(line=0, job=name, spec=first.spec, program=first.program))
    return repeat


def _cancel(words: Words, _names: Names) -> c.Command:
    return c.Cancel(line=words.line, job=words.take("a job", v.name))


def _hold(words: Words, _names: Names) -> c.Command:
    return c.Hold(line=words.line, job=words.take("a job", v.name))


def _release(words: Words, _names: Names) -> c.Command:
    return c.Release(line=words.line, job=words.take("a job", v.name))


def _priority(words: Words, _names: Names) -> c.Command:
    job = words.take("a job", v.name)
    return c.ChangePriority(line=words.line, job=job, job_class=words.take("a class", v.job_class))


def _known_job(words: Words, names: Names, job: str) -> str:
    if job in names.arrays:
        last = names.arrays[job]
        raise words.wrong(f"a task of the array, {job}.1 to {job}.{last}", repr(job))
    if job not in names.jobs:
        raise words.wrong("a job submitted above", repr(job))
    return job


# --- time -----------------------------------------------------------------------------------------


def _run(words: Words, names: Names) -> c.Command:
    first = words.next("a duration, or until")
    if first != "until":
        return c.Run(line=words.line, for_ms=words.value("run", first, v.duration))
    job = _known_job(words, names, words.take("a job", v.name))
    state = words.take("a state", v.one_of(*v.STATES))
    values = words.fields({"max": v.duration})
    max_ms = values.get("max", DEFAULT_MAX_MS)
    return c.RunUntil(line=words.line, job=job, state=state, max_ms=max_ms)


# --- nodes ----------------------------------------------------------------------------------------


def _place(words: Words, names: Names, word: str | None = None) -> c.Place:
    """NODE, or JOB#I."""
    text = words.next("a node") if word is None else word
    match = _PLACE.fullmatch(text)
    if match is not None:
        return c.Place("", _known_job(words, names, match[1]), int(match[2]))
    if text not in names.nodes:
        first, last = next(iter(names.nodes)), next(reversed(names.nodes))
        raise words.wrong(f"a node from {first} to {last}, or JOB#I", repr(text))
    return c.Place(text)


def _fail(words: Words, names: Names) -> c.Command:
    place = _place(words, names)
    for_ms = words.fields({"for": v.positive_duration}).get("for")
    return c.Fail(line=words.line, place=place, for_ms=for_ms)


def _partition(words: Words, names: Names) -> c.Command:
    place = _place(words, names)
    for_ms = words.fields({"for": v.positive_duration}).get("for")
    return c.Partition(line=words.line, place=place, for_ms=for_ms)


def _fault(words: Words, names: Names) -> c.Command:
    place = _place(words, names)
    most = max(names.nodes.values()) if place.job else names.nodes[place.node]
    readers = {"gpu": v.count_from(0, most - 1), "kind": v.one_of(*_KINDS)}
    values = words.fields(readers, required=readers)
    return c.Fault(line=words.line, place=place, gpu=values["gpu"], kind=values["kind"])


def _slow(words: Words, names: Names) -> c.Command:
    place = _place(words, names)
    values = words.fields({"ready": v.ready}, required=("ready",))
    return c.Slow(line=words.line, place=place, ready_ms=values["ready"])


def _cordon(words: Words, names: Names) -> c.Command:
    return c.Cordon(line=words.line, place=_place(words, names))


def _uncordon(words: Words, names: Names) -> c.Command:
    return c.Uncordon(line=words.line, place=_place(words, names))


def _drain(words: Words, names: Names) -> c.Command:
    place = _place(words, names)
    deadline_ms = words.fields({"deadline": v.duration}).get("deadline")
    return c.Drain(line=words.line, place=place, deadline_ms=deadline_ms)


def _maintenance(words: Words, names: Names) -> c.Command:
    place = _place(words, names)
    values = words.fields({"at": v.duration, "for": v.positive_duration}, required=("at", "for"))
    return c.Maintain(line=words.line, place=place, in_ms=values["at"], for_ms=values["for"])


def _withdraw(words: Words, names: Names) -> c.Command:
    return c.Withdraw(line=words.line, place=_place(words, names))


# --- scheduler and log ----------------------------------------------------------------------------


def _scheduler(words: Words, _names: Names) -> c.Command:
    what = words.take("what happens to it", v.one_of("crash", "stop"))
    if what == "crash":
        return c.CrashScheduler(line=words.line)
    values = words.fields({"for": v.positive_duration}, required=("for",))
    return c.StopScheduler(line=words.line, for_ms=values["for"])


def _log(words: Words, _names: Names) -> c.Command:
    mode = words.take("a way of delivery", v.one_of("duplicate", "reorder", "normal"))
    return c.ChangeLog(line=words.line, mode=mode)


def _garbage(words: Words, _names: Names) -> c.Command:
    values = words.fields({"topic": v.one_of("jobs", "nodes", "control")}, required=("topic",))
    return c.Garbage(line=words.line, topic=values["topic"])


# --- expectations ---------------------------------------------------------------------------------


def _expect(words: Words, names: Names) -> c.Command:
    subject = words.next("a job, team, fleet, total or reason")
    if subject == "reason":
        job = _known_job(words, names, words.take("a job", v.name))
        causes = v.one_of(*(str(cause) for cause in WaitCause))
        return c.ExpectReason(line=words.line, job=job, cause=words.take("a code", causes))
    what, name = subject, ""
    if subject == "team":
        name = words.take("a team", v.name)
        if name not in names.teams:
            raise words.wrong("a team named above", repr(name))
    elif subject not in {"fleet", "total"}:
        what, name = "job", _known_job(words, names, subject)
    checks = tuple(_check(words, names, word, _EXPECT[what]) for word in words.rest())
    if not checks:
        raise words.wrong(f"one of {', '.join(_EXPECT[what])}", "the end of the line")
    return c.Expect(line=words.line, what=what, name=name, checks=checks)


def _check(
    words: Words, names: Names, word: str, readers: Mapping[str, Callable[[str], Any]]
) -> c.Check:
    match = _CHECK.fullmatch(word)
    if match is None or match[1] not in readers:
        key = repr(match[1] if match else word)
        raise words.wrong(f"one of {', '.join(readers)} and = <= >= < or >", key)
    key, operator, text = match.groups()
    if key in _WORDS and operator != "=":
        raise words.wrong(f"{key}=…", repr(word), key=key)
    if key in {"on", "not_on"}:
        return c.Check(key, operator, _place(words, names, text), text)
    return c.Check(key, operator, words.value(key, text, readers[key]), text)


VERBS: Final[Mapping[str, Callable[[Words, Names], c.Command]]] = {
    "fleet": _fleet,
    "policy": _policy,
    "team": _team,
    "submit": _submit,
    "repeat": _repeat,
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "priority": _priority,
    "run": _run,
    "fail": _fail,
    "partition": _partition,
    "fault": _fault,
    "slow": _slow,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "drain": _drain,
    "maintenance": _maintenance,
    "join": _fleet,
    "withdraw": _withdraw,
    "scheduler": _scheduler,
    "log": _log,
    "garbage": _garbage,
    "expect": _expect,
}
