"""Whether bytes written with one Avro schema can be read with another, by Avro's resolution rules.

Old logs are read for ever, and old agents and views read what new schedulers write: so every
version of a subject must be able to read what every other one wrote. `make schemas` refuses to
write a version that cannot, and a test compares all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Any
Names = dict[str, Mapping[str, Any]]

_PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_DEFINED: Final = frozenset({"record", "enum", "fixed"})


def problems(*, reader: Schema, writer: Schema) -> list[str]:
    """What keeps the reader from reading the writer's bytes; empty for nothing.

    Each line names the place (`body.spec.gpus`) and what is wrong there.
    """
    return _Comparison(reader, writer).compare(reader, writer, "")


class _Comparison:
    """One comparison: the named types of both sides, and the pairs of records already met."""

    def __init__(self, reader: Schema, writer: Schema) -> None:
        self.readers: Names = {}
        self.writers: Names = {}
        _collect(reader, self.readers)
        _collect(writer, self.writers)
        self.met: set[tuple[str, str]] = set()

    def compare(self, reader: Schema, writer: Schema, at: str) -> list[str]:
        reader, writer = _resolved(reader, self.readers), _resolved(writer, self.writers)
        if isinstance(writer, list):
            return [line for branch in writer for line in self.compare(reader, branch, at)]
        if isinstance(reader, list):
            return self._into_union(reader, writer, at)
        mine, theirs = _kind(reader), _kind(writer)
        if mine != theirs:
            if mine in _PROMOTIONS.get(theirs, ()):
                return []
            return [f"{at or 'the whole'}: {theirs} is read as {mine}"]
        return self._alike(reader, writer, at)

    def _alike(self, reader: Schema, writer: Schema, at: str) -> list[str]:
        """The same for two schemas of one kind."""
        mine = _kind(reader)
        if mine == "record":
            return self._records(reader, writer, at)
        if mine == "array":
            return self.compare(reader["items"], writer["items"], f"{at}[]")
        if mine == "map":
            return self.compare(reader["values"], writer["values"], f"{at}{{}}")
        return _named(reader, writer, at) if mine in _DEFINED else []

    def _into_union(self, reader: list[Schema], writer: Schema, at: str) -> list[str]:
        if any(not self.compare(branch, writer, at) for branch in reader):
            return []
        theirs = _kind(writer)
        return [f"{at or 'the whole'}: {theirs} is none of {[_kind(b) for b in reader]}"]

    def _records(self, reader: Schema, writer: Schema, at: str) -> list[str]:
        pair = (_full_name(reader), _full_name(writer))
        if pair in self.met:
            return []
        self.met.add(pair)
        written = {field["name"]: field for field in writer["fields"]}
        lines = []
        for field in reader["fields"]:
            place = f"{at}.{field['name']}".removeprefix(".")
            if field["name"] in written:
                lines += self.compare(field["type"], written[field["name"]]["type"], place)
            elif "default" not in field:
                lines.append(f"{place}: not written, and has no default")
        return lines


def _named(reader: Schema, writer: Schema, at: str) -> list[str]:
    """What is wrong between two enums, or two fixed."""
    if _kind(reader) == "fixed":
        same = reader["size"] == writer["size"]
        return [] if same else [f"{at}: {writer['size']} bytes are read as {reader['size']}"]
    unknown = [one for one in writer["symbols"] if one not in reader["symbols"]]
    return [f"{at}: unknown symbols {unknown}"] if unknown and "default" not in reader else []


def _kind(schema: Schema) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _full_name(schema: Mapping[str, Any]) -> str:
    space = schema.get("namespace", "")
    return f"{space}.{schema['name']}" if space else str(schema["name"])


def _collect(schema: Schema, names: Names) -> None:
    """Find every named type within a schema."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, names)
    if not isinstance(schema, dict):
        return
    if schema["type"] in _DEFINED:
        names[_full_name(schema)] = names[schema["name"]] = schema
    for part in (schema.get("items"), schema.get("values"), *_field_types(schema)):
        _collect(part, names)


def _field_types(schema: Mapping[str, Any]) -> list[Schema]:
    return [field["type"] for field in schema.get("fields", [])]


def _resolved(schema: Schema, names: Names) -> Schema:
    """The schema itself, where only its name was given."""
    if isinstance(schema, str):
        return names.get(schema, schema)
    if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        return _resolved(schema["type"], names)
    return schema
