"""Wrong drivers: leadership, reading, committing, clocks, snapshots, the ledger."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from gangline.events.log import LogError
from tests.mutants.mutant import Mutant, answering, instead, silenced

SCHEDULER: Final = "gangline.scheduler"
_wrong = partial(Mutant, room="driver")


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


def _deadlines_go_on(right: Any, self: Any, edge: Any, now_ms: int) -> None:
    since, heard = self._since_ms, dict(self._heard)
    right(self, edge, now_ms)
    self._since_ms = since
    self._heard.update(heard)


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


def _commits_again(right: Any, self: Any, messages: Any) -> Any:
    """After a doubt it writes the same again, instead of reading what became of it."""
    try:
        return right(self, messages)
    except LogError:
        self._ended = ""
        return right(self, messages)


def _drops_one(right: Any, self: Any, records: Any) -> None:
    right(self, [each for each in records if each.offset % 17 != 16])


def _nothing_is_new(right: Any, self: Any) -> None:
    taken = list(self._taken)
    right(self)
    self._taken.extend(taken)


def _knows_all_versions(right: Any, step: Any, **_more: Any) -> Any:
    return right(step, logic_version=99)


def _upgrades_in_silence(_right: Any, self: Any, _now_ms: int) -> None:
    self.follower.logic_version = self._core.LOGIC_VERSION


def _lost_is_kept(right: Any, self: Any, decision: Any, now_ms: int) -> None:
    if hasattr(decision, "lost_gpu_ms"):
        decision = replace(decision, lost_gpu_ms=-decision.lost_gpu_ms)
    right(self, decision, now_ms)


MUTANTS: Final = (
    _wrong(
        name="nobody-is-told",
        says="decisions are written, assignments are not",
        breaks=answering(f"{SCHEDULER}.leader:assignment_messages", ()),
    ),
    _wrong(
        name="old-news",
        says="assignments carry the number of the batch before",
        breaks=instead(f"{SCHEDULER}.leader:assignment_messages", _tells_old_news),
    ),
    _wrong(
        name="assignments-not-again",
        says="a new leader does not publish again what a torn commit may have lost",
        breaks=silenced(f"{SCHEDULER}.takeover:_republish"),
    ),
    _wrong(
        name="one-fact-skipped",
        says="a new leader reads on one fact too far",
        breaks=instead(f"{SCHEDULER}.gather:start_cursors", _one_too_far),
    ),
    _wrong(
        name="all-facts-again",
        says="a new leader reads all facts from the start",
        breaks=instead(f"{SCHEDULER}.gather:start_cursors", _from_the_start),
    ),
    _wrong(
        name="wall-clock-believed",
        says="a new leader's time is what its machine's wall clock says",
        breaks=instead(f"{SCHEDULER}.clock:takeover_ms", _believes_the_wall),
    ),
    _wrong(
        name="state-ahead-kept",
        says="after an unknown commit it goes on with the state that may be ahead of the log",
        breaks=instead(f"{SCHEDULER}.process:Scheduler._stand_down", _keeps_its_state),
    ),
    _wrong(
        name="doubt-is-written-again",
        says="a commit without an answer is written once more",
        breaks=instead("gangline.replay.vopr.bus:LineWriter.commit", _commits_again),
    ),
    _wrong(
        name="no-silence",
        says="nobody notices that a node fell silent",
        breaks=answering(f"{SCHEDULER}.reducer:HeartbeatReducer.edges", ()),
    ),
    _wrong(
        name="deadlines-go-on",
        says="a takeover does not start the deadlines of heartbeats again",
        breaks=instead(f"{SCHEDULER}.reducer:HeartbeatReducer._settle_edge", _deadlines_go_on),
    ),
    _wrong(
        name="always-caught-up",
        says="it believes that it has read everything, whatever is still on its way",
        breaks=instead(f"{SCHEDULER}.gather:Gatherer.unread", _reads_all_or_says_so),
    ),
    _wrong(
        name="a-record-lost",
        says="now and then a record is read and never looked at",
        breaks=instead(f"{SCHEDULER}.intake:Intake.add", _drops_one),
    ),
    _wrong(
        name="facts-settled-twice",
        says="facts of a batch are given to the next step again",
        breaks=instead(f"{SCHEDULER}.intake:Intake.settle", _nothing_is_new),
    ),
    _wrong(
        name="sleeps-through",
        says="what is due by time alone is never asked for",
        breaks=answering(f"{SCHEDULER}.leader:Leader._due_ms", None),
    ),
    _wrong(
        name="nobody-takes-over",
        says="a standby waits for ever",
        breaks=answering(f"{SCHEDULER}.standby:Standby.turn", None),
    ),
    _wrong(
        name="snapshot-forgets-the-silent",
        says="a snapshot does not say which nodes are silent",
        breaks=instead(f"{SCHEDULER}.snapshots:take", _forgets_what_silenced),
    ),
    _wrong(
        name="snapshot-points-back",
        says="a snapshot's pointer names the batch before",
        breaks=instead(f"{SCHEDULER}.snapshots:take", _points_past),
    ),
    _wrong(
        name="snapshot-has-read-more",
        says="a snapshot says that one more fact was consumed",
        breaks=instead(f"{SCHEDULER}.snapshots:take", _consumed_later),
    ),
    _wrong(
        name="chain-not-linked",
        says="batches do not carry the digest of the one before",
        breaks=instead(
            f"{SCHEDULER}.batches:build",
            lambda right, header, *args, **more: right(
                replace(header, link=header.link._replace(digest=b"")), *args, **more
            ),
        ),
    ),
    _wrong(
        name="old-program-goes-on",
        says="a program goes on though the log names a logic version that it lacks",
        breaks=instead(f"{SCHEDULER}.follower:unpack_all", _knows_all_versions),
    ),
    _wrong(
        name="never-upgrades",
        says="a newer program decides by the old version for ever",
        breaks=silenced(f"{SCHEDULER}.leader:Leader._upgrade_logic"),
    ),
    _wrong(
        name="upgrades-in-silence",
        says="a newer program decides by its own version, and no decision says so",
        breaks=instead(f"{SCHEDULER}.leader:Leader._upgrade_logic", _upgrades_in_silence),
    ),
    Mutant(
        name="ledger-without-losses",
        room="views",
        says="lost work leaves the ledger's accounts the wrong way",
        breaks=instead("gangline.projections.ledger_fold:Ledger.apply", _lost_is_kept),
    ),
)
