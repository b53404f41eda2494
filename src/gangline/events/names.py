"""What may be a name where people type it: of a job, a team, a node, a label.

The scheduler's core takes more from the log (any printing characters without spaces); here is what
can also stand in a path, in a table and on a command line.
"""

from __future__ import annotations

import re
from typing import Final

from gangline.events.spec import MAX_NAME_CHARACTERS

_NOT_IN_PATHS: Final = frozenset("/?#%\\\"'<>`,")

# What counts as printing and cannot be seen: joiners, fillers, selectors, an empty Braille cell.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def check_text(value: str) -> str:
    """A short text of printing characters as it came, or `ValueError`."""
    if not value:
        raise ValueError("a name has at least one character")
    if len(value) > MAX_NAME_CHARACTERS:
        raise ValueError(f"a name has at most {MAX_NAME_CHARACTERS} characters, not {len(value)}")
    if not value.isprintable():
        raise ValueError("a name has printing characters only")
    return value


def check_name(value: str) -> str:
    """A name that may stand in a path and in a line of words as it came, or `ValueError`."""
    check_text(value)
    wrong = sorted({c for c in value if c in _NOT_IN_PATHS or c.isspace()})
    if wrong or value.startswith(("-", ".")):
        shown = " ".join("space" if c.isspace() else c for c in wrong) or f"{value[0]} at its start"
        raise ValueError(f"a name has no {shown}")
    if found := _UNSEEN.search(value):
        raise ValueError(f"a name has no character that cannot be seen, like U+{ord(found[0]):04X}")
    return value
