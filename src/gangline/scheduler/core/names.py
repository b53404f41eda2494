"""Which names may stand in the log, and how numbers are said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangline.events.spec import MAX_NAME_CHARACTERS

MOST_NAMED: Final = 3
UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def is_name(text: str) -> bool:
    """1 to 128 printable characters without spaces."""
    return (
        0 < len(text) <= MAX_NAME_CHARACTERS
        and text.isprintable()
        and not any(character.isspace() for character in text)
    )


def gpus_in_words(count: int, model: str = "") -> str:
    """`1 GPU`, `8 GPUs`, `8 GPUs of h100`."""
    words = f"{count} GPU" if count == 1 else f"{count} GPUs"
    return f"{words} of {model}" if model else words


def are(count: int) -> str:
    """`1 is`, `8 are`."""
    return f"{count} is" if count == 1 else f"{count} are"


def has_or_have(count: int) -> str:
    """`has` for one, `have` for several."""
    return "has" if count == 1 else "have"


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    shown = ", ".join(names[:MOST_NAMED])
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def duration_in_words(ms: int) -> str:
    """`1h50m`, `30s`."""
    words = ""
    for unit, size in UNITS:
        count, ms = divmod(ms, size)
        words += f"{count}{unit}" if count else ""
    return words or "0s"


def place_in_words(level: str, path: Sequence[str]) -> str:
    """`block s0/b1`: a domain or a node, by the names from the outermost down to its own."""
    return f"{level} {'/'.join(path)}"
