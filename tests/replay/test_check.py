"""The checker finds each kind of wrong log, names the place and the rule, and praises right ones.

Decisions of a real run are forged one at a time; what a core with a bug would write verifies, so
only this finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gangline.cli.main import run
from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.log import Record, Topic
from gangline.replay.broken_rule import Rule
from gangline.replay.check.checker import Checker, Finding, Told
from gangline.replay.logfile import read_records, write_records
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse
from gangline.scheduler.batches import Link, StepHeader, build
from tests.support.played import batches
from tests.support.stories import story_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SCENARIOS = sorted(Path(__file__).parents[1].joinpath("scenarios").glob("*.scn"))

STORY = """\
fleet spines=1 blocks=2 nodes=2 gpus=8
policy min_runtime=1m
team a guaranteed=16
team b guaranteed=16
submit one team=a gpus=16 gpus_per_node=8 runtime=30m checkpoint=5m topology=required:block
submit lent team=a gpus=8 runtime=3h checkpoint=5m
submit own team=b gpus=8 runtime=20m
run 6m
submit back team=b gpus=8 runtime=10m
submit late team=b gpus=24 runtime=10m
run 10m
fail one#0 for=1m
run 6h
expect one state=succeeded
expect lent state=succeeded preemptions=1
"""


def told(text: str, name: str = "story") -> list[Told]:
    """The batches of a scenario; it must hold."""
    play = ScenarioRun(name)
    assert play.play(parse(text, file=name)) is None
    return batches(play)


def found(history: Sequence[Told]) -> list[Finding]:
    """Everything that the checker says."""
    checker = Checker()
    return [*(each for batch in history for each in checker.batch(batch)), *checker.finish()]


@pytest.fixture(scope="module")
def story() -> list[Told]:
    """A run with a borrower, a reclaim, a fault and checkpoints."""
    return told(STORY)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenarios_decisions_are_right(path: Path) -> None:
    """The core and the checker agree, though neither knows the other."""
    assert found(told(path.read_text(), str(path))) == []


@pytest.mark.parametrize("seed", range(12))
def test_random_stories_are_right(seed: int) -> None:
    """Faults, crashes, drains and changed quotas, in any order."""
    assert found(told(story_of(seed).text, f"seed-{seed}")) == []


def change(
    history: list[Told], kind: type, forge: Callable[[Any], Any], *, pick: Callable[[Any], bool]
) -> list[Told]:
    """The history with the first such decision forged; None as its forgery leaves it out."""
    forged: list[Told] = []
    left = [forge]
    for batch in history:
        decisions: list[Any] = []
        for decision in batch.decisions:
            new: Any = decision
            if left and isinstance(decision, kind) and pick(decision):
                new = left.pop()(decision)
            decisions += [] if new is None else new if isinstance(new, list) else [new]
        forged.append(replace(batch, decisions=tuple(decisions)))
    assert not left, f"no {kind.__name__} to forge"
    return forged


Forgery = tuple[str, type, Callable[[Any], Any], Callable[[Any], bool], Rule, str]
"""Its name, what is forged and how, which one of them, the rule it breaks, and what is said."""


def name_of(forgery: Forgery) -> str:
    """For the name of a test."""
    return forgery[0]


def named(story: list[Told], forgery: Forgery) -> None:
    """See that the checker names it, by the rule and in words."""
    _, kind, forge, pick, rule, said = forgery
    findings = found(change(story, kind, forge, pick=pick))
    assert any(each.rule is rule and said in each.text for each in findings), findings[:5]


def of(job: str) -> Callable[[Any], bool]:
    """A decision about a job."""
    return lambda decision: decision.job == job


def any_one(_decision: Any) -> bool:
    """The first of its kind."""
    return True


def team(name: str) -> Callable[[Any], bool]:
    """A decision about a team."""
    return lambda decision: decision.team == name


def certified(**fields: Any) -> Callable[[Any], Any]:
    """The decision with another certificate."""
    return lambda each: replace(each, certificate=replace(each.certificate, **fields))


def with_other_seat(placed: d.GangPlaced) -> d.GangPlaced:
    """On the GPUs that `one` holds."""
    return replace(placed, seats=(replace(placed.seats[0], node="s0-b0-n0"),))


FORGERIES: list[Forgery] = [
    ("GPUs of another", d.GangPlaced, with_other_seat, of("lent"), Rule.ONE_HOLDER, "given to"),
    (
        "half a gang",
        d.GangPlaced,
        lambda it: replace(it, seats=it.seats[:1]),
        of("one"),
        Rule.WHOLE_GANGS,
        "with 8 GPUs on 1 seats, not 16",
    ),
    (
        "across blocks",
        d.JobQueued,
        lambda it: replace(it, spec=replace(it.spec, gpus_per_node=4)),
        of("one"),
        Rule.WHOLE_GANGS,
        "8 GPUs, not 4",
    ),
    (
        "not all ready",
        d.MembersReady,
        lambda _: None,
        of("one"),
        Rule.WHOLE_GANGS,
        "starts without",
    ),
    (
        "beyond the borrow limit",
        d.TeamChanged,
        lambda it: replace(it, borrow=0),
        team("a"),
        Rule.LIMITS,
        "a at 24 GPUs, its limit is 16",
    ),
    (
        "beyond a lend limit",
        d.TeamChanged,
        lambda it: replace(it, lend=0),
        team("b"),
        Rule.LIMITS,
        "a lend limit is broken: used and kept back: 40 GPUs, there are 32",
    ),
    (
        "more lost than ever ran",
        d.GangReleased,
        lambda it: replace(it, lost_gpu_ms=10**12),
        any_one,
        Rule.SUMS,
        "is said to lose 1000000000000 GPU-ms",
    ),
    (
        "a job that ends twice",
        d.JobFinished,
        lambda it: [it, it],
        of("own"),
        Rule.TERMINAL,
        "it is about own, which is succeeded",
    ),
    (
        "an attempt that is not",
        d.GangStarted,
        lambda it: replace(it, attempt=7),
        of("own"),
        Rule.TERMINAL,
        "attempt 7 of own is at 1",
    ),
    (
        "evicted without a right",
        d.GangPreempted,
        lambda it: replace(it, cause="class"),
        of("lent"),
        Rule.NOT_IN_VAIN,
        "its class gives no such right",
    ),
    (
        "evicted from its own guarantee",
        d.TeamChanged,
        lambda it: replace(it, guaranteed=24),
        team("a"),
        Rule.NOT_IN_VAIN,
        "lent is inside the guarantee of a",
    ),
    (
        "evicted in vain",
        d.GangPlaced,
        lambda it: d.ReservationReleased(job=it.job, why="changed"),
        of("back"),
        Rule.NOT_IN_VAIN,
        "room for back is let go: changed",
    ),
    (
        "two causes at once",
        d.WaitCauseChanged,
        lambda it: [it, replace(it, cause=d.WaitCause.HOLD)],
        any_one,
        Rule.ONE_CAUSE,
        "and for hold at once",
    ),
    (
        "no cause",
        d.WaitCauseChanged,
        lambda _: None,
        lambda it: "late" in it.jobs,
        Rule.ONE_CAUSE,
        "nobody says why late waits",
    ),
    (
        "another level",
        d.GangPlaced,
        lambda it: replace(it, level="spine"),
        of("one"),
        Rule.CERTIFICATE,
        "it says level spine, by the decisions block",
    ),
    (
        "another loan",
        d.GangPlaced,
        lambda it: replace(it, borrowed=1),
        of("lent"),
        Rule.CERTIFICATE,
        "it says GPUs borrowed 1, by the decisions 8",
    ),
    (
        "ranks that overlap",
        d.GangPlaced,
        lambda it: replace(it, seats=tuple(replace(seat, first_rank=0) for seat in it.seats)),
        of("one"),
        Rule.CERTIFICATE,
        "begin at 0, not at 8",
    ),
    (
        "another policy",
        d.GangPlaced,
        certified(policy_version=99),
        of("own"),
        Rule.CERTIFICATE,
        "it rests on policy version 99",
    ),
    (
        "a retry for nothing",
        d.JobRequeued,
        lambda it: replace(it, retries_used=2),
        any_one,
        Rule.CERTIFICATE,
        "2 retries used after 0",
    ),
    (
        "resumed from nowhere",
        d.GangStarted,
        lambda it: replace(it, resumed_ms=it.resumed_ms + 1),
        lambda it: it.attempt == 2,
        Rule.LOST_WORK,
        "resumes from",
    ),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=name_of)
def test_a_forged_decision_is_found_and_named(story: list[Told], forgery: Forgery) -> None:
    """What is wrong is said in words, with the rule that it breaks."""
    named(story, forgery)


def test_a_victim_without_a_successor_is_found_at_the_end(story: list[Told]) -> None:
    """Everything was read, the victims are out, and nobody started."""
    at = next(
        index
        for index, batch in enumerate(story)
        if any(isinstance(each, d.GangPlaced) and each.job == "back" for each in batch.decisions)
    )
    last = tuple(e for e in story[at].decisions if getattr(e, "job", "") != "back")
    cut = [*story[:at], replace(story[at], decisions=last)]

    assert "lent evicted for back, which never started" in found(cut)[-1].text


# --- the command ----------------------------------------------------------------------------------


def write(path: Path, history: Sequence[Told]) -> None:
    """A log file with the decisions of a history, chained as they must be."""
    link = Link("forged", 0, 0, b"", 0)
    records: list[Record] = []
    for batch in history:
        header = StepHeader(
            link=link,
            leader="x",
            term=1,
            now_ms=batch.now_ms,
            caught_up=batch.caught_up,
            logic_version=1,
            inputs=(),
            edges=(),
            state_digest=b"",
        )
        (made,) = build(header, [codec.pack(each) for each in batch.decisions])
        link = made.link
        records.append(
            Record(
                topic=Topic.DECISIONS,
                partition=0,
                offset=len(records),
                appended_ms=batch.now_ms,
                key=b"",
                value=made.value,
            )
        )
    write_records(path, records)


def test_the_command_checks_a_file(
    story: list[Told], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 and how much it looked at."""
    write(tmp_path / "good.log", story)

    assert run(["replay", "check", "--log", str(tmp_path / "good.log")]) == 0
    count = sum(len(batch.decisions) for batch in story)
    assert f"{count} decisions in {len(story)} batches" in capsys.readouterr().out


def test_the_command_names_the_place_of_what_is_wrong(
    story: list[Told], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1, and the offset, the batch, the decision and the rule."""
    forged = change(story, d.GangPlaced, with_other_seat, pick=of("lent"))
    write(tmp_path / "bad.log", forged)
    seq, place = next(
        (batch.seq, index)
        for batch in forged
        for index, each in enumerate(batch.decisions, start=1)
        if isinstance(each, d.GangPlaced) and each.job == "lent"
    )

    assert run(["replay", "check", "--log", str(tmp_path / "bad.log")]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first == (
        f"decisions-0-{seq - 1}: decision {place} of batch {seq} (GangPlaced): expected "
        "rule 1: no GPU is held by two gangs, got s0-b0-n0 GPU 0 of one given to lent"
    )


def test_a_missing_record_is_a_broken_chain(
    story: list[Told], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checker goes no further."""
    path = tmp_path / "gap.log"
    write(path, story)
    records = list(read_records(path))
    write_records(path, [*records[:5], *records[6:]])

    assert run(["replay", "check", "--log", str(path), "--json"]) == 1
    assert "seq: expected 6, got 7" in capsys.readouterr().out
