"""A snapshot is the state: the same digest, and the same decisions from there on."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from gangline.events import codec
from gangline.events.batch import Edge
from gangline.scheduler import core
from gangline.scheduler.core import snapshot
from gangline.scheduler.core.state import State
from tests.core import make
from tests.core.life import Life

SEEDS = range(8)
STEPS = 120


def from_scratch(state: State) -> bytes:
    """The digest with nothing known of any entity yet."""
    bare = State()
    bare.cell, bare.teams, bare.nodes = state.cell, state.teams, state.nodes
    bare.jobs, bare.reservations, bare.done = state.jobs, state.reservations, state.done
    for entity in snapshot.entities(bare):
        bare.touch(entity)
    return core.state_digest(bare)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_digest_in_step_is_the_digest_from_scratch(seed: int) -> None:
    """Nothing changes without being touched."""
    life = Life(seed)

    for _ in range(STEPS // 10):
        state = life.run(10).state
        assert core.state_digest(state) == from_scratch(state)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loaded_snapshot_has_the_digest_of_what_was_dumped(seed: int) -> None:
    """Also where it was read in pieces."""
    life = Life(seed)

    for _ in range(STEPS // 20):
        state = life.run(20).state
        assert core.state_digest(core.load(core.dump(state))) == core.state_digest(state)


@pytest.mark.parametrize("seed", SEEDS)
def test_from_a_snapshot_on_the_same_is_decided(seed: int) -> None:
    """Byte for byte, from the same inputs."""
    life = Life(seed)
    state = core.load(core.dump(life.run(STEPS).state))
    told, taken = len(life.world.packed), len(life.world.inputs)

    # Whoever restores takes the lead, and asks for every waiting job again.
    life.world.step(edges=[Edge(kind="led", node="s1", at_ms=life.world.now_ms, why="takeover")])
    life.run(40)

    again: list[bytes] = []
    for given in life.world.inputs[taken:]:
        facts, edges, now_ms, caught_up = given
        decided = core.step(state, facts, edges=edges, now_ms=now_ms, caught_up=caught_up)
        again += [codec.pack(one).body for one in decided]
    assert again == life.world.packed[told:]
    assert core.state_digest(state) == core.state_digest(life.world.state)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_snapshot_has_the_numbers_of_the_state(seed: int) -> None:
    """What is derived from the entities is derived alike."""
    state = Life(seed).run(STEPS).state
    loaded = core.load(core.dump(state))

    assert core.fleet_numbers(loaded) == core.fleet_numbers(state)
    for team in state.teams:
        assert core.team_numbers(loaded, team) == core.team_numbers(state, team)
    for name, node in state.nodes.items():
        other = loaded.nodes[name]
        assert (other.avail, other.used, other.claimed, other.stuck, other.rank) == (
            node.avail,
            node.used,
            node.claimed,
            node.stuck,
            node.rank,
        )
        assert core.assigned_members(loaded, name) == core.assigned_members(state, name)
    assert set(loaded.leaving) == set(state.leaving)
    assert set(loaded.windowed) == set(state.windowed)
    assert loaded.arrays == state.arrays
    assert loaded.inside_claims.keys() <= state.inside_claims.keys()
    assert {g: len(jobs) for g, jobs in loaded.groups.items()} == {
        g: len(jobs) for g, jobs in state.groups.items()
    }
    assert [entry[:2] for entry in loaded.ends.order] == [e[:2] for e in state.ends.order]


def test_a_snapshot_comes_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fits in a record; none is needed whole."""
    monkeypatch.setattr(snapshot, "_CHUNK_BYTES", 500)
    state = Life(1).run(STEPS).state

    chunks = list(core.dump(state))

    assert len(chunks) > 5
    assert core.state_digest(core.load(iter(chunks))) == core.state_digest(state)


@pytest.mark.parametrize("chunks", [[], [b"{}"], [b'{"state_schema": 99, "schemas": {}}']])
def test_what_is_no_snapshot_of_ours_is_refused(chunks: list[bytes]) -> None:
    """Whoever restores says so, and reads the log instead."""
    with pytest.raises(ValueError, match="a snapshot of state schema"):
        core.load(chunks)


def test_the_state_of_a_new_cell_can_be_dumped() -> None:
    """It is small."""
    state = core.new_state()

    assert core.state_digest(core.load(core.dump(state))) == core.state_digest(state)


def without_field(chunks: list[bytes], kind: str, field: str) -> list[bytes]:
    """A snapshot as an older program would have written it, which did not know the field."""
    header = json.loads(chunks[0])
    wide = fastavro.parse_schema(header["schemas"][kind])
    schema = header["schemas"][kind]
    schema["fields"] = [one for one in schema["fields"] if one["name"] != field]
    narrow = fastavro.parse_schema(json.loads(json.dumps(schema)))
    old, index = [json.dumps(header).encode()], [one.__name__ for one in snapshot.KINDS].index(kind)
    for chunk in chunks[1:]:
        out, at = b"", 0
        while at < len(chunk):
            size = int.from_bytes(chunk[at + 1 : at + 5], "big")
            data = chunk[at + 5 : at + 5 + size]
            if chunk[at] == index:
                data = _again(data, wide, narrow)
            out += chunk[at : at + 1] + len(data).to_bytes(4, "big") + data
            at += 5 + size
        old.append(out)
    return old


def _again(data: bytes, wide: Any, narrow: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, narrow, fastavro.schemaless_reader(BytesIO(data), wide, None))
    return out.getvalue()


def test_an_older_snapshot_is_read_with_the_defaults_of_what_it_lacks() -> None:
    """So that an upgrade restores instead of replaying everything."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0")])

    loaded = core.load(without_field(list(core.dump(world.state)), "Job", "chain"))

    assert loaded.jobs["j"].chain == 0
    assert core.state_digest(loaded) == core.state_digest(world.state)
