"""Wrong drivers: leadership, reading, committing, clocks, snapshots, the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gangline.events.log import LogError
from tests.mutants.mutant import Mutant, answering, nothing, silenced

if TYPE_CHECKING:
    from tests.mutants.mutant import Patch

SCHEDULER: Final = "gangline.scheduler"


def _one_too_far(right: Any, log: Any, inputs: Any) -> Any:
    ends = log.ends(sorted({each.topic for each in right(log, inputs)}))
    return {each: min(at + 1, ends[each]) for each, at in right(log, inputs).items()}


def _from_the_start(right: Any, log: Any, inputs: Any) -> Any:
    return dict.fromkeys(right(log, inputs), 0)


def _believes_the_wall(_right: Any, *, wall_ms: int, **_more: int) -> int:
    return wall_ms


def _keeps_its_state(right: Any, self: Any, leader: Any, then: Any) -> None:
    leader.is_ahead = False
    right(self, leader, then)


def _no_silence_counted(patch: Patch) -> None:
    patch.around(f"{SCHEDULER}.reducer:HeartbeatReducer.edges", lambda *_args, **_more: ())


def _deadlines_go_on(right: Any, self: Any, edge: Any, now_ms: int) -> None:
    since, heard = self._since_ms, dict(self._heard)
    right(self, edge, now_ms)
    self._since_ms = since
    self._heard.update(heard)


def _is_told_nothing(patch: Patch) -> None:
    patch.around(f"{SCHEDULER}.leader:assignment_messages", lambda *_args, **_more: [])


def _tells_old_news(right: Any, core: Any, state: Any, nodes: Any, **more: Any) -> Any:
    link = more["link"]
    return right(core, state, nodes, **(more | {"link": link._replace(seq=link.seq - 1)}))


def _forgets_what_silenced(right: Any, core: Any, follower: Any) -> Any:
    told, silent = follower.reducer.silent, follower.reducer._silent
    follower.reducer._silent = {}
    try:
        return right(core, follower)
    finally:
        assert told == tuple(silent)
        follower.reducer._silent = silent


def _points_past(right: Any, core: Any, follower: Any) -> Any:
    pointer, chunks = right(core, follower)
    return replace(pointer, next_offset=max(0, pointer.next_offset - 1)), chunks


def _consumed_later(right: Any, core: Any, follower: Any) -> Any:
    pointer, chunks = right(core, follower)
    inputs = tuple(replace(one, last=one.last + 1) for one in pointer.inputs)
    return replace(pointer, inputs=inputs), chunks


def _reads_all_or_says_so(right: Any, self: Any) -> Any:
    unread = right(self)
    return unread if unread is None else []


def _commits_twice(patch: Patch) -> None:
    """After a doubt it writes the same again, instead of reading what became of it."""
    module = "gangline.replay.vopr.bus"

    def again(right: Any, self: Any, messages: Any) -> Any:
        try:
            return right(self, messages)
        except LogError:
            self._ended = ""
            return right(self, messages)

    patch.around(f"{module}:LineWriter.commit", again)


def _drops_one(right: Any, self: Any, records: Any) -> None:
    right(self, [each for each in records if each.offset % 17 != 16])


def _nothing_is_new(right: Any, self: Any) -> None:
    taken = list(self._taken)
    right(self)
    self._taken.extend(taken)


def _lost_is_kept(right: Any, self: Any, decision: Any, now_ms: int) -> None:
    if hasattr(decision, "lost_gpu_ms"):
        decision = replace(decision, lost_gpu_ms=-decision.lost_gpu_ms)
    right(self, decision, now_ms)


MUTANTS: Final = (
    Mutant(
        name="nobody-is-told",
        room="driver",
        says="decisions are written, assignments are not",
        breaks=_is_told_nothing,
    ),
    Mutant(
        name="old-news",
        room="driver",
        says="assignments carry the number of the batch before",
        breaks=lambda patch: patch.around(
            f"{SCHEDULER}.leader:assignment_messages", _tells_old_news
        ),
    ),
    Mutant(
        name="assignments-not-again",
        room="driver",
        says="a new leader does not publish again what a torn commit may have lost",
        breaks=silenced(f"{SCHEDULER}.takeover:_republish"),
    ),
    Mutant(
        name="one-fact-skipped",
        room="driver",
        says="a new leader reads on one fact too far",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.gather:start_cursors", _one_too_far),
    ),
    Mutant(
        name="all-facts-again",
        room="driver",
        says="a new leader reads all facts from the start",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.gather:start_cursors", _from_the_start),
    ),
    Mutant(
        name="wall-clock-believed",
        room="driver",
        says="a new leader's time is what its machine's wall clock says",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.clock:takeover_ms", _believes_the_wall),
    ),
    Mutant(
        name="state-ahead-kept",
        room="driver",
        says="after an unknown commit it goes on with the state that may be ahead of the log",
        breaks=lambda patch: patch.around(
            f"{SCHEDULER}.process:Scheduler._stand_down", _keeps_its_state
        ),
    ),
    Mutant(
        name="doubt-is-written-again",
        room="driver",
        says="a commit without an answer is written once more",
        breaks=_commits_twice,
    ),
    Mutant(
        name="no-silence",
        room="driver",
        says="nobody notices that a node fell silent",
        breaks=_no_silence_counted,
    ),
    Mutant(
        name="deadlines-go-on",
        room="driver",
        says="a takeover does not start the deadlines of heartbeats again",
        breaks=lambda patch: patch.around(
            f"{SCHEDULER}.reducer:HeartbeatReducer._settle_edge", _deadlines_go_on
        ),
    ),
    Mutant(
        name="always-caught-up",
        room="driver",
        says="it believes that it has read everything, whatever is still on its way",
        breaks=lambda patch: patch.around(
            f"{SCHEDULER}.gather:Gatherer.unread", _reads_all_or_says_so
        ),
    ),
    Mutant(
        name="a-record-lost",
        room="driver",
        says="now and then a record is read and never looked at",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.intake:Intake.add", _drops_one),
    ),
    Mutant(
        name="facts-settled-twice",
        room="driver",
        says="facts of a batch are given to the next step again",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.intake:Intake.settle", _nothing_is_new),
    ),
    Mutant(
        name="sleeps-through",
        room="driver",
        says="what is due by time alone is never asked for",
        breaks=answering(f"{SCHEDULER}.leader:Leader._due_ms", None),
    ),
    Mutant(
        name="nobody-takes-over",
        room="driver",
        says="a standby waits for ever",
        breaks=answering(f"{SCHEDULER}.standby:Standby.turn", None),
    ),
    Mutant(
        name="snapshot-forgets-the-silent",
        room="driver",
        says="a snapshot does not say which nodes are silent",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.snapshots:take", _forgets_what_silenced),
    ),
    Mutant(
        name="snapshot-points-back",
        room="driver",
        says="a snapshot's pointer names the batch before",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.snapshots:take", _points_past),
    ),
    Mutant(
        name="snapshot-has-read-more",
        room="driver",
        says="a snapshot says that one more fact was consumed",
        breaks=lambda patch: patch.around(f"{SCHEDULER}.snapshots:take", _consumed_later),
    ),
    Mutant(
        name="chain-not-linked",
        room="driver",
        says="batches do not carry the digest of the one before",
        breaks=lambda patch: patch.around(
            f"{SCHEDULER}.batches:build",
            lambda right, header, *args, **more: right(
                replace(header, link=header.link._replace(digest=b"")), *args, **more
            ),
        ),
    ),
    Mutant(
        name="ledger-without-losses",
        room="views",
        says="lost work leaves the ledger's accounts the wrong way",
        breaks=lambda patch: patch.around(
            "gangline.projections.ledger_fold:Ledger.apply", _lost_is_kept
        ),
    ),
)

__all__ = ["MUTANTS", "nothing"]
