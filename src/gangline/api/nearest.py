"""The nearest valid name, for whoever mistyped one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the most similar known name, or nothing.

    Before it goes the same word in other capitals, then the first that begins with the whole word:
    who submits with `--name hello` asks for `hello`.
    """
    names = list(known)
    same = [name for name in names if name.casefold() == word.casefold()]
    longer = [name for name in names if word and name.startswith(f"{word}-")]
    close = same or longer or difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
