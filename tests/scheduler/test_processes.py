"""Real scheduler processes on real servers: stopped, continued, killed, and asked to end.

What holds on the embedded bus (Postgres) holds on Kafka.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
from gangline.cli.main import run
from gangline.events import codec, facts
from gangline.events import decisions as d
from gangline.events.bus import open_log
from gangline.events.envelope import Event
from gangline.events.log import Message, Topic
from gangline.events.spec import Spec
from gangline.replay.history import LogSource, steps
from gangline.replay.verify import verify
from gangline.scheduler import core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gangline.scheduler.batches import RecordedStep

PATIENCE_S = 90.0


class Site:
    """A cell on a bus, and the scheduler processes of it."""

    def __init__(self, url: str, folder: Path, *, cell: str = "main") -> None:
        self.url = url
        self.cell = cell
        self.log = open_log(url, cell)
        self.log.create_topics()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        self._said = 0

    def start(self, name: str, index: int, *more: str) -> subprocess.Popen[bytes]:
        """Start a scheduler as the command line does. more: options."""
        return self.start_at(self.url, name, index, *more)

    def start_at(self, url: str, name: str, index: int, *more: str) -> subprocess.Popen[bytes]:
        """The same, with a way of its own to the bus."""
        where = ("--bus", url, "--cell", self.cell)
        words = ["scheduler", *where, "--name", name, "--index", str(index), *more]
        command = [sys.executable, "-m", "gangline.cli.main", *words]
        with (self._folder / f"{name}.log").open("wb") as output:
            self.running[name] = subprocess.Popen(command, stdout=output, stderr=output)
        return self.running[name]

    @property
    def where(self) -> tuple[str, ...]:
        """The options that name the cell."""
        return "--bus", self.url, "--cell", self.cell

    def lines(self, name: str) -> list[dict[str, Any]]:
        """What a scheduler logged; every line is JSON."""
        text = (self._folder / f"{name}.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def say(self, topic: Topic, body: Any) -> None:
        """Append a fact."""
        self._said += 1
        envelope = codec.envelope_for(body, id=f"id-{self._said}", actor="operator:ops")
        value = codec.encode(Event(envelope=envelope, body=body))
        self.log.append([Message(topic=topic, value=value)])

    def submit(self, job: str) -> None:
        """A user's job."""
        body = facts.JobSubmitted(job=job, spec=Spec(team="a", gpus=1))
        self.say(Topic.JOBS, body)

    def steps(self) -> list[RecordedStep]:
        """All steps so far, with the chain checked."""
        return list(steps(LogSource(self.log)))

    def leader(self) -> str:
        """Who took the lead last."""
        leaders = [step.led_by for step in self.steps() if step.led_by]
        return leaders[-1] if leaders else ""

    def answered(self) -> list[str]:
        """The jobs that were queued or refused, in order."""
        found = [codec.unpack(p) for step in self.steps() for p in step.batch.decisions]
        return [each.job for each in found if isinstance(each, d.JobQueued | d.JobRejected)]

    def until(self, seen: Callable[[], object], what: str) -> float:
        """Wait for something; how long it took."""
        started = time.monotonic()
        while not seen():
            assert time.monotonic() - started < PATIENCE_S, what
            time.sleep(0.02)
        return time.monotonic() - started

    def close(self) -> None:
        """End what still runs."""
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.log.close()


@contextmanager
def opened_site(
    url: str, folder: Path, *more: str, cell: str = "main", first_over: str = ""
) -> Iterator[Site]:
    """A cell with a team and two schedulers (with more options), of which the first leads.

    first_over: the first one's own way to the bus.
    """
    site = Site(url, folder, cell=cell)
    try:
        site.say(Topic.CONTROL, facts.TeamSet(team="a", guaranteed=8))
        node = facts.NodeAdmitted(node="n1", path=("b1",), levels=("block",), gpus=8)
        site.say(Topic.CONTROL, node)
        site.start_at(first_over or url, "one", 0, *more)
        site.until(lambda: site.leader() == "one", "the first leads")
        site.start("two", 1, *more)
        site.until(lambda: site.lines("two"), "the second stands by")
        yield site
    finally:
        site.close()


_cells = itertools.count(1)


@pytest.fixture
def site(bus: str, tmp_path: Path) -> Iterator[Site]:
    """A cell of its own on the tests' server."""
    with opened_site(bus, tmp_path, cell=f"processes-{next(_cells)}") as site:
        yield site


def test_a_stopped_leader_is_replaced_and_fenced(site: Site) -> None:
    """SIGSTOP is no crash: when it goes on, it must find that it leads no more, and stand by."""
    site.running["one"].send_signal(signal.SIGSTOP)
    site.submit("job-1")

    took_s = site.until(lambda: site.answered() == ["job-1"], "the second answers")
    site.running["one"].send_signal(signal.SIGCONT)
    site.submit("job-2")
    site.until(lambda: site.answered() == ["job-1", "job-2"], "the second goes on")
    site.until(lambda: site.lines("one")[-1].get("role") == "standby", "the first stands by")

    assert took_s < 8
    assert site.leader() == "two"
    assert verify(LogSource(site.log), core).difference is None


def test_a_killed_leader_is_replaced(site: Site) -> None:
    """And what was submitted meanwhile is answered once."""
    site.running["one"].kill()
    for index in range(5):
        site.submit(f"job-{index}")

    site.until(lambda: len(site.answered()) == 5, "all are answered")

    assert site.leader() == "two"
    assert site.answered() == [f"job-{index}" for index in range(5)]
    assert verify(LogSource(site.log), core).difference is None


def test_a_leader_that_is_asked_to_end_hands_over(site: Site) -> None:
    """SIGTERM: the other one leads within a second, and knows why."""
    site.running["one"].send_signal(signal.SIGTERM)

    took_s = site.until(lambda: site.leader() == "two", "the second leads")
    assert site.running["one"].wait(PATIENCE_S) == 0
    taken = [codec.unpack(p) for p in site.steps()[-1].batch.decisions]

    assert took_s < 3
    assert isinstance(taken[0], d.LeadershipTaken)
    assert taken[0].why == "hand_over"


def test_a_hand_over_is_asked_for_on_the_command_line(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits until the standby leads, and says so; the old leader lives on as a standby."""
    assert run(["scheduler", *site.where, "--hand-over"]) == 0

    assert "two leads now, term 2" in capsys.readouterr().err
    site.until(lambda: site.lines("one")[-1].get("role") == "standby", "the first stands by")
    assert site.running["one"].poll() is None
    assert verify(LogSource(site.log), core).difference is None


def test_each_takeover_leaves_a_signed_checkpoint_that_verify_starts_from(
    bus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two leaders, two files; of the second one, only what came after it is made again."""
    private, public = key_pair(tmp_path)
    signed = tmp_path / "signed"
    signed.mkdir()
    words = ("--checkpoint-dir", str(signed), "--checkpoint-key", str(private))
    with opened_site(bus, tmp_path, *words, cell=f"processes-{next(_cells)}") as site:
        site.running["one"].kill()
        site.until(lambda: len(list(signed.glob("*.json"))) == 2, "two checkpoints")
        site.submit("job-1")
        site.until(lambda: site.answered() == ["job-1"], "an answer")

        newest = str(max(signed.glob("*.json")))
        against = ["--checkpoint", newest, "--key", str(public), "--json"]
        assert run(["replay", "verify", *site.where, *against]) == 0
        report = json.loads(capsys.readouterr().out)

    seq = json.loads(Path(newest).read_text())["seq"]
    assert report["ok"] is True
    assert report["first_seq"] == seq + 1
    assert report["notes"] == [f"batches 1 to {seq} are the ones that were signed"]


def key_pair(folder: Path) -> tuple[Path, Path]:
    """An operator's key as PEM files: the private one and the public one."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / "key.pem", folder / "key.pub.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def has_answered(site: Site, job: str) -> bool:
    """Whether a job was queued or refused."""
    return job in site.answered()


@pytest.mark.parametrize("bus", ["postgres"], indirect=True)
def test_a_fact_is_answered_at_once(site: Site) -> None:
    """No polling interval stands between a submission and its answer."""
    waits = []
    for index in range(20):
        site.submit(f"job-{index}")
        waits.append(site.until(partial(has_answered, site, f"job-{index}"), "an answer"))

    assert sorted(waits)[len(waits) // 2] < 0.2


def test_a_log_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    """Both schedulers stay, one leads again when it is back, and nothing is lost or done twice."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-postgres-"))
    folder.chmod(0o711)
    try:
        url = local_postgres.start(folder, lifetime=Lifetime.WITH_STARTER)
        with opened_site(url, tmp_path) as site:
            site.submit("job-1")
            site.until(partial(has_answered, site, "job-1"), "an answer before")
            local_postgres.stop(folder)
            time.sleep(4)
            assert local_postgres.start(folder, lifetime=Lifetime.WITH_STARTER) == url
            site.submit("job-2")
            site.until(partial(has_answered, site, "job-2"), "an answer after")

            assert site.answered() == ["job-1", "job-2"]
            assert [process.poll() for process in site.running.values()] == [None, None]
            assert verify(LogSource(site.log), core).difference is None
    finally:
        local_postgres.remove(folder)
