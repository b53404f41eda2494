"""The projector: reads decisions from where the views stand, folds them, writes rows and positions.

Theory of operation. Views that stand at the same place share a *lane*: one reader of `decisions`
and one checked chain. A run of steps is one database transaction with a savepoint for each view
(`runs.py`), so that all views of a lane move together and a view that cannot fold a record goes
back alone. That view then stands still in a lane of its own, says so in `projection`, and tries
again, a step at a time, until a newer program (or a mended database) gets it past the record; when
it has caught up it joins the others again.

Nothing is kept in memory that the database does not know: after any trouble with the database or
the log the projector connects again, reads the positions, and goes on from there. Several
projectors may run; they take turns at the rows of `view_position`, and whoever comes second finds
its steps already there.

A chain that breaks stops everything: ChainBrokenError is noted at all views and raised.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg
import structlog

from gangline.collecting import without_collecting
from gangline.events.log import (
    LogUnreachableError,
    Reader,
    Topic,
    TopicPartition,
    TopicsMissingError,
)
from gangline.projections.migrations import SCHEMA, migrate
from gangline.projections.models import all_models
from gangline.projections.positions import Positions, position_of
from gangline.projections.runs import CONNECTION_TROUBLE, Failure, Part, take
from gangline.projections.steps import Chain, ChainBrokenError, Step, Steps
from gangline.projections.work import ReadModel, Work

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from gangline.events.log import Log

DECISIONS: Final = TopicPartition(Topic.DECISIONS, 0)
_POLLED: Final = 500
_MOST_BYTES: Final = 16_000_000
_LOG_TROUBLE: Final = (LogUnreachableError, TopicsMissingError)
_TABLES_GONE: Final = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_log = structlog.get_logger("gangline.projector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often. poll_s: at most between two reads. look_s: between two looks at the log's end.

    retry_s, retry_most_s: between two tries of a view that is stuck, or of a connection; doubled
    each time. records: at most in one transaction: while a view catches up, what many records
    change in one row is written once.
    """

    poll_s: float = 0.5
    look_s: float = 2.0
    retry_s: float = 1.0
    retry_most_s: float = 60.0
    records: int = 10_000


class MovedError(Exception):
    """A view is further back than it was: it was reset; the lanes are laid out again."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """Views that stand at the same place, with their reader.

    stuck: this lane's one view could not fold its next record; then `tries` and `not_before` (by
    the monotonic clock) say how often, and when it tries again.
    """

    models: list[ReadModel]
    next_offset: int
    chain: Chain
    reader: Reader
    stuck: bool = False
    tries: int = 0
    not_before: float = 0.0

    @property
    def views(self) -> list[str]:
        """The names of its views."""
        return [model.name for model in self.models]

    def may_take(self, other: Lane) -> bool:
        """Whether another lane's views can go on with these."""
        return self.next_offset == other.next_offset and not self.stuck and not other.stuck


def run(
    log: Log,
    dsn: str,
    cell: str,
    stop: threading.Event,
    *,
    models: Sequence[ReadModel] | None = None,
    pace: Pace | None = None,
) -> None:
    """Keep the views of a cell up to date until `stop` is set; makes their tables first.

    Waits for a log or a database that is not there, twice as long each time until views move
    again; a schema that somebody dropped is made anew. Raises ChainBrokenError when decisions do
    not follow from one another, and OffsetOutOfRangeError when the log no longer has what the
    views need.
    """
    pace = pace or Pace()
    tries = 0
    while not stop.is_set():
        session = None
        try:
            migrate(dsn)
            with Session(log, dsn, cell, models or all_models(), pace=pace) as session:
                session.run(stop)
        except MovedError as error:
            _log.warning("views moved", cell=cell, reason=str(error))
        except (*CONNECTION_TROUBLE, *_TABLES_GONE, *_LOG_TROUBLE) as error:
            tries = 1 if session is not None and session.went_well() else tries + 1
            pause = min(pace.retry_s * 2 ** (tries - 1), pace.retry_most_s)
            _log.warning("projector waits", cell=cell, reason=one_line(error), pause_s=pause)
            stop.wait(pause)


class Session:
    """The work over one connection to the database; ends with it."""

    def __init__(
        self,
        log: Log,
        dsn: str,
        cell: str,
        models: Sequence[ReadModel],
        *,
        pace: Pace,
        schema: str = SCHEMA,
    ) -> None:
        self._log = log
        self._cell = cell
        self._pace = pace
        self._looked = 0.0
        self._began = time.monotonic()
        self._moved = False
        self.lanes: list[Lane] = []
        self._connection = connect(dsn, schema=schema)
        self._positions = Positions(self._connection, cell)
        try:
            self._lay_out(models)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection and the readers."""
        for lane in self.lanes:
            lane.reader.close()
        self._connection.close()

    def run(self, stop: threading.Event) -> None:
        """Move all lanes until `stop` is set."""
        while not stop.is_set():
            self.turn(self._pace.poll_s)

    def went_well(self) -> bool:
        """Whether it moved views, or lived for long: what ends it now is another trouble."""
        return self._moved or time.monotonic() - self._began > self._pace.retry_most_s

    def turn(self, timeout_s: float) -> None:
        """Move each lane once; the first waits for records so long if there are none."""
        for lane in list(self.lanes):
            if time.monotonic() >= lane.not_before:
                self._advance(lane, timeout_s if lane is self.lanes[0] else 0.0)
        self._join()
        if time.monotonic() - self._looked >= self._pace.look_s:
            self.look()

    @property
    def server_pid(self) -> int:
        """The process of the database server that works for it."""
        return self._connection.info.backend_pid

    @property
    def next_offset(self) -> int:
        """Before this offset all views have read everything."""
        return min(lane.next_offset for lane in self.lanes)

    def end(self) -> int:
        """The offset after the last decisions."""
        return self._log.ends([Topic.DECISIONS])[DECISIONS]

    def stuck(self) -> list[str]:
        """The views that stand still."""
        return [name for lane in self.lanes if lane.stuck for name in lane.views]

    def problem_of(self, view: str) -> str:
        """Why a view stands still."""
        return self._positions.read([view])[view].problem

    def look(self) -> bool:
        """Note how far the log goes; whether all views have read all of it."""
        self._looked = time.monotonic()
        head = self.end()
        all_read = True
        for lane in self.lanes:
            given = lane.reader.positions()[DECISIONS]
            read = given >= head and not lane.stuck
            self._positions.look(
                lane.views,
                head=head,
                read_to=lane.next_offset if read else head,
                now_ms=time.time_ns() // 1_000_000,
            )
            all_read = all_read and read
        return all_read

    # --- lanes -------------------------------------------------------------------------------

    def _lay_out(self, models: Sequence[ReadModel]) -> None:
        """One lane for each place at which views stand; the furthest first."""
        names = [model.name for model in models]
        self._positions.ensure(names)
        found = self._positions.read(names)
        places: dict[int, list[ReadModel]] = {}
        for model in models:
            places.setdefault(found[model.name].next_offset, []).append(model)
        for next_offset in sorted(places, reverse=True):
            link = found[places[next_offset][0].name].link
            self.lanes.append(
                Lane(
                    models=places[next_offset],
                    next_offset=next_offset,
                    chain=Chain(link),
                    reader=self._log.reader({DECISIONS: next_offset}),
                )
            )

    def _join(self) -> None:
        """Put lanes together that stand at the same place."""
        joined: list[Lane] = []
        for lane in self.lanes:
            home = next((o for o in joined if o.may_take(lane)), None)
            if home is None:
                joined.append(lane)
            else:
                home.models += lane.models
                lane.reader.close()
        self.lanes = joined

    def _advance(self, lane: Lane, timeout_s: float) -> None:
        """Read and apply what comes next in a lane."""
        with without_collecting():
            self._go_on(lane, timeout_s)

    def _go_on(self, lane: Lane, timeout_s: float) -> None:
        try:
            steps = self._read(lane, timeout_s)
        except ChainBrokenError as error:
            self._note(lane.views, problem=str(error), position="")
            _log.error("chain broken", cell=self._cell, reason=str(error))
            raise
        for run in [[step] for step in steps] if lane.stuck else [steps]:
            if run and not self._apply(lane, run):
                return

    def _read(self, lane: Lane, timeout_s: float) -> list[Step]:
        """The steps of one run: all that is there, up to so many records and bytes."""
        steps: list[Step] = []
        left, bytes_left = self._pace.records, _MOST_BYTES
        while left > 0 and bytes_left > 0:
            wanted = min(left, _POLLED)
            records = lane.reader.poll(timeout_s, limit=wanted)
            steps += lane.chain.steps(records)
            if len(records) < wanted:
                break
            timeout_s = 0.0
            left -= len(records)
            bytes_left -= sum(len(record.value) for record in records)
        return steps

    # --- one run -----------------------------------------------------------------------------

    def _apply(self, lane: Lane, steps: Sequence[Step]) -> bool:
        """Write a run of steps in one transaction; whether all views of the lane took it."""
        with self._connection.transaction():
            failed = take(self._parts(lane, Steps(steps)), self._positions)
        for failure in failed:
            self._part(lane, failure)
        if not failed:
            lane.stuck, lane.tries = False, 0
        self._moved = True
        lane.next_offset = steps[-1].last + 1
        return not failed

    def _parts(self, lane: Lane, run: Steps) -> list[Part]:
        """What a run of steps is for each view of the lane; nobody else moves these meanwhile."""
        places = self._positions.lock(lane.views)
        parts = []
        for model in lane.models:
            place = places.get(model.name)
            if place is None or place.next_offset < lane.next_offset:
                raise MovedError(f"{model.name} stands further back than before")
            work = Work(
                connection=self._connection,
                cell=self._cell,
                sql=model.sql,
                todo=run.beyond(place.next_offset),
                next_offset=place.next_offset,
                generation=place.generation,
            )
            parts.append(Part(model, work))
        return parts

    def _part(self, lane: Lane, failure: Failure) -> None:
        """Put a view that cannot go on into a lane of its own, and say so."""
        model = failure.part.model
        problem, position = one_line(failure.error), position_of(failure.part.at)
        self._note([model.name], problem=problem, position=position)
        _log.error(
            "view stuck", cell=self._cell, view=model.name, position=position, reason=problem
        )
        lane.models.remove(model)
        if not lane.models:
            self.lanes.remove(lane)
            lane.reader.close()
        place = self._positions.read([model.name])[model.name]
        pause = min(self._pace.retry_s * 2**lane.tries, self._pace.retry_most_s)
        self.lanes.append(
            Lane(
                models=[model],
                next_offset=place.next_offset,
                chain=Chain(place.link),
                reader=self._log.reader({DECISIONS: place.next_offset}),
                stuck=True,
                tries=lane.tries + 1 if lane.stuck else 1,
                not_before=time.monotonic() + pause,
            )
        )

    def _note(self, views: list[str], *, problem: str, position: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._positions.note_problem(views, problem=problem, position=position, now_ms=now_ms)


def connect(dsn: str, *, schema: str) -> psycopg.Connection[Any]:
    """A connection that writes views. What a crash loses of its last commits, the log still has."""
    options = (
        f"-c search_path={schema},gangline -c synchronous_commit=off -c timezone=UTC"
        " -c lock_timeout=60s -c statement_timeout=300s"
        " -c idle_in_transaction_session_timeout=300s"
    )
    return psycopg.connect(dsn, autocommit=True, options=options, application_name="gangline-views")


def one_line(error: BaseException) -> str:
    """What went wrong, in a line."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}"
