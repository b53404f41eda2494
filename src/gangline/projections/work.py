"""What all read models share: their shape, the run of steps they are given, and how rows move.

A read model is a fold of decisions. Each run of steps is one call of `apply` in one database
transaction, which also moves the view's position: load the rows that the run touches, fold in
memory, write them back. What is written is gathered in its `Work` first, so that one view's rows
are on their way while the next view folds (`runs.py`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import orjson
import psycopg
from psycopg.rows import class_row

from gangline.events import codec
from gangline.events.avro import to_plain
from gangline.events.named_sql import load_sql
from gangline.events.spec import Spec
from gangline.projections.steps import Item, Step, Steps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from gangline.events.decisions import Decision

R = TypeVar("R")

PARTS: Final[Mapping[str, int]] = {"decision": 1_000_000, "ledger_entry": 30 * 86_400_000}
"""How much of its column is in one part of a table: offsets, or milliseconds."""
_MAKE_PARTS: Final = load_sql("gangline.projections", "parts.sql")["make_parts"]

REPLACEMENT: Final = "\ufffd"
"""What stands where a NUL was."""
# An odd number of backslashes: an even one is backslashes of the text's own.
_ESCAPED_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class Unknown(StrEnum):
    """What a view does at a decision of a kind or version that this program does not know.

    SKIP: leaves it out and counts it; what the view says of other things stays true. STOP: stands
    still until a newer program comes; its numbers would be wrong.
    """

    SKIP = "skip"
    STOP = "stop"


class UnknownDecisionError(Exception):
    """A decision of a newer program, in a view that may not leave any out."""


class ReadModel(ABC):
    """One view, or several that move together.

    tables: all that it writes, besides its position. kinds: the decisions that change it; others
    are not even decoded. sql: the statements of its `.sql` file.
    """

    name: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    unknown: ClassVar[Unknown]
    kinds: ClassVar[Collection[type]]
    sql: ClassVar[Mapping[str, bytes]]

    @abstractmethod
    def apply(self, work: Work) -> Iterator[None]:
        """Fold the steps of `work` into the tables; whatever it raises stops this view only.

        Loads all it needs, yields once, and asks nothing of the database from there on.
        """


@dataclass(slots=True, kw_only=True)
class Work:
    """A run of steps for one view, in an open transaction.

    next_offset, generation: where the view stood before. at: the item being folded, for messages.
    skipped: items left out. writes: what is to be done to the tables, in order.
    """

    connection: psycopg.Connection[Any]
    cell: str
    sql: Mapping[str, bytes]
    todo: Steps
    next_offset: int
    generation: int = 0
    at: Item | None = None
    skipped: list[Item] = field(default_factory=list)
    writes: list[Callable[[], object]] = field(default_factory=list)

    @property
    def now_ms(self) -> int:
        """The scheduler's time at the end of the run."""
        return self.last.now_ms

    @property
    def last(self) -> Step:
        """The last step of the run."""
        return self.todo.steps[-1]

    def decisions(self, model: ReadModel) -> Iterator[tuple[Item, Decision]]:
        """The decisions that change a view, in order; unknown ones by the view's rule."""
        items, kinds = self.todo.items, self.todo.kinds
        strange = kinds - codec.CLASSES.keys()
        wanted = {kind.__name__ for kind in model.kinds} | strange
        # Most views want few of them: what is asked of each of all comes before anything else.
        if not kinds <= wanted:
            items = [item for item in items if item.kind in wanted]
        for item in items:
            self.at = item
            decision = None if item.kind in strange else item.decision()
            if decision is None:
                self._meet_unknown(model, item)
            else:
                yield item, decision
        self.at = None

    def _meet_unknown(self, model: ReadModel, item: Item) -> None:
        if model.unknown is Unknown.STOP:
            message = f"a {item.kind} of a newer program; update this one"
            raise UnknownDecisionError(message)
        self.skipped.append(item)

    def load(self, statement: str, row: type[R], **parameters: object) -> list[R]:
        """The rows that a statement of the view's `.sql` file finds."""
        with self.connection.cursor(row_factory=class_row(row)) as cursor:
            cursor.execute(self.sql[statement], {"cell": self.cell, **parameters})
            return cursor.fetchall()

    def write(self, statement: str, rows: Sequence[Any]) -> None:
        """Give rows to a statement as one JSON array, `%(rows)s`; none, none."""
        if rows:
            self.run(statement, rows=as_json(rows))

    def run(self, statement: str, **parameters: object) -> None:
        """Run a statement of the view's `.sql` file."""
        self.run_text(self.sql[statement], **parameters)

    def run_text(self, text: bytes, **parameters: object) -> None:
        """Run a statement of one of our `.sql` files."""
        parameters["cell"] = self.cell
        self.writes.append(lambda: self.connection.execute(text, parameters))

    def flush(self) -> None:
        """Do to the tables what was gathered."""
        for write in self.writes:
            write()

    def make_parts(self, table: str, places: Iterable[int]) -> None:
        """See that a table kept in parts has those in which these places lie."""
        self.run_text(_MAKE_PARTS, **parts_of(table, places))

    def copy(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Append rows by COPY. Their texts are `storable`."""
        made = list(rows)
        self.writes.append(lambda: self._copy(self.sql[statement], made))

    def _copy(self, statement: bytes, rows: Iterable[Sequence[Any]]) -> None:
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


def parts_of(table: str, places: Iterable[int]) -> dict[str, Any]:
    """The parameters of `make_parts`."""
    size = PARTS[table]
    numbers = sorted({place // size for place in places})
    return {"parent": table, "size": size, "numbers": numbers}


def storable(text: str) -> str:
    """A text, or JSON as text, without NUL, which Postgres cannot hold, in clear or escaped.

    Whoever may write to the log may put one into a label or a path; no view stands still for that.
    """
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    return _ESCAPED_NUL.sub(rf"\1{REPLACEMENT}", text) if "\\u0000" in text else text


def as_json(value: object) -> str:
    """A value as JSON that Postgres can hold: dataclasses as objects, bytes in hexadecimal."""
    return storable(orjson.dumps(value, default=_hexadecimal).decode())


def _hexadecimal(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def touched(decisions: Iterable[tuple[Item, Decision]], attribute: str) -> list[str]:
    """The names that decisions give as `job` (and `jobs`) or `node`, once each."""
    found: dict[str, None] = {}
    for _, decision in decisions:
        name = getattr(decision, attribute, None)
        if name is not None:
            found[name] = None
        elif attribute == "job":
            found.update(dict.fromkeys(getattr(decision, "jobs", ())))
    return list(found)


def public_spec(spec: Spec) -> dict[str, Any]:
    """What everybody may read of a spec."""
    found: dict[str, Any] = to_plain(Spec)(spec)
    del found["private"]
    return found
