"""What is said when a file or an option cannot be used."""

from __future__ import annotations


class BadInputError(Exception):
    """An input cannot be used: the message is one line, `WHERE: expected …, got …`."""

    def __init__(self, where: object, message: str) -> None:
        super().__init__(f"{where}: {message}")
