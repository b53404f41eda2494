"""Confluent's wire format: 00, the schema registry's id of a schema (4 bytes), and the Avro record.

Tools that show or copy topics decode Avro only so. Where a registry is named, values get this
header when they are sent, and Avro's own single-object header back when they are read, so nothing
else of Gangline knows of registries, and digests, which cover the record alone, are the same.

`register` (`gangline init`) writes to the registry; everybody else only asks. A subject is a
record's full name, as one topic carries many kinds.
"""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro.schema import fingerprint, to_parsing_canonical_form

from gangline import schemas
from gangline.events.codec import ENVELOPED, SINGLE_HEADER_BYTES, SINGLE_OBJECT, schema_id_of
from gangline.events.kafka.wire import RegistryAwayError
from gangline.events.log import LogError, TopicsMissingError
from gangline.schemas import SchemaId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_T = TypeVar("_T")

COMPATIBILITY: Final = "FULL_TRANSITIVE"
"""Old logs are read by new programs and new records by old ones, whatever the distance."""

_FRAME: Final = struct.Struct(">bI")
_NOT_FOUND: Final = 404
_REFUSED: Final = {409, 422}
_STRANGERS_KEPT: Final = 10_000


class Framing:
    """The header of each value, exchanged with the help of one registry; for any thread.

    settings: of Confluent's client, `url` among them (`settings.registry_settings_of`).
    """

    def __init__(self, settings: Mapping[str, str | int]) -> None:
        self.url = str(settings["url"])
        self._settings = dict(settings)
        self._made: SchemaRegistryClient | None = None
        self._frames: dict[SchemaId, bytes] = {}
        self._headers: dict[int, bytes] = {}
        self._strangers: set[int] = set()

    def register(self) -> None:
        """Make all schemas known, with their compatibility; harmless when they are."""
        for subject, versions in _subjects():
            self._ask(partial(_demand, subject=subject))
            for each in versions:
                self._ask(partial(_register, subject=subject, schema=_schema(each)))

    def framed(self, value: bytes) -> bytes:
        """A value as it is sent; as it is where it has no header of ours."""
        schema_id = schema_id_of(value)
        if schema_id is None:
            return value
        if schema_id not in self._frames:
            self._frames[schema_id] = _FRAME.pack(0, self._look_up(schema_id))
        return self._frames[schema_id] + value[SINGLE_HEADER_BYTES:]

    def bare(self, value: bytes) -> bytes:
        """A value as it was before it was framed; as it is where no schema of ours is named.

        RegistryAwayError where the registry must be asked and does not answer.
        """
        if value[:1] != b"\x00" or len(value) <= _FRAME.size:
            return value
        number = _FRAME.unpack_from(value)[1]
        if number not in self._headers and number not in self._strangers:
            self._learn(number)
        header = self._headers.get(number)
        return value if header is None else header + value[_FRAME.size :]

    def close(self) -> None:
        """Let go of the connections; the next question opens new ones."""
        made, self._made = self._made, None
        if made is not None:
            made.close()

    def _learn(self, number: int) -> None:
        """Ask which schema has this id. An id of nobody's is remembered too: garbage repeats."""
        found = self._ask(partial(_text_of, number=number))
        print_ = None if found is None else _fingerprint(found)
        if print_ is not None and print_ in schemas.by_fingerprint():
            self._headers[number] = SINGLE_OBJECT + print_
            return
        if len(self._strangers) >= _STRANGERS_KEPT:
            self._strangers.clear()
        self._strangers.add(number)

    def _look_up(self, schema_id: SchemaId) -> int:
        """The registry's id of a schema that must be there."""
        name = _subject(schema_id.subject)
        found = self._ask(partial(_id_of, subject=name, schema=_schema(schema_id)))
        if found is None:
            raise TopicsMissingError(
                f"schema registry {_shown(self.url)} does not know {name} version "
                f"{schema_id.version}: `gangline init` registers all"
            )
        return found

    def _ask(self, question: Callable[[SchemaRegistryClient], _T]) -> _T:
        """An answer of the registry, errors in one line."""
        where = _shown(self.url)
        try:
            if self._made is None:
                self._made = SchemaRegistryClient(self._settings)
            return question(self._made)
        except SchemaRegistryError as error:
            text = f"schema registry {where} says {error.http_status_code}: {error.error_message}"
            if error.http_status_code in _REFUSED:
                raise LogError(text) from error
            raise RegistryAwayError(text) from error
        except Exception as error:  # the client lets through what its HTTP library raises
            reason = str(error) or type(error).__name__
            raise RegistryAwayError(
                f"schema registry {where} is not reachable ({reason}): "
                "GANGLINE_SCHEMA_REGISTRY_URL names it"
            ) from error


def _subjects() -> Iterator[tuple[str, list[SchemaId]]]:
    """Each subject of what stands alone in the log, with its versions, oldest first."""
    for kind in sorted(ENVELOPED):
        versions = sorted(map(int, schemas.index()[kind]))
        yield _subject(kind), [SchemaId(kind, version) for version in versions]


def _subject(kind: str) -> str:
    """The full name of the record of a kind."""
    schema = schemas.load(SchemaId(kind, schemas.latest_version(kind)))
    return f"{schema['namespace']}.{schema['name']}"


def _schema(schema_id: SchemaId) -> Schema:
    return Schema(json.dumps(schemas.load(schema_id)), "AVRO")


def _demand(client: SchemaRegistryClient, *, subject: str) -> None:
    """Have the registry refuse versions that would not do."""
    client.set_compatibility(subject, COMPATIBILITY)


def _register(client: SchemaRegistryClient, *, subject: str, schema: Schema) -> None:
    client.register_schema(subject, schema)


def _id_of(client: SchemaRegistryClient, *, subject: str, schema: Schema) -> int | None:
    try:
        return client.lookup_schema(subject, schema).schema_id
    except SchemaRegistryError as error:
        if error.http_status_code == _NOT_FOUND:
            return None
        raise


def _text_of(client: SchemaRegistryClient, *, number: int) -> str | None:
    try:
        return client.get_schema(number).schema_str
    except SchemaRegistryError as error:
        if error.http_status_code == _NOT_FOUND:
            return None
        raise


def _fingerprint(text: str) -> bytes | None:
    """The fingerprint of a schema; None for one that is not Avro at all."""
    try:
        canonical = to_parsing_canonical_form(fastavro.parse_schema(json.loads(text)))
    except Exception:  # noqa: BLE001 - others may register what they like
        return None
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def _shown(url: str) -> str:
    """A URL without the password that may stand in it."""
    head, separator, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://{tail}" if separator else url
