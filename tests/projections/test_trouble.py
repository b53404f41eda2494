"""What goes wrong with the database: the projector waits, longer each time, and goes on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gangline.projections.projector import Pace, run
from tests.projections import story as s
from tests.projections.test_projector import (
    FAST,
    Projecting,
    problems,
    reached,
    wait_until,
)

if TYPE_CHECKING:
    from gangline.projections.queries import Views
    from tests.projections.conftest import Desk


class Pauses(threading.Event):
    """Whoever waits for it is told the time, and stopped after so many waits."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.seen: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Do not wait, but note how long it would have been."""
        self.seen.append(timeout or 0.0)
        if len(self.seen) == self.count:
            self.set()
        return self.is_set()


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON {} EXECUTE FUNCTION full_disk()
"""


def test_a_full_disk_is_asked_less_and_less_often(desk: Desk) -> None:
    """Though the database answers each time, and says it at the first row only."""
    desk.story.step(s.queued("a"))
    desk.execute(FULL, table="job")
    pauses = Pauses(5)

    run(desk.story.log, desk.dsn, "main", pauses, pace=Pace(poll_s=0.0, retry_s=1.0))

    assert pauses.seen == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_disk_with_room_again_is_written_to(desk: Desk, views: Views) -> None:
    """No view is stuck: nothing was wrong with what they were to write."""
    desk.execute(FULL, table="job")
    end = desk.story.step(s.queued("a"))
    run(desk.story.log, desk.dsn, "main", Pauses(1), pace=FAST)

    desk.execute("DROP TRIGGER full_disk ON {}", table="job")
    with Projecting(desk):
        wait_until(lambda: reached(desk, end))

    assert problems(views) == set()


ONLY_READS = """
SET TRANSACTION READ WRITE;
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {}', current_database());
END $$
"""


def test_a_server_that_only_reads_is_left_for_one_that_writes(desk: Desk, views: Views) -> None:
    """As after a failover: connections are as good as dead, and no view is to blame."""
    end = desk.story.step(s.queued("a"))
    desk.execute(ONLY_READS, table="on")
    pauses = Pauses(2)
    run(desk.story.log, desk.dsn, "main", pauses, pace=FAST)
    assert len(pauses.seen) == 2

    desk.execute(ONLY_READS, table="off")
    with Projecting(desk):
        wait_until(lambda: reached(desk, end))

    assert problems(views) == set()


def test_a_schema_that_was_dropped_is_built_again(desk: Desk, views: Views) -> None:
    """From the log, by the projector that was running."""
    desk.story.step(s.queued("a"))
    with Projecting(desk):
        wait_until(lambda: views.job("a") is not None)
        desk.execute("DROP SCHEMA gangline CASCADE; DROP SCHEMA report CASCADE")
        end = desk.story.step(s.queued("b", number=2))
        wait_until(lambda: _exists(desk) and reached(desk, end))

    assert {row["job"] for row in views.rows("jobs")} == {"a", "b"}


def test_a_table_that_is_missing_stops_its_view_until_it_is_back(desk: Desk, views: Views) -> None:
    """The others go on; who makes the table again, as it was, has healed the view."""
    desk.execute("ALTER TABLE {} RENAME TO lost", table="fault")
    end = desk.story.step(s.queued("a"), s.node("n0"))
    with Projecting(desk):
        wait_until(lambda: problems(views) == {"faults"})
        wait_until(lambda: views.job("a") is not None)
        desk.execute("ALTER TABLE lost RENAME TO {}", table="fault")
        wait_until(lambda: reached(desk, end))

    assert problems(views) == set()


def _exists(desk: Desk) -> bool:
    return bool(desk.all("SELECT to_regclass('gangline.view_position') AS t")[0]["t"])
