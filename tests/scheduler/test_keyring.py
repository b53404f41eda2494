"""A node that was admitted with a key is believed by its signature only, and replay agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gangline.events import codec, facts, signing
from gangline.events import decisions as d
from gangline.events.envelope import Event
from gangline.events.log import Message, Topic
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler import core, keyring
from tests.scheduler.cell import Cell

if TYPE_CHECKING:
    from gangline.scheduler.process import Scheduler

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


class SignedCell(Cell):
    """A cell with the real core, where facts may be signed."""

    def __init__(self) -> None:
        super().__init__(core=core)

    def admit_with(self, node: str, key: Ed25519PrivateKey | None = KEY) -> None:
        """An operator admits a node, with this key."""
        public = b"" if key is None else signing.public_bytes(key)
        body = facts.NodeAdmitted(node=node, path=(), levels=(), gpus=1, public_key=public)
        self.say(Topic.CONTROL, body)

    def state(self, body: Any, key: Ed25519PrivateKey | None = KEY, **more: Any) -> None:
        """A node states something. more: `topic`, `signed_topic`, `record_key`, `id`."""
        topic = more.get("topic", Topic.NODES)
        envelope = codec.envelope_for(
            body, id=more.get("id", f"id-{next(self._ids)}"), actor=f"node:{body.node}"
        )
        event = Event(envelope=envelope, body=body)
        value = codec.encode(event)
        name = body.node.encode()
        if key is not None:
            signed_topic = more.get("signed_topic", topic)
            value = signing.signed(event, key, topic=signed_topic, record_key=name)
        self.log.append([Message(topic=topic, value=value, key=more.get("record_key", name))])

    def refusals(self) -> list[str]:
        """Why inputs were refused."""
        return [each.reason for each in self.decisions(d.InputRejected)]

    def booted(self) -> list[str]:
        """The nodes that were believed to have come up."""
        return [each.node for each in self.decisions(d.NodeBooted)]

    def judge(self) -> None:
        """The log alone gives the same bytes."""
        report = verify(LogSource(self.log), core)
        assert report.difference is None, report.difference.diff or report.difference


@pytest.fixture
def cell() -> SignedCell:
    """An empty one."""
    return SignedCell()


@pytest.fixture
def leader(cell: SignedCell) -> Scheduler:
    """Its only scheduler."""
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    return scheduler


def registered(node: str = "n0", boot: str = "b1") -> facts.NodeRegistered:
    """An agent came up."""
    return facts.NodeRegistered(node=node, boot_id=boot, gpus=1, address=node)


def test_a_signed_fact_counts(cell: SignedCell, leader: Scheduler) -> None:
    """The key was admitted before."""
    cell.admit_with("n0")
    cell.run(leader)
    cell.state(registered())
    cell.run(leader)

    assert cell.booted() == ["n0"]
    assert cell.refusals() == []
    cell.judge()


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("key", "more", "problem"),
    [
        (None, {}, keyring.UNSIGNED),
        (OTHER, {}, keyring.WRONG),
        (KEY, {"signed_topic": Topic.HEARTBEATS}, keyring.WRONG),
        (KEY, {"record_key": b"n1"}, keyring.WRONG),
    ],
)
def test_what_its_key_did_not_sign_is_refused(
    cell: SignedCell,
    leader: Scheduler,
    together: bool,  # noqa: FBT001
    key: Ed25519PrivateKey | None,
    more: dict[str, Any],
    problem: str,
) -> None:
    """Also when the admission stands in the same batch; the node itself is believed after that."""
    cell.admit_with("n0")
    if not together:
        cell.run(leader)
    cell.state(registered(boot="forged"), key, **more)
    cell.run(leader)
    assert cell.booted() == []
    assert len(cell.refusals()) == 1
    assert problem in cell.refusals()[0] + str(cell.decisions(d.InputRejected)[0])

    cell.state(registered())
    cell.run(leader)

    assert cell.booted() == ["n0"]
    cell.judge()


def test_a_signature_of_one_fact_is_none_of_another(cell: SignedCell, leader: Scheduler) -> None:
    """A stolen signature beside another body, another kind, or another id says nothing."""
    cell.admit_with("n0")
    cell.run(leader)
    cell.state(registered(), id="first")
    stolen = codec.decode(cell.records(Topic.NODES)[0].value)
    body = registered(boot="forged")
    cell.log.append(
        [
            Message(
                topic=Topic.NODES,
                key=b"n0",
                value=codec.encode(Event(envelope=stolen.envelope, body=body)),
            )
        ]
    )
    cell.run(leader)

    assert cell.booted() == ["n0"]
    assert len(cell.refusals()) == 1
    cell.judge()


def test_forged_heartbeats_keep_no_node_alive(cell: SignedCell, leader: Scheduler) -> None:
    """The owner of the key is silent, whoever speaks in its name."""
    cell.admit_with("n0")
    cell.run(leader)
    cell.state(registered())
    cell.run(leader)
    for sequence in range(20):
        beat = facts.NodeHeartbeat(node="n0", boot_id="b1", sequence=sequence)
        cell.state(beat, OTHER, topic=Topic.HEARTBEATS)
        cell.run(leader, ms=10_000)

    changes = [each.health for each in cell.decisions(d.NodeHealthChanged)]
    assert changes[-1] is d.Health.LOST
    cell.judge()


def test_signed_heartbeats_do(cell: SignedCell, leader: Scheduler) -> None:
    """Nothing changes as long as they come."""
    cell.admit_with("n0")
    cell.run(leader)
    cell.state(registered())
    for sequence in range(20):
        beat = facts.NodeHeartbeat(node="n0", boot_id="b1", sequence=sequence)
        cell.state(beat, topic=Topic.HEARTBEATS)
        cell.run(leader, ms=10_000)

    assert [each.health for each in cell.decisions(d.NodeHealthChanged)] == []
    assert cell.refusals() == []
    cell.judge()


def test_nodes_without_a_key_count_until_the_policy_asks(
    cell: SignedCell, leader: Scheduler
) -> None:
    """`require_signatures` is for cells whose network nobody trusts."""
    cell.admit_with("n0", None)
    cell.run(leader)
    cell.state(registered(), None)
    cell.run(leader)
    cell.say(Topic.CONTROL, facts.PolicySet(values={keyring.REQUIRED: 1}))
    cell.run(leader)
    cell.state(registered(boot="b2"), None)
    cell.run(leader)

    assert cell.booted() == ["n0"]
    assert len(cell.refusals()) == 1
    cell.judge()


def test_a_withdrawn_node_may_come_back_with_another_key(
    cell: SignedCell, leader: Scheduler
) -> None:
    """The old key is worth nothing then."""
    cell.admit_with("n0")
    cell.run(leader)
    cell.say(Topic.CONTROL, facts.NodeWithdrawn(node="n0"))
    cell.run(leader)
    cell.admit_with("n0", OTHER)
    cell.run(leader)
    cell.state(registered(boot="old"), KEY)
    cell.state(registered(boot="new"), OTHER)
    cell.run(leader)

    assert [each.boot_id for each in cell.decisions(d.NodeBooted)] == ["new"]
    cell.judge()


def test_whoever_leads_next_knows_the_keys(cell: SignedCell) -> None:
    """By the decisions or by a snapshot."""
    first = cell.scheduler("one", snapshot_every=1)
    cell.led_by(first)
    cell.admit_with("n0")
    cell.run(first, ms=2_000)
    second = cell.scheduler("two", index=1)
    cell.led_by(second)
    cell.state(registered(boot="forged"), OTHER)
    cell.state(registered())
    cell.run(second)

    assert [each.boot_id for each in cell.decisions(d.NodeBooted)] == ["b1"]
    cell.judge()


def test_a_keyring_goes_through_a_snapshot() -> None:
    """What it says stays the same."""
    ring = keyring.Keyring({"n0": signing.public_bytes(KEY)}, required=True)

    assert keyring.Keyring.of_plain(ring.plain()).plain() == ring.plain()


def test_a_key_that_is_none_makes_every_signature_wrong(
    cell: SignedCell, leader: Scheduler
) -> None:
    """Three bytes are no key; nobody is believed by it, and nothing breaks."""
    body = facts.NodeAdmitted(node="n0", path=(), levels=(), gpus=1, public_key=b"abc")
    cell.say(Topic.CONTROL, body)
    cell.run(leader)
    cell.state(registered())
    cell.run(leader)

    assert cell.booted() == []
    cell.judge()
