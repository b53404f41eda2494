"""The accounting of the ledger: it balances at every position, whatever happens."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.projections.ledger_fold import Account, Entry, Ledger, lending_of, levels_of, loans_of
from gangline.projections.lending import FLEET
from tests.projections import story as s
from tests.projections.chaos import History, moves

HOUR = 3_600_000


def play(*decisions: tuple[float, d.Decision], until_h: float) -> dict[Account, float]:
    """GPU-hours by account after decisions at some hours."""
    ledger = Ledger()
    entries: list[Entry] = []
    for hour, decision in decisions:
        ledger.apply(decision, s.START_MS + int(hour * HOUR))
        entries += ledger.take()[0]
    ledger.advance(s.START_MS + int(until_h * HOUR))
    ledger.meter.cut(ledger.now_ms)
    entries += ledger.take()[0]
    found: Counter[Account] = Counter()
    for entry in entries:
        found[entry.key] += entry.gpu_ms
    return {key: gpu_ms / HOUR for key, gpu_ms in found.items() if gpu_ms}


def test_work_is_unsaved_until_a_checkpoint_keeps_it() -> None:
    """One hour of eight GPUs; the checkpoint holds the first half."""
    hours = play(
        (0, s.node("n0")),
        (0, s.team("vision", guaranteed=8)),
        (0, s.queued("a")),
        (0, s.placed("a", "n0")),
        (0, s.started("a")),
        (0.5, s.saved("a", productive_ms=HOUR // 2)),
        until_h=1,
    )

    assert hours == {Account("vision", "productive"): 4, Account("vision", "unsaved"): 4}


def test_a_release_moves_unsaved_work_to_lost() -> None:
    """The node died half an hour after the checkpoint."""
    hours = play(
        (0, s.node("n0")),
        (0, s.team("vision", guaranteed=8)),
        (0, s.queued("a")),
        (0, s.placed("a", "n0")),
        (0, s.started("a")),
        (0.5, s.saved("a", productive_ms=HOUR // 2)),
        (
            1,
            s.released(
                "a",
                cause=d.StopCause.INFRASTRUCTURE,
                lost_gpu_ms=4 * HOUR,
                productive_ms=HOUR // 2,
            ),
        ),
        until_h=1,
    )

    assert hours == {Account("vision", "productive"): 4, Account("vision", "lost"): 4}


def test_success_keeps_all_work() -> None:
    """Also where the release did not say so."""
    hours = play(
        (0, s.node("n0")),
        (0, s.team("vision", guaranteed=8)),
        (0, s.queued("a")),
        (0, s.placed("a", "n0")),
        (0.25, s.started("a")),
        (1, s.released("a")),
        (1, s.finished("a")),
        until_h=2,
    )

    assert hours == {
        Account("vision", "starting"): 2,
        Account("vision", "productive"): 6,
        Account("vision", "idle_lendable"): 8,
    }


def test_a_loan_stands_in_the_books_of_both_sides() -> None:
    """Each team's rows add up to its guarantee: use and loans and idle, less what it borrowed."""
    hours = play(
        (0, s.node("n0")),
        (0, s.team("vision", guaranteed=2)),
        (0, s.team("speech", guaranteed=6)),
        (0, s.queued("a", of=s.spec("vision", gpus=5))),
        (0, s.placed("a", "n0", gpus=5)),
        until_h=1,
    )

    assert hours == {
        Account("vision", "starting"): 5,
        Account("vision", "borrowed", "speech"): -3,
        Account("speech", "lent", "vision"): 3,
        Account("speech", "idle_lendable"): 3,
    }


def test_what_is_out_of_service_belongs_to_the_fleet() -> None:
    """A bad GPU, a drained node, and room that is kept."""
    hours = play(
        (0, s.node("n0")),
        (0, s.node("n1")),
        (0, d.GpuWithdrawn(node="n0", gpu=3, fault="ecc")),
        (0, d.NodeServiceChanged(node="n1", service=d.Service.DRAINING, cause="fan")),
        (0, s.queued("a")),
        (
            0,
            d.ReservationPlanned(
                job="a",
                kind="firm",
                start_ms=0,
                end_ms=0,
                seats=(d.ReservedSeat(node="n0", gpus=4),),
            ),
        ),
        until_h=1,
    )

    assert hours == {
        Account(FLEET, "unhealthy"): 1,
        Account(FLEET, "drained"): 8,
        Account("vision", "reserved"): 4,
        Account(FLEET, "idle_lendable"): 3,
    }


def test_gpus_that_no_waiting_shape_fits_are_stranded() -> None:
    """A job waits for the shape only; what it needs is stranded, the rest idle."""
    hours = play(
        (0, s.node("n0")),
        (0, s.queued("a", of=s.spec(gpus=6))),
        (0, s.waits("a", cause=d.WaitCause.TOPOLOGY)),
        until_h=1,
    )

    assert hours == {Account(FLEET, "stranded"): 6, Account(FLEET, "idle_lendable"): 2}


def test_a_fenced_attempt_keeps_its_gpus_out_until_it_is_gone() -> None:
    """Nobody knows whether its processes still run."""
    hours = play(
        (0, s.node("n0")),
        (0, s.queued("a")),
        (0, s.placed("a", "n0")),
        (1, s.released("a", cause=d.StopCause.INFRASTRUCTURE, lingering=("n0",))),
        (3, d.MemberEnded(job="a", attempt=1, node="n0", code=0, reason="fenced")),
        until_h=4,
    )

    assert hours[Account(FLEET, "lingering")] == 16
    assert hours[Account(FLEET, "idle_lendable")] == 8


@settings(max_examples=150, deadline=None)
@given(moves)
def test_rows_add_up_to_capacity_times_time_at_every_position(
    numbers: list[tuple[int, int, int, int]],
) -> None:
    """Spans, transfers and loans together; and so does the time by cause."""
    ledger = Ledger()
    entered = used = expected = 0
    last = s.START_MS
    for at_ms, decision in History().play(numbers):
        expected += ledger.books.capacity * (at_ms - last)
        last = at_ms
        ledger.apply(decision, at_ms)
        entries, usage = ledger.take()
        entered += sum(entry.gpu_ms for entry in entries)
        used += sum(usage.values())
        going_on = sum(gpus * (at_ms - since) for gpus, since in ledger.meter.open.values())

        assert entered + going_on == expected
        assert used == expected
        lending = lending_of(ledger.books)
        levels = levels_of(ledger.books, lending, loans_of(lending))
        assert sum(levels.values()) == ledger.books.capacity


@settings(max_examples=100, deadline=None)
@given(moves)
def test_no_balance_is_negative_and_loans_cancel(
    numbers: list[tuple[int, int, int, int]],
) -> None:
    """Only the borrower's side of a loan is below zero."""
    ledger = Ledger()
    balances: Counter[Account] = Counter()
    for at_ms, decision in History().play(numbers):
        ledger.apply(decision, at_ms)
    ledger.meter.cut(ledger.now_ms)
    for entry in ledger.take()[0]:
        balances[entry.key] += entry.gpu_ms
        assert entry.to_ms > entry.from_ms

    for key, gpu_ms in balances.items():
        assert gpu_ms <= 0 if key.account == "borrowed" else gpu_ms >= 0
        if key.account == "lent":
            assert balances[Account(key.counterparty, "borrowed", key.team)] == -gpu_ms


@settings(max_examples=60, deadline=None)
@given(moves, st.integers(1, 20))
def test_a_ledger_found_again_goes_on_as_the_one_that_was_saved(
    numbers: list[tuple[int, int, int, int]], every: int
) -> None:
    """Saved in pieces, as JSON, whenever it may be."""
    straight, saved, records = Ledger(), Ledger(), dict[str, object]()
    for index, (at_ms, decision) in enumerate(History().play(numbers)):
        straight.apply(decision, at_ms)
        saved.apply(decision, at_ms)
        if index % every == 0:
            again, there = straight.take(), saved.take()
            assert sorted(there[0]) == sorted(again[0])
            assert there[1] == again[1]
            records |= json.loads(json.dumps(saved.take_changed()))
            records = {key: value for key, value in records.items() if value is not None}
            found = Ledger()
            found.restore(records, saved.meter.open)
            saved = found

    assert sorted(saved.take()[0]) == sorted(straight.take()[0])
