"""Instances of the vocabulary's classes, built from their type hints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from hypothesis import strategies as st

from gangline.events.avro import hints, optional_of

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that the vocabulary uses."""
    inner = optional_of(hint)
    if inner is not None:
        return st.none() | of(inner)
    origin = get_origin(hint)
    if origin is tuple:
        return st.lists(of(get_args(hint)[0]), max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(TEXTS, of(get_args(hint)[1]), max_size=3)
    if dataclasses.is_dataclass(hint):
        return instances(hint)  # type: ignore[arg-type]
    return _plain(hint)


def _plain(hint: type) -> st.SearchStrategy[Any]:
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    known: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: LONGS,
        str: TEXTS,
        bytes: st.binary(max_size=8),
        NoneType: st.none(),
    }
    return known[hint]


def instances(cls: type) -> st.SearchStrategy[Any]:
    """Any instance of a dataclass."""
    return st.builds(cls, **{name: of(hint) for name, hint in hints(cls).items()})
