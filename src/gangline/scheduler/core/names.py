"""Which names may stand in the log."""

from __future__ import annotations

from gangline.events.spec import MAX_NAME_CHARACTERS


def is_name(text: str) -> bool:
    """1 to 128 printable characters without spaces."""
    return (
        0 < len(text) <= MAX_NAME_CHARACTERS
        and text.isprintable()
        and not any(character.isspace() for character in text)
    )
