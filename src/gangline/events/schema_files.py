"""Writes the `.avsc` files: `python -m gangline.events.schema_files [--check]`.

A kind whose dataclass says something else than its newest file gets a new version; files that stand
are never changed, and a version that cannot read what the others wrote, or the reverse, is not
written (exit 1). `--check` writes nothing and exits 1 when a file is missing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from gangline.events.codec import CLASSES, record_schema
from gangline.events.compatibility import problems

ROOT = Path(__file__).resolve().parent.parent / "schemas"


def newest(subject: str) -> tuple[int, dict[str, Any] | None]:
    """The newest version on disk and its schema; (0, None) for a new subject."""
    versions = [int(p.stem[1:]) for p in (ROOT / subject).glob("v*.avsc")]
    if not versions:
        return 0, None
    text = (ROOT / subject / f"v{max(versions)}.avsc").read_text(encoding="utf-8")
    return max(versions), json.loads(text)


def without_docs(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """The schema without its docs: a better comment is no new version."""
    if isinstance(schema, dict):
        return {k: without_docs(v) for k, v in schema.items() if k != "doc"}
    return [without_docs(v) for v in schema] if isinstance(schema, list) else schema


def missing() -> dict[str, tuple[int, dict[str, Any]]]:
    """Subjects whose newest file is not what the dataclass says.

    The version to write, and its schema.
    """
    found = {}
    for kind, cls in CLASSES.items():
        version, on_disk = newest(kind)
        wanted = json.loads(json.dumps(record_schema(cls)))
        if without_docs(on_disk) != without_docs(wanted):
            found[kind] = (version + 1, wanted)
    return found


def broken(subject: str, schema: dict[str, Any]) -> list[str]:
    """What keeps a new version and the older ones of a subject from reading each other."""
    lines = []
    for path in sorted((ROOT / subject).glob("v*.avsc")):
        old = json.loads(path.read_text(encoding="utf-8"))
        lines += [f"cannot read {path.stem}: {p}" for p in problems(reader=schema, writer=old)]
        lines += [
            f"cannot be read by {path.stem}: {p}" for p in problems(reader=old, writer=schema)
        ]
    return lines


def write_index() -> None:
    """Rewrite `index.json` from the files."""
    index: dict[str, dict[str, str]] = {}
    for path in sorted(ROOT.glob("*/v*.avsc"), key=lambda p: (p.parent.name, int(p.stem[1:]))):
        schema = fastavro.parse_schema(json.loads(path.read_text(encoding="utf-8")))
        canonical = to_parsing_canonical_form(schema)
        # The header carries the fingerprint little-endian, as Avro's specification says.
        print_ = bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
        index.setdefault(path.parent.name, {})[path.stem[1:]] = print_.hex()
    (ROOT / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Write what is missing, or with `--check` say it."""
    found = missing()
    if "--check" in sys.argv[1:]:
        for kind, (version, _) in found.items():
            sys.stderr.write(f"{kind}: version {version} is not written; run `make schemas`\n")
        return 1 if found else 0
    wrong = [f"{kind} {line}" for kind, (_, new) in found.items() for line in broken(kind, new)]
    if wrong:
        sys.stderr.write("\n".join(wrong) + "\n")
        return 1
    for kind, (version, schema) in found.items():
        folder = ROOT / kind
        folder.mkdir(exist_ok=True)
        text = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        (folder / f"v{version}.avsc").write_text(text, encoding="utf-8")
    write_index()
    return 0


if __name__ == "__main__":
    sys.exit(main())
