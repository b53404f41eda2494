"""The ledger: where every GPU-millisecond went, by team and account. Pure accounting, no SQL.

Two kinds of entries, and all entries of any time add up to capacity x time:

- *spans*: so many GPUs stood in an account for so long. Of gangs: `starting`, `unsaved` while they
  run, and `stopping`; beside them `unhealthy`, `drained`, `lingering`, `reserved`, `stranded` and
  `idle_lendable`. Loans are pairs of spans: the lender's `lent` and, negative, the borrower's
  `borrowed`.
- *transfers*, in pairs that cancel: from `unsaved` (and `stopping`, whose work may be kept too) to
  `productive` when a checkpoint or the end keeps work, to `lost` when a release says so, to
  `checkpointing` or `stalled` for what was neither.

So the rows of one team add up to what it is guaranteed (less its children's part), as long as what
is idle on paper is there: what it used, and what it lent, and what lay idle, less what it borrowed.
Rows without a team belong to the fleet: what nobody is guaranteed, and what is out of service.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.events import decisions as d
from gangline.projections import records as r
from gangline.projections.books import Books, BooksError
from gangline.projections.lending import FLEET, Lending, lend
from gangline.projections.meter import Meter, bucket_of, spread

if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCTIVE: Final = "productive"
UNSAVED: Final = "unsaved"
LOST: Final = "lost"
CHECKPOINTING: Final = "checkpointing"
STALLED: Final = "stalled"
STOPPING: Final = "stopping"
RESERVED: Final = "reserved"
STRANDED: Final = "stranded"
IDLE: Final = "idle_lendable"
LENT: Final = "lent"
BORROWED: Final = "borrowed"

LOANS: Final = (LENT, BORROWED)
_ACCOUNT_OF: Final = {r.STARTING: "starting", r.RUNNING: UNSAVED, r.STOPPING: STOPPING}
_ORDERLY: Final = (
    d.StopCause.PREEMPTED,
    d.StopCause.DRAINED,
    d.StopCause.MAINTENANCE,
    d.StopCause.CANCELLED,
    d.StopCause.LIMIT,
)
"""Ends in which a gang had its grace to save."""


class Account(NamedTuple):
    """A team's account. counterparty: of a loan, the other side."""

    team: str
    account: str
    counterparty: str = ""


class Entry(NamedTuple):
    """GPU-milliseconds of an account over an interval. entered_ms: when it was entered."""

    from_ms: int
    to_ms: int
    key: Account
    gpu_ms: int
    entered_ms: int


@dataclass(slots=True, kw_only=True)
class WorkBook:
    """What a gang's time has come to. unsaved, stopping: GPU-milliseconds not yet moved on.

    gpus: of the whole gang. saved_ms: productive time that is kept. from_ms: since when work is
    unsaved. counted_ms: up to when time is counted. rest: what a gang that ended by itself left,
    until its job ends.
    """

    team: str
    gpus: int
    saves: bool
    counted_ms: int
    from_ms: int
    phase: str = r.STARTING
    saved_ms: int = 0
    unsaved: int = 0
    stopping: int = 0
    rest: bool = False


class Ledger:
    """The fold: give it decisions in order, let time pass, and take the entries."""

    def __init__(self) -> None:
        self.books = Books()
        self.meter: Meter[Account, int] = Meter()
        self.usage: Meter[str, int] = Meter()
        self.now_ms = 0
        self._works: dict[str, WorkBook] = {}
        self._changed_works: dict[str, None] = {}
        self._transfers: list[Entry] = []
        self._usage_moved: dict[tuple[int, str], int] = {}
        self._levels_version = -1
        self._lending = Lending()
        self._loans: dict[Account, int] = {}
        self._lending_version = -1

    # --- time and decisions --------------------------------------------------------------------

    def advance(self, at_ms: int) -> None:
        """Let time pass; it never goes back."""
        if at_ms < self.now_ms:
            raise BooksError(f"time goes back from {self.now_ms} to {at_ms}")
        self._set_levels()
        if self.now_ms:
            self.meter.advance(self.now_ms, at_ms)
            self.usage.advance(self.now_ms, at_ms)
        self.now_ms = at_ms

    def apply(self, decision: d.Decision, at_ms: int) -> None:
        """Enter what a decision means. BooksError when it contradicts the ones before it."""
        if at_ms != self.now_ms:
            self.advance(at_ms)
        self._before(decision)
        self.books.apply(decision)
        self._after(decision)

    def _set_levels(self) -> None:
        """From now on the levels are as the books say."""
        if self._levels_version == self.books.levels_version:
            return
        self._levels_version = self.books.levels_version
        if self._lending_version != self.books.uses_version:
            self._lending = lending_of(self.books)
            self._loans = loans_of(self._lending)
            self._lending_version = self.books.uses_version
        levels = levels_of(self.books, self._lending, self._loans)
        usage: dict[str, int] = {}
        for key, gpus in levels.items():
            account = key.account
            if account not in LOANS:
                usage[account] = usage.get(account, 0) + gpus
        self.meter.set(levels, self.now_ms)
        self.usage.set(usage, self.now_ms)

    # --- what comes out ------------------------------------------------------------------------

    def take(self) -> tuple[list[Entry], dict[tuple[int, str], int]]:
        """Entries, and GPU-milliseconds to add by five minutes and account, since the last call."""
        self._set_levels()
        self.usage.cut(self.now_ms)
        entries = self._transfers
        self._transfers = []
        for span in self.meter.take():
            gpu_ms = span.level * (span.to_ms - span.from_ms)
            entries.append(Entry(span.from_ms, span.to_ms, span.key, gpu_ms, span.to_ms))
        usage, self._usage_moved = self._usage_moved, {}
        for used in self.usage.take():
            place = bucket_of(used.from_ms), used.key
            usage[place] = usage.get(place, 0) + used.level * (used.to_ms - used.from_ms)
        return entries, usage

    def take_changed(self) -> dict[str, Any]:
        """Records to save, as JSON values by key; None for those gone."""
        found = self.books.take_changed()
        for job in self._changed_works:
            work = self._works.get(job)
            found[f"work:{job}"] = None if work is None else r.plain_record(work)
        self._changed_works.clear()
        found["clock:"] = self.now_ms
        return found

    def restore(
        self, records: Mapping[str, Any], still_open: Mapping[Account, tuple[int, int]]
    ) -> None:
        """Put saved records into a new ledger. still_open: GPUs and since when, by account."""
        self.books.restore(records)
        self.now_ms = records.get("clock:", 0)
        for key, value in records.items():
            if key.startswith("work:"):
                self._works[key.removeprefix("work:")] = WorkBook(**value)
        self.meter.open = dict(still_open)
        self._set_levels()

    # --- work: unsaved until it is kept or lost ------------------------------------------------

    def _before(self, decision: d.Decision) -> None:
        """Count a gang's time up to now, before the decision changes what it does."""
        match decision:
            case d.NodeDropped():
                node = self.books.nodes.get(decision.node)
                for job in node.held if node else ():
                    self._count(job)
            case d.CheckpointRecorded():
                self._saved(decision)
            case d.GangReleased():
                self._released(decision)
            case d.JobFinished():
                self._ended(decision)
            case d.GangStarted() | d.GangStartAborted() | d.GangPreempted() | d.GangStopping():
                self._count(decision.job)

    def _after(self, decision: d.Decision) -> None:
        match decision:
            case d.GangPlaced():
                self._placed(decision)
            case d.GangStarted():
                work = self._works.get(decision.job)
                if work is not None:
                    work.phase, work.saved_ms = r.RUNNING, decision.resumed_ms
                    work.from_ms = self.now_ms
            case d.GangStartAborted() | d.GangPreempted() | d.GangStopping():
                work = self._works.get(decision.job)
                if work is not None:
                    work.phase = r.STOPPING

    def _placed(self, decision: d.GangPlaced) -> None:
        job, gang = self.books.jobs[decision.job], self.books.gangs[decision.job]
        self._works[decision.job] = WorkBook(
            team=gang.team,
            gpus=gang.gpus,
            saves=job.saves,
            counted_ms=self.now_ms,
            from_ms=self.now_ms,
        )
        self._changed_works[decision.job] = None

    def _count(self, job: str) -> WorkBook | None:
        """Bring a gang's balances up to now; None when it holds nothing."""
        work, gang = self._works.get(job), self.books.gangs.get(job)
        if work is None or gang is None:
            return None
        gpu_ms = gang.gpus * (self.now_ms - work.counted_ms)
        if work.phase == r.RUNNING:
            work.unsaved += gpu_ms
        elif work.phase == r.STOPPING:
            work.stopping += gpu_ms
        work.counted_ms = self.now_ms
        self._changed_works[job] = None
        return work

    def _saved(self, decision: d.CheckpointRecorded) -> None:
        work = self._count(decision.job)
        if work is not None:
            self._keep(work, decision.productive_ms)
            work.from_ms = self.now_ms

    def _keep(self, work: WorkBook, productive_ms: int) -> None:
        """Work up to this much productive time of the job is kept."""
        gpu_ms = max(0, productive_ms - work.saved_ms) * work.gpus
        work.saved_ms = max(work.saved_ms, productive_ms)
        self._move(work, PRODUCTIVE, gpu_ms)

    def _released(self, decision: d.GangReleased) -> None:
        work = self._count(decision.job)
        if work is None:
            return
        self._keep(work, decision.productive_ms)
        self._move(work, LOST, decision.lost_gpu_ms)
        if decision.cause is d.StopCause.FINISHED:
            work.rest = True
            return
        orderly = work.saves and decision.cause in _ORDERLY
        self._move(work, CHECKPOINTING if orderly else STALLED, work.unsaved)
        self._forget(decision.job)

    def _ended(self, decision: d.JobFinished) -> None:
        """What a gang that ended by itself had not saved is kept if the job succeeded."""
        work = self._works.get(decision.job)
        if work is not None and work.rest:
            kept = decision.outcome is d.Outcome.SUCCEEDED
            self._move(work, PRODUCTIVE if kept else LOST, work.unsaved)
            self._forget(decision.job)

    def _move(self, work: WorkBook, account: str, gpu_ms: int) -> None:
        """Transfer from `unsaved`, then from `stopping`; never more than is there."""
        from_unsaved = min(gpu_ms, work.unsaved)
        from_stopping = min(gpu_ms - from_unsaved, work.stopping)
        work.unsaved -= from_unsaved
        work.stopping -= from_stopping
        self._transfer(work, UNSAVED, account, from_unsaved)
        self._transfer(work, STOPPING, account, from_stopping)

    def _transfer(self, work: WorkBook, source: str, target: str, gpu_ms: int) -> None:
        if not gpu_ms:
            return
        now_ms, moved, team = self.now_ms, self._usage_moved, work.team
        from_ms = min(work.from_ms, now_ms - 1)
        self._transfers += (
            Entry(from_ms, now_ms, _account(team, source), -gpu_ms, now_ms),
            Entry(from_ms, now_ms, _account(team, target), gpu_ms, now_ms),
        )
        for bucket, part in spread(gpu_ms, from_ms, now_ms):
            moved[bucket, source] = moved.get((bucket, source), 0) - part
            moved[bucket, target] = moved.get((bucket, target), 0) + part

    def _forget(self, job: str) -> None:
        del self._works[job]
        self._changed_works[job] = None


def levels_of(books: Books, lending: Lending, loans: Mapping[Account, int]) -> dict[Account, int]:
    """GPUs by account at a moment; they add up to the capacity."""
    levels = dict(loans)
    for (team, phase), gpus in books.held.items():
        if gpus:
            levels[_account(team, _ACCOUNT_OF[phase])] = gpus
    for account, gpus in books.out.items():
        if gpus:
            levels[_account(FLEET, account)] = gpus
    for team, gpus in books.reserved.items():
        if gpus:
            levels[_account(team, RESERVED)] = gpus
    _add_idle(levels, lending, books)
    return levels


@cache
def _account(team: str, account: str) -> Account:
    return Account(team, account)


def lending_of(books: Books) -> Lending:
    """Who uses whose guarantee; a team that was never set up counts as the fleet's own."""
    direct: Counter[str] = Counter()
    for team, gpus in books.uses.items():
        direct[team if team in books.teams else FLEET] += gpus
    return lend(books.tree(), direct, books.capacity)


def loans_of(lending: Lending) -> dict[Account, int]:
    """Both sides of all loans."""
    levels: Counter[Account] = Counter()
    for loan in lending.loans:
        levels[Account(loan.lender, LENT, loan.borrower)] += loan.gpus
        levels[Account(loan.borrower, BORROWED, loan.lender)] -= loan.gpus
    return dict(levels)


def _add_idle(levels: dict[Account, int], lending: Lending, books: Books) -> None:
    """Hand out what is free to whose it is; what no job can use for its shape is stranded."""
    free, stranded = books.free, min(books.free, books.shape_need)
    shares = []
    for team in sorted(lending.idle):
        gpus = min(free, lending.idle[team])
        if gpus and team != FLEET:
            free -= gpus
            shares.append((team, gpus))
    for team, gpus in [(FLEET, free), *shares]:
        part = min(stranded, gpus)
        stranded -= part
        if part:
            levels[_account(team, STRANDED)] = part
        if gpus > part:
            levels[_account(team, IDLE)] = gpus - part
