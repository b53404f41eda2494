"""The AsyncAPI document of a cell's topics.

`python -m gangline.events.asyncapi > docs/asyncapi.json` (`make schemas` does it).
It is generated from the newest Avro schemas, so that whoever writes or reads the topics in another
language needs nothing else. Decisions stand as bytes inside a DecisionBatch, with kind and version;
their schemas are listed under `components.schemas` by kind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, get_args

from gangline import schemas
from gangline.events import batch, facts
from gangline.events.codec import DECISIONS
from gangline.events.log import TOPIC_SETTINGS, Topic
from gangline.schemas import SchemaId

VERSION: Final = "3.0.0"
AVRO: Final = "application/vnd.apache.avro+json;version=1.9.0"
HEADER: Final = (
    "Avro's single-object encoding: C3 01, the schema's CRC-64-AVRO fingerprint (8 bytes, "
    "little-endian), then the Avro record. Offsets count the cell's order; times are milliseconds."
)


class Told(NamedTuple):
    """A topic: what it carries, who writes it, by what its records are keyed, and why."""

    kinds: tuple[type, ...]
    writer: str
    key: str
    about: str


TOPICS: Final[Mapping[Topic, Told]] = {
    Topic.JOBS: Told(
        get_args(facts.JobFact),
        "services and the API",
        "the job's id",
        "What people and services ask for.",
    ),
    Topic.CONTROL: Told(
        get_args(facts.ControlFact),
        "operators",
        "the team's or node's name",
        "What operators state: teams, policy, nodes.",
    ),
    Topic.NODES: Told(
        get_args(facts.NodeFact),
        "agents",
        "the node's name",
        "What agents state of their own node.",
    ),
    Topic.HEARTBEATS: Told(
        (facts.NodeHeartbeat,), "agents", "the node's name", "That a node is alive."
    ),
    Topic.DECISIONS: Told(
        (batch.DecisionBatch,),
        "the leading scheduler",
        "none",
        "Everything that was decided, chained by digest; state and views are folds of it.",
    ),
    Topic.ASSIGNMENTS: Told(
        (batch.NodeAssignment,),
        "the leading scheduler",
        "the node's name",
        "What a node should run now: its whole desired state.",
    ),
    Topic.LEADER: Told(
        (batch.LeaderBeat,), "the leading scheduler", "none", "That the leader is alive."
    ),
    Topic.SNAPSHOTS: Told(
        (batch.SnapshotChunk, batch.SnapshotPointer),
        "schedulers",
        "the snapshot's part",
        "The state at a batch, in chunks, the pointer last.",
    ),
}


def document() -> dict[str, Any]:
    """The whole document, as JSON says it."""
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "Gangline: the topics of a cell",
            "version": "1",
            "description": f"One line a fact, one line a decision. {HEADER}",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "avro/binary",
        "channels": {str(topic): _channel(topic, told) for topic, told in TOPICS.items()},
        "operations": {
            f"{action}-{topic}": _operation(topic, told, action=action)
            for topic, told in TOPICS.items()
            for action in ("send", "receive")
        },
        "components": {
            "messages": {
                kind.__name__: _message(kind) for told in TOPICS.values() for kind in told.kinds
            },
            "schemas": {kind.__name__: _schema(kind) for kind in DECISIONS},
        },
    }


def _channel(topic: Topic, told: Told) -> dict[str, Any]:
    settings = TOPIC_SETTINGS[topic]
    return {
        "address": f"gangline.{{cell}}.{topic}",
        "description": f"{told.about} Written by {told.writer}; keyed by {told.key}.",
        "parameters": {"cell": {"description": "The scheduling domain's name."}},
        "messages": {
            kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"} for kind in told.kinds
        },
        "bindings": {
            "kafka": {
                "partitions": settings.partitions,
                "topicConfiguration": {
                    "cleanup.policy": ["compact" if settings.compacted else "delete"],
                    "retention.ms": settings.retention_ms,
                },
                "bindingVersion": "0.5.0",
            }
        },
    }


def _operation(topic: Topic, told: Told, *, action: str) -> dict[str, Any]:
    who = told.writer if action == "send" else "anybody who may read the cell"
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{topic}"},
        "summary": f"For {who}.",
    }


def _message(kind: type) -> dict[str, Any]:
    summary = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return {
        "name": kind.__name__,
        "contentType": "avro/binary",
        "summary": summary,
        "payload": _schema(kind),
    }


def _schema(kind: type) -> dict[str, Any]:
    """The newest schema of a kind, in AsyncAPI's wrapping for other languages than JSON Schema."""
    name = kind.__name__
    newest = SchemaId(name, schemas.latest_version(name))
    return {"schemaFormat": AVRO, "schema": schemas.load(newest)}


def text() -> str:
    """The document as it stands in docs/asyncapi.json."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
