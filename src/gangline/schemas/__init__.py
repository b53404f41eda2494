"""The Avro schemas by subject and version, and their loader.

A subject is a record's name; `schemas/<Subject>/v<N>.avsc` holds its versions, and `index.json` the
CRC-64-AVRO fingerprint of each. Old versions stay for ever: old logs are read through them. The
newest version of each is what the dataclasses of `gangline.events` say today; `make schemas` writes
a new file where they differ, and a test fails while they do.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class SchemaId(NamedTuple):
    """A subject and a version, from 1."""

    subject: str
    version: int


@cache
def index() -> dict[str, dict[str, str]]:
    """All subjects: version (as text) to fingerprint (16 hexadecimal digits)."""
    loaded: dict[str, dict[str, str]] = json.loads(
        files(__name__).joinpath("index.json").read_text(encoding="utf-8")
    )
    return loaded


@cache
def by_fingerprint() -> dict[bytes, SchemaId]:
    """Fingerprint (8 bytes, as in the single-object header) to subject and version."""
    return {
        bytes.fromhex(fingerprint): SchemaId(subject, int(version))
        for subject, versions in index().items()
        for version, fingerprint in versions.items()
    }


@cache
def latest_version(subject: str) -> int:
    """The newest version of a subject; KeyError for an unknown subject."""
    return max(int(version) for version in index()[subject])


def fingerprint(schema_id: SchemaId) -> bytes:
    """The 8 bytes that name a schema in the single-object header; KeyError when there is none."""
    return bytes.fromhex(index()[schema_id.subject][str(schema_id.version)])


@cache
def load(schema_id: SchemaId) -> dict[str, Any]:
    """The schema as JSON says it; FileNotFoundError when there is none."""
    path = files(__name__).joinpath(schema_id.subject, f"v{schema_id.version}.avsc")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
