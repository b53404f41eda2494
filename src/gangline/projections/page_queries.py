"""What the page alone reads from the views: beside what every client may list (`queries.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.events.log import Position
from gangline.events.named_sql import load_sql
from gangline.projections.queries import QueryError, Row, Views

if TYPE_CHECKING:
    from collections.abc import Sequence

_SQL: Final = load_sql("gangline.projections", "page.sql")
_MOST_OFFSET: Final = 2**62
_MOST_ITEM: Final = 2**31 - 1


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

    def job_list(self, *, after: str, limit: int, **filters: object) -> Sequence[Row]:
        """Jobs, newest first, after a key; states, team, text."""
        moment, _, job = after.partition(":")
        if after and not moment.isdecimal():
            raise QueryError(f"no row has the key {after[:200]!r}; pass the `key` of the last row")
        wanted = dict.fromkeys(("states", "team", "text")) | filters
        after_ms = int(moment) if after else None
        return self.page("jobs", after_ms=after_ms, after_job=job, limit=limit, **wanted)


def _before(key: str) -> tuple[int, int]:
    """Offset and item before which decisions are wanted."""
    if not key:
        return _MOST_OFFSET, 0
    text, _, item = key.partition(".")
    try:
        offset = Position.parse(text).offset
    except ValueError as error:
        raise QueryError(str(error)) from error
    return offset, int(item) if item.isdecimal() else _MOST_ITEM
