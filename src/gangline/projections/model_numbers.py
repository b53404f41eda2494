"""What teams are guaranteed of single GPU models, and hold of them. Pure.

As the scheduler counts it: a model is guaranteed when a team has a number above 0 for it. A team
without a number of its own is guaranteed what its children are; use counts in every team above.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from gangline.projections.books import Books
    from gangline.projections.lending import Tree


class ModelNumbers(TypedDict):
    """GPUs of one model: what a team is guaranteed of it, and what it and those below hold."""

    guaranteed: int
    used: int


def model_numbers(books: Books) -> dict[str, dict[str, ModelNumbers]]:
    """Of each team the numbers by model; nothing where no model is guaranteed."""
    stated = {model for terms in books.teams.values() for model, n in terms.by_model.items() if n}
    if not stated:
        return {}
    tree, uses = books.tree(), _uses(books, stated)
    found: dict[str, dict[str, ModelNumbers]] = {name: {} for name in books.teams}
    for model in sorted(stated):
        used = tree.totals(uses[model])
        promised = _promised(tree, model)
        for name, numbers in found.items():
            numbers[model] = ModelNumbers(guaranteed=promised[name], used=used[name])
    return found


def _promised(tree: Tree, model: str) -> dict[str, int]:
    """What each team is guaranteed of a model: its own number, or its children's together."""
    found: dict[str, int] = {}
    for name in tree.upwards():
        own = tree.teams[name].by_model.get(model, 0) if name in tree.teams else 0
        found[name] = own or sum(found[child] for child in tree.children.get(name, ()))
    return found


def _uses(books: Books, models: set[str]) -> dict[str, Counter[str]]:
    """GPUs of each model that the gangs of a team hold, by model and team."""
    found: dict[str, Counter[str]] = {model: Counter() for model in models}
    for job, gang in books.gangs.items():
        for name in gang.nodes:
            node, book = books.nodes.get(name), books.models.get(name)
            if node is not None and book is not None and book.model in models:
                found[book.model][gang.team] += len(node.held.get(job, ()))
    return found
