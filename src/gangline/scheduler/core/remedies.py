"""The smallest change that would start a waiting job: in words, and as numbers that can be tried.

A change is enough for the job if nobody before it in order takes the room first. Who would have to
leave is not said by name where anybody would do; who holds most is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import nsmallest
from typing import Final, NamedTuple

from gangline.events.decisions import Health, Service
from gangline.scheduler.core import victims
from gangline.scheduler.core.assumed import NEVER, grace_ms, protected_until_ms
from gangline.scheduler.core.entities import Job, Node
from gangline.scheduler.core.fleet import NODE_LEVEL, Domain, Shape, Tree
from gangline.scheduler.core.keeping import Keeping
from gangline.scheduler.core.names import (
    MOST_NAMED,
    duration_in_words,
    gpus_in_words,
    has_or_have,
    place_in_words,
    some,
)
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.policy import HOUR, MINUTE, SECOND
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

STEPS: Final = ((10 * HOUR, HOUR), (HOUR, 10 * MINUTE), (10 * MINUTE, MINUTE), (0, SECOND))


class Change(NamedTuple):
    """What would be enough, one of these.

    gpus: that are to be released; nodes: on which the gang's `gpus_per_node` are to be free; both
    within: the path of a domain, or of a node; empty for the whole fleet. back: nodes that have to
    come back. limit_ms: the longest limit with which it starts at once, before whoever the room is
    kept for. at_ms: a time to wait for.
    """

    text: str
    gpus: int = 0
    nodes: int = 0
    within: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    limit_ms: int = 0
    at_ms: int = 0
    kept_for: str = ""


NOTHING: Final = Change("")


# --- room -----------------------------------------------------------------------------------------


def more_room(turn: Turn, job: Job, shape: Shape, order: Order) -> Change:
    """How much has to be released, and where, for a shape that does not fit."""
    tree = turn.state.tree_for(shape.selector)
    depth = tree.depth_of(shape.level) or 0
    keeping = Keeping(turn, job, order)
    with keeping.without_kept(tree):
        if shape.level == NODE_LEVEL:
            found = _node_with_most(turn.state, tree, shape)
        else:
            found = _domain_with_most(turn, tree, shape, depth)
    if found is None:
        return Change("starts when more nodes of its kind are in service")
    names = some([plan.job for plan in keeping.binding()])
    change = _released(shape, *found)
    if not names:
        return change
    return change._replace(text=f"{change.text}, besides what is kept for {names}", kept_for=names)


def _released(shape: Shape, lacking: int, path: tuple[str, ...], level: str) -> Change:
    where = f" in {place_in_words(level, path)}" if path else ""
    if shape.per_node and level != NODE_LEVEL:
        nodes = "node has" if lacking == 1 else "nodes have"
        text = f"starts when {lacking} more {nodes} {gpus_in_words(shape.per_node)} free{where}"
        return Change(text, nodes=lacking, within=path)
    are = "is" if lacking == 1 else "are"
    return Change(f"starts when {lacking} more {are} released{where}", gpus=lacking, within=path)


Found = tuple[int, tuple[str, ...], str]


def _domain_with_most(turn: Turn, tree: Tree, shape: Shape, depth: int) -> Found | None:
    """Of the domains that could hold the gang, the one that lacks least."""
    per_node = shape.per_node
    able = turn.remember(
        ("able", shape.selector, depth, per_node),
        lambda: _able(tree.levels[depth], per_node),
    )
    best: tuple[int, int] | None = None
    for index, domain in enumerate(tree.levels[depth]):
        if able[index] * (per_node or 1) < shape.gpus:
            continue
        free = domain.at_least[per_node] if per_node else domain.free
        lacking = (shape.nodes if per_node else shape.gpus) - free
        if best is None or lacking < best[0]:
            best = lacking, index
    if best is None:
        return None
    lacking, index = best
    chosen = tree.levels[depth][index]
    return max(1, lacking), chosen.path, chosen.level


def _able(domains: Sequence[Domain], per_node: int) -> list[int]:
    """What the nodes in service could give in each domain: GPUs, or nodes of so many each."""
    return [sum(_gives(node, per_node) for node in nodes_under(domain)) for domain in domains]


def _gives(node: Node, per_node: int) -> int:
    usable = node.usable.bit_count()
    return int(usable >= per_node) if per_node else usable


def _node_with_most(state: State, tree: Tree, shape: Shape) -> Found | None:
    """Of the nodes that could hold the gang, the one that lacks least."""
    able = [
        (shape.gpus - free, node.order, node)
        for name, free in tree.counted.items()
        if (node := state.nodes[name]).usable.bit_count() >= shape.gpus
    ]
    if not able:
        return None
    lacking, _, node = min(able)
    return max(1, lacking), (*node.path, node.name), NODE_LEVEL


def nodes_under(domain: Domain) -> Iterator[Node]:
    """All nodes of a domain."""
    yield from domain.nodes
    for child in domain.children:
        yield from nodes_under(child)


def holders(turn: Turn, shape: Shape, within: tuple[str, ...]) -> str:
    """Who holds most there, as the end of a sentence."""
    tree = turn.state.tree_for(shape.selector)
    key = ("holders", shape.selector, within)
    return turn.remember(key, lambda: _holders(turn.state, tree, within))


def _holders(state: State, tree: Tree, within: tuple[str, ...]) -> str:
    held: dict[str, int] = {}
    for name in tree.counted:
        node = state.nodes[name]
        if (*node.path, node.name)[: len(within)] != within:
            continue
        for gang, index in node.gangs.items():
            held[gang] = held.get(gang, 0) + len(state.jobs[gang].seats[index].gpus)
    largest = nsmallest(MOST_NAMED, held, key=lambda name: (-held[name], state.jobs[name].number))
    named = ", ".join(f"{name} ({held[name]})" for name in largest)
    return f"; most {'there ' if within else ''}is held by {named}" if named else ""


# --- other changes --------------------------------------------------------------------------------


def may_evict_later(turn: Turn, job: Job, shape: Shape, order: Order) -> Change | None:
    """When those whom it may evict for its place have run their minimum time.

    None when there is nobody, wherever it looked; no time where one of them has yet to start.
    """
    search = victims.Search(turn, job, shape, order)
    search.ignore_protection = True
    search.thorough = False
    choice = search.best()
    if choice is None:
        return None
    policy = turn.state.cell.policy
    until = [(protected_until_ms(policy, v.job), v.job.id) for v in choice.victims if v.cause]
    protected = [(at_ms, name) for at_ms, name in until if at_ms > turn.now_ms]
    if not protected:
        return NOTHING
    at_ms = max(protected)[0]
    names = [name for _, name in protected]
    start = (
        f"starts at the latest when {some(names)} {has_or_have(len(names))} run the minimum time"
    )
    if at_ms == NEVER:
        return Change(start)
    left = duration_in_words(_coarse(at_ms - turn.now_ms, up=True))
    return Change(f"{start}, in {left}, and may be evicted", at_ms=at_ms)


def shorter_limit(turn: Turn, job: Job, shape: Shape, order: Order) -> Change:
    """With what limit it could use the hole before what is kept for others."""
    keeping = Keeping(turn, job, order)
    plans = keeping.binding()
    starts = [plan.start_ms for plan in plans]
    starts += [w.from_ms for w in keeping.windows() if w.from_ms > turn.now_ms]
    if not starts:
        return NOTHING
    names = some([plan.job for plan in plans]) if plans else "an announced maintenance"
    later = f"when {names} {has_or_have(len(plans))} started" if plans else "after that"
    grace = grace_ms(turn.state.cell.policy, job)
    end_ms = _latest_end(turn, job, shape, order, starts)
    limit_ms = _coarse(end_ms - turn.now_ms - grace + job.saved_ms, up=False)
    if limit_ms <= job.saved_ms:
        return Change(f"starts {later}", kept_for=names)
    text = f"starts at once with a limit of {duration_in_words(limit_ms)}, or {later}"
    return Change(text, limit_ms=limit_ms, kept_for=names)


def _latest_end(turn: Turn, job: Job, shape: Shape, order: Order, starts: list[int]) -> int:
    """By when it has to be out to find a place now: one of the times at which others start.

    Whoever is out sooner is bound by fewer, so the last time that is soon enough is found by
    halving. Out by the first of them it is bound by nobody.
    """
    ends = sorted(set(starts))
    first_too_late = bisect_left(
        ends[1:], 1, key=lambda end_ms: not _fits_until(turn, job, shape, order, end_ms)
    )
    return ends[first_too_late]


def _fits_until(turn: Turn, job: Job, shape: Shape, order: Order, end_ms: int) -> bool:
    keeping = Keeping(turn, job, order)
    keeping.end_ms = end_ms
    tree = turn.state.tree_for(shape.selector)
    with keeping.without_kept(tree):
        return tree.fits(shape)


def back_in_service(turn: Turn, shape: Shape) -> Change:
    """Which nodes have to be well and open again for a shape that would fit if all were."""
    state = turn.state
    more = turn.remember("all well", lambda: all_well(state))
    able = [n for n in more if more[n] and n in state.tree_for(shape.selector).counted]
    able.sort(key=lambda name: (-more[name].bit_count(), state.nodes[name].order))
    chosen: list[str] = []
    for name in able:
        chosen.append(name)
        if fits_with(state, shape, {n: more[n] for n in chosen}):
            break
    for name in list(chosen):
        without = {n: more[n] for n in chosen if n != name}
        if fits_with(state, shape, without):
            chosen.remove(name)
    ailing = [f"{name} ({_ails(state.nodes[name])})" for name in chosen]
    verb = "is" if len(ailing) == 1 else "are"
    return Change(f"starts when {some(ailing)} {verb} back in service", back=tuple(chosen))


def _ails(node: Node) -> str:
    if node.health is not Health.WELL:
        return str(node.health)
    if node.service is not Service.OPEN:
        return str(node.service)
    return f"{gpus_in_words(node.gpus - node.sound.bit_count())} bad"


def _coarse(ms: int, *, up: bool) -> int:
    """A duration in steps that fit its size, so that what is said does not change all the time."""
    step = next((step for least, step in STEPS if ms >= least), SECOND)
    return -(-ms // step) * step if up else ms // step * step


# --- kinder fleets --------------------------------------------------------------------------------


def all_well(state: State) -> dict[str, int]:
    """What every node would have free if it were well, open, and none of its GPUs bad."""
    return {name: node.all & ~(node.used | node.claimed) for name, node in state.ill.items()}


def fits_with(state: State, shape: Shape, more: dict[str, int]) -> bool:
    """Whether a shape that does not fit would, with these GPUs free too."""
    if not more:
        return False
    with _as_if(state, more):
        return state.tree_for(shape.selector).fits(shape)


@contextmanager
def _as_if(state: State, more: dict[str, int]) -> Iterator[None]:
    """The fleet with these GPUs free too."""
    before: list[tuple[Node, int]] = []
    for name, mask in more.items():
        node = state.nodes[name]
        before.append((node, node.avail))
        state.set_avail(node, node.avail | mask)
    try:
        yield
    finally:
        for node, avail in before:
            state.set_avail(node, avail)
