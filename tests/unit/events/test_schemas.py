"""Schemas: what the files say is what the classes say, and every version reads every other."""

from __future__ import annotations

import io
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from gangline import schemas
from gangline.events import asyncapi, codec, schema_files
from gangline.events.compatibility import problems
from gangline.events.log import Topic
from gangline.schemas import SchemaId

ROOT = Path(__file__).parents[3]


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    """A record schema."""
    return {"type": "record", "name": name, "namespace": "gangline", "fields": list(fields)}


def field(name: str, type_: Any = "long", **more: Any) -> dict[str, Any]:
    """A field of a record."""
    return {"name": name, "type": type_, **more}


OLD = record(field("a"), field("b", "string"))
INNER = record(field("x"), name="I")
WIDER = record(field("x"), field("y"), name="I")

PAIRS: list[tuple[str, Any, Any, list[str], list[str]]] = [
    # what is done, the old, the new; what keeps the new from reading the old, and the reverse
    ("nothing", OLD, OLD, [], []),
    (
        "a field with a default is added",
        OLD,
        record(field("a"), field("b", "string"), field("c", default=0)),
        [],
        [],
    ),
    (
        "a field without a default is added",
        OLD,
        record(field("a"), field("b", "string"), field("c")),
        ["c: not written, and has no default"],
        [],
    ),
    (
        "a field is removed",
        OLD,
        record(field("a")),
        [],
        ["b: not written, and has no default"],
    ),
    (
        "a field with a default is removed",
        record(field("a"), field("b", default=1)),
        record(field("a")),
        [],
        [],
    ),
    (
        "a field is renamed",
        record(field("a")),
        record(field("z")),
        ["z: not written, and has no default"],
        ["a: not written, and has no default"],
    ),
    (
        "a field gets another type",
        record(field("a", "long")),
        record(field("a", "string")),
        ["a: long is read as string"],
        ["a: string is read as long"],
    ),
    (
        "a number gets wider",
        record(field("a", "int")),
        record(field("a", "long")),
        [],
        ["a: long is read as int"],
    ),
    ("fields change places", OLD, record(field("b", "string"), field("a")), [], []),
    (
        "a field may be missing from now on",
        record(field("a", "long")),
        record(field("a", ["null", "long"])),
        [],
        ["a: null is read as long"],
    ),
    (
        "a union gets a branch",
        record(field("a", ["null", "long"])),
        record(field("a", ["null", "long", "string"])),
        [],
        ["a: string is none of ['null', 'long']"],
    ),
    (
        "a list's record gets a field",
        record(field("a", {"type": "array", "items": INNER})),
        record(field("a", {"type": "array", "items": WIDER})),
        ["a[].y: not written, and has no default"],
        [],
    ),
    (
        "a map's record gets a field",
        record(field("a", {"type": "map", "values": INNER})),
        record(field("a", {"type": "map", "values": WIDER})),
        ["a{}.y: not written, and has no default"],
        [],
    ),
    (
        "a record that is named twice gets a field",
        record(field("a", INNER), field("b", "gangline.I")),
        record(field("a", WIDER), field("b", "gangline.I")),
        ["a.y: not written, and has no default"],
        [],
    ),
    (
        "an enum gets a symbol",
        record(field("a", {"type": "enum", "name": "E", "symbols": ["X"]})),
        record(field("a", {"type": "enum", "name": "E", "symbols": ["X", "Y"]})),
        [],
        ["a: unknown symbols ['Y']"],
    ),
    (
        "a digest gets longer",
        record(field("a", {"type": "fixed", "name": "D", "size": 16})),
        record(field("a", {"type": "fixed", "name": "D", "size": 32})),
        ["a: 16 bytes are read as 32"],
        ["a: 32 bytes are read as 16"],
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS]
)
def test_what_may_change_between_versions(
    old: Any, new: Any, backward: list[str], forward: list[str]
) -> None:
    """Only what leaves old and new able to read each other."""
    assert problems(reader=new, writer=old) == backward
    assert problems(reader=old, writer=new) == forward


@pytest.mark.parametrize("subject", sorted(schemas.index()))
def test_every_version_reads_what_every_other_wrote(subject: str) -> None:
    """Old logs in new programs, new logs in old ones."""
    versions = [schemas.load(SchemaId(subject, int(v))) for v in schemas.index()[subject]]

    for reader, writer in [*permutations(versions, 2), *((one, one) for one in versions)]:
        assert problems(reader=reader, writer=writer) == []


@pytest.mark.parametrize("subject", sorted(k for k, v in schemas.index().items() if len(v) > 1))
def test_avros_own_reader_takes_the_bytes_of_every_other_version(subject: str) -> None:
    """The rules above are ours; these are records as each version's writer makes them."""
    versions: list[Any] = [
        fastavro.parse_schema(schemas.load(SchemaId(subject, int(v))))
        for v in schemas.index()[subject]
    ]

    for reader, writer in permutations(versions, 2):
        for written in generate_many(writer, 20):
            record = io.BytesIO()
            fastavro.schemaless_writer(record, writer, written)
            record.seek(0)
            read = fastavro.schemaless_reader(record, writer, reader)
            assert isinstance(read, dict)
            assert set(read) == {one["name"] for one in reader["fields"]}
            assert record.read() == b""


def test_the_newest_files_are_what_the_classes_say() -> None:
    """`make schemas` writes what is missing."""
    assert schema_files.missing() == {}


def test_every_class_has_its_files_and_every_file_its_class() -> None:
    """Versions count from 1 without a gap."""
    assert set(schemas.index()) == set(codec.CLASSES)
    for subject, versions in schemas.index().items():
        on_disk = {path.stem[1:] for path in (schema_files.ROOT / subject).glob("v*.avsc")}
        assert on_disk == set(versions) == {str(v) for v in range(1, len(versions) + 1)}


def test_no_two_schemas_have_one_fingerprint() -> None:
    """Else bytes could be read as something else."""
    count = sum(len(versions) for versions in schemas.index().values())

    assert len(schemas.by_fingerprint()) == count


def written_before(root: Path, kind: str, without: str) -> Path:
    """The file of an older program, which did not know a field."""
    older = codec.record_schema(codec.CLASSES[kind])
    older["fields"] = [one for one in older["fields"] if one["name"] != without]
    (root / kind).mkdir()
    path = root / kind / "v1.avsc"
    path.write_text(json.dumps(older), encoding="utf-8")
    return path


def test_a_change_gets_a_new_version_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old log is read through the old file for ever."""
    monkeypatch.setattr(schema_files, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["schema_files"])
    first = written_before(tmp_path, "JobReleased", without="by")
    before = first.read_bytes()

    assert schema_files.main() == 0

    assert first.read_bytes() == before
    assert schema_files.newest("JobReleased")[0] == 2
    assert set(json.loads((tmp_path / "index.json").read_text())["JobReleased"]) == {"1", "2"}


def test_a_change_that_breaks_old_logs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The field that has no default is named."""
    monkeypatch.setattr(schema_files, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["schema_files"])
    written_before(tmp_path, "JobHeld", without="why")

    assert schema_files.main() == 1

    assert "JobHeld cannot read v1: why: not written, and has no default" in capsys.readouterr().err
    assert schema_files.newest("JobHeld")[0] == 1


def test_what_is_missing_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run changes nothing; `--check` says beforehand that something is missing."""
    monkeypatch.setattr(schema_files, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["schema_files", "--check"])
    assert schema_files.main() == 1
    monkeypatch.setattr("sys.argv", ["schema_files"])
    assert schema_files.main() == 0
    written = {path: path.read_bytes() for path in tmp_path.rglob("*.avsc")}

    assert schema_files.main() == 0

    assert len(written) == len(codec.CLASSES)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.avsc")} == written


def test_a_better_comment_is_no_new_version() -> None:
    """Only what changes bytes does."""
    told = record(field("a", {"type": "array", "items": {**INNER, "doc": "x"}}))

    assert schema_files.without_docs({**told, "doc": "y"}) == record(
        field("a", {"type": "array", "items": INNER})
    )


# --- the AsyncAPI document ------------------------------------------------------------------------


def test_the_document_of_the_topics_is_current() -> None:
    """`make schemas` writes it."""
    committed = (ROOT / "docs" / "asyncapi.json").read_text(encoding="utf-8")

    assert committed == asyncapi.text()


def test_the_document_tells_every_topic_and_every_kind() -> None:
    """Facts and records as messages, decisions as the schemas of what stands in a batch."""
    document = asyncapi.document()

    assert set(document["channels"]) == {str(topic) for topic in Topic}
    assert set(document["components"]["messages"]) == codec.ENVELOPED
    assert set(document["components"]["schemas"]) == {kind.__name__ for kind in codec.DECISIONS}


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        mine = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return mine + [one for value in part.values() for one in _references(value)]
    return [one for value in part for one in _references(value)] if isinstance(part, list) else []


def test_every_reference_of_the_document_leads_somewhere() -> None:
    """Tools follow them."""
    document = asyncapi.document()
    found = _references(document)

    assert found
    for reference in found:
        at: Any = document
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]
