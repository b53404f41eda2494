"""CloudEvents attributes of a value, as Kafka's headers, for tools that know no Avro.

They repeat what the envelope says, and nothing of ours rests on them: readers look at values only.
There is no `ce_time`: the time of a record is the log's.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final
from urllib.parse import quote

import fastavro

from gangline import schemas
from gangline.events.avro import read_plain
from gangline.events.codec import ENVELOPED, SINGLE_OBJECT

HEADER_BYTES: Final = 10
"""Of Avro's single-object encoding: C3 01 and the schema's fingerprint."""

Headers = tuple[tuple[str, bytes], ...]


def attributes(value: bytes, *, cell: str) -> Headers:
    """The headers of a value that this program encoded; none for anything else."""
    if value[:2] != SINGLE_OBJECT or (schema := _envelope(value[2:HEADER_BYTES])) is None:
        return ()
    try:
        envelope: dict[str, Any] = read_plain(value[HEADER_BYTES:], schema, None)
    except Exception:  # noqa: BLE001 - fastavro raises whatever it trips over; headers can wait
        return ()
    source = f"/gangline/{cell}/{quote(envelope['actor'], safe=':@')}"
    return (
        ("ce_specversion", b"1.0"),
        ("ce_id", envelope["id"].encode()),
        ("ce_type", f"gangline.{envelope['kind']}.v{envelope['version']}".encode()),
        ("ce_source", source.encode()),
        ("content-type", b"application/avro"),
    )


@cache
def _envelope(fingerprint: bytes) -> Any:  # noqa: ANN401 - fastavro's own
    """The schema of the envelope within a schema; None for an unknown one."""
    schema_id = schemas.by_fingerprint().get(fingerprint)
    if schema_id is None or schema_id.subject not in ENVELOPED:
        return None
    return fastavro.parse_schema(schemas.load(schema_id)["fields"][0]["type"])
