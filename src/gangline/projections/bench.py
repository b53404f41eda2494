"""How fast decisions become rows, beside a bare COPY of the same rows in the same run.

    python -m gangline.projections.bench DSN [JOBS]

A fleet of 1,000 nodes runs gangs of 1 to 64 GPUs, a new one each minute; each job is queued, waits
with a reason, is placed, starts, saves about every hour, and ends. The steps are made before the
clock starts; reading, checking the chain, decoding, folding, and writing all views are timed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.batch import DecisionBatch
from gangline.events.log import Message, Topic
from gangline.events.memory import MemoryLog
from gangline.events.named_sql import load_sql
from gangline.events.spec import CheckpointSpec, Spec
from gangline.projections.bench_clock import Clock, Spent
from gangline.projections.migrations import SCHEMA, migrate
from gangline.projections.models import all_models
from gangline.projections.projector import Pace, Session, connect
from gangline.projections.queries import Views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import psycopg

CELL: Final = "bench"
NODES: Final = 1000
TEAMS: Final = 10
_START_MS: Final = 1_800_000_000_000
_MINUTE_MS: Final = 60_000
_RUNNING: Final = 400
_SAVES: Final = 6
_SHAPES: Final = (1, 2, 4, 8, 1, 16, 4, 8, 64, 2)
_SQL: Final = load_sql("gangline.projections", "bench.sql")
_PACE: Final = Pace(poll_s=0.0, look_s=60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectBench:
    """The result. copy_over_project: time of the bare COPY by time of the projector.

    Each in seconds of wall time and of processor time (with the server's, where it runs here).
    ask_ms: what the API asks of these rows, the best of three. rows_of, bytes_of: by table; bytes
    with the indexes.
    """

    decisions: int
    rows: int
    project_s: float
    copy_s: float
    decisions_per_s: float
    rows_per_s: float
    copy_rows_per_s: float
    copy_over_project: float
    project_cpu_s: float | None
    copy_cpu_s: float | None
    copy_over_project_cpu: float | None
    ask_ms: dict[str, float]
    rows_of: dict[str, int]
    bytes_of: dict[str, int]


def bench_project(
    dsn: str, *, jobs: int = 2000, tick: Callable[[str], None] = lambda _text: None
) -> ProjectBench:
    """Project the life of so many jobs; rows of the cell `bench` are removed after."""
    migrate(dsn)
    tick("making steps")
    log, decisions = make_log(jobs)
    with connect(dsn, schema=SCHEMA) as connection:
        _clear(connection)
        tick("projecting")
        project = _project(log, dsn)
        tick("asking")
        ask_ms = _ask(dsn, jobs)
        tick("copying")
        copied = _bare_copy(connection)
        _clear(connection)
    rows, copy = sum(copied.rows.values()), copied.spent
    return ProjectBench(
        decisions=decisions,
        rows=rows,
        project_s=round(project.wall_s, 3),
        copy_s=round(copy.wall_s, 3),
        decisions_per_s=round(decisions / project.wall_s),
        rows_per_s=round(rows / project.wall_s),
        copy_rows_per_s=round(rows / copy.wall_s),
        copy_over_project=round(copy.wall_s / project.wall_s, 3),
        project_cpu_s=_rounded(project.cpu_s),
        copy_cpu_s=_rounded(copy.cpu_s),
        copy_over_project_cpu=_rounded(
            copy.cpu_s / project.cpu_s if copy.cpu_s and project.cpu_s else None
        ),
        ask_ms=ask_ms,
        rows_of=copied.rows,
        bytes_of=copied.sizes,
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _project(log: MemoryLog, dsn: str) -> Spent:
    """Bring all views to the log's end."""
    with Session(log, dsn, CELL, all_models(), pace=_PACE) as session:
        clock = Clock(session.server_pid)
        before = clock.read()
        while session.next_offset < session.end():
            session.turn(0.0)
            if session.stuck():
                raise RuntimeError(session.problem_of(session.stuck()[0]))
        return clock.read().since(before)


def _ask(dsn: str, jobs: int) -> dict[str, float]:
    """Milliseconds of each question, over the API's own connections."""
    views = Views(dsn, CELL, connections=1)
    try:
        return {name: _best_ms(ask, views) for name, ask in _questions(jobs).items()}
    finally:
        views.close()


def _questions(jobs: int) -> dict[str, Callable[[Views], object]]:
    job, now_ms = f"job-{jobs // 2}", _START_MS + jobs * _MINUTE_MS
    day_ms = now_ms - 24 * 60 * _MINUTE_MS
    return {
        "a job": lambda views: views.job(job),
        "jobs of a team": lambda views: views.rows("jobs", where={"team": "team-1"}),
        "queue": lambda views: views.rows("queue"),
        "events of a job": lambda views: views.job_events(job),
        "decisions": lambda views: views.decisions(after=f"decisions-0-{jobs}"),
        "ledger of a day": lambda views: views.ledger(from_ms=day_ms, to_ms=now_ms),
        "utilization of a day": lambda views: views.utilization(from_ms=day_ms, to_ms=now_ms),
        "fairness": lambda views: views.rows("fairness"),
        "fleet": lambda views: views.fleet(),
        "numbers": lambda views: views.numbers(),
    }


def _best_ms(ask: Callable[[Views], object], views: Views) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        ask(views)
        best = min(best, time.perf_counter() - started)
    return round(best * 1000, 2)


# --- the log -------------------------------------------------------------------------------------


def make_log(jobs: int) -> tuple[MemoryLog, int]:
    """A log with the life of so many jobs, and the number of its decisions."""
    log = MemoryLog(CELL)
    log.create_topics()
    digest, count, messages = b"", 0, []
    for seq, (now_ms, decisions) in enumerate(_steps(jobs), start=1):
        batch = DecisionBatch(
            genesis=CELL,
            term=1,
            seq=seq,
            more=False,
            now_ms=now_ms,
            caught_up=True,
            logic_version=1,
            inputs=(),
            edges=(),
            decisions=tuple(codec.pack(decision) for decision in decisions),
            state_digest=b"",
            previous_digest=digest,
        )
        value = codec.stated(batch, id=f"{CELL}-{seq}", actor="scheduler:bench")
        digest = codec.body_digest(value)
        count += len(decisions)
        messages.append(Message(topic=Topic.DECISIONS, value=value))
    log.append(messages)
    return log, count


def _steps(jobs: int) -> Iterator[tuple[int, Sequence[d.Decision]]]:
    now_ms = _START_MS
    yield now_ms, [_node(index) for index in range(NODES)]
    yield now_ms, [_team(index) for index in range(TEAMS)]
    free, running = deque(range(NODES)), deque[tuple[str, list[int], int]]()
    for number, gpus in zip(range(1, jobs + 1), cycle(_SHAPES), strict=False):
        now_ms += _MINUTE_MS
        job, members = f"job-{number}", -(-gpus // 8)
        while len(running) >= _RUNNING or len(free) < members:
            name, nodes, since_ms = running.popleft()
            free.extend(nodes)
            yield now_ms, _end(name, nodes, now_ms - since_ms)
        yield now_ms, [_queued(job, number, gpus, now_ms), _waits(job)]
        seats = [free.popleft() for _ in range(members)]
        running.append((job, seats, now_ms))
        yield now_ms + 1_000, [_placed(job, seats, gpus)]
        yield now_ms + 3_000, [*_ready(job, seats), d.GangStarted(job=job, attempt=1, resumed_ms=0)]
        for _ in range(min(_SAVES, len(running))):
            running.rotate()
            early, nodes, since_ms = running[0]
            yield now_ms + 9_000, [_saved(early, nodes, now_ms + 9_000 - since_ms)]


def _node(index: int) -> d.NodeAdded:
    path = (f"s{index // 256}", f"s{index // 256}-b{index // 32}")
    return d.NodeAdded(node=f"node-{index}", path=path, levels=("spine", "block"), gpus=8)


def _team(index: int) -> d.TeamChanged:
    return d.TeamChanged(
        team=f"team-{index}", guaranteed=600, borrow=-1, lend=-1, weight=1, parent=""
    )


def _queued(job: str, number: int, gpus: int, now_ms: int) -> d.JobQueued:
    spec = Spec(
        team=f"team-{number % TEAMS}", gpus=gpus, checkpoint=CheckpointSpec(interval_ms=1_800_000)
    )
    return d.JobQueued(
        job=job, number=number, spec=spec, submitted_ms=now_ms - 40, submitted_at="jobs-0-1"
    )


def _waits(job: str) -> d.WaitCauseChanged:
    text = "needs 8 GPUs on one node; 3 are free"
    return d.WaitCauseChanged(jobs=(job,), cause=d.WaitCause.CAPACITY, text=text)


def _placed(job: str, nodes: Sequence[int], gpus: int) -> d.GangPlaced:
    each = tuple(range(min(8, gpus)))
    seats = tuple(
        d.Seat(node=f"node-{node}", gpus=each, first_rank=8 * rank)
        for rank, node in enumerate(nodes)
    )
    return d.GangPlaced(job=job, attempt=1, seats=seats, level="block", crossed=1, borrowed=0)


def _ready(job: str, nodes: Sequence[int]) -> Iterator[d.MembersReady]:
    for node in nodes:
        yield d.MembersReady(job=job, attempt=1, nodes=(f"node-{node}",))


def _saved(job: str, nodes: Sequence[int], productive_ms: int) -> d.CheckpointRecorded:
    return d.CheckpointRecorded(
        job=job,
        attempt=1,
        node=f"node-{nodes[0]}",
        step=1,
        path="/checkpoints/1",
        productive_ms=productive_ms,
    )


def _end(job: str, nodes: Sequence[int], productive_ms: int) -> list[d.Decision]:
    return [
        *(d.MemberEnded(job=job, attempt=1, node=f"node-{node}", code=0) for node in nodes),
        d.GangReleased(
            job=job,
            attempt=1,
            cause=d.StopCause.FINISHED,
            lost_gpu_ms=0,
            productive_ms=productive_ms,
        ),
        d.JobFinished(job=job, outcome=d.Outcome.SUCCEEDED),
    ]


# --- the bare COPY -------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Copied:
    """What a bare copy took, and rows and bytes by table."""

    spent: Spent
    rows: dict[str, int]
    sizes: dict[str, int]


def _bare_copy(connection: psycopg.Connection[Any]) -> _Copied:
    """Copy the rows of all views once more, into tables with the same indexes."""
    clock = Clock(connection.info.backend_pid)
    copied = _Copied(spent=Spent(0.0, 0.0), rows={}, sizes={})
    for table in _tables():
        found = connection.execute(_of("rows", table), {"cell": CELL}).fetchall()
        connection.execute(_of("make_copy", table))
        before = clock.read()
        with connection.cursor() as cursor, cursor.copy(_SQL["copy"]) as copy:
            for row in found:
                copy.write_row([_plain(value) for value in row])
        copied.spent = copied.spent.plus(clock.read().since(before))
        copied.rows[table] = len(found)
        ((copied.sizes[table],),) = connection.execute(_SQL["size"]).fetchall()
        connection.execute(_SQL["drop_copy"])
    return copied


def _plain(value: object) -> object:
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _clear(connection: psycopg.Connection[Any]) -> None:
    for table in ("view_position", "view_memory", *_tables()):
        connection.execute(_of("clear", table), {"cell": CELL})


def _tables() -> list[str]:
    return [table for model in all_models() for table in model.tables]


def _of(statement: str, table: str) -> sql.Composed:
    text: Any = _SQL[statement].decode()
    return sql.SQL(text).format(table=sql.Identifier(table))


def main() -> None:
    """Run it, and print the numbers as JSON."""
    dsn, *rest = sys.argv[1:]
    result = bench_project(dsn, jobs=int(rest[0]) if rest else 2000)
    sys.stdout.write(json.dumps(asdict(result)) + "\n")


if __name__ == "__main__":
    main()
