"""How records become steps: a body is read by itself, and says the same as the whole record."""

from __future__ import annotations

import pytest

from gangline.events import codec
from gangline.events.batch import LeaderBeat
from gangline.events.envelope import Envelope, Event
from gangline.events.log import Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.projections.bench import make_log
from gangline.projections.steps import Chain, Steps


def test_a_body_by_itself_is_the_records_own() -> None:
    """The envelope is not made an object of; body and digest are as `decode` and the chain say."""
    log, _ = make_log(3)
    values = [record.value for record in read_to_ends(log, from_the_start([Topic.DECISIONS]))]

    assert [codec.body_with_digest(value) for value in values] == [
        (codec.decode(value).body, codec.body_digest(value)) for value in values
    ]


@pytest.mark.parametrize("damage", [lambda v: v[:-1], lambda v: v + b"\0", lambda v: v[1:]])
def test_damage_is_found_in_a_body_by_itself(damage: object) -> None:
    """Too short, too long, no header: undecodable, as for `decode`."""
    log, _ = make_log(1)
    value = next(iter(read_to_ends(log, from_the_start([Topic.DECISIONS])))).value
    damaged = damage(value)  # type: ignore[operator]

    for read in (codec.decode, codec.body_with_digest):
        with pytest.raises(codec.UndecodableError):
            read(damaged)


def test_an_envelope_of_another_kind_is_refused() -> None:
    """What the envelope says and what the schema says are the same kind."""
    body = LeaderBeat(leader="s", term=1, seq=1, beat=1)
    value = codec.encode(
        Event(envelope=Envelope(id="x", kind="DecisionBatch", version=1, actor="s"), body=body)
    )

    with pytest.raises(codec.UndecodableError, match="the envelope says DecisionBatch"):
        codec.body_with_digest(value)


def test_a_view_that_has_some_steps_takes_the_rest() -> None:
    """A lane's first run may reach back behind what a view already contains."""
    log, _ = make_log(3)
    records = read_to_ends(log, from_the_start([Topic.DECISIONS]))
    whole = Steps(list(Chain().steps(records)))

    assert whole.beyond(0) is whole
    rest = whole.beyond(5)
    assert [step.last for step in rest.steps] == [s.last for s in whole.steps if s.last >= 5]
    assert rest.items == [item for item in whole.items if item.offset >= 5]
    assert whole.beyond(10_000).steps == []
