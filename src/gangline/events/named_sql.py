"""SQL stands in `.sql` files beside the module that runs it, each statement under a name.

A statement begins after a line `-- name: words_like_this` and goes on to the next such line.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(rb"^-- name: ([a-z0-9_]+)[^\S\n]*\n", re.MULTILINE)


def load_sql(package: str, file: str) -> Mapping[str, bytes]:
    """The statements of a file by name; bytes, as psycopg takes SQL that is no literal."""
    return parse_sql(resources.files(package).joinpath(file).read_bytes())


def parse_sql(text: bytes) -> Mapping[str, bytes]:
    """Statements by name; `ValueError` for a name that is used twice."""
    parts = _NAME.split(text)
    names = [name.decode() for name in parts[1::2]]
    if len(set(names)) < len(names):
        raise ValueError(f"a statement's name is used twice: {sorted(names)}")
    return dict(zip(names, (part.strip() for part in parts[2::2]), strict=True))
