"""A leader that cannot reach the log any more, on real servers: its line is dead, then heals.

The line runs through a proxy that swallows all bytes while it is cut, as a lost network does; no
connection ends by that.
"""

from __future__ import annotations

import itertools
import signal
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from gangline.events.log import LogUnreachableError
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from tests.scheduler.cell import Cell
from tests.scheduler.test_processes import has_answered, opened_site
from tests.support.buses import opened
from tests.support.kafka_proxy import KafkaProxy
from tests.support.proxy import Link, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_cells = itertools.count(1)
DAY_MS = 86_400_000


class Line(Proxy):
    """A line to Postgres that can go dead."""

    dead = False

    def client_said(self, link: Link, data: bytes) -> bytes:
        """Nothing passes a dead line."""
        return b"" if self.dead else super().client_said(link, data)

    def server_said(self, link: Link, data: bytes) -> bytes:
        """In neither direction."""
        return b"" if self.dead else super().server_said(link, data)

    def heal(self) -> None:
        """Alive again; what was under way is lost, and so are its connections."""
        self.cut_all()
        self.dead = False


class KafkaLine(Line, KafkaProxy):
    """The same to a broker."""


def line_to(url: str) -> tuple[Line, str]:
    """A line to the server of a URL, and the URL that leads over it."""
    parts = urlsplit(url)
    if parts.scheme == "kafka":
        line: Line = KafkaLine.before(parts.netloc)
        return line, f"kafka://127.0.0.1:{line.port}"
    line = Line(parts.hostname or "", parts.port or 0)
    who = parts.netloc.rpartition("@")[0]
    return line, parts._replace(netloc=f"{who}@127.0.0.1:{line.port}").geturl()


@pytest.fixture
def line(bus: str) -> Iterator[tuple[Line, str]]:
    """A line to that server, and the URL over it."""
    made = line_to(bus)
    yield made
    made[0].close()


def test_a_leader_behind_a_dead_line_is_replaced_and_stands_by_when_it_heals(
    bus: str, line: tuple[Line, str], tmp_path: Path
) -> None:
    """Nothing that it still wanted to say is ever read, and it does not take the lead back."""
    wire, over_it = line
    cell = f"partition-{next(_cells)}"
    with opened_site(bus, tmp_path, cell=cell, first_over=over_it) as site:
        wire.dead = True
        site.submit("job-1")
        site.until(lambda: has_answered(site, "job-1"), "the second answers")
        wire.heal()
        site.until(lambda: site.lines("one")[-1].get("role") == "standby", "the first stands by")
        site.submit("job-2")
        site.until(lambda: has_answered(site, "job-2"), "the second goes on")

        assert site.leader() == "two"
        assert site.answered() == ["job-1", "job-2"]
        assert verify(LogSource(site.log), core).difference is None


def test_a_leader_that_was_stopped_for_long_over_a_commit_does_no_harm(
    bus: str, tmp_path: Path
) -> None:
    """SIGSTOP in the middle of work, and SIGCONT after the other one has led for a while."""
    with opened_site(bus, tmp_path, cell=f"stopped-{next(_cells)}") as site:
        for index in range(30):
            site.submit(f"job-{index}")
        site.running["one"].send_signal(signal.SIGSTOP)
        site.until(lambda: site.leader() == "two", "the second leads")
        site.submit("late")
        site.until(lambda: has_answered(site, "late"), "the second answers")
        site.running["one"].send_signal(signal.SIGCONT)
        site.until(lambda: site.lines("one")[-1].get("role") == "standby", "the first stands by")

        assert sorted(site.answered()) == sorted([*(f"job-{i}" for i in range(30)), "late"])
        assert site.leader() == "two"
        assert verify(LogSource(site.log), core).difference is None


@pytest.mark.parametrize("error_ms", [DAY_MS, -DAY_MS], ids=["ahead", "behind"])
def test_a_leader_whose_clock_is_a_day_off_neither_skips_nor_repeats_time(
    bus: str, error_ms: int
) -> None:
    """Its term begins at most 5 s past the log's own time, and nobody is called silent for it."""
    with opened(bus, f"clock-{next(_cells)}") as log:
        cell = Cell(log)
        cell.clocks.wall_error_ms = _now_ms() - cell.clocks.wall_ms()
        one = cell.scheduler("one")
        cell.led_by(one)
        cell.admit("n1")
        cell.submit("job-1")
        cell.run(one, ms=1_000)
        one.close()

        cell.clocks.wall_error_ms += error_ms
        two = cell.scheduler("two")
        cell.led_by(two)
        cell.submit("job-2")
        cell.heartbeat("n1")
        cell.run(two, ms=1_000)
        two.close()

        times = [batch.now_ms for batch in cell.batches()]
        assert times == sorted(times)
        assert abs(times[-1] - _now_ms()) < DAY_MS / 24
        assert [e.kind for batch in cell.batches() for e in batch.edges] == ["led", "led"]
        assert verify(LogSource(log), cell.core).difference is None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_dead_line_swallows_what_is_said(line: tuple[Line, str]) -> None:
    """Else the test above would cut nothing."""
    wire, over_it = line
    wire.dead = True
    with opened(over_it, "nobody") as log, pytest.raises(LogUnreachableError):
        log.create_topics()
