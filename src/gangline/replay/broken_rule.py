"""The rules that always hold, by name, and the error that says one does not."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """The rules, as they are named when one is broken."""

    ONE_HOLDER = "rule 1: no GPU is held by two gangs"
    WHOLE_GANGS = "rule 2: a gang holds all its GPUs or none"
    SUMS = "rule 3: all GPUs are accounted for at all times"
    LIMITS = "rule 4: use is never negative and never beyond its limits"
    TERMINAL = "rule 5: a job that has ended stays as it ended"
    REPLAY = "rule 6: the replayed state is the live state"
    LOST_WORK = "rule 7: a fault loses at most one checkpoint interval"
    NOT_IN_VAIN = "rule 8: no eviction without a start"
    ONE_CAUSE = "rule 9: each pending millisecond has one cause"
    CERTIFICATE = "what a decision says of itself is so"
    CHAIN = "each record follows the one before it"


class BrokenRuleError(AssertionError):
    """A rule is broken; the message says which, and by what."""

    def __init__(self, rule: Rule, found: str) -> None:
        super().__init__(f"expected {rule}, got {found}")
        self.rule = rule
        self.found = found
