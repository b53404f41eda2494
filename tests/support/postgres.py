"""A real Postgres for tests: the one that GANGLINE_DATABASE_URL names, else one of our own."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime

if TYPE_CHECKING:
    from collections.abc import Iterator

# A test's data need not survive the machine.
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Give the URL of a server on which tests may create databases."""
    named = os.environ.get("GANGLINE_DATABASE_URL")
    if named:
        yield named
        return
    directory = Path(tempfile.mkdtemp(prefix="gangline-postgres-"))
    directory.chmod(0o711)  # the server runs as another account where the tests run as root
    try:
        yield local_postgres.start(directory, settings=_FAST, lifetime=Lifetime.WITH_STARTER)
    finally:
        local_postgres.remove(directory)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Give the URL of a fresh, empty database, dropped when the test ends."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    identifier = sql.Identifier(name)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
    yield _with_database(postgres_server, name)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


def _with_database(url: str, name: str) -> str:
    """Put another database's name into a URL."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()
