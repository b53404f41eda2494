"""Connections to Postgres for the log: how they are made, watched, woken and explained."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from gangline.events.log import LogError, LogUnreachableError, TopicsMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.abc import PQGen

_T = TypeVar("_T")

CONNECT_TIMEOUT_S = 5
POOL_SIZE = 8
ANSWER_TIMEOUT_S = 15.0
"""How long the answer to one statement may take before its connection counts as lost."""
BELL_INTERVAL_S = 0.01
"""All transactions that notify wait for one lock, so a process rings at most this often."""

_SESSION = (
    # A transaction whose client stands still holds locks that others wait for: end it, and let
    # those who wait outlast it. (Kafka's counterpart is transaction.timeout.ms.)
    ("statement_timeout", "12s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "8s"),
    # "Durable on return" must not depend on the server's configuration.
    ("synchronous_commit", "on"),
)

LISTEN = "LISTEN gangline_log"
NOTIFY = "NOTIFY gangline_log"

_CONNECTION = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "application_name": "gangline-log",
    # After a failover the old server lives on, read-only: never be content with it.
    "target_session_attrs": "read-write",
    # A peer that vanished without a word is found out.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class Connection(psycopg.Connection[Any]):
    """A connection that waits for an answer no longer than ANSWER_TIMEOUT_S.

    The server's own timeouts do not help when it is its answer that gets lost, and libpq would wait
    for ever. A connection that gave no answer is closed: what it was doing is unknown.
    """

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        """What the generator returns, or OperationalError when it takes too long."""
        started = time.monotonic()
        try:
            return super().wait(gen, interval, timeout or ANSWER_TIMEOUT_S)
        except psycopg.OperationalError as error:
            if timeout or time.monotonic() - started < ANSWER_TIMEOUT_S:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {ANSWER_TIMEOUT_S:g} s") from error


def connect(url: str) -> Connection:
    """A new connection, every statement a transaction of its own."""
    connection = Connection.connect(url, autocommit=True, **_CONNECTION)  # type: ignore[arg-type]
    configure(connection)
    return connection


def configure(connection: psycopg.Connection[Any]) -> None:
    """Set the session's timeouts; as statements, because poolers refuse them at connecting."""
    for name, value in _SESSION:
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


class Pool:
    """Connections for any number of threads, at most POOL_SIZE at once; last back, first lent.

    A connection that died at rest is only found out by use, so each is tried before it is lent.
    When a new one cannot be had, the error is the server's own, at once; who wants to wait tries
    again.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._free = threading.Semaphore(POOL_SIZE)
        self._resting: deque[Connection] = deque()

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """A live connection; does not come back when it died or became read-only meanwhile."""
        with self._free:
            connection = self._awake() or connect(self._url)
            try:
                yield connection
            except psycopg.errors.ReadOnlySqlTransaction:
                # SQLSTATE 25006: this server was demoted under us; others are to be found.
                connection.close()
                raise
            finally:
                self._take_back(connection)

    def close(self) -> None:
        """Close those at rest."""
        while self._resting:
            self._resting.pop().close()

    def _awake(self) -> Connection | None:
        """One that rested and is still alive."""
        with suppress(IndexError):
            while True:
                connection = self._resting.pop()
                with suppress(psycopg.Error):
                    connection.execute("SELECT 1")
                    return connection
                connection.close()
        return None

    def _take_back(self, connection: Connection) -> None:
        """Let it rest, if it is as it was lent."""
        if connection.info.transaction_status == TransactionStatus.IDLE:
            self._resting.append(connection)
        else:
            connection.close()


class Bell:
    """Wakes readers after commits, from a connection and a thread of its own.

    A ring says nothing but "look": rings while one is under way become one. A ring that is lost
    costs a reader POLL_INTERVAL_S, so errors are of no account.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._rung = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def ring(self) -> None:
        """Wake the readers soon; returns at once."""
        self._rung.set()
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="log-bell", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        with self._lock:
            self._closed.set()
            self._rung.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        """Ring until closed."""
        connection: Connection | None = None
        while not self._closed.is_set():
            self._rung.wait()
            self._rung.clear()
            with suppress(psycopg.Error):
                if connection is None or connection.closed:
                    connection = connect(self._url)
                connection.execute(NOTIFY)
            self._closed.wait(BELL_INTERVAL_S)
        if connection is not None:
            connection.close()


def explain(url: str, error: psycopg.Error) -> LogError:
    """An error of the database as the log's, in one line."""
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return TopicsMissingError("the database holds no log yet: `gangline init` makes its topics")
    if isinstance(error, psycopg.DataError | psycopg.ProgrammingError):
        return LogError(f"Postgres refused: {one_line(error)}")
    return LogUnreachableError(
        f"Postgres at {_address(url)} is not reachable ({one_line(error)}): start it; "
        "`gangline up` without GANGLINE_DATABASE_URL brings one of its own"
    )


def _address(url: str) -> str:
    """Host and port, without the password."""
    parts = conninfo_to_dict(url)
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"


def one_line(error: Exception) -> str:
    """The first line of an error's text."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
