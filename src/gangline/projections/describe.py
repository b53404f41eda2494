"""The views as the database itself describes them, in Markdown: what `docs/views.md` holds.

    python -m gangline.projections.describe DSN > docs/views.md

Comments stand in the migrations, so that the database, the page and the code cannot say different
things.
"""

from __future__ import annotations

import sys
from typing import Final

import psycopg

from gangline.events.named_sql import load_sql
from gangline.projections.migrations import migrate

_SQL: Final = load_sql("gangline.projections", "describe.sql")
_HEAD: Final = """\
# Views

Everything below is derived from the log, and can be derived again: `gangline views rebuild` builds
the rows anew beside the live ones and swaps them in, while readers and the projector go on. Rows
and position of a view move in one database transaction, a whole step of the scheduler at a time.

- **How fresh?** `projection` says for each view its `position`, its lag in events and seconds, when
  a projector last looked, and what stops it. A record that one view cannot take stops that view
  only.
- **Read your writes.** What was appended at `jobs-0-17` is in a view when its `inputs` say
  `{"jobs-0": 17}` or more; the API waits for that with `min_position=`.
- **A newer scheduler.** A decision of a kind that the projector does not know is left out and
  counted (`skipped`) where it cannot make other rows wrong; `quota_ledger`, `utilization`, `teams`
  and `fairness` stand still instead, until the projector is updated.
- **The ledger balances.** All rows of `quota_ledger` add up to capacity x time at every position,
  in GPU-milliseconds, without rounding. Work is `unsaved` until a checkpoint, the job's success or
  a loss moves it: two rows that cancel. A loan is two rows that cancel, too: the lender's `lent`
  and, negative, the borrower's `borrowed`; so a team's rows add up to its guarantee (less its
  children's), as long as what is idle on paper is there.
- **Times** are the scheduler's (`now_ms` of the decisions), in UTC. Schema `report` holds stable
  views for analysts (`docs/analysts.md`). This page is made from the comments in the database
  (`python -m gangline.projections.describe`).
"""


def describe(connection: psycopg.Connection[tuple[str, ...]]) -> str:
    """The page on all views of both schemas."""
    parts = [_HEAD]
    for schema in ("gangline", "report"):
        parts.append(f"## Schema `{schema}`\n")
        columns = connection.execute(_SQL["columns"], {"schema": schema}).fetchall()
        for view, comment in connection.execute(_SQL["views"], {"schema": schema}).fetchall():
            parts.append(f"### `{schema}.{view}`\n\n{comment}.\n")
            rows = [
                f"| `{name}` | {kind} | {meaning} |"
                for owner, name, kind, meaning in columns
                if owner == view
            ]
            parts.append("\n".join(["| column | type | meaning |", "| --- | --- | --- |", *rows]))
            parts.append("")
    return "\n".join(parts)


def main() -> None:
    """Print the page for the database that the first argument names."""
    (dsn,) = sys.argv[1:]
    migrate(dsn)
    with psycopg.connect(dsn) as connection:
        sys.stdout.write(describe(connection))


if __name__ == "__main__":
    main()
