"""Rule 3: the ledger's rows add up to capacity x time, and its loans are what the core says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gangline.projections.ledger_fold import LOANS, Ledger
from gangline.projections.lending import lent
from gangline.replay.broken_rule import BrokenRuleError, Rule

if TYPE_CHECKING:
    from gangline.events.decisions import Decision
    from gangline.replay.model import Model
    from gangline.replay.world import World


class LedgerCheck:
    """The views' own ledger, kept beside the run.

    capacity_gpu_ms: GPUs of the fleet over time, by the decisions. entered: GPU-milliseconds of all
    rows so far; by_account: the same, for each account.
    """

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._capacity = 0
        self._capacity_gpu_ms = 0
        self._since_ms = 0
        self._entered = 0
        self._by_account: Counter[tuple[str, str]] = Counter()

    def enter(self, decision: Decision, now_ms: int) -> None:
        """A decision was made."""
        self._ledger.apply(decision, now_ms)

    def check(self, model: Model, world: World) -> None:
        """All rows add up, none is negative, and loans are as the core says."""
        self.balance(model, world.now_ms)
        self._check_loans(model, world)

    def balance(self, model: Model, now_ms: int) -> None:
        """All rows add up, and none is negative."""
        self._capacity_gpu_ms += self._capacity * (now_ms - self._since_ms)
        self._since_ms = now_ms
        self._capacity = sum(node.gpus for node in model.nodes.values())
        self._take(now_ms)
        if self._entered != self._capacity_gpu_ms:
            raise BrokenRuleError(
                Rule.SUMS,
                f"rows of {self._entered} GPU-ms, a fleet of {self._capacity_gpu_ms} GPU-ms",
            )

    def _take(self, now_ms: int) -> None:
        """Take the rows of the time up to now."""
        self._ledger.advance(now_ms)
        self._ledger.meter.cut(now_ms)
        entries, _ = self._ledger.take()
        for entry in entries:
            self._entered += entry.gpu_ms
            self._by_account[entry.key.team, entry.key.account] += entry.gpu_ms
        for (team, account), gpu_ms in self._by_account.items():
            if gpu_ms < 0 and account not in LOANS:
                raise BrokenRuleError(Rule.SUMS, f"{account} of {team} at {gpu_ms} GPU-ms")

    def _check_loans(self, model: Model, world: World) -> None:
        books = self._ledger.books
        lends = lent(books.tree(), books.uses, books.capacity)
        for name in model.teams:
            said = world.core.team_numbers(world.state, name).lent
            if said != lends[name]:
                raise BrokenRuleError(
                    Rule.LIMITS, f"{name} lent={said}, by the ledger {lends[name]}"
                )
