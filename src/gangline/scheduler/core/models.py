"""Guarantees of single GPU models: beside the tree of teams, one more tree for each such model.

A model is guaranteed when a team has a number above 0 for it. A team's entry in the model's tree
says what it is guaranteed of it, and what it holds and will hold on nodes that carry the model's
label, so that there the same rules judge as for GPUs of any kind (quota.py). A team without a
number of its own is guaranteed what its children are. All of it is derived, and where no model is
guaranteed there is nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gangline.events.spec import Spec
from gangline.scheduler.core.entities import Job, Node, Team

MODEL: Final = "model"
"""The label of nodes, and of selectors, that names the model of GPU."""

Counts = dict[str, int]
"""GPUs of each guaranteed model; those of which there are none are not named."""

Teams = Mapping[str, Team]


def branch_of(team: Team | None) -> Iterator[Team]:
    """A team and its ancestors, innermost first, without the root."""
    while team is not None and team.name:
        yield team
        team = team.up


class Models:
    """The trees by model.

    inside: claims of `preemptible=no` jobs that want the model, by team.
    """

    def __init__(self, teams: Teams) -> None:
        """For the guarantees that teams have now; nobody holds anything yet."""
        stated = {model: None for team in teams.values() for model, n in team.by_model.items() if n}
        self.trees: dict[str, dict[str, Team]] = {m: _tree(teams, m) for m in sorted(stated)}
        self.inside: dict[str, Counts] = {model: {} for model in self.trees}

    def asked_by(self, spec: Spec) -> str:
        """The guaranteed model that a spec wants; empty for none."""
        model = spec.selector.get(MODEL, "") if self.trees else ""
        return model if model in self.trees else ""

    def open_to(self, spec: Spec) -> Iterable[str]:
        """The guaranteed models on which a job of this spec may come to stand."""
        return self.trees if MODEL not in spec.selector else filter(None, [self.asked_by(spec)])

    def on(self, parts: Iterable[tuple[Node | None, int]]) -> Counts:
        """How many GPUs of each guaranteed model are among those of some nodes."""
        counts: Counts = {}
        for node, gpus in parts:
            model = node.labels.get(MODEL, "") if node is not None else ""
            if model in self.trees:
                counts[model] = counts.get(model, 0) + gpus
        return counts

    # --- who holds what ---------------------------------------------------------------------------

    def seat(self, job: Job, counts: Counts) -> bool:
        """A gang stands on so many GPUs of each; whether a team comes to borrow by that."""
        job.by_model = counts
        for model in counts:
            self.trees[model][job.spec.team].gangs[job.id] = job
        return self.use(job.spec.team, counts, 1)

    def unseat(self, job: Job) -> None:
        """A gang lets its GPUs go."""
        for model in job.by_model:
            del self.trees[model][job.spec.team].gangs[job.id]
        self.use(job.spec.team, job.by_model, -1)

    def use(self, name: str, counts: Counts, sign: int) -> bool:
        """A team's own jobs hold so many more (1) or less (-1).

        Also used, and undone, by what-if searches. Whether a team comes to borrow.
        """
        borrows = False
        for model, gpus in counts.items():
            own = self.trees[model][name]
            own.own += sign * gpus
            for team in branch_of(own):
                team.used += sign * gpus
                borrows |= team.used > team.guaranteed >= team.used - sign * gpus
        return borrows

    def pledge(self, name: str, counts: Counts, sign: int) -> None:
        """A team's own jobs will hold so many more (1) or less (-1) than now."""
        for model, gpus in counts.items():
            own = self.trees[model][name]
            own.own_pledged += sign * gpus
            for team in branch_of(own):
                team.pledged += sign * gpus

    def pledge_inside(self, spec: Spec, sign: int) -> None:
        """A claim of a job that may only run inside its guarantee stands, or no longer."""
        model = "" if spec.preemptible else self.asked_by(spec)
        if model:
            claims = self.inside[model]
            claims[spec.team] = claims.get(spec.team, 0) + sign
            if not claims[spec.team]:
                del claims[spec.team]

    def forget_reach(self, name: str) -> None:
        """What a team could lose is to be worked out again."""
        for tree in self.trees.values():
            tree[name].reach.clear()


def _tree(teams: Teams, model: str) -> dict[str, Team]:
    """The teams as far as one model goes."""
    tree = {t.name: Team(name=t.name, order=t.order, parent=t.parent) for t in teams.values()}
    for team in tree.values():
        if team.parent:
            team.up = tree[team.parent]
            tree[team.parent].children.append(team)
    for team in tree.values():
        team.guaranteed = _guaranteed(teams, team, model)
    return tree


def _guaranteed(teams: Teams, team: Team, model: str) -> int:
    """What a team is guaranteed of a model: its own number, or its children's together."""
    stated = teams[team.name].by_model.get(model, 0)
    return stated or sum(_guaranteed(teams, child, model) for child in team.children)
