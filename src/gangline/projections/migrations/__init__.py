"""The tables of the views: plain SQL steps in `versions/`, run by alembic. The schema is their sum.

`migrate(dsn)` brings a database to the newest step. Views can always be derived from the log again,
so a step that cannot carry rows over may drop them and leave the rest to `gangline views rebuild`.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import psycopg
from alembic import command, op
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

if TYPE_CHECKING:
    from sqlalchemy import Connection

SCHEMA: Final = "gangline"
_LOCK: Final = 7_302_991_408_117_733
"""Advisory lock: one process migrates at a time."""


def migrate(dsn: str, *, to: str = "head") -> None:
    """Bring the schema `gangline` to a step (`head`: the newest); safe from several processes."""
    with psycopg.connect(dsn, autocommit=True) as guard:
        guard.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        guard.execute("CREATE SCHEMA IF NOT EXISTS gangline")
        engine = create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool
        )
        try:
            with engine.begin() as connection:
                command.upgrade(_config(connection), to)
        except DBAPIError as error:
            # Whoever waits for a database knows the driver's own errors.
            raise error.orig or error from error


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "gangline.projections:migrations")
    config.attributes["connection"] = connection
    return config


def run_file(name: str) -> None:
    """Run a `.sql` file of `versions/` in the running migration, in schema `gangline`."""
    text = resources.files(__name__).joinpath("versions", name).read_bytes()
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute(b"SET LOCAL search_path TO gangline")
    connection.execute(text)
