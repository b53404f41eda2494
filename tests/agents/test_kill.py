"""`kill -9` of the agent and of supervisors, with real processes, on a log that outlives them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from gangline.agents import procfs
from gangline.events.batch import MemberPhase
from gangline.events.bus import open_log
from gangline.events.facts import MemberExited, MemberReady, NodeRegistered
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.cell import Cell, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.batch import AssignedMember

F = TypeVar("F")
CELL = f"agents{os.getpid()}"
ROOT = Path(__file__).parents[2]


class Station(Cell):
    """A cell on Postgres, with an agent in a process of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, open_log(url, CELL, environ={}))
        self.url = url
        self._process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Start the agent."""
        command = [sys.executable, "-m", "tests.agents.run_agent"]
        with (self.folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, self.url, CELL, make.NODE, str(self.folder)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def send(self, number: signal.Signals) -> None:
        """Signal the agent."""
        assert self._process is not None
        self._process.send_signal(number)

    def down(self) -> None:
        """`kill -9` the agent."""
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def token(self, job: str, attempt: int = 1) -> str:
        """What the processes of an attempt carry."""
        intent = self.folder / "n0/attempts" / f"{job}.{attempt}" / "intent.json"
        return str(json.loads(intent.read_text())["token"])

    def registered(self, times: int) -> NodeRegistered:
        """The registration of the agent's so many-th life."""
        wait_for(lambda: self.kinds().count("NodeRegistered") >= times, what="a registration")
        return [fact for fact in self.facts if isinstance(fact, NodeRegistered)][times - 1]


@pytest.fixture
def station(tmp_path: Path, postgres_url: str) -> Iterator[Station]:
    """A cell on Postgres whose agent is up."""
    yield from _station(tmp_path, postgres_url)


@pytest.fixture
def kafka_station(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Station]:
    """The same on a real broker."""
    yield from _station(tmp_path, f"kafka://{kafka_bootstrap}")


def _station(tmp_path: Path, url: str) -> Iterator[Station]:
    station = Station(tmp_path, url)
    station.up()
    yield station
    station.down()
    for token, pids in procfs.tokens().items():
        if any(str(tmp_path) in _command(pid) for pid in pids):
            _kill_all(token)
    station.close()


def _kill_all(token: str) -> None:
    """What a failed test left."""
    left = procfs.with_token(token)
    procfs.send_all(left, signal.SIGKILL, still=lambda pid: procfs.has_token(pid, token))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_killed_agent_comes_back_to_the_same_processes(station: Station) -> None:
    """The job notices nothing, and its exit code arrives."""
    flag = station.folder / "go-on"
    spec = make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 5")
    station.start(make.member(spec=spec))
    before = procfs.with_token(station.token("job"))

    station.down()
    station.up()
    registered = station.registered(2)

    assert [one.job for one in registered.running] == ["job"]
    assert set(before) & set(procfs.with_token(station.token("job")))
    flag.touch()
    assert station.ended().code == 5


def test_a_killed_agent_comes_back_on_kafka_too(kafka_station: Station) -> None:
    """The same log, protocol and journal; only the driver is another."""
    test_a_killed_agent_comes_back_to_the_same_processes(kafka_station)


def test_a_job_that_ends_while_its_agent_is_dead_keeps_its_code(station: Station) -> None:
    """Its supervisor wrote it down."""
    flag = station.folder / "go-on"
    station.start(
        make.member(spec=make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 6"))
    )
    station.down()
    flag.touch()
    wait_for((station.folder / "n0/attempts/job.1/result.json").exists, what="the result")

    station.up()

    assert station.ended().code == 6
    assert station.registered(2).running == ()


def test_a_grace_ends_although_the_agent_died_in_it(station: Station) -> None:
    """The supervisor keeps the deadline."""
    run = station.start(make.member(spec=make.spec("trap '' TERM; while :; do sleep 0.05; done")))
    station.stop(run, grace_ms=1_500)
    order = station.folder / "n0/attempts/job.1/order.json"
    wait_for(order.exists, what="the order")
    station.down()

    wait_for(lambda: not procfs.with_token(station.token("job")), what="the kill")
    station.up()

    assert (station.ended().code, station.ended().reason) == (137, "stopped")


def test_a_fenced_copy_is_killed_as_soon_as_its_agent_hears(station: Station) -> None:
    """A frozen agent, as behind a partition.

    The job ran on, and was started elsewhere meanwhile.
    """
    station.start(make.member(spec=make.spec("exec sleep 300")))
    station.send(signal.SIGSTOP)
    station.assign()
    assert procfs.with_token(station.token("job"))

    station.send(signal.SIGCONT)

    assert station.ended().reason == "stopped"
    assert procfs.with_token(station.token("job")) == []


@pytest.mark.parametrize("trouble", [signal.SIGSTOP, signal.SIGKILL])
def test_an_at_most_one_writer_ends_itself_though_its_agent_cannot_say_so(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, trouble: signal.Signals
) -> None:
    """It saves in its grace and is gone, before anybody could take its node for lost."""
    monkeypatch.setenv("GANGLINE_TEST_LEASE_S", "3")
    saved = tmp_path / "saved"
    command = f"trap 'touch {saved}; exit 75' TERM; while :; do sleep 0.05; done"
    spec = make.spec(command, launch=Launch(at_most_one_writer=True))
    with contextmanager(_station)(tmp_path, postgres_url) as station:
        station.start(make.member(spec=spec))
        token = station.token("job")
        for _ in range(2):
            _outlive_a_lease(station)

        station.send(trouble)
        wait_for(lambda: not procfs.with_token(token), what="its end", within_s=30)
        assert saved.exists()
        station.down()
        station.up()

        assert (station.ended().reason, station.ended().code) == ("infrastructure", 75)


def _outlive_a_lease(station: Station) -> None:
    """It goes on as long as its agent is heard: until the lease that it has now is over."""
    lease = station.folder / "n0/attempts/job.1/lease.json"
    until_ms = json.loads(lease.read_text())["until_ms"]
    wait_for(lambda: procfs.boot_ms() > until_ms, what="the end of a lease")
    assert procfs.with_token(station.token("job"))


def test_a_killed_supervisor_ends_its_attempt_as_infrastructure(station: Station) -> None:
    """Its ranks must not run on without a parent; it was no fault of theirs."""
    station.start(make.member(spec=make.spec("trap '' TERM; sleep 300 & wait")))
    who = json.loads((station.folder / "n0/attempts/job.1/supervisor.json").read_text())

    os.kill(who["pid"], signal.SIGKILL)

    assert station.ended().reason == "infrastructure"
    assert procfs.with_token(station.token("job")) == []


def test_a_supervisor_killed_with_its_agent_is_found_out(station: Station) -> None:
    """Whoever comes up kills what is left and says so."""
    station.start(make.member(spec=make.spec("trap '' TERM; sleep 300 & wait")))
    who = json.loads((station.folder / "n0/attempts/job.1/supervisor.json").read_text())
    station.down()
    os.kill(who["pid"], signal.SIGKILL)

    station.up()

    assert station.ended().reason == "infrastructure"
    assert procfs.with_token(station.token("job")) == []


def test_an_agent_killed_again_and_again_loses_nothing(station: Station) -> None:
    """Jobs come, run and end while it dies at any moment: each runs once, each code arrives.

    GANGLINE_KILLS: how often it dies; the seed is printed.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    kills = int(os.environ.get("GANGLINE_KILLS", "8"))
    print(f"seed {seed}")
    churn = Churn(station, random.Random(seed))  # noqa: S311 - when to kill, no secret

    for _ in range(kills):
        churn.go_on(more=True)
        time.sleep(churn.chance.uniform(0.1, 2.0))
        station.down()
        station.up()
    wait_for(lambda: churn.go_on(more=False), what="the last ends", within_s=60)

    print(f"{kills} kills, {len(churn.expected)} jobs")
    assert churn.codes() == churn.expected
    assert sorted(churn.log.read_text().split()) == sorted(churn.expected)
    assert all(not procfs.with_token(station.token(job)) for job in churn.expected)


class Churn:
    """Four places, and in each one job after the other."""

    def __init__(self, station: Station, chance: random.Random) -> None:
        self.station = station
        self.chance = chance
        self.log = station.folder / "runs"
        self.expected: dict[str, int] = {}
        self.orders: dict[int, AssignedMember] = {}

    def codes(self) -> dict[str, int]:
        """Which job ended with which code, as stated."""
        return {fact.job: fact.code for fact in _of(self.station, MemberExited)}

    def go_on(self, *, more: bool) -> bool:
        """What a scheduler would order next; True when nothing runs and nothing is to come."""
        ended = self.codes()
        ready = {fact.job: fact for fact in _of(self.station, MemberReady)}
        before = dict(self.orders)
        for place in range(4):
            order = self.orders.get(place)
            if order is None or order.job in ended:
                self.orders.pop(place, None)
                if more:
                    self.orders[place] = self._new(place)
            elif order.phase is MemberPhase.PREPARE and order.job in ready:
                meet = ready[order.job]
                run = replace(order, phase=MemberPhase.RUN, address=meet.address, port=meet.port)
                self.orders[place] = run
        if self.orders != before:
            self.station.assign(*self.orders.values())
        return not self.orders

    def _new(self, place: int) -> AssignedMember:
        """A job that notes that it ran, takes its time, and ends with a code of its own."""
        number = len(self.expected)
        job = f"job{number}"
        self.expected[job] = number % 100 + 1
        length_s = self.chance.uniform(0.1, 3.0)
        command = f"echo {job} >> {self.log}; sleep {length_s:.2f}; exit {self.expected[job]}"
        return make.member(job, gpus=(place,), spec=make.spec(command), number=number)


def _of(station: Station, kind: type[F]) -> list[F]:
    station.read()
    return [fact for fact in station.facts if isinstance(fact, kind)]
