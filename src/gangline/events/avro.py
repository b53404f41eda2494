"""From dataclasses to Avro and back.

Schemas derived from the vocabulary, values to plain dicts and back.

Only the types the vocabulary uses: int, str, bytes, bool, enums, nested frozen dataclasses, tuples,
mappings from str, and `X | None`. Converters are built once a class, so that a record costs one
call a field that needs one.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
import types
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import fastavro

NAMESPACE: Final = "gangline"
_PRIMITIVES: Final = {int: "long", str: "string", bytes: "bytes", bool: "boolean"}

Converter = Callable[[Any], Any]


@cache
def hints(cls: type) -> dict[str, Any]:
    """The resolved types of a dataclass's fields, in order."""
    file = Path(getattr(sys.modules[cls.__module__], "__file__", None) or "")
    compiled = file.name.endswith(tuple(EXTENSION_SUFFIXES))
    resolved = get_type_hints(_as_written(cls, file) if compiled else cls)
    return {f.name: resolved[f.name] for f in dataclasses.fields(cls)}


def _as_written(cls: type, compiled: Path) -> type:
    """A class with the annotations that a compiled one has in its source, which lies beside.

    Compiled classes keep only parts of them.
    """
    source = compiled.with_name(f"{cls.__module__.rpartition('.')[2]}.py")
    classes = ast.parse(source.read_text(encoding="utf-8")).body
    body = next(n.body for n in classes if isinstance(n, ast.ClassDef) and n.name == cls.__name__)
    fields = [n for n in body if isinstance(n, ast.AnnAssign)]
    written = {ast.unparse(n.target): ast.unparse(n.annotation) for n in fields}
    return type(cls.__name__, (), {"__module__": cls.__module__, "__annotations__": written})


def optional_of(hint: Any) -> Any | None:  # noqa: ANN401 - type hints have no common type
    """X for `X | None`, else None."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [a for a in get_args(hint) if a is not types.NoneType]
        return rest[0] if len(rest) == 1 else None
    return None


def schema_of(
    cls: type, *, named: set[str] | None = None, only: tuple[str, ...] | None = None
) -> dict[str, Any] | str:
    """The Avro record schema of a dataclass; a name alone where `named` already holds it.

    only: the fields to take, all where it is None.
    """
    seen = set() if named is None else named
    if cls.__name__ in seen:
        return f"{NAMESPACE}.{cls.__name__}"
    seen.add(cls.__name__)
    fields = []
    for f in dataclasses.fields(cls):
        if only is not None and f.name not in only:
            continue
        entry: dict[str, Any] = {"name": f.name, "type": _type_schema(hints(cls)[f.name], seen)}
        entry.update(_default(f))
        fields.append(entry)
    return {
        "type": "record",
        "name": cls.__name__,
        "namespace": NAMESPACE,
        "doc": (cls.__doc__ or "").strip(),
        "fields": fields,
    }


def whole_schema_of(cls: type, *, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """`schema_of` where nothing is named yet."""
    schema = schema_of(cls, only=only)
    return schema if isinstance(schema, dict) else {}


def _default(f: dataclasses.Field[Any]) -> dict[str, Any]:
    if f.default_factory is not dataclasses.MISSING:
        return {"default": _plain_default(f.default_factory())}
    if f.default is dataclasses.MISSING:
        return {}
    return {"default": _plain_default(f.default)}


def _plain_default(value: Any) -> Any:  # noqa: ANN401 - any field's value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain_default(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_plain_default(v) for v in value]
    return dict(value) if isinstance(value, Mapping) else value


def _type_schema(hint: Any, seen: set[str]) -> Any:  # noqa: ANN401 - schemas are JSON
    inner = optional_of(hint)
    if inner is not None:
        return ["null", _type_schema(inner, seen)]
    origin = get_origin(hint)
    if origin is tuple:
        return {"type": "array", "items": _type_schema(get_args(hint)[0], seen)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "map", "values": _type_schema(get_args(hint)[1], seen)}
    if dataclasses.is_dataclass(hint):
        return schema_of(hint, named=seen)  # type: ignore[arg-type]
    if issubclass(hint, IntEnum):
        return "long"
    return "string" if issubclass(hint, Enum) else _PRIMITIVES[hint]


def write_plain(schema: Any, plain: dict[str, Any]) -> bytes:  # noqa: ANN401 - fastavro's own
    """The Avro bytes of a plain dict."""
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, plain)
    data: bytes = out.getvalue()
    return data


def read_plain(data: bytes, written: Any, wanted: Any) -> Any:  # noqa: ANN401 - fastavro's own
    """The plain dict of Avro bytes written with one schema, as another one (or None) wants it."""
    return fastavro.schemaless_reader(BytesIO(data), written, wanted)


@cache
def to_plain(cls: type, *, only: tuple[str, ...] | None = None) -> Converter:
    """A function from an instance to the dict that an Avro writer wants.

    Of `only` these fields, or all.
    """
    names = tuple(f.name for f in dataclasses.fields(cls) if only is None or f.name in only)
    converters = [(n, c) for n in names if (c := _plain_converter(hints(cls)[n])) is not None]
    if len(names) == 1:
        single = names[0]
        read: Converter = lambda value: (getattr(value, single),)  # noqa: E731
    else:
        read = attrgetter(*names) if names else lambda _value: ()

    def convert(value: Any) -> dict[str, Any]:  # noqa: ANN401
        plain = dict(zip(names, read(value), strict=True))
        for name, converter in converters:
            plain[name] = converter(plain[name])
        return plain

    return convert


def _plain_converter(hint: Any) -> Converter | None:  # noqa: ANN401
    inner = optional_of(hint)
    if inner is not None:
        nested = _plain_converter(inner)
        return None if nested is None else lambda v: None if v is None else nested(v)
    origin = get_origin(hint)
    if origin is tuple:
        item = _plain_converter(get_args(hint)[0])
        return None if item is None else lambda v: [item(x) for x in v]
    if origin is not None and issubclass(origin, Mapping):
        # Maps are written in the order of their keys, so that equal values are equal bytes.
        return lambda v: {k: v[k] for k in sorted(v)} if v else v
    if dataclasses.is_dataclass(hint):
        return to_plain(hint)  # type: ignore[arg-type]
    return None  # enums of str and int encode as what they are


@cache
def from_plain(cls: type, *, only: tuple[str, ...] | None = None) -> Converter:
    """A function from an Avro reader's dict to an instance; ValueError for an unknown enum value.

    only: the fields that stand in the dict, all where it is None.
    """
    converters = [
        (name, converter)
        for name, hint in hints(cls).items()
        if only is None or name in only
        if (converter := _object_converter(hint)) is not None
    ]

    def convert(plain: dict[str, Any]) -> Any:  # noqa: ANN401
        for name, converter in converters:
            plain[name] = converter(plain[name])
        return cls(**plain)

    return convert


def _object_converter(hint: Any) -> Converter | None:  # noqa: ANN401
    inner = optional_of(hint)
    if inner is not None:
        nested = _object_converter(inner)
        return None if nested is None else lambda v: None if v is None else nested(v)
    origin = get_origin(hint)
    if origin is tuple:
        item = _object_converter(get_args(hint)[0])
        return tuple if item is None else lambda v: tuple([item(x) for x in v])
    if origin is not None and issubclass(origin, Mapping):
        return None
    if dataclasses.is_dataclass(hint):
        return from_plain(hint)  # type: ignore[arg-type]
    return hint if issubclass(hint, Enum) else None
