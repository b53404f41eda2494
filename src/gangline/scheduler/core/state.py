"""The scheduler's state.

The entities, what is derived from them, and what has been touched since it was asked.

Only `apply.py` changes it. Derived parts (free GPUs of nodes and domains, use of teams, the queue's
groups, timers) are kept in step by the small methods here, and can be built anew from the entities
alone (`rebuild`), which is how a snapshot becomes a state.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from gangline.events.decisions import Outcome
from gangline.scheduler.core import policy
from gangline.scheduler.core.ends import Ends
from gangline.scheduler.core.entities import (
    Cell,
    Done,
    Entity,
    Job,
    Kept,
    Node,
    Reservation,
    Team,
)
from gangline.scheduler.core.fleet import Tree, mask_of, take_bits
from gangline.scheduler.core.keys import GroupKey, group_of, key_of, matches
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.models import Models, branch_of
from gangline.scheduler.core.usage import grown

ROOT: Final = ""
HOLDING: Final = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)

TimerKey = tuple[int, str, str]


class State:
    """Everything the scheduler knows. See the entities for what each holds."""

    def __init__(self) -> None:
        """Begin a new cell: no nodes, no teams, default policy."""
        self.cell = Cell(policy=policy.defaults())
        self.jobs: dict[str, Job] = {}
        self.nodes: dict[str, Node] = {}
        self.teams: dict[str, Team] = {}
        self.reservations: dict[str, Reservation] = {}
        self.done: dict[str, Done] = {}
        # derived
        self.root = Team(name=ROOT, order=0)
        self.tree = Tree()
        self.trees: dict[tuple[tuple[str, str], ...], Tree] = {(): self.tree}
        self.capacity = 0
        self.lending_limited = False
        self.inside_claims: dict[str, int] = {}
        self.models = Models({})
        self.groups: dict[GroupKey, list[tuple[int, int, Job]]] = {}
        self.dependents: dict[str, list[str]] = {}
        self.reserved_on: dict[str, list[str]] = {}
        self.holding: dict[str, Job] = {}
        self.arrays: dict[str, int] = {}
        self.unverified: dict[str, None] = {}
        self.unexplained: dict[str, None] = {}
        self.fits: dict[object, object] = {}
        self.windowed: dict[str, None] = {}
        self.answered: dict[GroupKey, int] = {}
        self.shortest: dict[GroupKey, int] = {}
        self.timers: list[TimerKey] = []
        self.touched: dict[str, None] = {}
        self.dirty: dict[tuple[str, str], None] = {}
        self.hashes: dict[tuple[str, str], int] = {}
        self.digest_sum = 0
        self.epoch = 0
        self.all_epoch = 0
        self.team_epochs: dict[str, int] = {}
        self.ill: dict[str, Node] = {}
        self.ends = Ends(self.reserved_on)
        self.leaving: dict[str, Job] = {}
        self.plans_doubted = False
        self.plans_changed = 0
        self.causes_stale = False

    # --- touching ---------------------------------------------------------------------------------

    def touch(self, entity: Entity) -> None:
        """Its digest has to be computed again."""
        self.dirty[key_of(entity)] = None

    def wake(self, at_ms: int, kind: str, name: str = "") -> None:
        """Time alone will matter then; whoever is woken looks whether it still does."""
        heappush(self.timers, (at_ms, kind, name))

    def freed(self) -> None:
        """Anything that waits may start now, or have rights it had not.

        Every group is asked again.
        """
        self.epoch += 1
        self.all_epoch = self.epoch
        self.causes_stale = True

    def eased(self, team: str) -> None:
        """A team uses less: it and those under the same limits may have rights they had not.

        Of the others, those are asked again that want no more than is free, or may claim.
        """
        if self.lending_limited:
            self.freed()
            return
        self.epoch += 1
        top = team
        for above in self.chain(team):
            self.team_epochs[above.name] = self.epoch
            top = above.name
        # A limit of an ancestor binds the whole branch below it.
        pending = list(self.teams[top].children)
        while pending:
            below = pending.pop()
            self.team_epochs[below.name] = self.epoch
            pending.extend(below.children)
        self.causes_stale = True

    # --- nodes ------------------------------------------------------------------------------------

    def tree_for(self, selector: tuple[tuple[str, str], ...]) -> Tree:
        """The tree of the nodes that match; made when first asked for."""
        tree = self.trees.get(selector)
        if tree is None:
            tree = self.trees[selector] = Tree()
            for node in self.nodes.values():
                if matches(node, selector):
                    tree.add(node)
                    tree.count(node, node.avail.bit_count())
        return tree

    def enter_node(self, node: Node) -> None:
        """Derive what a new node brings."""
        self.capacity += node.gpus
        self.fits = {}
        for selector, tree in self.trees.items():
            if matches(node, selector):
                tree.add(node)
        node.rank = self.tree.rank(node)

    def leave_node(self, node: Node) -> None:
        """Undo what a node brought."""
        self.capacity -= node.gpus
        self.ends.wants.clear()
        self.windowed.pop(node.name, None)
        self.ill.pop(node.name, None)
        self.fits = {}
        for tree in self.trees.values():
            if node.name in tree.counted:
                tree.remove(node)
        for name in node.gangs if self.models.trees else ():
            self.count_by_model(self.jobs[name])

    def refresh(self, node: Node) -> None:
        """Count its free GPUs again; more than before is news for the queue."""
        usable = node.usable
        if usable == node.all:
            self.ill.pop(node.name, None)
        else:
            self.ill[node.name] = node
        avail = usable & ~(node.used | node.claimed)
        if avail & ~node.avail:
            self.epoch += 1
        self.set_avail(node, avail)

    def set_avail(self, node: Node, avail: int) -> None:
        """Say which GPUs of a node new work may have.

        Also used, and undone, by what-if searches.
        """
        if avail == node.avail:
            return
        node.avail = avail
        free = avail.bit_count()
        for tree in self.trees.values():
            if node.name in tree.counted:
                tree.count(node, free)

    def seat(self, job: Job) -> None:
        """A gang takes its GPUs."""
        for index, seat in enumerate(job.seats):
            node = self.nodes.get(seat.node)
            if node is None:
                continue
            node.used |= mask_of(seat.gpus)
            node.gangs[job.id] = index
            self.refresh(node)
            self.touched[seat.node] = None
        self.holding[job.id] = job
        self.teams[job.spec.team].gangs[job.id] = job
        self.forget_reach(job.spec.team)
        self.use(job.spec.team, job.gpus)
        if self.models.trees:
            self.count_by_model(job)
        self.ends.expect(self.cell.policy, job)
        if job.stop_cause:
            self.leaving[job.id] = job
            self.pledge_gang(job, -1)

    def unseat(self, job: Job) -> None:
        """A gang lets its GPUs go."""
        for seat in job.seats:
            node = self.nodes.get(seat.node)
            if node is None:
                continue
            node.used &= ~mask_of(seat.gpus)
            node.gangs.pop(job.id, None)
            self.touched[seat.node] = None
        del self.holding[job.id]
        del self.teams[job.spec.team].gangs[job.id]
        self.forget_reach(job.spec.team)
        self.leaving.pop(job.id, None)
        self.ends.forget(job)
        self.use(job.spec.team, -job.gpus)
        self.models.unseat(job)
        if job.stop_cause:
            self.pledge_gang(job, 1)
        job.by_model = {}

    def count_by_model(self, job: Job) -> None:
        """Count a gang, perhaps anew, on the guaranteed models that it stands on."""
        models, team = self.models, job.spec.team
        on = ((self.nodes.get(seat.node), len(seat.gpus)) for seat in job.seats)
        counts = models.on((n, gpus) for n, gpus in on if n is not None and job.id in n.gangs)
        leaves = job.id in self.leaving
        if leaves:
            models.pledge(team, job.by_model, 1)
        models.unseat(job)
        if models.seat(job, counts):
            self.freed()
        if leaves:
            models.pledge(team, counts, -1)
        self.forget_reach(team)

    def forget_reach(self, team: str) -> None:
        """What could be evicted of a team is to be worked out again."""
        self.teams[team].reach.clear()
        self.models.forget_reach(team)

    # --- teams ------------------------------------------------------------------------------------

    def chain(self, name: str) -> Iterator[Team]:
        """The team and its ancestors, innermost first, without the root."""
        return branch_of(self.teams[name])

    def use(self, name: str, gpus: int) -> None:
        """A team's own jobs hold so many GPUs more."""
        half_life = self.cell.policy["usage_half_life"]
        for team in self.chain(name):
            team.usage = self.usage_of(team, half_life)
            team.usage_ms = self.cell.now_ms
            team.used += gpus
            # A team that comes to borrow has gangs that may be reclaimed now.
            if team.used > team.guaranteed >= team.used - gpus:
                self.freed()
            self.touch(team)
        self.teams[name].own += gpus
        if gpus < 0:
            self.eased(name)

    def pledge(self, name: str, gpus: int) -> None:
        """A team's own jobs will hold so many GPUs more than now: claims, less what is leaving."""
        for team in self.chain(name):
            team.pledged += gpus
        self.teams[name].own_pledged += gpus

    def pledge_gang(self, job: Job, sign: int) -> None:
        """What a leaving gang holds is counted (1), or no longer (-1)."""
        self.pledge(job.spec.team, sign * job.gpus)
        self.models.pledge(job.spec.team, job.by_model, sign)

    def pledge_room(self, claim: Reservation, sign: int) -> None:
        """The room of a claim is counted (1), or no longer (-1)."""
        job = self.jobs[claim.job]
        self.pledge(job.spec.team, sign * job.gpus)
        if self.models.trees:
            parts = ((self.nodes.get(seat.node), seat.gpus) for seat in claim.seats)
            self.models.pledge(job.spec.team, self.models.on(parts), sign)

    def pledge_claim(self, claim: Reservation, sign: int) -> None:
        """A claim stands (1), or no longer (-1)."""
        self.pledge_room(claim, sign)
        spec = self.jobs[claim.job].spec
        if not spec.preemptible:
            self.inside_claims[spec.team] = self.inside_claims.get(spec.team, 0) + sign
            if not self.inside_claims[spec.team]:
                del self.inside_claims[spec.team]
        self.models.pledge_inside(spec, sign)

    def usage_of(self, team: Team, half_life_ms: int, now_ms: int | None = None) -> int:
        """Decayed GPU-milliseconds of the branch now."""
        now = self.cell.now_ms if now_ms is None else now_ms
        elapsed = now - team.usage_ms
        return grown(team.usage, rate=team.used, elapsed_ms=elapsed, half_life_ms=half_life_ms)

    def settle_usage(self) -> None:
        """Bring every team's decayed use up to now, before what it depends on changes."""
        half_life = self.cell.policy["usage_half_life"]
        for team in self.teams.values():
            team.usage = self.usage_of(team, half_life)
            team.usage_ms = self.cell.now_ms
            self.touch(team)

    # --- the queue --------------------------------------------------------------------------------

    def enqueue(self, job: Job) -> None:
        """It waits; where nothing but room is missing it stands in its group."""
        team = self.teams.get(job.spec.team)
        if team is not None:
            team.queued += 1
            team.wanted += job.gpus
        self.causes_stale = True
        self.regroup(job)

    def dequeue(self, job: Job) -> None:
        """It waits no more."""
        team = self.teams.get(job.spec.team)
        if team is not None:
            team.queued -= 1
            team.wanted -= job.gpus
        self.ungroup(job)

    def regroup(self, job: Job) -> None:
        """Stand in the right group, or in none while held.

        Backed off or waiting for another job.
        """
        self.ungroup(job)
        if job.phase is not Phase.QUEUED or job.held_by or job.not_before_ms or job.waiting_for:
            return
        if job.spec.team not in self.teams or self.has_claim(job.id):
            return
        job.group = group_of(job)
        insort(self.groups.setdefault(job.group, []), (job.submitted_ms, job.number, job))
        self.answered.pop(job.group, None)
        self.shortest.pop(job.group, None)

    def ungroup(self, job: Job) -> None:
        """Stand in no group."""
        if not job.group:
            return
        members = self.groups[job.group]
        members.remove((job.submitted_ms, job.number, job))
        self.shortest.pop(job.group, None)
        if not members:
            del self.groups[job.group]
        job.group = ()

    def link_dependencies(self, job: Job) -> None:
        """Count the jobs it waits for, and be found by them when they end."""
        missing = 0
        for other in job.spec.after:
            if not self.succeeded(other):
                missing += 1
                self.dependents.setdefault(other, []).append(job.id)
        job.waiting_for = missing

    def enter_array(self, job: Job) -> None:
        """A task of an array lives."""
        if job.array:
            self.arrays[job.array] = self.arrays.get(job.array, 0) + 1

    def leave_array(self, job: Job) -> None:
        """A task of an array has ended.

        With the last one the array has, as well as its worst task.
        """
        self.arrays[job.array] -= 1
        if self.arrays[job.array]:
            return
        del self.arrays[job.array]
        outcome = str(Outcome.SUCCEEDED)
        index = 1
        while (done := self.done.get(f"{job.array}.{index}")) is not None:
            outcome = outcome if done.outcome == Outcome.SUCCEEDED else done.outcome
            index += 1
        self.end(Done(id=job.array, outcome=outcome, at_ms=self.cell.now_ms))

    def end(self, done: Done) -> None:
        """Remember how something ended.

        And let those that wait for its success stand in the queue.
        """
        self.done[done.id] = done
        self.touch(done)
        if done.outcome != Outcome.SUCCEEDED:
            return
        for name in self.dependents.pop(done.id, ()):
            job = self.jobs.get(name)
            if job is not None:
                job.waiting_for -= 1
                self.regroup(job)

    def succeeded(self, job_id: str) -> bool:
        """Whether a job, or every task of an array, has succeeded."""
        done = self.done.get(job_id)
        return done is not None and done.outcome == Outcome.SUCCEEDED

    # --- reservations -----------------------------------------------------------------------------

    def reserve(self, reservation: Reservation) -> None:
        """Room is kept."""
        self.reservations[reservation.job] = reservation
        for seat in reservation.seats:
            self.reserved_on.setdefault(seat.node, []).append(reservation.job)
            if seat.held:
                self._claim(seat, seat.held)
        self.touch(reservation)
        self.wake(reservation.start_ms, "cycle")
        self.plans_changed += 1
        if reservation.kind == "firm":
            # Plans of jobs ahead, that it need not keep off, are made again around it.
            for seat in reservation.seats:
                self._disturb(seat.node, but=reservation.job)
        if reservation.kind == "claim":
            self.ungroup(self.jobs[reservation.job])
            self.pledge_claim(reservation, 1)

    def unreserve(self, job_id: str, *, started: bool) -> None:
        """Room is kept no longer. started: because the job has taken its place."""
        reservation = self.reservations.pop(job_id)
        self.ends.wants.pop(job_id, None)
        for seat in reservation.seats:
            names = self.reserved_on[seat.node]
            names.remove(job_id)
            if not names:
                del self.reserved_on[seat.node]
            node = self.nodes.get(seat.node)
            if node is not None and seat.held:
                node.claimed &= ~seat.held
                self.refresh(node)
        self.touch(reservation)
        if started and reservation.kind != "claim":
            # What was kept elsewhere is free; that one more may be planned for can wait a little.
            self.epoch += 1
            self.wake(self.cell.now_ms + self.cell.policy["replan_interval"], "cycle")
        else:
            self.freed()
        self.plans_changed += 1
        if reservation.kind == "claim":
            self.pledge_claim(reservation, -1)
        self.regroup(self.jobs[job_id])

    def disturb(self, job: Job) -> None:
        """A gang came or went: plans that keep room on its nodes may be made again."""
        for seat in job.seats:
            self._disturb(seat.node)

    def _disturb(self, node: str, *, but: str = "") -> None:
        for name in self.reserved_on.get(node, ()):
            reservation = self.reservations[name]
            if not reservation.disturbed and name != but:
                reservation.disturbed = True
                self.touch(reservation)
                self.wake(self.again_ms(reservation), "cycle")

    def again_ms(self, reservation: Reservation) -> int:
        """When a plan may be made again, if gangs came or went on its nodes."""
        return reservation.planned_ms + self.cell.policy["replan_interval"]

    def has_claim(self, job_id: str) -> bool:
        """Whether victims are leaving, or have left, for this job."""
        reservation = self.reservations.get(job_id)
        return reservation is not None and reservation.kind == "claim"

    def _claim(self, seat: Kept, mask: int) -> None:
        node = self.nodes[seat.node]
        node.claimed |= mask
        self.refresh(node)

    def keep_for_claim(self, node: Node, mask: int, *, first: str) -> None:
        """GPUs that become free go to claims here that lack some: `first`, then the oldest."""
        names = self.reserved_on.get(node.name, ())
        for job_id in sorted(names, key=lambda name: name != first):
            reservation = self.reservations[job_id]
            if reservation.kind != "claim":
                continue
            for seat in reservation.seats:
                lacking = seat.gpus - seat.held.bit_count() if seat.node == node.name else 0
                if lacking > 0:
                    taken = take_bits(mask & node.sound & ~node.claimed, lacking)
                    seat.held |= taken
                    node.claimed |= taken
                    mask &= ~taken
                    self.touch(reservation)

    def forget_timers(self, until_ms: int) -> None:
        """Whoever only folds has no use for timers that are past; a leader sets all anew."""
        while self.timers and self.timers[0][0] <= until_ms:
            heappop(self.timers)
