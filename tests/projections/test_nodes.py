"""The views of nodes and faults: what each GPU does now, and what was wrong when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import decisions as d
from tests.projections import story as s

if TYPE_CHECKING:
    from gangline.projections.queries import Views
    from tests.projections.conftest import Desk


def letters(desk: Desk, node: str = "n0") -> str:
    """One letter a GPU."""
    found = desk.one("SELECT gpu_states FROM nodes WHERE node = %s", node)["gpu_states"]
    assert isinstance(found, str)
    return found


def test_every_gpu_has_a_letter_for_what_it_does(desk: Desk) -> None:
    """Starting, running, stopping, bad, free."""
    story = desk.story
    seen = []
    for decisions in (
        (s.node("n0", gpus=4), d.GpuWithdrawn(node="n0", gpu=3, fault="xid")),
        (s.queued("a", of=s.spec(gpus=2)), s.placed("a", "n0", gpus=2)),
        (s.started("a"),),
        (d.GangStopping(job="a", attempt=1, cause=d.StopCause.DRAINED, grace_ms=1),),
        (s.released("a", cause=d.StopCause.DRAINED), s.requeued("a")),
        (d.GpuReturned(node="n0", gpu=3),),
    ):
        story.step(*decisions)
        desk.catch_up()
        seen.append(letters(desk))

    assert seen == ["...b", "ss.b", "rr.b", "xx.b", "...b", "...."]


def test_gpus_of_a_fenced_attempt_stay_out_until_it_is_gone(desk: Desk) -> None:
    """Though its gang holds them no more."""
    story = desk.story
    story.step(s.node("n0", gpus=2), s.queued("a", of=s.spec(gpus=2)), s.placed("a", "n0", gpus=2))
    story.step(s.released("a", cause=d.StopCause.INFRASTRUCTURE, lingering=("n0",)))
    desk.catch_up()
    fenced = desk.one("SELECT gpu_states, held, free, jobs FROM nodes")
    story.step(d.MemberEnded(job="a", attempt=1, node="n0", code=0, reason="fenced"))

    desk.catch_up()

    assert fenced == {"gpu_states": "ll", "held": 0, "free": 0, "jobs": ["a"]}
    assert letters(desk) == ".."


def test_a_claim_keeps_what_is_free(desk: Desk) -> None:
    """From others; its end gives it back."""
    claim = d.ReservationPlanned(
        job="a",
        kind="claim",
        start_ms=0,
        end_ms=0,
        seats=(d.ReservedSeat(node="n0", gpus=6, held=(0, 1)),),
    )
    desk.story.step(s.node("n0"), s.queued("a"), claim)
    desk.catch_up()
    claimed = desk.one("SELECT free FROM nodes")["free"]
    desk.story.step(d.ReservationReleased(job="a", why="cancelled"))

    desk.catch_up()

    assert (claimed, desk.one("SELECT free FROM nodes")["free"]) == (2, 8)


def test_health_and_service_say_since_when_and_why(desk: Desk) -> None:
    """Two independent things."""
    story = desk.story
    story.step(s.node("n0"))
    story.wait(s=60)
    story.step(
        d.NodeHealthChanged(node="n0", health=d.Health.LOST, cause="lost", until_ms=0, strike=True),
        d.NodeServiceChanged(node="n0", service=d.Service.CORDONED, cause="fan", by="operator:o"),
    )

    desk.catch_up()

    row = desk.one("SELECT * FROM nodes")
    assert (row["health"], row["health_cause"], row["strikes"]) == ("lost", "lost", 1)
    assert (row["service"], row["service_cause"], row["service_by"]) == (
        "cordoned",
        "fan",
        "operator:o",
    )
    assert row["free"] == 0


def test_a_node_that_is_heard_again_may_still_be_quarantined(desk: Desk) -> None:
    """Its health is the worst that holds."""
    seen = []
    desk.story.step(s.node("n0"))
    for health, cause in (
        (d.Health.QUARANTINED, "quarantine"),
        (d.Health.SUSPECTED, "silent"),
        (d.Health.LOST, "lost"),
        (d.Health.WELL, "heard"),
        (d.Health.WELL, "quarantine over"),
    ):
        desk.story.step(d.NodeHealthChanged(node="n0", health=health, cause=cause))
        desk.catch_up()
        row = desk.one("SELECT health, free FROM nodes")
        idle = desk.one("SELECT sum(gpus) AS n FROM ledger_open WHERE account = 'idle_lendable'")
        assert row["free"] == (idle["n"] or 0)
        seen.append((row["health"], row["free"]))

    assert seen == [
        ("quarantined", 0),
        ("quarantined", 0),
        ("lost", 0),
        ("quarantined", 0),
        ("well", 8),
    ]


def test_a_dropped_node_is_not_shown(desk: Desk) -> None:
    """Added again, it is a new one."""
    story = desk.story
    story.step(s.node("n0"), d.GpuWithdrawn(node="n0", gpu=0, fault="ecc"))
    story.step(d.NodeDropped(node="n0"))
    desk.catch_up()
    gone = desk.all("SELECT node FROM nodes")
    story.step(s.node("n0", gpus=2))

    desk.catch_up()

    assert gone == []
    assert letters(desk) == ".."


def test_the_fleet_comes_in_columns(desk: Desk, views: Views) -> None:
    """For a page that draws thousands of GPUs."""
    desk.story.step(s.node("n1", gpus=2), s.node("n0", gpus=3))

    desk.catch_up()

    fleet = views.fleet()
    assert fleet["nodes"] == ["n0", "n1"]
    assert fleet["gpu_states"] == ["...", ".."]
    assert fleet["paths"] == [["s0", "s0-b0"]] * 2


def test_faults_have_a_beginning_and_an_end(desk: Desk) -> None:
    """Of GPUs and of whole nodes; the same trouble again goes on."""
    story = desk.story
    lost = d.NodeHealthChanged(node="n0", health=d.Health.LOST, cause="lost")
    story.step(s.node("n0"), d.GpuWithdrawn(node="n0", gpu=3, fault="ecc"))
    story.step(d.NodeHealthChanged(node="n0", health=d.Health.SUSPECTED, cause="silent"))
    story.wait(s=90)
    story.step(lost)
    story.step(lost)
    story.wait(s=10)
    story.step(d.NodeHealthChanged(node="n0", health=d.Health.WELL, cause="heard"))

    desk.catch_up()

    rows = desk.all(
        "SELECT gpu, kind, extract(epoch FROM to_at - from_at)::int AS s FROM faults"
        " ORDER BY from_at, gpu"
    )
    assert rows == [
        {"gpu": 3, "kind": "ecc", "s": None},
        {"gpu": None, "kind": "silent", "s": 100},
        {"gpu": None, "kind": "lost", "s": 10},
    ]
