"""The projector: exactly once, loudly stuck, and well again."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gangline.events import codec
from gangline.events.batch import PackedDecision
from gangline.events.bus import open_log
from gangline.events.log import LogUnreachableError, Message, Position, Topic
from gangline.projections.decisions import Decisions
from gangline.projections.jobs import Jobs
from gangline.projections.models import all_models
from gangline.projections.projector import Pace, Session, run
from gangline.projections.queue import Queue
from gangline.projections.steps import ChainBrokenError
from tests.projections import story as s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gangline.events.log import Reader, TopicPartition
    from gangline.projections.queries import Views
    from gangline.projections.work import Work
    from tests.projections.conftest import Desk

FAST = Pace(poll_s=0.02, look_s=0.02, retry_s=0.02, retry_most_s=0.1)


def life_of(story: s.Story, job: str, node: str, *, number: int) -> None:
    """A job comes, runs and ends."""
    story.step(s.queued(job, number=number, submitted_ms=story.now_ms), inputs=1)
    story.wait(s=5)
    story.step(s.placed(job, node))
    story.step(s.started(job))
    story.wait(h=1)
    story.step(s.released(job, productive_ms=3_600_000), s.finished(job))


def contents(desk: Desk) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables of the views, but for what depends on when one looked."""
    tables = [table for model in all_models() for table in model.tables]
    found = {table: desk.all("SELECT * FROM {}", table=table) for table in tables}
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def test_projecting_again_from_the_same_position_changes_nothing(desk: Desk) -> None:
    """Rows and position move together."""
    desk.story.step(s.node("n0"), s.team("vision"))
    life_of(desk.story, "a", "n0", number=1)
    desk.catch_up()
    before = contents(desk)

    desk.catch_up()

    assert contents(desk) == before
    assert before["decision"]
    assert before["ledger_entry"]


def test_one_run_or_many_give_the_same_rows(desk: Desk) -> None:
    """How the steps are cut into transactions does not matter."""
    desk.story.step(s.node("n0"), s.team("vision"))
    for number in range(1, 5):
        life_of(desk.story, f"j{number}", "n0", number=number)
    desk.catch_up()
    at_once = contents(desk)

    desk.cell = "other"
    for records in (1, 2, 3):
        desk.catch_up(pace=Pace(poll_s=0, look_s=0, records=records))
    desk.execute("DELETE FROM view_position WHERE cell = 'main'")
    for table in at_once:
        desk.execute("DELETE FROM {} WHERE cell = 'main'", table=table)
        desk.execute("UPDATE {} SET cell = 'main'", table=table)
    in_pieces = contents(desk)

    for table in set(at_once) - {"wait_total"}:
        assert in_pieces[table] == at_once[table], table


def test_several_projectors_do_not_count_twice(desk: Desk) -> None:
    """They run at the same time, on the same views."""
    desk.story.step(s.node("n0"), s.team("vision"))
    for number in range(1, 16):
        life_of(desk.story, f"j{number}", "n0", number=number)
    end = desk.story.step(s.finished("nobody"))
    stop = threading.Event()
    small = replace(FAST, records=3)
    threads = [
        threading.Thread(
            target=run, args=(desk.story.log, desk.dsn, "main", stop), kwargs={"pace": small}
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: reached(desk, end))
    stop.set()
    for thread in threads:
        thread.join()

    assert desk.one("SELECT count(*) AS n FROM decision")["n"] == 15 * 5 + 3
    assert desk.one("SELECT sum(waits) AS n FROM wait_total WHERE cause = 'deciding'")["n"] == 15
    ledger = desk.one("SELECT sum(gpu_ms) AS n FROM quota_ledger")["n"]
    assert ledger == 8 * (desk.story.now_ms - s.START_MS)


def test_a_view_has_all_of_a_step_or_nothing(desk: Desk, views: Views) -> None:
    """Also where the step is several records; and its facts count as read with the last one."""
    fact = Position(Topic.JOBS, 0, 0)
    desk.story.part(s.queued("a"), inputs=1)
    desk.read_parts()
    before = (views.job("a"), views.contains(fact))

    desk.story.step(s.queued("b", number=2))
    desk.catch_up()

    assert before == (None, False)
    assert views.job("a") is not None
    assert views.contains(fact)


def test_a_reader_waits_for_its_own_write(desk: Desk, views: Views) -> None:
    """By the position of a fact, and by that of a decision."""
    end = desk.story.step(s.queued("a"), inputs=1)
    early = views.wait_for(Position(Topic.JOBS, 0, 0), timeout_s=0.02)
    desk.catch_up()

    assert not early
    assert views.wait_for(Position(Topic.JOBS, 0, 0), timeout_s=5)
    assert views.contains(end)
    assert not views.contains(Position(Topic.JOBS, 0, 1))
    assert not views.contains(end._replace(offset=end.offset + 1))


def test_a_broken_chain_stops_everything(desk: Desk, views: Views) -> None:
    """A record that does not follow the one before it is never shown."""
    desk.story.step(s.queued("a"))
    desk.story.digest = b"other"
    desk.story.step(s.queued("b", number=2))

    with pytest.raises(ChainBrokenError, match="decisions-0-1: expected after"):
        run(desk.story.log, desk.dsn, "main", threading.Event(), pace=FAST)

    assert views.job("b") is None
    problems = {row["problem"] for row in views.lag()}
    assert len(problems) == 1
    assert "decisions-0-1" in problems.pop()


def test_a_missing_record_is_a_broken_chain(desk: Desk) -> None:
    """Sequence numbers count every record."""
    desk.story.step(s.queued("a"))
    desk.catch_up()
    desk.story.seq += 1
    desk.story.step(s.queued("b", number=2))

    with pytest.raises(ChainBrokenError, match="expected seq 2, got 3"):
        desk.catch_up()


def test_bytes_that_are_no_decisions_are_a_broken_chain(desk: Desk) -> None:
    """Only the scheduler may write there."""
    desk.story.log.append([Message(topic=Topic.DECISIONS, value=b"nonsense")])

    with pytest.raises(ChainBrokenError, match="decisions-0-0"):
        desk.catch_up()


class Stumbling(Jobs):
    """The view of jobs in a program that cannot take one job."""

    def apply(self, work: Work) -> Iterator[None]:
        """Refuse the job `bad`, after rows were made."""
        yield from super().apply(work)
        for item, decision in work.decisions(self):
            work.at = item
            if getattr(decision, "job", "") == "bad":
                raise ZeroDivisionError("a bug")


def test_a_stuck_record_stops_its_view_only_and_heals_after_a_fix(desk: Desk, views: Views) -> None:
    """The view stands before the record, says so, and goes on when a mended program comes."""
    desk.story.step(s.queued("a"))
    stuck_at = desk.story.step(s.queued("bad", number=2))
    desk.story.step(s.queued("b", number=3))
    broken = [Stumbling(), Queue()]
    desk.catch_up(broken)
    lag = {row["view"]: row for row in views.lag()}
    rows = [row["job"] for row in views.rows("jobs")]

    desk.catch_up([Jobs(), Queue()])

    assert lag["jobs"]["problem"] == "ZeroDivisionError: a bug"
    assert lag["jobs"]["problem_position"] == str(stuck_at)
    assert lag["jobs"]["lag_events"] == 2
    assert lag["queue"]["problem"] is None
    assert lag["queue"]["lag_events"] == 0
    assert rows == ["a"]
    assert {row["job"] for row in views.rows("jobs")} == {"a", "bad", "b"}
    assert [row["problem"] for row in views.lag()] == [None, None]


class Unwritable(Jobs):
    """The view of jobs in a program whose rows the database does not take."""

    def apply(self, work: Work) -> Iterator[None]:
        """Fold all of it, then write what cannot be."""
        yield from super().apply(work)
        work.run_text(b"SELECT 1 / 0")


def test_a_view_whose_rows_cannot_be_written_goes_back_alone(desk: Desk, views: Views) -> None:
    """Those before and after it keep theirs, though all are written while others fold."""
    first = desk.story.step(s.queued("a"))

    desk.catch_up([Queue(), Unwritable(), Decisions()])

    lag = {row["view"]: row for row in views.lag()}
    assert lag["jobs"]["problem"] == "DivisionByZero: division by zero"
    assert lag["jobs"]["problem_position"] == str(first)
    assert views.rows("jobs") == []
    assert [len(views.rows("queue")), desk.one("SELECT count(*) AS n FROM decision")["n"]] == [1, 1]


def test_a_view_heals_while_the_projector_runs(desk: Desk, views: Views) -> None:
    """Its table was gone; it comes back."""
    desk.story.step(s.queued("a"))
    desk.execute("ALTER TABLE job RENAME TO job_away")
    with Projecting(desk):
        wait_until(lambda: problems(views) == {"jobs"})
        end = desk.story.step(s.queued("b", number=2))
        desk.execute("ALTER TABLE job_away RENAME TO job")
        wait_until(lambda: reached(desk, end))

    assert problems(views) == set()
    assert desk.one("SELECT count(*) AS n FROM job")["n"] == 2


def test_no_view_stands_still_for_a_nul(desk: Desk, views: Views) -> None:
    """Postgres holds none, in no text and in no JSON; a backslash of one's own stays as it is."""
    nul, plain = "a\0b", "a\\u0000b"
    queued = s.queued("a")
    labels = {nul: nul, "plain": plain}
    desk.story.step(replace(queued, spec=replace(queued.spec, labels=labels)), s.node("n1"))
    desk.story.step(s.placed("a", "n1"), s.started("a"))
    desk.story.step(replace(s.saved("a", productive_ms=1), path=nul))

    desk.catch_up()

    assert problems(views) == set()
    row = next(iter(views.rows("jobs")))
    assert row["spec"]["labels"] == {"a\ufffdb": "a\ufffdb", "plain": plain}


def unknown() -> PackedDecision:
    """A decision of a kind that does not exist yet."""
    return PackedDecision(kind="JobMoved", version=1, body=b"?")


def test_a_decision_of_a_newer_program_is_skipped_where_that_is_harmless(
    desk: Desk, views: Views
) -> None:
    """And counted, where that is the rule; views whose numbers it could change stand still."""
    position = desk.story.step(s.queued("a"), unknown(), s.queued("b", number=2))

    desk.catch_up()

    lag = {row["view"]: row for row in views.lag()}
    assert {name for name, row in lag.items() if row["problem"]} == {
        "quota_ledger",
        "utilization",
        "teams",
        "fairness",
    }
    assert (lag["jobs"]["skipped"], lag["jobs"]["skipped_position"]) == (1, str(position))
    assert len(views.rows("jobs")) == 2
    assert views.decisions()[1]["kind"] == "JobMoved"


def test_a_newer_version_of_a_known_kind_counts_as_unknown(desk: Desk, views: Views) -> None:
    """Nobody can read it rightly."""
    packed = codec.pack(s.queued("a"))
    desk.story.step(replace(packed, version=packed.version + 1))

    desk.catch_up([Jobs()])

    assert views.lag()[0]["skipped"] == 1


def test_a_damaged_decision_stops_the_views_that_need_it(desk: Desk, views: Views) -> None:
    """The others do not even look at it."""
    desk.story.step(PackedDecision(kind="NodeBooted", version=1, body=b"\xff"))

    desk.catch_up()

    assert problems(views) == {"decisions", "nodes"}


def test_a_lost_database_connection_changes_nothing(desk: Desk) -> None:
    """The projector connects again and goes on where the database says."""
    desk.story.step(s.node("n0"), s.team("vision"))
    with Projecting(desk):
        for number in range(1, 6):
            life_of(desk.story, f"j{number}", "n0", number=number)
            cut_connections(desk)
        end = desk.story.step(s.finished("nobody"))
        wait_until(lambda: reached(desk, end))

    assert desk.one("SELECT count(*) AS n FROM decision")["n"] == 5 * 5 + 3
    ledger = desk.one("SELECT sum(gpu_ms) AS n FROM quota_ledger")["n"]
    assert ledger == 8 * (desk.story.now_ms - s.START_MS)


class Flaky:
    """A log that cannot be reached at first."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.refusals = 2

    def reader(self, cursors: Mapping[TopicPartition, int]) -> Reader:
        """A reader, but not at first."""
        if self.refusals:
            self.refusals -= 1
            raise LogUnreachableError("no broker at 127.0.0.1:1")
        reader: Reader = self.log.reader(cursors)
        return reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


def test_the_projector_waits_for_a_log_that_is_not_there(desk: Desk) -> None:
    """And then reads it."""
    end = desk.story.step(s.queued("a"))
    flaky = Flaky(desk.story.log)
    desk.story.log = flaky

    with Projecting(desk):
        wait_until(lambda: reached(desk, end))

    assert flaky.refusals == 0


def test_the_embedded_log_is_projected_into_the_same_database(desk: Desk) -> None:
    """As on a laptop: log and views in one Postgres, offsets and all."""
    log = open_log(desk.dsn, "main")
    log.create_topics()
    desk.story = s.Story(log=log)
    with Projecting(desk):
        desk.story.step(s.node("n0"), s.team("vision"))
        life_of(desk.story, "a", "n0", number=1)
        end = desk.story.step(s.finished("nobody"))
        wait_until(lambda: reached(desk, end))
    log.close()

    assert desk.one("SELECT state FROM jobs")["state"] == "succeeded"
    lag = desk.all("SELECT DISTINCT lag_events FROM projection")
    assert lag == [{"lag_events": 0}]


def test_lag_is_told_in_events_and_seconds(desk: Desk, views: Views) -> None:
    """Of each view, as far as the projector has looked."""
    desk.story.step(s.queued("a"))
    desk.catch_up([Jobs()])
    level = views.lag()[0]
    for _ in range(3):
        desk.story.step()

    with Session(desk.story.log, desk.dsn, "main", [Jobs()], pace=FAST) as session:
        session.look()
    behind = views.lag()[0]

    assert (level["lag_events"], level["lag_s"]) == (0, 0)
    assert behind["lag_events"] == 3
    assert behind["lag_s"] > 0
    assert behind["checked_at"] > level["checked_at"]


def test_a_view_that_was_reset_is_built_again(desk: Desk) -> None:
    """While the projector runs; the other views go on."""
    end = desk.story.step(s.queued("a"))
    with Projecting(desk):
        wait_until(lambda: reached(desk, end))
        desk.execute("DELETE FROM job")
        desk.execute("DELETE FROM view_position WHERE view = 'jobs'")
        end = desk.story.step(s.queued("b", number=2))
        wait_until(lambda: reached(desk, end))

    assert desk.one("SELECT count(*) AS n FROM job")["n"] == 2
    assert desk.one("SELECT count(*) AS n FROM decision")["n"] == 2


# --- helpers -------------------------------------------------------------------------------------


class Projecting:
    """A projector in a thread, as long as the block lasts."""

    def __init__(self, desk: Desk) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=run,
            args=(desk.story.log, desk.dsn, desk.cell, self._stop),
            kwargs={"pace": FAST},
        )

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most 30 seconds."""
    pause = threading.Event()
    for _ in range(1500):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it did not come to pass")


def reached(desk: Desk, end: Position) -> bool:
    """Whether all views contain a position."""
    rows = desk.all("SELECT applied_offset FROM view_position")
    places: Sequence[int] = [row["applied_offset"] for row in rows]
    return len(places) == len(all_models()) and min(places) >= end.offset


def problems(views: Views) -> set[str]:
    """The views that are stuck."""
    return {row["view"] for row in views.lag() if row["problem"]}


def cut_connections(desk: Desk) -> None:
    """End the projector's connections in the server."""
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'gangline-views' AND datname = current_database()"
        )
