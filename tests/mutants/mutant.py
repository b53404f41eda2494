"""What a mutant is, and how it gets into a running program and out again.

A mutant names the function whose behaviour it breaks, never a line of it. Wherever that function
was imported, or stands in a table of handlers, the broken one takes its place. A mutant whose
function is gone says so: whoever renames a function looks here too.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class GoneError(Exception):
    """What a mutant breaks does not exist any more; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A wrong patch. says: in a sentence, what goes wrong. breaks: how."""

    name: str
    room: str
    says: str
    breaks: Callable[[Patch], None]


class Patch:
    """Puts broken things in place of right ones, and remembers how to undo that."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Give an attribute another value; returns the right one."""
        if not hasattr(owner, name):
            raise GoneError(f"{getattr(owner, '__name__', owner)} has no {name}")
        right = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, right))
        setattr(owner, name, value)
        return right

    def around(self, path: str, broken: Callable[..., Any]) -> None:
        """Break a function or method. path: `module:name` or `module:Class.name`.

        broken: called with the right function and then its arguments.
        """
        module, _, name = path.partition(":")
        owner = module_of(module)
        *classes, last = name.split(".")
        for each in classes:
            owner = _member(owner, each)
        right = _member(owner, last)

        @wraps(right)
        def instead(*args: Any, **more: Any) -> Any:
            return broken(right, *args, **more)

        if classes:
            self.set(owner, last, instead)
        else:
            self._everywhere(right, instead)

    def _everywhere(self, right: Any, broken: Any) -> None:
        """Wherever the function was imported, or stands in a table."""
        for name, module in list(sys.modules.items()):
            if not name.startswith("gangline") or module is None:
                continue
            for attribute, value in list(vars(module).items()):
                if value is right:
                    self.set(module, attribute, broken)
                elif isinstance(value, dict) and not attribute.startswith("__"):
                    self._in_table(value, right, broken)

    def _in_table(self, table: dict[Any, Any], right: Any, broken: Any) -> None:
        for key, value in list(table.items()):
            if value is right:
                self._undo.append(partial(table.__setitem__, key, right))
                table[key] = broken
            elif isinstance(value, dict):
                self._in_table(value, right, broken)

    def undo(self) -> None:
        """Everything is right again."""
        while self._undo:
            self._undo.pop()()


def module_of(name: str) -> Any:
    """A module, even where its package has a function of the same name."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise GoneError(str(error)) from error
    return sys.modules[name]


def _member(owner: Any, name: str) -> Any:
    if not hasattr(owner, name):
        raise GoneError(f"{getattr(owner, '__name__', owner)} has no {name}")
    return getattr(owner, name)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The program is wrong inside."""
    patch = Patch()
    try:
        mutant.breaks(patch)
        yield
    finally:
        patch.undo()


def instead(path: str, broken: Callable[..., Any]) -> Callable[[Patch], None]:
    """Another function in place of one; see `Patch.around`."""
    return lambda patch: patch.around(path, broken)


def answering(path: str, answer: Any) -> Callable[[Patch], None]:
    """A function that always gives the same answer."""
    return instead(path, lambda *_args, **_more: answer)


def silenced(path: str) -> Callable[[Patch], None]:
    """A function that does nothing any more."""
    return answering(path, None)
