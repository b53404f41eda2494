"""Routes of operators: nodes, teams, policy."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from starlette.concurrency import run_in_threadpool

from gangline.api.auth import Principal, Verb, authorise
from gangline.api.jobs import Accepted, Caller, Desk, OpenDesk, Why
from gangline.api.names import Name, Text
from gangline.api.nearest import nearest
from gangline.api.problems import ProblemError
from gangline.api.spec_json import Duration, PositiveDuration, optional_body
from gangline.events import facts
from gangline.events.log import Topic
from gangline.events.spec import UNLIMITED
from gangline.projections.queries import ViewsUnreachableError


def _only_operators(caller: Caller) -> None:
    """Turn others away before anything of theirs is looked at."""
    authorise(caller, Verb.OPERATE)


router = APIRouter(prefix="/v1", tags=["operators"], dependencies=[Depends(_only_operators)])


class DrainRequest(Why):
    """deadline: from now; what still runs then is stopped and queued again. None: never."""

    deadline: Duration | None = None


class MaintenanceRequest(Why):
    """at: from now. lasts: how long."""

    at: Duration
    lasts: PositiveDuration


def _gpus(value: object) -> object:
    words: dict[object, int] = {"unlimited": UNLIMITED, "none": 0}
    return words.get(value, value) if isinstance(value, str) else value


Gpus = Annotated[int, BeforeValidator(_gpus), Field(ge=UNLIMITED, le=1_000_000)]


class TeamRequest(BaseModel):
    """A team's numbers; what is not named keeps its value.

    borrow, lend: GPUs, `unlimited` or `none`. by_model: GPUs of the guarantee that are of one model
    (the nodes' label `model`), 0 for none any more; together at most the guarantee.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    guaranteed: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    borrow: Gpus | None = None
    lend: Gpus | None = None
    weight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    parent: Name | Literal[""] | None = None
    by_model: dict[Name, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(default_factory=dict)

    @field_validator("by_model")
    @classmethod
    def _inside(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        guaranteed = info.data.get("guaranteed")
        if guaranteed is not None and sum(value.values()) > guaranteed:
            message = f"add up to at most the {guaranteed} guaranteed in all"
            raise ValueError(message)
        return value


_MOST: Final = 10**15
"""Beyond this no key of the policy means anything, and the log holds no such number."""


class PolicyRequest(BaseModel):
    """Policy keys with new values: durations in milliseconds, counts as they are."""

    model_config = ConfigDict(extra="forbid", strict=True)

    values: Annotated[dict[Text, Annotated[int, Field(ge=-_MOST, le=_MOST)]], Field(min_length=1)]


class NodeRequest(BaseModel):
    """A node that an operator lets in.

    levels, path: from the outermost level of the tree inwards.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    levels: Annotated[list[Name], Field(max_length=16)]
    path: Annotated[list[Name], Field(max_length=16)]
    gpus: Annotated[int, Field(ge=1, le=1_024)]
    labels: dict[Text, Text] = {}
    public_key: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""


async def _state(desk: Desk, body: Any, *, key: str, caller: Principal) -> Accepted:  # noqa: ANN401
    """Append what an operator states to `control`."""
    authorise(caller, Verb.OPERATE)
    position = await run_in_threadpool(
        desk.publisher.append, Topic.CONTROL, body, key=key, actor=caller.actor
    )
    return Accepted(position=position)


async def _about_node(desk: Desk, body: Any, *, caller: Principal) -> Accepted:  # noqa: ANN401
    """The same for a node that must be known."""
    rows = await run_in_threadpool(
        desk.views.rows, "nodes", where={"node": body.node}, after="", limit=1
    )
    if not rows:
        known = await run_in_threadpool(desk.views.rows, "nodes", where={}, after="", limit=10_000)
        hint = nearest(body.node, [str(row["node"]) for row in known])
        raise ProblemError("not-found", f"there is no node {body.node}{hint}")
    return await _state(desk, body, key=body.node, caller=caller)


@router.post("/nodes/{node}/cordon", status_code=202)
async def cordon(node: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Keep new work off a node; what runs there goes on."""
    body: Why = await optional_body(request, Why)
    return await _about_node(desk, facts.NodeCordoned(node=node, why=body.why), caller=caller)


@router.post("/nodes/{node}/uncordon", status_code=202)
async def uncordon(node: Name, desk: OpenDesk, caller: Caller) -> Accepted:
    """Let a node take new work again."""
    return await _about_node(desk, facts.NodeUncordoned(node=node), caller=caller)


@router.post("/nodes/{node}/drain", status_code=202)
async def drain(node: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Empty a node; what still runs at the deadline is stopped and queued again."""
    body: DrainRequest = await optional_body(request, DrainRequest)
    fact = facts.DrainRequested(node=node, deadline_ms=body.deadline, why=body.why)
    return await _about_node(desk, fact, caller=caller)


@router.post("/nodes/{node}/maintenance", status_code=202)
async def maintenance(node: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Announce a window in which a node is out of service."""
    body: MaintenanceRequest = await optional_body(request, MaintenanceRequest)
    fact = facts.MaintenanceScheduled(node=node, in_ms=body.at, for_ms=body.lasts, why=body.why)
    return await _about_node(desk, fact, caller=caller)


@router.put("/nodes/{node}", status_code=202)
async def admit(node: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Let a node into the fleet. One that is there stays as it is: withdraw it first to change it.

    The scheduler has the last word: `GET /v1/facts/POSITION` says whether it refused.
    """
    body: NodeRequest = await optional_body(request, NodeRequest)
    if len(body.levels) != len(body.path):
        raise ProblemError("invalid", "path: it has a domain for each of the levels")
    if len(set(body.levels)) < len(body.levels):
        raise ProblemError("invalid", "levels: each has a name of its own")
    await run_in_threadpool(_check_fits, desk, node, body)
    fact = facts.NodeAdmitted(
        node=node,
        path=tuple(body.path),
        levels=tuple(body.levels),
        gpus=body.gpus,
        labels=body.labels,
        public_key=bytes.fromhex(body.public_key),
    )
    return await _state(desk, fact, key=node, caller=caller)


def _check_fits(desk: Desk, node: str, body: NodeRequest) -> None:
    """A problem where the fleet's levels are others, or the node is there and is another one.

    Without views nothing is known, and the scheduler refuses.
    """
    with contextlib.suppress(ViewsUnreachableError):
        fleet = desk.views.rows("nodes", where={}, after="", limit=1)
        known = desk.views.rows("nodes", where={"node": node}, after="", limit=1)
        _check_levels(body.levels, of_fleet=fleet[0]["levels"] if fleet else body.levels)
        for row in known:
            if (row["path"], row["gpus"], row["labels"]) != (body.path, body.gpus, body.labels):
                raise ProblemError("exists", f"{_as_it_is(row)}; withdraw it first to change it")


def _check_levels(levels: Sequence[str], *, of_fleet: Sequence[str]) -> None:
    if list(levels) != list(of_fleet):
        named, wanted = (", ".join(each) or "none" for each in (of_fleet, levels))
        raise ProblemError("invalid", f"levels: those of the fleet are {named}, not {wanted}")


def _as_it_is(row: Mapping[str, Any]) -> str:
    """A node that is in the fleet, in words."""
    place = "/".join(row["path"]) or "no place"
    labels = ", ".join(f"{name}={value}" for name, value in sorted(row["labels"].items()))
    what = f"{place}, {row['gpus']} GPUs, {labels or 'no labels'}"
    return f"{row['node']} is in the fleet already ({what})"


@router.delete("/nodes/{node}", status_code=202)
async def withdraw(node: Name, desk: OpenDesk, caller: Caller) -> Accepted:
    """Take a node out of the fleet for good; what runs there is stopped and queued again."""
    return await _about_node(desk, facts.NodeWithdrawn(node=node), caller=caller)


@router.put("/teams/{team}", status_code=202)
async def set_team(team: Name, request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Make a team, or change its guarantee, limits, weight or parent."""
    body: TeamRequest = await optional_body(request, TeamRequest)
    fact = facts.TeamSet(
        team=team,
        guaranteed=body.guaranteed,
        borrow=body.borrow,
        lend=body.lend,
        weight=body.weight,
        parent=body.parent,
        by_model=body.by_model,
    )
    return await _state(desk, fact, key=team, caller=caller)


def _check_policy(values: Mapping[str, int], least: Mapping[str, int]) -> None:
    """An `invalid` problem for an unknown key, or a value that is too small."""
    for name, value in values.items() if least else ():
        if name not in least:
            raise ProblemError("invalid", f"there is no policy key {name}{nearest(name, least)}")
        if value < least[name]:
            raise ProblemError("invalid", f"{name}: it is at least {least[name]}, not {value}")


@router.put("/policy", status_code=202)
async def set_policy(request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Give policy keys new values; `gangline policy` lists the keys with their units."""
    body: PolicyRequest = await optional_body(request, PolicyRequest)
    _check_policy(body.values, request.app.state.settings.policy_keys)
    return await _state(desk, facts.PolicySet(values=body.values), key="policy", caller=caller)


@router.post("/scheduler/hand-over", status_code=202)
async def hand_over(request: Request, desk: OpenDesk, caller: Caller) -> Accepted:
    """Ask the leading scheduler to let a standby lead."""
    body: Why = await optional_body(request, Why)
    fact = facts.HandOverRequested(why=body.why)
    return await _state(desk, fact, key="scheduler", caller=caller)
