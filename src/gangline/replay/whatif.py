"""A history forked at a moment, under another quota, policy or fleet: who wins and who loses.

Both sides of the comparison are simulated from the same state with the same programs, machines and
requests: once as it was, once as it would be. So a difference is the change's doing. What really
happened stands beside them, so that one sees how near the simulation is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.log import Topic
from gangline.events.spec import jobs_of
from gangline.replay.copied_world import CopiedWorld
from gangline.replay.show import in_words
from gangline.scheduler import core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.replay.core_port import Step
    from gangline.replay.whatif_changes import Changes
    from gangline.replay.whatif_past import Asked, Past, Trouble
    from gangline.replay.world import World
    from gangline.scheduler.core import State

Plain = dict[str, Any]
HOUR_MS: Final = 3_600_000
MOST_JOBS: Final = 20


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job as a tally sees it. since_ms: of the present run, None while it does not run."""

    team: str
    gpus: int
    submitted_ms: int
    waits: bool = True
    started_ms: int | None = None
    since_ms: int | None = None
    gpu_ms: int = 0
    preemptions: int = 0
    outcome: str = ""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts from decisions what each job got between two moments."""

    until_ms: int
    jobs: dict[str, _Job] = field(default_factory=dict)
    decided: list[tuple[int, d.Decision]] = field(default_factory=list)

    @classmethod
    def of(cls, state: State, *, at_ms: int, until_ms: int) -> Tally:
        """A tally that knows what was there at the beginning."""
        tally = cls(until_ms=until_ms)
        for job in state.jobs.values():
            runs = bool(job.started_ms)
            tally.jobs[job.id] = _Job(
                team=job.spec.team,
                gpus=job.gpus,
                submitted_ms=job.submitted_ms,
                waits=not job.starts,
                since_ms=at_ms if runs else None,
            )
        return tally

    def stepped(self, _world: World, step: Step) -> None:
        """A step of a simulated fork."""
        for decision in step.decisions:
            self.decide(decision, step.now_ms)

    def decide(self, decision: d.Decision, now_ms: int) -> None:
        """A decision was made."""
        if now_ms > self.until_ms:
            return
        self.decided.append((now_ms, decision))
        if isinstance(decision, d.JobQueued):
            spec = decision.spec
            self.jobs[decision.job] = _Job(
                team=spec.team, gpus=spec.gpus, submitted_ms=decision.submitted_ms
            )
        job = self.jobs.get(getattr(decision, "job", ""))
        if job is None:
            return
        if isinstance(decision, d.GangStarted):
            job.since_ms = now_ms
            job.started_ms = now_ms if job.started_ms is None else job.started_ms
        elif isinstance(decision, d.GangReleased):
            self._stopped(job, now_ms)
        elif isinstance(decision, d.GangPreempted):
            job.preemptions += 1
        elif isinstance(decision, d.JobFinished):
            job.outcome = str(decision.outcome)

    def _stopped(self, job: _Job, now_ms: int) -> None:
        if job.since_ms is not None:
            job.gpu_ms += job.gpus * (now_ms - job.since_ms)
            job.since_ms = None

    def close(self) -> None:
        """The window is over."""
        for job in self.jobs.values():
            self._stopped(job, self.until_ms)

    def wait_ms(self, job: _Job) -> int | None:
        """How long it waited for its first start, or until now; None if that was before."""
        if not job.waits:
            return None
        end_ms = self.until_ms if job.started_ms is None else job.started_ms
        return max(0, end_ms - job.submitted_ms)

    def numbers(self, team: str | None = None) -> Plain:
        """The sums of a team, or of all."""
        jobs = [job for job in self.jobs.values() if team is None or job.team == team]
        waits = [wait for job in jobs if (wait := self.wait_ms(job)) is not None]
        return {
            "gpu_hours": round(sum(job.gpu_ms for job in jobs) / HOUR_MS, 2),
            "mean_wait_s": round(sum(waits) / len(waits) / 1000, 1) if waits else 0.0,
            "started": sum(job.started_ms is not None for job in jobs),
            "finished": sum(job.outcome == d.Outcome.SUCCEEDED for job in jobs),
            "preemptions": sum(job.preemptions for job in jobs),
        }


def what_if(past: Past, changes: Changes) -> Plain:
    """Both forks compared, as values that JSON has."""
    real = Tally.of(core.load(past.chunks), at_ms=past.at_ms, until_ms=past.until_ms)
    for now_ms, decision in past.after:
        real.decide(decision, now_ms)
    real.close()
    before, after = _fork(past, None), _fork(past, changes)
    teams = sorted({job.team for job in (*before.jobs.values(), *after.jobs.values())})
    return {
        "at_ms": past.at_ms,
        "seq": past.seq,
        "until_ms": past.until_ms,
        "really": real.numbers(),
        "before": before.numbers(),
        "after": after.numbers(),
        "teams": [
            {"team": name, **_pair(before.numbers(name), after.numbers(name))} for name in teams
        ],
        "jobs": _moved(before, after),
        "first_difference": first_difference(before.decided, after.decided),
    }


def _pair(before: Plain, after: Plain) -> Plain:
    found: Plain = {}
    for key, value in before.items():
        found[f"{key}_before"], found[f"{key}_after"] = value, after[key]
    return found


def _moved(before: Tally, after: Tally) -> list[Plain]:
    """The jobs whose GPU time or wait changed most."""
    rows = []
    for name in {**before.jobs, **after.jobs}:
        one, two = before.jobs.get(name), after.jobs.get(name)
        if one is None or two is None:
            continue
        waits = (before.wait_ms(one), after.wait_ms(two))
        if one.gpu_ms == two.gpu_ms and waits[0] == waits[1] and one.outcome == two.outcome:
            continue
        rows.append(
            {
                "job": name,
                "team": one.team,
                "gpus": one.gpus,
                "gpu_hours_before": round(one.gpu_ms / HOUR_MS, 2),
                "gpu_hours_after": round(two.gpu_ms / HOUR_MS, 2),
                "wait_s_before": None if waits[0] is None else waits[0] // 1000,
                "wait_s_after": None if waits[1] is None else waits[1] // 1000,
            }
        )
    rows.sort(key=lambda row: (-_size(row), row["job"]))
    return rows[:MOST_JOBS]


def _size(row: Plain) -> float:
    waits = (row["wait_s_before"] or 0, row["wait_s_after"] or 0)
    hours = abs(row["gpu_hours_after"] - row["gpu_hours_before"])
    return float(hours + abs(waits[1] - waits[0]) * row["gpus"] / 3600)


def first_difference(
    before: list[tuple[int, d.Decision]], after: list[tuple[int, d.Decision]]
) -> Plain | None:
    """The first decision about a job that is another one, in words; None when all are the same.

    Wait causes and plans carry numbers that change without any job's being treated otherwise.
    """
    one, two = ([each for each in made if _counts(each[1])] for made in (before, after))
    for index in range(max(len(one), len(two))):
        was = one[index] if index < len(one) else None
        now = two[index] if index < len(two) else None
        if _told(was) != _told(now):
            return {"before": _told(was), "after": _told(now)}
    return None


def _counts(decision: d.Decision) -> bool:
    plans = (d.ReservationPlanned, d.ReservationReleased)
    return bool(getattr(decision, "job", "")) and not isinstance(decision, plans)


def _told(made: tuple[int, d.Decision] | None) -> Plain | None:
    if made is None:
        return None
    now_ms, decision = made
    job = getattr(decision, "job", "")
    words = in_words(decision, job).partition(" [")[0]
    return {"at_ms": now_ms, "kind": type(decision).__name__, "job": job, "text": words}


# --- a fork ---------------------------------------------------------------------------------------


def _fork(past: Past, changes: Changes | None) -> Tally:
    """The cell from the moment on, under simulated agents."""
    state = core.load(past.chunks)
    tally = Tally.of(state, at_ms=past.at_ms, until_ms=past.until_ms)
    known = {job: past.program(job, 0) for job in past.work_ms}
    world = CopiedWorld(state, now_ms=past.at_ms, observers=(tally,), programs=known)
    if changes is not None:
        _change(world, changes, state)
    for asked in past.asked:
        world.at(asked.at_ms, _asking(world, past, asked, changes))
    for trouble in past.troubles:
        world.at(trouble.at_ms, _troubling(world, trouble))
    world.run(past.until_ms)
    tally.close()
    return tally


def _change(world: CopiedWorld, changes: Changes, state: State) -> None:
    for body in (*changes.standing(), *changes.of_nodes(state)):
        world.control(body)
    more = changes.new_nodes(state)
    if more:
        world.admit(more)


def _asking(
    world: CopiedWorld, past: Past, asked: Asked, changes: Changes | None
) -> Callable[[], None]:
    """Somebody states a fact, as then."""
    body = asked.body

    def ask() -> None:
        if isinstance(body, f.JobSubmitted):
            _submit(world, past, body)
        elif asked.topic == Topic.JOBS:
            world.ask(body)
        elif isinstance(body, f.NodeAdmitted):
            world.admit([body])
        elif not isinstance(body, f.HandOverRequested):
            world.control(body)
            if changes is not None and isinstance(body, f.PolicySet | f.TeamSet):
                for again in changes.standing():
                    world.control(again)

    return ask


def _submit(world: CopiedWorld, past: Past, body: f.JobSubmitted) -> None:
    assumed_ms = world.assumed_ms(body.spec)
    for name in jobs_of(body.job, body.spec):
        world.programs.setdefault(name, past.program(name, assumed_ms))
    world.submit(body.job, body.spec, past.program(body.job, assumed_ms))


def _troubling(world: CopiedWorld, trouble: Trouble) -> Callable[[], None]:
    """A machine breaks or is mended, as then; nodes that are gone in this fork cannot."""

    def happen() -> None:
        if trouble.node not in world.fleet.nodes:
            return
        if trouble.kind:
            world.break_gpu(trouble.node, gpu=trouble.gpu, kind=trouble.kind)
        elif trouble.mended:
            world.repair_gpu(trouble.node, gpu=trouble.gpu)
        else:
            world.fail(trouble.node, for_ms=trouble.for_ms)

    return happen


def told(found: Mapping[str, Any]) -> list[str]:
    """The comparison for people."""
    lines = [f"from batch {found['seq']}, {(found['until_ms'] - found['at_ms']) / HOUR_MS:.1f} h"]
    for name in ("really", "before", "after"):
        numbers = found[name]
        lines.append(f"{name:>7}: " + ", ".join(f"{key} {val}" for key, val in numbers.items()))
    for row in found["teams"]:
        hours = row["gpu_hours_after"] - row["gpu_hours_before"]
        wait = row["mean_wait_s_after"] - row["mean_wait_s_before"]
        word = "wins" if hours > 0 else "loses" if hours < 0 else "keeps"
        lines.append(
            f"team {row['team']} {word} {abs(hours):.2f} GPU-hours ({row['gpu_hours_before']} to "
            f"{row['gpu_hours_after']}), waits {wait:+.1f} s on average"
        )
    lines += [
        f"  {row['job']} ({row['team']}, {row['gpus']} GPUs): {row['gpu_hours_before']} to "
        f"{row['gpu_hours_after']} GPU-hours, waits {row['wait_s_before']} to "
        f"{row['wait_s_after']} s"
        for row in found["jobs"]
    ]
    first = found["first_difference"]
    if first is None:
        return [*lines, "every decision is the same"]
    sides = [
        f"{side}: nothing" if one is None else f"{side}: {one['job']} {one['text']}".rstrip()
        for side, one in (("before", first["before"]), ("after", first["after"]))
    ]
    return [*lines, "the first decision that differs:", *(f"  {each}" for each in sides)]
