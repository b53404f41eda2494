"""A cell on three brokers: scheduler processes, a service that submits, and whatever befalls them.

The service remembers what was acknowledged; that memory is the judge. Troubles are functions of
the company, so that a seed can put them in any order.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from gangline.events import codec, facts
from gangline.events import decisions as d
from gangline.events.batch import DecisionBatch, NodeAssignment
from gangline.events.envelope import Event
from gangline.events.kafka import KafkaLog
from gangline.events.log import LogError, Message, Topic, TopicPartition
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.spec import Spec
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from gangline.scheduler.follower import Follower

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from gangline.events.log import Record
    from tests.support.kafka_cluster import KafkaCluster

NODES: Final = ("n1", "n2")
DECISIONS = TopicPartition(Topic.DECISIONS, 0)
PATIENCE_S: Final = 180.0
LOG_UNREACHABLE: Final = 7
"""The exit code of a program that finds no log at its start."""
SUBMIT_EVERY_S: Final = 0.1


class Company:
    """Two schedulers and a service, at work until the block ends.

    away_s: how long a trouble that has a length lasts. acknowledged: the jobs that were.
    """

    def __init__(self, cluster: KafkaCluster, folder: Path, *, away_s: float) -> None:
        self.cluster = cluster
        self.away_s = away_s
        self.log = KafkaLog(cluster.bootstrap, "main")
        self.acknowledged: list[str] = []
        self.garbage = 0
        self._folder = folder
        self._stop = threading.Event()
        self._service = threading.Thread(target=self._submit, name="service", daemon=True)
        self._schedulers: dict[str, subprocess.Popen[bytes]] = {}
        self._begun: dict[str, int] = {}
        self._answers: Counter[str] = Counter()
        self._leader = ""

    def __enter__(self) -> Self:
        self.log.create_topics()
        self._say(Topic.CONTROL, "team", facts.TeamSet(team="a", guaranteed=16))
        for node in NODES:
            admitted = facts.NodeAdmitted(node=node, path=("b1",), levels=("block",), gpus=8)
            self._say(Topic.CONTROL, node, admitted)
        self._reader = self.log.reader({DECISIONS: 0})
        for name in ("one", "two"):
            self.hire(name)
        self._service.start()
        self.progress()
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._service.join(PATIENCE_S)
        try:
            if failure is None:
                self.until(lambda: not self._open(), "what was acknowledged is never answered")
        finally:
            self._dismiss_all()

    def _open(self) -> list[str]:
        """The acknowledged jobs that nobody has answered."""
        answers = self._look()
        return [job for job in self.acknowledged if not answers[job]]

    def _dismiss_all(self) -> None:
        """End the schedulers, after all was answered: the last submissions too."""
        for name in list(self._schedulers):
            self.dismiss(name, signal.SIGTERM)
        self._reader.close()

    # --- what is seen -------------------------------------------------------------------------

    @property
    def leader(self) -> str:
        """Who took the lead last, by the log."""
        self._look()
        return self._leader

    def progress(self) -> None:
        """Wait until something that is submitted from now on is acknowledged and answered."""
        count = len(self.acknowledged)
        self.until(lambda: len(self.acknowledged) >= count + 3, "no submission is acknowledged")
        job = self.acknowledged[-1]
        self.until(lambda: self._look()[job] > 0, f"{job} is not answered")

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for something."""
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"{what}\n{self._report()}"
            self._restart()
            time.sleep(0.05)

    def _restart(self) -> None:
        """As systemd would: one that found no log at its start ends, and is started again."""
        for name, process in list(self._schedulers.items()):
            if process.poll() is not None:
                assert process.returncode == LOG_UNREACHABLE, self._report()
                self._start(name)

    def _report(self) -> str:
        """Who runs, and what schedulers said last."""
        lines = [f"brokers {self.cluster.running()}, {len(self.acknowledged)} acknowledged"]
        for name, process in self._schedulers.items():
            said = self._said(name).splitlines()
            lines += [f"{name}: ended {process.poll()}", *(line[:400] for line in said[-8:])]
        return "\n".join([*lines, *self._standing()])

    def _standing(self) -> Iterator[str]:
        """Whose fault it is: where our reader stands, and what a new one finds."""
        job = self.acknowledged[-1] if self.acknowledged else ""
        yield f"our reader stands at {dict(self._reader.positions())}, answers {self._answers[job]}"
        try:
            yield f"ends {dict(self.log.ends([Topic.DECISIONS, Topic.JOBS]))}"
            yield f"unsettled {dict(self.log.unsettled([Topic.DECISIONS, Topic.JOBS]))}"
            yield f"a new reader finds {answers_of(self.log)[job]} answers to {job}"
        except LogError as error:
            yield f"the log says: {error}"

    def _look(self) -> Counter[str]:
        """Read on in `decisions`; how often each job was answered."""
        for each in decided(self._reader.poll(0)):
            if isinstance(each, d.JobQueued | d.JobRejected):
                self._answers[each.job] += 1
            elif isinstance(each, d.LeadershipTaken):
                self._leader = each.leader
        return self._answers

    # --- who works ----------------------------------------------------------------------------

    def hire(self, name: str) -> None:
        """Start a scheduler, and wait until it stands by: else the next trouble may meet it alone.

        On a busy machine a process may take longer to start than anybody waits for an answer.
        """
        self._start(name)
        self.until(lambda: '"role"' in self._said(name)[self._begun[name] :], f"{name} is not up")

    def _said(self, name: str) -> str:
        """All that the scheduler of this name has logged."""
        return (self._folder / f"{name}.log").read_text(encoding="utf-8")

    def _start(self, name: str) -> None:
        """Start a scheduler as the command line does."""
        index = "0" if name == "one" else "1"
        command = [
            sys.executable, "-m", "gangline.cli.main", "scheduler", "--name", name,
            "--index", index, "--snapshot-every", "40",
            "--bus", f"kafka://{self.cluster.bootstrap}",
        ]  # fmt: skip
        with (self._folder / f"{name}.log").open("ab") as output:
            self._begun[name] = len(self._said(name))
            self._schedulers[name] = subprocess.Popen(command, stdout=output, stderr=output)

    def tell(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a scheduler."""
        self._schedulers[name].send_signal(number)

    def dismiss(self, name: str, number: signal.Signals) -> None:
        """End a scheduler, and see its end."""
        process = self._schedulers.pop(name)
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()

    def _submit(self) -> None:
        """Submit jobs, each with the same id until it is acknowledged."""
        while not self._stop.wait(SUBMIT_EVERY_S):
            job = f"job-{len(self.acknowledged)}"
            try:
                self._say(Topic.JOBS, job, facts.JobSubmitted(job=job, spec=Spec(team="a", gpus=1)))
            except LogError:
                continue
            self.acknowledged.append(job)

    def _say(self, topic: Topic, name: str, body: Any) -> None:
        envelope = codec.envelope_for(body, id=f"id-{name}", actor="operator:ops")
        value = codec.encode(Event(envelope=envelope, body=body))
        self.log.append([Message(topic=topic, value=value, key=name.encode())])


def decided(records: Iterable[Record]) -> Iterator[object]:
    """All decisions in these records."""
    for record in records:
        body = codec.decode(record.value).body
        if isinstance(body, DecisionBatch):
            yield from map(codec.unpack, body.decisions)


def answers_of(log: KafkaLog) -> Counter[str]:
    """How often each job is answered in the whole log."""
    found = decided(read_to_ends(log, {DECISIONS: 0}))
    return Counter(each.job for each in found if isinstance(each, d.JobQueued | d.JobRejected))


# ---------------------------------------------------------------- troubles


def leader_is_killed(company: Company, _: random.Random) -> None:
    """The other one leads; a new one stands by."""
    name = company.leader
    company.dismiss(name, signal.SIGKILL)
    company.progress()
    company.hire(name)


def leader_stands_still(company: Company, _: random.Random) -> None:
    """It wakes up when another one leads already, and has to notice."""
    name = company.leader
    company.tell(name, signal.SIGSTOP)
    company.until(lambda: company.leader != name, f"nobody takes over from {name}")
    company.tell(name, signal.SIGCONT)


def leader_is_asked_to_end(company: Company, _: random.Random) -> None:
    """It hands over."""
    name = company.leader
    company.dismiss(name, signal.SIGTERM)
    company.progress()
    company.hire(name)


def broker_is_killed(company: Company, chance: random.Random) -> None:
    """The other two go on; it comes back after a while."""
    node = chance.choice(company.cluster.running())
    company.cluster.kill(node)
    company.progress()
    company.cluster.start(node)


def broker_stands_still(company: Company, chance: random.Random) -> None:
    """Its connections stay open and say nothing; then it answers what was asked long ago."""
    node = chance.choice(company.cluster.running())
    company.cluster.pause(node)
    time.sleep(company.away_s)
    company.cluster.go_on(node)


def two_brokers_are_away(company: Company, chance: random.Random) -> None:
    """Nothing can be written until they are back."""
    nodes = chance.sample(company.cluster.running(), 2)
    for node in nodes:
        company.cluster.kill(node)
    time.sleep(company.away_s)
    company.cluster.start(*nodes)


def garbage_is_written(company: Company, chance: random.Random) -> None:
    """By a stranger, into the topic of submissions."""
    stranger = Producer({"bootstrap.servers": company.cluster.bootstrap, "acks": "all"})
    for _ in range(500):
        stranger.produce("gangline.main.jobs", value=chance.randbytes(40), partition=0)
    assert stranger.flush(60) == 0
    company.garbage += 500


Trouble = Callable[[Company, random.Random], None]

TROUBLES: Final[tuple[Trouble, ...]] = (
    leader_is_killed,
    broker_is_killed,
    leader_stands_still,
    broker_stands_still,
    garbage_is_written,
    two_brokers_are_away,
    leader_is_asked_to_end,
)


# ---------------------------------------------------------------- the judge


def judge(company: Company) -> None:
    """Each acknowledged submission is in effect once; the chain holds; assignments are the state's.

    The schedulers have ended. What was refused may be in the log too: the core knows its id.
    """
    log = company.log
    log.writer("scheduler").close()
    report = verify(LogSource(log), core)
    assert report.difference is None, report.difference
    answers = answers_of(log)
    found = decided(read_to_ends(log, {DECISIONS: 0}))
    rejected = sum(each.count for each in found if isinstance(each, d.InputRejected))
    wrong = {job: answers[job] for job in company.acknowledged if answers[job] != 1}
    assert wrong == {}, wrong
    assert set(answers.values()) == {1}
    assert rejected >= company.garbage
    _judge_assignments(log)


def _judge_assignments(log: KafkaLog) -> None:
    """What agents believe, the newest by term and seq, is what the log's state says."""
    follower: Follower = Follower(core)
    follower.read_to_end(log)
    newest: dict[str, NodeAssignment] = {}
    for record in read_to_ends(log, from_the_start([Topic.ASSIGNMENTS])):
        body = codec.decode(record.value).body
        known = newest.get(body.node)
        if known is None or (body.term, body.seq) > (known.term, known.seq):
            newest[body.node] = body
    for node in NODES:
        held = newest[node].members if node in newest else ()
        assert held == core.assigned_members(follower.state, node)
