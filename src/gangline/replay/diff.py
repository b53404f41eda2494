"""Where two histories part, and what is different between two states."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from gangline.events import codec
from gangline.replay.history import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gangline.events.batch import PackedDecision
    from gangline.replay.history import Source
    from gangline.scheduler.batches import RecordedStep

Plain = dict[str, Any]
MOST: Final = 50
_HEADER: Final = (
    "genesis",
    "term",
    "now_ms",
    "caught_up",
    "logic_version",
    "inputs",
    "edges",
    "state_digest",
    "previous_digest",
)


def first_difference(one: Source, two: Source) -> Plain | None:
    """The first batch that is another one in the second history; None when there is none.

    what: a decision, a field of the batch, or the end of a history. a, b: both sides in words.
    """
    for a, b in zip_longest(steps(one), steps(two)):
        if a is None or b is None:
            longer = a if b is None else b
            words = ["the history's end" if each is None else _summary(each) for each in (a, b)]
            return _difference(longer, "the end", words)
        if [codec.avro_bytes(r.value) for r in a.records] != [
            codec.avro_bytes(r.value) for r in b.records
        ]:
            return _between(a, b)
    return None


def _between(a: RecordedStep, b: RecordedStep) -> Plain:
    """What differs in two batches of one place; decisions first, as the rest follows from them."""
    pairs = zip_longest(a.batch.decisions, b.batch.decisions)
    for index, (left, right) in enumerate(pairs, start=1):
        if left != right:
            return _difference(a, f"decision {index}", [_in_words(left), _in_words(right)])
    for name in _HEADER:
        values = [getattr(each.batch, name) for each in (a, b)]
        if values[0] != values[1]:
            return _difference(a, name.replace("_", " "), [_shown(value) for value in values])
    return _difference(a, "envelope", [each.led_by or "" for each in (a, b)])


def _difference(at: RecordedStep, what: str, words: list[str]) -> Plain:
    return {
        "seq": at.link.seq,
        "position": str(at.records[0].position),
        "at_ms": at.batch.now_ms,
        "what": what,
        "a": words[0],
        "b": words[1],
    }


def _summary(step: RecordedStep) -> str:
    return f"batch {step.link.seq} with {len(step.batch.decisions)} decisions"


def _in_words(packed: PackedDecision | None) -> str:
    if packed is None:
        return "no decision"
    try:
        return repr(codec.unpack(packed) or f"{packed.kind} version {packed.version}")
    except codec.UndecodableError as error:
        return f"{packed.kind}: {error}"


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def state_differences(one: Plain, two: Plain) -> list[Plain]:
    """What is different between two states (`timetravel.state_at`), by path, at most 50."""
    found = []
    for path, a, b in _differences("", one, two):
        found.append({"path": path, "a": a, "b": b})
        if len(found) == MOST:
            break
    return found


def _differences(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            yield from _differences(f"{path}.{key}" if path else key, a.get(key), b.get(key))
    elif isinstance(a, list) and isinstance(b, list) and _named(a) and _named(b):
        yield from _differences(path, _by_name(a), _by_name(b))
    elif a != b:
        yield path, a, b


def _named(rows: list[Any]) -> bool:
    return all(isinstance(row, dict) and _name(row) for row in rows)


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("job") or row.get("node") or row.get("team") or "")


def _by_name(rows: list[Any]) -> dict[str, Any]:
    """Rows under the names that they have; a seat or an index has none and is compared whole."""
    return {_name(row): row for row in rows}
