"""Builders for what agents are told; what is not said has a sane default."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gangline.events.batch import AssignedMember, MemberPhase, NodeAssignment
from gangline.events.spec import CheckpointSpec, Launch, Private, Spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NODE = "n0"
GENESIS = "cell-1"


def private(
    command: str | Sequence[str] = ("true",),
    *,
    env: Mapping[str, str] | None = None,
    workdir: str = "",
) -> Private:
    """A private part in clear text."""
    words = command if isinstance(command, str) else list(command)
    plain = {"command": words, "env": dict(env or {}), "workdir": workdir}
    return Private(ciphertext=json.dumps(plain).encode())


def spec(
    command: str | Sequence[str] = ("true",),
    *,
    gpus: int = 1,
    launch: Launch | None = None,
    checkpoint: CheckpointSpec | None = None,
    **hidden: Any,
) -> Spec:
    """A spec; `hidden` goes to the private part."""
    return Spec(
        team="a",
        gpus=gpus,
        launch=launch or Launch(),
        checkpoint=checkpoint,
        private=private(command, **hidden),
    )


def as_user(given: Spec, user: str) -> Spec:
    """The same, run as this user."""
    plain = json.loads(given.private.ciphertext)
    return replace(given, private=Private(ciphertext=json.dumps({**plain, "user": user}).encode()))


def member(
    job: str = "job",
    *,
    attempt: int = 1,
    phase: MemberPhase = MemberPhase.PREPARE,
    gpus: Sequence[int] = (0,),
    nodes: Sequence[str] = (NODE,),
    gpus_by_node: Sequence[int] | None = None,
    **more: Any,
) -> AssignedMember:
    """One member; the whole gang is this node unless `nodes` says more."""
    counts = tuple(gpus_by_node) if gpus_by_node else tuple(len(gpus) for _ in nodes)
    place = more.pop("member", 0)
    return AssignedMember(
        job=job,
        number=more.pop("number", 7),
        attempt=attempt,
        phase=phase,
        gpus=tuple(gpus),
        member=place,
        nodes=tuple(nodes),
        gpus_by_node=counts,
        first_rank=sum(counts[:place]),
        world_size=sum(counts),
        spec=more.pop("spec", None) or spec(gpus=sum(counts)),
        **more,
    )


def assignment(
    *members: AssignedMember, seq: int, term: int = 1, genesis: str = GENESIS, node: str = NODE
) -> NodeAssignment:
    """A record of `assignments`."""
    return NodeAssignment(genesis=genesis, term=term, seq=seq, node=node, members=members)
