"""The nearest valid name, for whoever mistyped one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the most similar known name, or nothing.

    The first that begins with the whole word goes before: who submits with `--name hello` asks
    for `hello`.
    """
    names = list(known)
    longer = [name for name in names if word and name.startswith(f"{word}-")]
    close = longer or difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
