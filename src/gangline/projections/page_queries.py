"""What the page alone reads from the views: beside what every client may list (`queries.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gangline.events.log import Position
from gangline.events.named_sql import load_sql
from gangline.projections.queries import QueryError, Row, Views, is_counted, no_such_key

if TYPE_CHECKING:
    from collections.abc import Sequence

_SQL: Final = load_sql("gangline.projections", "page.sql")
_MOST_OFFSET: Final = 2**62
_MOST_ITEM: Final = 2**31 - 1
_NEAR: Final = 10_000
_PATTERNS: Final = 4
_IN_THE_INDEX: Final = re.compile(r"[^\W_]{3}|[^\W_]{2}[\W_]|[\W_][^\W_]")
"""What of a part of a name the index by three letters can look up."""


class PageViews(Views):
    """The views of a cell with the page's own questions. Times are milliseconds since the epoch."""

    def page(self, question: str, **parameters: Any) -> Sequence[Row]:  # noqa: ANN401
        """Rows of one of the statements of `page.sql`, by its name without `page_`."""
        return self.ask(_SQL[f"page_{question}"], **parameters)

    def feed(
        self, *, before: str, limit: int, at_ms: int | None = None, **filters: object
    ) -> Sequence[Row]:
        """Decisions, newest first, before a key ('': from the newest); kinds, job, node, team."""
        offset, item = _before(before)
        wanted = dict.fromkeys(("kinds", "job", "node", "team")) | filters
        return self.page(
            "feed", at_ms=at_ms, before_offset=offset, before_item=item, limit=limit, **wanted
        )

    def job_list(
        self, *, after: str, limit: int, text: str | None = None, **filters: object
    ) -> Sequence[Row]:
        """Jobs, newest first, after a key; states, team. text: a part of the name, in any case.

        One or two letters are looked for where a word begins, signs only among the newest jobs.
        """
        moment, _, job = after.partition(":")
        if after and not is_counted(moment):
            raise no_such_key("after", after)
        wanted = dict.fromkeys(("states", "team")) | filters
        wanted |= {"after_ms": int(moment) if after else None, "after_job": job, "limit": limit}
        names = self._names(text, **wanted) if text else None
        return [] if names == [] else self.page("jobs", names=names, **wanted)

    def _names(self, text: str, **wanted: Any) -> list[str]:  # noqa: ANN401
        """The newest jobs with a text in their names, as many as are wanted."""
        parts = {f"like_{index}": part for index, part in enumerate(_patterns(text))}
        found = self.page("names_near", near=_NEAR, **parts, **wanted)
        if len(found) < wanted["limit"] and any(map(str.isalnum, text)):
            found = self.page("names", **parts, **wanted)
        return [row["job"] for row in found]


def _patterns(text: str) -> list[str]:
    """What a name is like that contains a text, four times.

    The index knows three letters in a row, and where a word begins.
    """
    part = re.sub(r"([\\%_])", r"\\\1", text)
    if _IN_THE_INDEX.search(text) or not text[0].isalnum():
        return [f"%{part}%"] * _PATTERNS
    return [f"{part}%", f"%-{part}%", f"%.{part}%", rf"%\_{part}%"]


def _before(key: str) -> tuple[int, int]:
    """Offset and item before which decisions are wanted."""
    if not key:
        return _MOST_OFFSET, 0
    text, _, item = key.partition(".")
    try:
        offset = Position.parse(text).offset
    except ValueError as error:
        raise QueryError(f"before: {error}") from error
    return min(offset, _MOST_OFFSET), min(int(item), _MOST_ITEM) if is_counted(item) else _MOST_ITEM
