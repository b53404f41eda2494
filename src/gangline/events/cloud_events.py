"""CloudEvents attributes of a value, as Kafka's headers, for tools that know no Avro.

They repeat what the envelope says, and nothing of ours rests on them: readers look at values only.
There is no `ce_time`: the time of a record is the log's.
"""

from __future__ import annotations

from urllib.parse import quote

from gangline.events import codec

Headers = tuple[tuple[str, bytes], ...]


def attributes(value: bytes, *, cell: str) -> Headers:
    """The headers of a value that this program encoded; none for anything else."""
    try:
        envelope, _ = codec.split(value)
    except codec.UndecodableError:
        return ()
    source = f"/gangline/{cell}/{quote(envelope['actor'], safe=':@')}"
    return (
        ("ce_specversion", b"1.0"),
        ("ce_id", envelope["id"].encode()),
        ("ce_type", f"gangline.{envelope['kind']}.v{envelope['version']}".encode()),
        ("ce_source", source.encode()),
        ("content-type", b"application/avro"),
    )
