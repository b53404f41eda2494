"""A real scheduler whose machine's wall clock jumps by a day, either way, while it leads."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from gangline.events import facts
from gangline.events.log import Topic
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from gangline.scheduler.clock import MAX_AHEAD_MS
from tests.scheduler.test_processes import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARY: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
"""Of Debian's package `libfaketime`; it reads the wrong time from a file."""

SLACK_MS: Final = 60_000
_cells = itertools.count(1)

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not LIBRARY.exists(), reason="libfaketime is not installed"),
]


class WrongClock:
    """The wall clock of one process; all other clocks of it are right."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump("+0d")

    def jump(self, offset: str) -> None:
        """Be off by so much from now on."""
        self._file.write_text(f"{offset}\n")

    def environ(self) -> dict[str, str]:
        """What a process needs to see it."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def clock(tmp_path: Path) -> WrongClock:
    """A clock that is right until a test turns it."""
    return WrongClock(tmp_path / "offset")


@pytest.fixture
def site(postgres_url: str, tmp_path: Path) -> Iterator[Site]:
    """A cell with a team, a node and nobody that leads."""
    site = Site(postgres_url, tmp_path, cell=f"clock-jump-{next(_cells)}")
    site.say(Topic.CONTROL, facts.TeamSet(team="a", guaranteed=8))
    node = facts.NodeAdmitted(node="n1", path=("b1",), levels=("block",), gpus=8)
    site.say(Topic.CONTROL, node)
    yield site
    site.close()


def start_with(site: Site, clock: WrongClock, name: str) -> None:
    """Start a scheduler on the machine of that clock, and wait until it leads."""
    with pytest.MonkeyPatch.context() as environ:
        for key, value in clock.environ().items():
            environ.setenv(key, value)
        site.start(name, 0)
    site.until(lambda: site.leader() == name, f"{name} leads")


def off_ms(site: Site) -> int:
    """How far the newest batch's time is from the true one."""
    return abs(site.steps()[-1].batch.now_ms - time.time_ns() // 1_000_000)


def steps_told(site: Site) -> list[int]:
    """The steps of the wall clock that the scheduler told of, in days."""
    alarms = [line for line in site.lines("one") if line["event"] == "wall_clock_stepped"]
    return [round(line["step_ms"] / 86_400_000) for line in alarms]


def test_a_jump_of_the_wall_clock_is_an_alarm_and_nothing_else(
    site: Site, clock: WrongClock
) -> None:
    """A day ahead, then behind: the same one leads, by the true time, and says what it saw."""
    start_with(site, clock, "one")

    for number, offset in enumerate(("+1d", "-1d", "+0d"), start=1):
        clock.jump(offset)
        site.submit(f"job-{number}")
        site.until(
            lambda count=number: len(site.answered()) == count,  # type: ignore[misc]
            f"job-{number} is answered",
        )
        assert off_ms(site) < SLACK_MS, offset
        # A job may be answered before the next look at the clock, and two jumps would be one step.
        site.until(
            lambda count=number: len(steps_told(site)) == count,  # type: ignore[misc]
            f"step {number} of the clock is told",
        )

    assert steps_told(site) == [1, -2, 1]
    assert {step.batch.term for step in site.steps()} == {1}
    assert verify(LogSource(site.log), core).difference is None


@pytest.mark.parametrize("offset", ["+1d", "-1d"])
def test_a_leader_that_begins_with_a_wrong_clock_goes_by_the_logs(
    site: Site, clock: WrongClock, offset: str
) -> None:
    """At most so much ahead of the log, and never before the last batch."""
    start_with(site, clock, "one")
    site.submit("job-1")
    site.until(lambda: site.answered() == ["job-1"], "the first answers")
    site.running["one"].kill()
    before_ms = site.steps()[-1].batch.now_ms
    clock.jump(offset)

    start_with(site, clock, "two")
    site.submit("job-2")
    site.until(lambda: site.answered() == ["job-1", "job-2"], "the second answers")

    newest_ms = site.steps()[-1].batch.now_ms
    assert newest_ms >= before_ms
    assert newest_ms - time.time_ns() // 1_000_000 <= MAX_AHEAD_MS
    assert verify(LogSource(site.log), core).difference is None
