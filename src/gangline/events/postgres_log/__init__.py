"""The log on Postgres: the embedded default, for one machine and for tests.

Appends go through a pool of connections, each reader and each writer has one of its own, and one
more rings the bell (NOTIFY) after commits. Why each of these is safe stands beside it, and in
`log.sql`.
"""

from gangline.events.postgres_log.log import PostgresLog

__all__ = ["PostgresLog"]
