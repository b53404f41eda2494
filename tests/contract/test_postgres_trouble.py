"""What is known to go wrong with logs on Postgres, and does not with this one."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gangline.events.log import (
    CommitUnknownError,
    FencedError,
    LogUnreachableError,
    Message,
    Topic,
)
from gangline.events.named_sql import load_sql
from gangline.events.postgres_log import PostgresLog, wire
from gangline.events.postgres_log import log as driver
from gangline.events.reading import from_the_start
from tests.contract.conftest import DECISIONS, JOBS, job, read_all, read_until, values
from tests.support.proxy import Link, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.postgres_log.log import PostgresWriter

pytestmark = pytest.mark.postgres
SQL = load_sql("gangline.events.postgres_log", "log.sql")


@pytest.fixture
def log(postgres_url: str) -> Iterator[PostgresLog]:
    """Give a log in a database of its own."""
    log = PostgresLog(postgres_url, "main")
    log.create_topics()
    yield log
    log.close()


class CutAtCommit(Proxy):
    """Cuts the next connection that commits: before the server hears of it, or after it did.

    With `silent`, nothing is cut: the answer just never comes.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.armed = ""
        self.cuts = 0
        self._lost: dict[Link, str] = {}

    def client_said(self, link: Link, data: bytes) -> bytes:
        """Look for the statement."""
        if self.armed and b"COMMIT" in data:
            armed, self.armed = self.armed, ""
            self.cuts += 1
            if armed == "before":
                link.cut()
                return b""
            self._lost[link] = armed
        return data

    def server_said(self, link: Link, data: bytes) -> bytes:
        """Swallow the answer."""
        if self._lost.get(link) == "after":
            link.cut()
        return b"" if link in self._lost else data

    def client_left(self, link: Link) -> None:
        """Let a server whose answer was lost end by itself."""
        if link not in self._lost:
            link.cut_server()


@contextmanager
def through(proxy_type: type[CutAtCommit], url: str) -> Iterator[tuple[CutAtCommit, PostgresLog]]:
    """A proxy, and a log that speaks through it."""
    parts = conninfo_to_dict(url)
    proxy = proxy_type(str(parts["host"]), int(str(parts["port"])))
    log = PostgresLog(make_conninfo(url, host="127.0.0.1", port=proxy.port), "main")
    yield proxy, log
    log.close()
    proxy.close()


class HoldsCommit(CutAtCommit):
    """The next connection that commits stands still before: the server never hears of it."""

    def client_said(self, link: Link, data: bytes) -> bytes:
        """Look for the statement, and keep it."""
        if self.armed and b"COMMIT" in data:
            self.armed = ""
            self.cuts += 1
            return b""
        return data


def terminate_all(url: str) -> int:
    """End every connection of the log at the server; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'gangline-log' AND datname = current_database()"
        )
        return len(rows.fetchall())


def partition_id(connection: psycopg.Connection[Any]) -> int:
    """The row of the partition of `jobs`."""
    row = connection.execute(
        "SELECT partition_id FROM gangline_log.partitions WHERE topic = 'jobs'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_late_commit_with_an_early_number_is_not_skipped(
    log: PostgresLog, postgres_url: str
) -> None:
    """Of two serial numbers the later may commit first; readers then skip the earlier for ever."""
    reader = log.reader({JOBS: 0})
    fast = threading.Thread(target=log.append, args=([job(b"second")],))
    with psycopg.connect(postgres_url) as slow:
        row = {"partition_id": partition_id(slow), "count": 1}
        first = slow.execute(SQL["reserve"], row).fetchone()
        assert first is not None
        fast.start()
        assert not reader.poll(0.4)
        assert fast.is_alive(), "it overtook a transaction that has the earlier offset"
        head = (row["partition_id"], first[0], first[1], b"", b"first")
        slow.execute(SQL["insert"] + driver._ROW, (*head, [], []))
        slow.commit()
    fast.join()
    assert values(read_until(reader, lambda found: len(found) >= 2)) == [b"first", b"second"]
    reader.close()


def test_an_abandoned_transaction_leaves_no_hole(log: PostgresLog, postgres_url: str) -> None:
    """Offsets are taken in the transaction, so a rollback gives them back."""
    with psycopg.connect(postgres_url) as slow:
        slow.execute(SQL["reserve"], {"partition_id": partition_id(slow), "count": 5})
        slow.rollback()
    assert log.append([job(b"a")])[0].offset == 0


@pytest.mark.parametrize("many", [1, 3], ids=["one record", "several"])
def test_a_writer_that_stands_still_before_its_commit_is_replaced(
    log: PostgresLog, postgres_url: str, monkeypatch: pytest.MonkeyPatch, *, many: int
) -> None:
    """The server ends the idle transaction, and the next writer waits no longer than that."""
    shorter = dict(wire._SESSION) | {"idle_in_transaction_session_timeout": "1s"}
    monkeypatch.setattr(wire, "_SESSION", tuple(shorter.items()))
    with through(HoldsCommit, postgres_url) as (proxy, far):
        first = far.writer("scheduler")
        proxy.armed = "before"
        stopped = threading.Thread(target=commit_in_vain, args=(first, [job(b"lost")] * many))
        stopped.start()
        while not proxy.cuts:
            time.sleep(0.01)
        with closing(log.writer("scheduler")) as second:
            second.commit([job(b"kept")])
        stopped.join()
    assert values(read_all(log, {JOBS: 0})) == [b"kept"]


def commit_in_vain(writer: PostgresWriter, batch: list[Message]) -> None:
    """Commit what is never heard of."""
    with pytest.raises(CommitUnknownError):
        writer.commit(batch)


def test_a_long_transaction_elsewhere_stops_nobody(log: PostgresLog, postgres_url: str) -> None:
    """Readers that wait for the oldest transaction to end would stand still here."""
    with psycopg.connect(postgres_url) as idle:
        idle.execute("CREATE TABLE elsewhere (x int)")
        log.append([job(b"a")])
        assert values(read_all(log, {JOBS: 0})) == [b"a"]
        idle.rollback()


def test_a_lost_notification_costs_a_moment(
    log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOTIFY is never repeated, so readers look by themselves too."""
    monkeypatch.setattr(wire.Bell, "ring", lambda _: None)
    reader = log.reader({JOBS: 0})
    timer = threading.Timer(0.1, log.append, [[job(b"unannounced")]])
    timer.start()
    began = time.monotonic()
    assert values(reader.poll(5)) == [b"unannounced"]
    assert time.monotonic() - began < 0.1 + 2 * driver.POLL_INTERVAL_S + 1
    timer.join()
    reader.close()


def test_notifications_are_bare_and_few(log: PostgresLog, postgres_url: str) -> None:
    """All notifying commits queue on one lock: many appends share a ring, which says nothing."""
    with psycopg.connect(postgres_url, autocommit=True) as listener:
        listener.execute(wire.LISTEN)
        began = time.monotonic()
        for number in range(100):
            log.append([job(b"%d" % number)])
        took_s = time.monotonic() - began
        rings = list(listener.notifies(timeout=0.3))
    assert 1 <= len(rings) <= took_s / wire.BELL_INTERVAL_S + 2
    assert {ring.payload for ring in rings} == {""}


def test_a_listener_holds_no_transaction(log: PostgresLog, postgres_url: str) -> None:
    """A listener inside a transaction keeps notifications from being cleaned up."""
    reader = log.reader({JOBS: 0})
    reader.poll(0.1)
    with psycopg.connect(postgres_url) as connection:
        states = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE application_name = 'gangline-log'"
            " AND datname = current_database()"
        ).fetchall()
    assert {state for (state,) in states} == {"idle"}
    reader.close()


def test_dropped_connections_lose_nothing(log: PostgresLog, postgres_url: str) -> None:
    """The server ends all connections again and again; appends and readers go on."""
    reader = log.reader({JOBS: 0})

    def append() -> None:
        for number in range(60):
            log.append([job(b"%d" % number)])
            time.sleep(0.01)

    appender = threading.Thread(target=append)
    appender.start()
    dropped = 0
    found: list[bytes] = []
    while len(found) < 60:
        if len(found) < 40 and appender.is_alive():
            dropped += terminate_all(postgres_url)
        records = read_until(reader, lambda found: len(found) >= 5, timeout_s=2)
        assert records
        found += values(records)
    appender.join()
    assert found == [b"%d" % number for number in range(60)]
    assert dropped > 3
    reader.close()


def test_a_reader_hears_again_after_its_connection_was_lost(
    log: PostgresLog, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listens first and reads afterwards, on the new connection too."""
    reader = log.reader({JOBS: 0})
    log.append([job(b"before")])
    assert values(read_until(reader, bool)) == [b"before"]
    terminate_all(postgres_url)
    log.append([job(b"while away")])
    assert values(read_until(reader, bool)) == [b"while away"]
    monkeypatch.setattr(driver, "POLL_INTERVAL_S", 30.0)
    timer = threading.Timer(0.2, log.append, [[job(b"after")]])
    timer.start()
    assert values(reader.poll(10)) == [b"after"]
    timer.join()
    reader.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_append_whose_answer_is_lost_is_there_once(
    log: PostgresLog, postgres_url: str, moment: str
) -> None:
    """The server knows what became of the transaction; nothing is guessed and nothing doubled."""
    with through(CutAtCommit, postgres_url) as (proxy, client):
        client.append([job(b"0")])
        proxy.armed = moment
        position = client.append([job(b"1")])[0]
        client.append([job(b"2")])
        assert proxy.cuts == 1
    records = read_all(log, {JOBS: 0})
    assert values(records) == [b"0", b"1", b"2"]
    assert records[1].position == position


@pytest.mark.parametrize(("moment", "visible"), [("before", 0), ("after", 1), ("silent", 1)])
def test_a_commit_whose_answer_is_lost_is_unknown(
    log: PostgresLog,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    moment: str,
    visible: int,
) -> None:
    """Whether it happened is read from the log, after a new writer has settled it."""
    monkeypatch.setattr(wire, "ANSWER_TIMEOUT_S", 1.0)
    with through(CutAtCommit, postgres_url) as (proxy, client):
        writer = client.writer("scheduler")
        writer.commit([Message(topic=Topic.DECISIONS, value=b"1")])
        proxy.armed = moment
        batch = [
            Message(topic=Topic.DECISIONS, value=b"2"),
            Message(topic=Topic.ASSIGNMENTS, key=b"n", value=b"2"),
        ]
        with pytest.raises(CommitUnknownError):
            writer.commit(batch)
        with closing(log.writer("scheduler")) as again:
            cursors = from_the_start([Topic.DECISIONS, Topic.ASSIGNMENTS])
            assert values(read_all(log, cursors)).count(b"2") == 2 * visible
            again.commit([Message(topic=Topic.DECISIONS, value=b"3")])
    assert values(read_all(log, {DECISIONS: 0}))[-1] == b"3"


def test_a_new_writer_waits_for_a_commit_under_way(log: PostgresLog, postgres_url: str) -> None:
    """The older writer's commit is settled, one way or the other, before the new one is open."""
    log.writer("scheduler").close()
    opened = threading.Event()

    def take_over() -> None:
        log.writer("scheduler").close()
        opened.set()

    thread = threading.Thread(target=take_over)
    with psycopg.connect(postgres_url) as older:
        older.execute(SQL["lock_writer"], {"cell": "main", "role": "scheduler"})
        thread.start()
        assert not opened.wait(0.3)
        older.commit()
    assert opened.wait(5)
    thread.join()


def test_a_leader_that_stands_still_is_put_out(
    log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stops inside its transaction holds the row only until the server ends it."""
    session = [(n, "300ms" if n.startswith("idle") else v) for n, v in wire._SESSION]
    monkeypatch.setattr(wire, "_SESSION", session)
    writer = log.writer("scheduler")
    writer._connection.execute("BEGIN")
    writer._connection.execute(SQL["lock_writer"], {"cell": "main", "role": "scheduler"})
    newer = log.writer("scheduler")
    newer.commit([Message(topic=Topic.DECISIONS, value=b"1")])
    with pytest.raises((CommitUnknownError, FencedError)):
        writer.commit([Message(topic=Topic.DECISIONS, value=b"2")])
    assert values(read_all(log, {DECISIONS: 0})) == [b"1"]
    newer.close()


def test_a_connection_that_became_read_only_is_dead(log: PostgresLog) -> None:
    """After a failover the old server lives on without taking writes; others are looked for."""
    log.append([job(b"1")])
    with log._pool.lend() as connection:
        connection.execute("SET default_transaction_read_only = on")
    assert log.append([job(b"2")])[0].offset == 1


def test_sessions_do_not_wait_for_ever(log: PostgresLog) -> None:
    """Each timeout is set, the server gives up before the client does, and commits are durable."""
    with log._pool.lend() as connection:
        shown = {
            name: connection.execute(f"SHOW {name}".encode()).fetchone()  # a name of our own
            for name, _ in wire._SESSION
        }
    assert shown == {name: (value,) for name, value in wire._SESSION}
    seconds = {name: int(value.rstrip("s")) for name, value in wire._SESSION[:3]}
    assert seconds["idle_in_transaction_session_timeout"] < seconds["lock_timeout"]
    assert seconds["statement_timeout"] < wire.ANSWER_TIMEOUT_S


def test_appends_to_the_same_partitions_do_not_deadlock(log: PostgresLog) -> None:
    """Counters are locked in one order, whatever the order of the messages."""
    there = [Message(topic=Topic.NODES, value=b"x", partition=each) for each in range(4)]
    batches = (there, there[::-1])

    def append(name: int) -> None:
        for _ in range(25):
            log.append(batches[name % 2])

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(log.ends([Topic.NODES]).values()) == {100}


def test_a_long_fetch_is_cut_by_bytes(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll brings megabytes, not the whole log, and never nothing for being too much."""
    monkeypatch.setattr(driver, "FETCH_BYTES", 2_500)
    log.append([job(b"%d" % number + b"x" * 1000) for number in range(7)])
    log.append([job(b"y" * 9000)])
    reader = log.reader({JOBS: 0})
    sizes: list[int] = []
    while sum(sizes) < 8:
        sizes.append(len(reader.poll(1)))
    assert sizes == [3, 3, 2]
    reader.close()


def test_an_unreachable_server_is_one_line() -> None:
    """It says what, where, why, and how to start it; the password stays out."""
    log = PostgresLog("postgresql://me:secret@127.0.0.1:1/db", "main")
    with pytest.raises(LogUnreachableError, match="gangline up") as caught:
        log.create_topics()
    text = str(caught.value)
    assert "127.0.0.1:1 is not reachable" in text
    assert "refused" in text
    assert "\n" not in text
    assert "secret" not in text
    log.close()
