"""What was so at a moment, and what happened to a job."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import decisions as d
from gangline.replay.history import FileSource, LogSource
from gangline.replay.show import life_of
from gangline.replay.timetravel import When, parse_when, state_at
from gangline.scheduler.batches import BrokenChainError, LogDifferenceError
from gangline.scheduler.follower import UnknownLogicError
from tests.replay.test_tampering import ListSource
from tests.scheduler.test_real_core import Fleet
from tests.support.histories import write_history

if TYPE_CHECKING:
    from pathlib import Path

    from gangline.events.batch import DecisionBatch


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """A fleet after its play."""
    fleet = Fleet()
    fleet.play()
    return fleet


def test_the_state_now_is_the_schedulers_own(fleet: Fleet) -> None:
    """The same digest as the leader recorded in its last batch."""
    state = state_at(LogSource(fleet.cell.log), When())

    assert state["state_digest"] == fleet.cell.batches()[-1].state_digest.hex()
    assert state["seq"] == fleet.cell.batches()[-1].seq
    assert json.loads(json.dumps(state)) == state


def test_every_moment_adds_up(fleet: Fleet) -> None:
    """At each batch: placed GPUs are the held ones, teams use what their jobs hold."""
    source = LogSource(fleet.cell.log)
    for batch in fleet.cell.batches()[::5]:
        state = state_at(source, When(seq=batch.seq))
        placed = sum(job["gpus"] for job in state["placements"])
        assert placed == state["fleet"]["held"]
        assert placed == sum(team["used"] for team in state["teams"])
        assert sum(t["lent"] for t in state["teams"]) <= sum(t["borrowed"] for t in state["teams"])
        assert state["state_digest"] == batch.state_digest.hex()


def test_the_guarantees_of_models_are_told(tmp_path: Path) -> None:
    """With what stands on each, of every team; of none where nobody has any."""
    write_history(
        tmp_path / "log",
        "fleet spines=1 blocks=1 nodes=1 gpus=8 model=h100\n"
        "team a guaranteed=8 guaranteed.h100=6\nteam b guaranteed=0\n"
        "submit j team=b gpus=3 runtime=1h\nrun 1m\n",
    )

    now = state_at(FileSource(tmp_path / "log"), When())
    before = state_at(FileSource(tmp_path / "log"), When(seq=1))

    assert {team["team"]: team["by_model"] for team in now["teams"]} == {
        "a": {"h100": {"guaranteed": 6, "used": 0}},
        "b": {"h100": {"guaranteed": 0, "used": 3}},
    }
    assert before["teams"] == []


def test_a_damaged_last_batch_is_a_state_or_said_to_be_none(fleet: Fleet) -> None:
    """Nothing but the batch after it would vouch for its bytes; a name may be of nobody."""
    placed = next(batch for batch in fleet.cell.batches() if "GangPlaced" in kinds_of(batch))
    records = list(LogSource(fleet.cell.log).decisions())[: placed.seq]
    said = set()
    for at in range(len(records[-1].value)):
        value = bytearray(records[-1].value)
        value[at] ^= 1 << (at % 7)
        damaged = [*records[:-1], replace(records[-1], value=bytes(value))]
        try:
            assert state_at(ListSource(damaged), When())["seq"] == placed.seq
        except (LogDifferenceError, BrokenChainError, UnknownLogicError) as error:
            said.add(type(error))

    assert {LogDifferenceError, BrokenChainError} <= said


def kinds_of(batch: DecisionBatch) -> list[str]:
    """What it decided, by name."""
    return [decision.kind for decision in batch.decisions]


def test_a_moment_between_two_batches_is_the_earlier_one(fleet: Fleet) -> None:
    """Nothing had changed yet; what waits has waited a little longer."""
    batches = fleet.cell.batches()
    first, second = next(
        (a, b) for a, b in itertools.pairwise(batches) if b.now_ms - a.now_ms > 100
    )

    state = state_at(LogSource(fleet.cell.log), When(at_ms=first.now_ms + 50))

    assert state["seq"] == first.seq
    assert state["at_ms"] == first.now_ms + 50
    assert second.now_ms > state["at_ms"]


def test_the_queue_says_why_each_job_waits(fleet: Fleet) -> None:
    """In the scheduler's own order, with its recorded reasons."""
    source = LogSource(fleet.cell.log)
    waiting = [
        state_at(source, When(seq=batch.seq))["queue"] for batch in fleet.cell.batches()[10:20]
    ]
    queue = max(waiting, key=len)

    assert [each["position"] for each in queue] == list(range(1, len(queue) + 1))
    assert all(each["reason"] and each["reason_text"] for each in queue)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("now", When()),
        ("seq:17", When(seq=17)),
        ("1700000000000", When(at_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", When(at_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20", When(at_ms=1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", When(at_ms=1_700_000_000_000)),
    ],
)
def test_moments_are_written_in_several_ways(text: str, when: When) -> None:
    """All of them exact."""
    assert parse_when(text) == when


def test_what_is_no_moment_is_said_to_be_none() -> None:
    """With what would be right."""
    with pytest.raises(ValueError, match="a moment is"):
        parse_when("yesterday")


def test_a_life_is_told_in_the_order_in_which_it_was_decided(fleet: Fleet) -> None:
    """From its acceptance to its end, each line with its batch."""
    preempted = fleet.cell.decisions(d.GangPreempted)[0].job

    life = life_of(LogSource(fleet.cell.log), preempted)

    kinds = [line.kind for line in life]
    assert kinds[0] == "JobQueued"
    assert kinds[-1] == "JobFinished"
    assert kinds.index("GangPlaced") < kinds.index("GangStarted") < kinds.index("GangPreempted")
    assert [line.seq for line in life] == sorted(line.seq for line in life)
    text = "\n".join(map(str, life))
    assert "told to leave for job-11" in text
    assert "ended: succeeded" in text


def test_every_kind_of_decision_about_a_job_has_words(fleet: Fleet) -> None:
    """No line is the bare name of a class."""
    source = LogSource(fleet.cell.log)
    for job in fleet.cell.acknowledged:
        for line in life_of(source, job):
            assert line.text != line.kind


def test_a_job_that_never_was_has_no_life(fleet: Fleet) -> None:
    """An empty list, and the caller says so."""
    assert life_of(LogSource(fleet.cell.log), "nobody") == []
