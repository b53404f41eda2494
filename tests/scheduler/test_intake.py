"""Facts wait, are taken in order, and are proven by their ranges."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.events import codec
from gangline.events.log import Record, Topic, TopicPartition
from gangline.scheduler.intake import Intake, in_order, to_fact
from gangline.scheduler.reducer import HeartbeatReducer

PARTITIONS = [
    TopicPartition(str(Topic.CONTROL), 0),
    TopicPartition(str(Topic.JOBS), 0),
    TopicPartition(str(Topic.NODES), 0),
    TopicPartition(str(Topic.NODES), 1),
]


def record(partition: TopicPartition, offset: int, at: int) -> Record:
    """Bytes that mean nothing: only their place matters here."""
    return Record(
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        appended_ms=at,
        key=b"",
        value=f"{partition}-{offset}".encode(),
    )


backlogs = st.lists(
    st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 50)), min_size=1, max_size=60
)


def numbered(backlog: list[tuple[TopicPartition, int]]) -> list[Record]:
    """The backlog as records, with an offset for each."""
    ends = dict.fromkeys(PARTITIONS, 0)
    records = []
    for partition, at in backlog:
        records.append(record(partition, ends[partition], at))
        ends[partition] += 1
    return records


@given(backlogs, st.booleans())
def test_no_order_breaks_a_partitions_own(
    backlog: list[tuple[TopicPartition, int]],
    caught_up: bool,  # noqa: FBT001
) -> None:
    """Even where a partition's clock went back."""
    facts = in_order(map(to_fact, numbered(backlog)), caught_up=caught_up)

    for partition in PARTITIONS:
        offsets = [f.offset for f in facts if (f.topic, f.partition) == partition]
        assert offsets == sorted(offsets)
    assert len(facts) == len(backlog)


@given(backlogs)
def test_the_order_does_not_depend_on_how_records_arrived(
    backlog: list[tuple[TopicPartition, int]],
) -> None:
    """Live they come in polls, in replay by ranges."""
    facts = [to_fact(each) for each in numbered(backlog)]

    for caught_up in (True, False):
        forwards = in_order(facts, caught_up=caught_up)
        assert in_order(reversed(facts), caught_up=caught_up) == forwards


@given(backlogs, st.integers(1, 7))
@settings(max_examples=60)
def test_a_backlog_in_bounded_bites_is_the_whole_backlog_in_order(
    backlog: list[tuple[TopicPartition, int]], limit: int
) -> None:
    """Batch after batch gives what one large batch would have, if clocks went forward."""
    backlog = sorted(backlog, key=lambda entry: entry[1])
    intake = Intake(HeartbeatReducer(), limit=limit)
    intake.add(numbered(backlog))
    bites = []
    while intake.waiting:
        behind = [PARTITIONS[0]] if intake.waiting > limit else []
        if behind and intake.is_blocked(behind):
            behind = []
        assert 0 < intake.take(behind) <= limit
        bites.extend(intake.facts(caught_up=False))
        intake.settle()

    assert bites == in_order(map(to_fact, numbered(backlog)), caught_up=False)


def test_nothing_is_taken_past_what_an_unread_partition_may_hold() -> None:
    """An older fact may still be on its way there."""
    intake = Intake(HeartbeatReducer())
    intake.add([record(PARTITIONS[1], 0, 10)])

    assert intake.take([PARTITIONS[0]]) == 0

    intake.add([record(PARTITIONS[0], 0, 5)])
    assert intake.take([PARTITIONS[0]]) == 1
    assert [fact.topic for fact in intake.facts(caught_up=False)] == ["control"]


def test_taken_facts_are_given_again_until_a_batch_has_them() -> None:
    """Together with those that came meanwhile, in the order of one batch."""
    intake = Intake(HeartbeatReducer())
    intake.add([record(PARTITIONS[2], 0, 10)])
    intake.take([])
    intake.add([record(PARTITIONS[0], 0, 20)])
    intake.take([])

    assert [fact.topic for fact in intake.facts(caught_up=True)] == ["control", "nodes"]

    intake.settle()
    assert intake.facts(caught_up=True) == []
    assert intake.ranges() == ()


def test_ranges_prove_the_bytes() -> None:
    """First, last, count, and one digest over the Avro bodies in order; holes are allowed."""
    intake = Intake(HeartbeatReducer())
    first, second = record(PARTITIONS[1], 3, 0), record(PARTITIONS[1], 7, 0)
    intake.add([first, second])
    intake.take([])

    (consumed,) = intake.ranges()

    assert (consumed.topic, consumed.partition) == ("jobs", 0)
    assert (consumed.first, consumed.last, consumed.count) == (3, 7, 2)
    assert consumed.digest == codec.digest(first.value + second.value)
