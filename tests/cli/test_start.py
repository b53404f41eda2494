"""The command starts fast: what it imports is what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("fastapi", "starlette", "uvicorn", "pydantic", "psycopg", "sqlalchemy", "alembic",
         "confluent_kafka", "fastavro", "rich", "cryptography", "prometheus_client")  # fmt: skip


def _imported(*words: str) -> set[str]:
    """The top-level names that a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gangline.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "GANGLINE_DIR": "/nowhere"},
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize("words", [["--help"], ["queue", "--help"], ["queue"], ["quque"]])
def test_no_server_code_is_imported(words: list[str]) -> None:
    """Neither the API's libraries nor any driver; a table on a pipe needs no rich either."""
    imported = _imported(*words)

    assert "click" in imported
    assert imported.isdisjoint(HEAVY)


def test_help_needs_no_http() -> None:
    """The client is imported when a command talks to the API, not before."""
    assert "httpx2" not in _imported("submit", "--help")
