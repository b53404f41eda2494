"""The views `quota_ledger` and `utilization`: where every GPU-millisecond went."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections import books
from gangline.projections.ledger_fold import Account, Entry, Ledger
from gangline.projections.remembering import RememberingModel
from gangline.projections.work import Unknown, Work, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(slots=True, kw_only=True)
class OpenRow:
    """The columns of the table `ledger_open`."""

    cell: str
    team: str
    account: str
    counterparty: str
    gpus: int
    since_ms: int


@dataclass(slots=True, kw_only=True)
class UsageRow:
    """The columns of the table `usage_bucket`."""

    cell: str
    bucket_ms: int
    account: str
    gpu_ms: int


class QuotaLedger(RememberingModel[Ledger]):
    """The read model of `quota_ledger` and `utilization`."""

    name = "quota_ledger"
    tables = ("ledger_entry", "ledger_open", "usage_bucket")
    unknown = Unknown.STOP
    kinds = (*books.FOLDS, d.CheckpointRecorded)
    sql = load_sql("gangline.projections", "ledger.sql")

    def restore(self, work: Work, records: Mapping[str, Any]) -> Ledger:
        """The ledger as it was saved."""
        ledger = Ledger()
        if records:
            found = work.connection.execute(self.sql["load_open"], {"cell": work.cell})
            still_open = {Account(*row[:3]): (row[3], row[4]) for row in found}
            ledger.restore(records, still_open)
        return ledger

    def fold(self, work: Work, state: Ledger) -> None:
        """Enter a run of steps."""
        before = dict(state.meter.open)
        for item, decision in work.decisions(self):
            state.apply(decision, item.at_ms)
        state.advance(work.now_ms)
        entries, usage = state.take()
        work.make_parts("ledger_entry", (entry.to_ms for entry in entries))
        work.copy("append", _entry_rows(work.cell, entries))
        self._write_open(work, before, state.meter.open)
        rows = [
            UsageRow(cell=work.cell, bucket_ms=bucket, account=account, gpu_ms=gpu_ms)
            for (bucket, account), gpu_ms in sorted(usage.items())
            if gpu_ms
        ]
        work.write("add_usage", rows)

    def _write_open(
        self,
        work: Work,
        before: Mapping[Account, tuple[int, int]],
        after: Mapping[Account, tuple[int, int]],
    ) -> None:
        gone = [_open_row(work.cell, key, before[key]) for key in before if key not in after]
        new = [
            _open_row(work.cell, key, level)
            for key, level in after.items()
            if before.get(key) != level
        ]
        work.write("clear_open", gone)
        work.write("write_open", new)


def _open_row(cell: str, key: Account, level: tuple[int, int]) -> OpenRow:
    return OpenRow(
        cell=cell,
        team=key.team,
        account=key.account,
        counterparty=key.counterparty,
        gpus=level[0],
        since_ms=level[1],
    )


def _entry_rows(cell: str, entries: Iterable[Entry]) -> Iterable[tuple[object, ...]]:
    for from_ms, to_ms, key, gpu_ms, entered_ms in entries:
        yield (cell, from_ms, to_ms, *_stored(key), gpu_ms, entered_ms)


@lru_cache(maxsize=10_000)
def _stored(key: Account) -> tuple[str, ...]:
    """An account as the tables hold it."""
    return tuple(map(storable, key))
