"""What programs read from the views: jobs, queue, teams, nodes, ledger, and how far they are.

    views = Views(dsn, cell="main")
    views.rows("jobs", where={"team": "vision"}, after="", limit=50)
    views.wait_for(Position.parse("jobs-0-17"), timeout_s=5)

Rows are mappings of column to value, with the columns of `docs/views.md`; times are aware datetimes
in UTC. Lists are paged by key: every row has `key`; pass the last one as `after`. Nothing here
changes anything.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from gangline.events.log import Position, Topic
from gangline.events.named_sql import load_sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]

BUCKET_S: Final = 300
"""The step of `utilization` and of the windows of `fairness`."""

_SQL: Final = load_sql("gangline.projections", "queries.sql")
_MAX_LIMIT: Final = 10_000
_MOST_DIGITS: Final = 18
_FIRST_POLL_S: Final = 0.01
_LAST_POLL_S: Final = 0.1
_SETTINGS: Final = (
    "-c plan_cache_mode=force_custom_plan -c timezone=UTC"
    " -c statement_timeout=20s -c idle_in_transaction_session_timeout=30s"
    " -c default_transaction_read_only=on"
)


# What the pool would print is in the errors that are raised.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class ViewsUnreachableError(Exception):
    """The database of the views does not answer; one line says which and why."""


class QueryError(ValueError):
    """There is no such view, filter or key; the message says what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """A view that can be listed. filters: columns to ask for. key: how `after` is written."""

    filters: tuple[str, ...]
    key: str


_LISTINGS: Final[Mapping[str, _Listing]] = {
    "jobs": _Listing(filters=("team", "state", "class", "array_of"), key="ms:name"),
    "attempts": _Listing(filters=("job",), key="number"),
    "queue": _Listing(filters=("team", "class", "reason", "job"), key="number"),
    "teams": _Listing(filters=("team", "parent"), key="name"),
    "nodes": _Listing(filters=("node", "health", "service"), key="name"),
    "faults": _Listing(filters=("node", "kind"), key="ms:name"),
    "waits": _Listing(filters=("band", "cause"), key="name"),
    "fairness": _Listing(filters=("team", "window_s"), key="number:name"),
}


class Views:
    """The views of one cell, through a pool of read-only connections. For any number of threads."""

    def __init__(self, dsn: str, cell: str, *, connections: int = 8, wait_s: float = 5.0) -> None:
        """Prepare the pool; connects when first asked, and waits so long for a connection."""
        self.cell = cell
        self._pool: ConnectionPool[psycopg.Connection[Row]] = ConnectionPool(
            dsn,
            min_size=0,
            max_size=connections,
            open=False,
            timeout=wait_s,
            reconnect_timeout=wait_s,
            check=ConnectionPool.check_connection,
            kwargs={"autocommit": True, "row_factory": dict_row, "options": _SETTINGS},
            name="gangline-views",
        )

    def close(self) -> None:
        """Let go of connections."""
        self._pool.close()

    # --- rows ---------------------------------------------------------------------------------

    def job(self, job: str) -> Row | None:
        """One job as `jobs` has it, or None; `spec` holds its public spec."""
        return self._one("job", job=job)

    def rows(
        self,
        view: str,
        *,
        where: Mapping[str, object] | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Sequence[Row]:
        """Rows of a view in its own order: those equal to `where`, after a key ('': the first).

        view: jobs, attempts, queue, teams, nodes, faults, waits or fairness. Raises QueryError.
        """
        listing = _LISTINGS.get(view)
        if listing is None:
            raise QueryError(f"there is no list of {view!r}; there are {', '.join(_LISTINGS)}")
        wanted = dict(where or {})
        unknown = sorted(set(wanted) - set(listing.filters))
        if unknown:
            known = ", ".join(listing.filters)
            raise QueryError(f"{view} cannot be asked for by {', '.join(unknown)}; only by {known}")
        parameters = dict.fromkeys(listing.filters) | wanted | _after(listing.key, after)
        return self._all(view, limit=_bounded(limit), **parameters)

    def decisions(
        self, *, after: str = "", limit: int = 100, job: str = "", node: str = "", kind: str = ""
    ) -> Sequence[Row]:
        """Decisions in order after a position or key ('': from the first; 'end': none)."""
        if after == "end":
            return []
        offset, item = _after_decision(after)
        return self._all(
            "decisions",
            job=job or None,
            node=node or None,
            kind=kind or None,
            after_offset=offset,
            after_item=item,
            limit=_bounded(limit),
        )

    def refusal(self, position: Position) -> Row | None:
        """Why a fact of late changed nothing (`reason`, `detail`); None where it did."""
        topic, partition = str(position.topic), position.partition
        return self._one("refusal", topic=topic, partition=partition, offset=position.offset)

    def end(self) -> str:
        """The position of the last decisions that the views contain; '' when they contain none."""
        row = self._one("last_decision")
        offset = -1 if row is None else row["applied_offset"]
        return f"{Topic.DECISIONS}-0-{offset}" if offset >= 0 else ""

    def job_events(self, job: str, *, after: str = "", limit: int = 1000) -> Sequence[Row]:
        """One job's life in order: its decisions, and `Waits` rows with the cause of each wait."""
        at_ms, offset, item = _after_event(after)
        return self._all(
            "job_events",
            job=job,
            after_ms=at_ms,
            after_offset=offset,
            after_item=item,
            limit=_bounded(limit),
        )

    # --- numbers ------------------------------------------------------------------------------

    def ledger(self, *, from_ms: int, to_ms: int, team: str | None = None) -> Sequence[Row]:
        """GPU-milliseconds in a window by account; they add up to capacity x time."""
        return self._all("ledger", from_ms=from_ms, to_ms=to_ms, team=team)

    def utilization(self, *, from_ms: int, to_ms: int, step_s: int = BUCKET_S) -> Sequence[Row]:
        """GPU-milliseconds by account, in steps of at least five minutes."""
        step_ms = max(BUCKET_S, step_s) * 1000
        return self._all("utilization", from_ms=from_ms, to_ms=to_ms, step_ms=step_ms)

    def wait_bands(self, *, since_ms: int) -> Sequence[Row]:
        """How long jobs that first started since then had waited, by band of GPUs."""
        return self._all("wait_bands", since_ms=since_ms)

    def fleet(self) -> Row:
        """The fleet in columns: nodes, paths, health, service, jobs, one letter a GPU."""
        row = self._one("fleet") or {}
        return {column: value or [] for column, value in row.items()}

    def numbers(self) -> Mapping[str, Any]:
        """Fleet, queue, job and team numbers, for metrics and the page."""
        return {
            "fleet": self._one("fleet_numbers"),
            "queue": self._all("queue_numbers"),
            "jobs": self._all("job_numbers"),
            "teams": self.rows("teams", limit=_MAX_LIMIT),
        }

    # --- positions ----------------------------------------------------------------------------

    def lag(self) -> Sequence[Row]:
        """Position and lag of each view (`projection`)."""
        return self._all("projection")

    def contains(self, position: Position, *, view: str | None = None) -> bool:
        """Whether a view (default: each that is not stuck) has what followed from a record."""
        row = self._one(
            "contained",
            topic=position.topic,
            partition=f"{position.topic}-{position.partition}",
            offset=position.offset,
            view=view,
        )
        return row is not None and bool(row["contained"])

    def wait_for(self, position: Position, *, timeout_s: float, view: str | None = None) -> bool:
        """Wait until `contains`; False when it is not so after the timeout."""
        deadline = time.monotonic() + timeout_s
        pause = _FIRST_POLL_S
        while not self.contains(position, view=view):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LAST_POLL_S)
        return True

    # --- how ----------------------------------------------------------------------------------

    def _all(self, statement: str, **parameters: object) -> list[Row]:
        return self.ask(_SQL[statement], **parameters)

    def ask(self, text: bytes, /, **parameters: object) -> list[Row]:
        """Rows of a statement of our own SQL files; `cell` is ours."""
        try:
            self._pool.open()
            with self._pool.connection() as connection:
                found = connection.execute(text, {"cell": self.cell, **parameters})
                return found.fetchall()
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise ViewsUnreachableError(_one_line(error)) from error
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            message = "the database has no views yet; `gangline projector` makes them"
            raise ViewsUnreachableError(message) from error
        except psycopg.DataError as error:
            raise QueryError(f"the views cannot be asked for this: {_one_line(error)}") from error

    def _one(self, statement: str, **parameters: object) -> Row | None:
        rows = self._all(statement, **parameters)
        return rows[0] if rows else None


def _one_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _bounded(limit: int) -> int:
    if limit < 1:
        raise QueryError(f"limit: this is at least 1, not {limit}")
    return min(limit, _MAX_LIMIT)


def is_counted(text: str) -> bool:
    """Whether a text is a number that a column holds."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def no_such_key(name: str, key: str) -> QueryError:
    """What is wrong with a place in a list that is none. name: of the parameter."""
    return QueryError(f"{name}: no list goes on at {key[:60]!r}; pass the `next` that it gave")


def _after(key: str, after: str) -> dict[str, object]:
    """The parameters of a key: `number`, `name`, `ms:name` or `number:name`."""
    fields = key.split(":")
    if not after:
        return {f"after_{field}": None for field in fields}
    values = after.split(":", len(fields) - 1)
    if len(values) != len(fields):
        raise no_such_key("after", after)
    pairs = zip(fields, values, strict=True)
    return {f"after_{field}": _key_part(field, value) for field, value in pairs}


def _key_part(field: str, value: str) -> object:
    if field == "name":
        return value
    if not is_counted(value):
        raise no_such_key("after", value)
    return int(value)


def _after_decision(after: str) -> tuple[int, int]:
    """Offset and item after which decisions are wanted: a key's, or past all of a batch."""
    if not after:
        return -1, -1
    text, dot, item = after.partition(".")
    try:
        position = Position.parse(text)
    except ValueError as error:
        raise QueryError(f"after: {error}") from error
    if position.topic != Topic.DECISIONS or (dot and not is_counted(item)):
        raise QueryError(f"after: this is a position of decisions, not {after[:60]!r}")
    return position.offset, int(item) if dot else 2**31 - 1


def _after_event(after: str) -> tuple[int, int, int]:
    """Time, offset and item of an event of a job's life after which others are wanted."""
    if not after:
        return -1, -1, -1
    parts = after.split(":")
    if len(parts) != 3 or not all(map(is_counted, parts)):
        raise no_such_key("after", after)
    at_ms, offset, item = map(int, parts)
    return at_ms, offset, item
