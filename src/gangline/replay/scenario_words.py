"""The words of one command, and the names that a scenario file has made so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gangline.replay.bad_input import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


def split_words(content: str) -> list[str]:
    """The words of a line up to its comment, which a word that begins with `#` starts."""
    words = content.split()
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]


@dataclass(slots=True)
class Names:
    """What the file has made so far. arrays: tasks by the array's name."""

    nodes: dict[str, int] = field(default_factory=dict)
    spines: int = 0
    teams: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    arrays: dict[str, int] = field(default_factory=dict)


class Words:
    """The words of one command, taken from the left; every complaint names file and line."""

    def __init__(self, words: Sequence[str], *, where: str, line: int) -> None:
        self._left = list(words)
        self.where = where
        self.line = line

    def wrong(self, expected: str, got: object, *, key: str = "") -> BadInputError:
        """The complaint about a value."""
        shown = f"{key}: " if key else ""
        return BadInputError(self.where, f"{shown}expected {expected}, got {got}")

    def next(self, expected: str) -> str:
        """The next word."""
        if not self._left:
            raise self.wrong(expected, "the end of the line")
        return self._left.pop(0)

    def take(self, expected: str, read: Callable[[str], Any]) -> Any:  # noqa: ANN401
        """The next word, as its reader gives it."""
        word = self.next(expected)
        try:
            return read(word)
        except ValueError as error:
            raise self.wrong(f"{expected}: {error}", repr(word)) from error

    def rest(self) -> list[str]:
        """All words that are left."""
        left, self._left = self._left, []
        return left

    def end(self) -> None:
        """Nothing may be left."""
        if self._left:
            raise self.wrong("the end of the line", repr(self._left[0]))

    def fields(
        self, readers: Mapping[str, Callable[[str], Any]], *, required: Iterable[str] = ()
    ) -> dict[str, Any]:
        """All words that are left, as `key=value`."""
        values: dict[str, Any] = {}
        for word in self.rest():
            key, sign, text = word.partition("=")
            if key not in readers:
                raise self.wrong(f"one of {', '.join(readers)}", repr(key if sign else word))
            if key in values:
                raise self.wrong("it once", "it twice", key=key)
            values[key] = self.value(key, text, readers[key])
        for key in required:
            if key not in values:
                raise self.wrong(f"{key}=…", "nothing", key=key)
        return values

    def value(self, key: str, text: str, read: Callable[[str], Any]) -> Any:  # noqa: ANN401
        """One value, as its reader gives it."""
        try:
            return read(text)
        except ValueError as error:
            raise self.wrong(str(error), repr(text), key=key) from error
