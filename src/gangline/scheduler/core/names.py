"""Which names may stand in the log, and how numbers are said."""

from __future__ import annotations

from gangline.events.spec import MAX_NAME_CHARACTERS


def is_name(text: str) -> bool:
    """1 to 128 printable characters without spaces."""
    return (
        0 < len(text) <= MAX_NAME_CHARACTERS
        and text.isprintable()
        and not any(character.isspace() for character in text)
    )


def gpus_in_words(count: int) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def are(count: int) -> str:
    """`1 is`, `8 are`."""
    return f"{count} is" if count == 1 else f"{count} are"
