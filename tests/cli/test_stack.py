"""The whole stack on this machine: up, real jobs, a death, down, and up again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.cli import local_kafka, local_postgres, main, processes
from gangline.cli import stack as stacks
from gangline.cli.errors import INTERRUPTED
from gangline.cli.local_process import LocalServerError, free_port
from gangline.client import Client, JobSpec, NotFoundError
from gangline.events.log import LogUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a stack, taken down and away at the end."""
    directory = Path(tempfile.mkdtemp(prefix="gangline-stack-"))
    directory.chmod(0o711)  # Postgres runs as another account where the tests run as root
    try:
        yield directory
    finally:
        stacks.down(directory)
        local_postgres.remove(directory / "postgres")
        subprocess.run(["rm", "-rf", str(directory)], check=True)


def _until(holds: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Wait for a condition; not yet being there counts as not holding."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except NotFoundError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"it did not come about within {within_s} s")


def test_a_stack_runs_jobs_outlives_a_death_and_goes_on_after_a_night(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One story, as starting a stack is slow: each part needs what the one before left."""
    monkeypatch.delenv("GANGLINE_DATABASE_URL", raising=False)
    plan = stacks.Plan(directory=folder, port=free_port(), agents=2, gpus=2, heartbeat_s=1.0)
    stack = stacks.up(plan)
    with Client(stack.url) as client:
        client.request("PUT", "/v1/teams/a", body={"guaranteed": 4})
        client.submit(JobSpec(team="a", gpus=1, command=["sh", "-c", "echo hello"]), key="hello")
        assert client.wait("hello", timeout_s=60) == 0
        listing = client.request("GET", "/v1/jobs/hello/logs")
        file = next(each for each in listing["files"] if each["file"].endswith(".out"))
        said, _ = client.read_part(
            f"/v1/jobs/hello/logs/{file['node']}/{file['file']}", attempt=1, offset=0
        )
        assert said == b"hello\n"
        _runs_on_a_node(stack.url)
        client.submit(JobSpec(team="a", gpus=2, command=["sleep", "3600"]), key="night")
        _until(lambda: client.job("night")["state"] == "running")

    # A dead process is started again, and nothing else is.
    before = dict(stack.running)
    stack.running["projector"].send(signal.SIGKILL)
    mended = stacks.up(plan)
    changed = {name for name in before if mended.running[name] != before[name]}
    assert changed == {"projector"}

    stopped = stacks.down(folder)
    assert {"scheduler-0", "node-0", "api", "postgres"} <= set(stopped)
    assert not any(process.alive for process in mended.running.values())
    assert _programs(folder) == []

    again = stacks.up(plan)
    assert again.url == stack.url
    with Client(again.url) as client:
        _until(lambda: client.job("night")["attempts"] == 2)
        client.cancel("night")
        assert client.wait("night", timeout_s=60) == 143


def _runs_on_a_node(url: str) -> None:
    """`gangline run` shows what the program prints, on the node asked for, and ends as it does."""
    words = ["run", "--team", "a", "--node", "node-1", "--", "sh", "-c"]
    done = subprocess.run(
        [sys.executable, "-m", "gangline.cli.main", *words, "echo on $GANGLINE_NODE; exit 3"],
        env={**os.environ, "GANGLINE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "on node-1\n"), done.stderr
    never = subprocess.run(
        [sys.executable, "-m", "gangline.cli.main", *words[:5], "--gpus", "99"],
        env={**os.environ, "GANGLINE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert never.returncode == 1
    assert "rejected" in never.stderr


def _programs(folder: Path) -> list[int]:
    """Processes that have to do with the folder, jobs' programs too."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                about = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in about:
                found.append(int(entry.name))
    return found


def test_the_demo_keeps_its_promises(folder: Path) -> None:
    """`make demo` ends by itself, with exit code 0 and a log that verifies."""
    environment = {k: v for k, v in os.environ.items() if k != "GANGLINE_DATABASE_URL"}
    port = ("--port", str(free_port()))  # the usual one may be another stack's a moment later
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gangline.cli.demo_run", "--dir", str(folder), *port],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment,
            timeout=280,
        )
    finally:
        local_postgres.remove(folder / "demo" / "postgres")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    assert done.stdout.count("✓") == 10
    assert "come out byte for byte" in done.stdout
    assert re.fullmatch(r"The page is then at http://\S+", done.stdout.splitlines()[-1])
    assert "Traceback" not in done.stderr


def test_status_names_the_servers_of_the_stack_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Postgres that died and a broker of which only a note is left: both are said to have ended.

    Their logs stand beside them, and what starts them again.
    """
    monkeypatch.delenv("GANGLINE_DATABASE_URL", raising=False)
    local_postgres.start(folder / "postgres")
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        started = _started(sleeper.pid)
        api = processes.Process(name="api", pid=sleeper.pid, started=started, boot=processes.boot())
        stack = stacks.Stack(plan=stacks.Plan(directory=folder), running={"api": api})
        stack.save()
        assert _status(folder, capsys) == (0, {"postgres": "running", "api": "running"}, "")

        local_postgres.stop(folder / "postgres")
        (folder / "kafka").mkdir()
        (folder / "kafka" / "server.json").write_text(f'{{"pid": {sleeper.pid}, "port": 1}}')
        stack.plan = stacks.Plan(directory=folder, bus="kafka")
        stack.save()
        code, states, said = _status(folder, capsys)
        sleeper.kill()

    assert (code, states) == (1, {"postgres": "ended", "kafka": "ended", "api": "running"})
    assert said == (
        "postgres, kafka ended; the log says why, and "
        f"`gangline up --dir {folder}` starts what does not run"
    )


def _status(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str], str]:
    """What `gangline status` says: its code, the state of each part, and what is wrong."""
    code = main.run(["status", "--dir", str(folder), "-o", "json"])
    found = capsys.readouterr()
    states = {row["name"]: row["state"] for row in json.loads(found.out)}
    return code, states, next((line for line in found.err.splitlines() if "ended" in line), "")


def _started(pid: int) -> int:
    """When a process started, as /proc states it."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[19])


def test_a_number_that_is_used_again_is_not_our_process() -> None:
    """A process is a number and a start time: nobody else is ever signalled."""
    with subprocess.Popen(["sleep", "60"]) as child:
        ours = processes.Process(name="x", pid=child.pid, started=1, boot=processes.boot())
        assert not ours.alive
        ours.send(signal.SIGKILL)
        assert child.poll() is None
        child.kill()


def test_a_process_that_ended_is_dead_though_nobody_has_reaped_it(tmp_path: Path) -> None:
    """A zombie holds a number, and nothing else."""
    process = processes.start("bad", ["no-such-command"], log=tmp_path / "log", env={})

    _until(lambda: not process.alive)
    assert "there is no command no-such-command" in processes.last_words(tmp_path / "log")


def test_up_says_in_one_line_that_the_database_does_not_answer(folder: Path) -> None:
    """What is not reachable and where; code 7, no traceback."""
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/gangline"
    done = subprocess.run(
        [sys.executable, "-m", "gangline.cli.main", "up", "--dir", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"GANGLINE_DATABASE_URL": url},
    )

    assert done.returncode == 7
    assert len(done.stderr.splitlines()) == 1
    assert "127.0.0.1" in done.stderr


def test_a_stack_that_cannot_come_up_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Postgres was up already when the bus turned out to be away."""
    monkeypatch.delenv("GANGLINE_DATABASE_URL", raising=False)
    bus = f"kafka://127.0.0.1:{free_port()}"

    with pytest.raises(LogUnreachableError, match="Kafka at"):
        stacks.up(stacks.Plan(directory=folder, agents=1, bus=bus))
    assert local_postgres.url(folder / "postgres") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"home": "/x"}'])
@pytest.mark.parametrize("server", [local_postgres, local_kafka])
def test_a_damaged_note_of_a_server_is_said_in_one_line(
    tmp_path: Path, server: ModuleType, text: str
) -> None:
    """Which file it is; nothing is stopped on a guess."""
    (tmp_path / "server.json").write_text(text)

    with pytest.raises(LocalServerError, match=r"server\.json is damaged"):
        server.stop(tmp_path)


def test_an_interrupted_up_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while it waits for its nodes, and again while it takes everything down."""
    monkeypatch.delenv("GANGLINE_DATABASE_URL", raising=False)
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, "up", "--dir", str(folder), "--agents", "1"],
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stderr is not None
        said = [line for line in up.stderr if "Traceback" in line or "stopping" in line]

    assert up.returncode == INTERRUPTED
    assert set(said) == {"stopping\n"}
    assert _programs(folder) == []


# `gangline up` that is hit when all its processes have been started, and hit again meanwhile.
_INTERRUPTED = """
import signal, sys
from gangline.cli import main, stack
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts us may ignore it
stack.wait_until_ready = lambda *_: signal.raise_signal(signal.SIGINT)
stop = stack.Stack.stop
def hit(self, names):
    print("stopping", file=sys.stderr, flush=True) if "api" in names else None
    signal.raise_signal(signal.SIGINT)
    stop(self, names)
stack.Stack.stop = hit
sys.exit(main.run(sys.argv[1:]))
"""
