"""Who lends whom, what each team has a right to, and what the views of teams and fairness say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.projections.entitlement import PARTS, entitled, fill
from gangline.projections.lending import FLEET, UNLIMITED, Loan, TeamTerms, Tree, lend, lent
from gangline.scheduler import core
from gangline.scheduler.core.entities import Team
from gangline.scheduler.core.rebuild import link_teams
from gangline.scheduler.core.state import State
from tests.projections import story as s

if TYPE_CHECKING:
    from tests.projections.conftest import Desk

NAMES = ("a", "b", "c", "d")
teams = st.fixed_dictionaries(
    {
        name: st.builds(
            TeamTerms,
            parent=st.sampled_from(("", *NAMES[:index])),
            guaranteed=st.integers(0, 40),
            lend=st.sampled_from((-1, 0, 3)),
            weight=st.integers(1, 4),
            order=st.just(index),
        )
        for index, name in enumerate(NAMES)
    }
)
uses = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 25))


def test_what_nobody_is_guaranteed_is_lent_first_then_who_has_most_idle() -> None:
    """Ten GPUs, of which two are nobody's."""
    tree = Tree({"a": TeamTerms(), "b": TeamTerms(guaranteed=3), "c": TeamTerms(guaranteed=5)})

    lending = lend(tree, {"a": 6}, 10)

    assert lending.loans == [
        Loan(FLEET, "a", 2, sibling=False),
        Loan("c", "a", 4, sibling=True),
    ]


def test_siblings_lend_before_cousins() -> None:
    """The parent borrows outside only what its own children do not have."""
    tree = Tree(
        {
            "p": TeamTerms(guaranteed=8),
            "a": TeamTerms(guaranteed=4, parent="p"),
            "b": TeamTerms(guaranteed=4, parent="p"),
            "q": TeamTerms(guaranteed=8),
        }
    )

    loans = lend(tree, {"a": 10}, 16).loans

    assert loans == [
        Loan("q", "p", 2, sibling=True),
        Loan("b", "a", 4, sibling=True),
        Loan("p", "a", 2, sibling=False),
    ]


@given(teams, uses, st.integers(0, 60))
def test_promises_and_loans_add_up(
    terms: dict[str, TeamTerms], direct: dict[str, int], spare: int
) -> None:
    """Own part and what was borrowed are used, lent or idle; all idle parts are what is left."""
    tree = Tree(terms)
    promised = sum(team.guaranteed for name, team in terms.items() if team.parent == FLEET)
    capacity = max(sum(direct.values()), promised) + spare
    lending = lend(tree, direct, capacity)
    given: Counter[str] = Counter()
    borrowed: Counter[str] = Counter()
    for loan in lending.loans:
        assert loan.gpus > 0
        given[loan.lender] += loan.gpus
        borrowed[loan.borrower] += loan.gpus

    for name in (FLEET, *NAMES):
        below = sum(terms[child].guaranteed for child in tree.children.get(name, ()))
        guaranteed = capacity if name == FLEET else terms[name].guaranteed
        own = guaranteed - below
        if own >= 0:
            used = direct.get(name, 0)
            assert own + borrowed[name] == used + given[name] + lending.idle[name]


@given(teams, uses, st.integers(0, 60))
def test_the_scheduler_names_the_same_lenders(
    terms: dict[str, TeamTerms], direct: dict[str, int], spare: int
) -> None:
    """In any tree, whatever was lowered under use; and loans say the same where none is limited.

    Of a loan from a child to its parent, loans do not say whether the parent only passes it on.
    """
    capacity = sum(direct.values()) + spare
    state = scheduler_state(terms, direct, capacity)

    lends = lent(Tree(terms), direct, capacity)

    assert lends == {name: core.team_numbers(state, name).lent for name in terms}
    if not Tree(terms).limited:
        loans = lend(Tree(terms), direct, capacity).loans
        lenders = {loan.lender for loan in loans}
        found = lent_by_loans(loans, terms)
        plain = [name for name in terms if terms[name].parent not in lenders]
        assert [found[name] for name in plain] == [lends[name] for name in plain]


@given(teams, uses, st.integers(0, 60))
def test_nobody_lends_beyond_its_limit(
    terms: dict[str, TeamTerms], direct: dict[str, int], spare: int
) -> None:
    """Unless what is in use cannot be lent within the limits at all."""
    capacity = sum(direct.values()) + sum(team.guaranteed for team in terms.values()) + spare

    lending = lend(Tree(terms), direct, capacity)

    found = lent_by_loans(lending.loans, terms)
    for name, team in terms.items():
        assert team.lend == UNLIMITED or found[name] <= team.lend


def test_a_branch_borrows_outside_what_a_team_in_it_keeps() -> None:
    """Its guarantee is idle, and locked: a lends nothing, so the fleet does, through p."""
    tree = Tree(
        {
            "p": TeamTerms(guaranteed=10),
            "a": TeamTerms(guaranteed=10, lend=0, parent="p", order=1),
            "b": TeamTerms(parent="p", order=2),
        }
    )

    lending = lend(tree, {"b": 5}, 16)

    assert lending.loans == [
        Loan(FLEET, "p", 5, sibling=False),
        Loan("p", "b", 5, sibling=False),
    ]
    assert lending.idle == {FLEET: 1, "p": 0, "a": 10, "b": 0}


def lent_by_loans(loans: list[Loan], terms: dict[str, TeamTerms]) -> Counter[str]:
    """GPUs that each team lends to teams under its parent and to the parent's own jobs."""
    found: Counter[str] = Counter()
    for loan in loans:
        if loan.lender != FLEET and (loan.sibling or terms[loan.lender].parent == loan.borrower):
            found[loan.lender] += loan.gpus
    return found


def scheduler_state(terms: dict[str, TeamTerms], direct: dict[str, int], capacity: int) -> State:
    """The scheduler's state with these teams, which hold so many GPUs themselves."""
    state = State()
    state.capacity = capacity
    for name, team in terms.items():
        state.teams[name] = Team(
            name=name,
            order=team.order,
            guaranteed=team.guaranteed,
            lend=team.lend,
            parent=team.parent,
            own=direct.get(name, 0),
        )
    link_teams(state)
    return state


@given(
    st.integers(0, 500),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5)), max_size=6),
)
def test_water_filling_gives_nobody_more_than_it_wants(
    amount: int, claims: list[tuple[int, int]]
) -> None:
    """And leaves less than one part a claim undivided while somebody wants more."""
    wants, weights = [c[0] for c in claims], [c[1] for c in claims]

    got = fill(amount, wants=wants, weights=weights)

    assert all(0 <= g <= want for g, want in zip(got, wants, strict=True))
    assert sum(got) <= amount
    unmet = [w for w, g, k in zip(weights, got, wants, strict=True) if g < k and w]
    if unmet:
        assert amount - sum(got) < len(claims)


def test_guarantees_come_first_then_weights() -> None:
    """Of twelve GPUs, b is guaranteed four; the other eight are split one to three."""
    tree = Tree({"a": TeamTerms(weight=1), "b": TeamTerms(guaranteed=4, weight=3)})

    rights = entitled(tree, {"a": 100, "b": 100}, 12)

    assert rights == {"a": 2 * PARTS, "b": 10 * PARTS}


def test_nobody_is_entitled_beyond_its_demand_or_its_limit() -> None:
    """What one does not want goes to the others."""
    tree = Tree({"a": TeamTerms(), "b": TeamTerms(guaranteed=1, borrow=1), "c": TeamTerms()})

    rights = entitled(tree, {"a": 3, "b": 9, "c": 100}, 20)

    assert rights == {"a": 3 * PARTS, "b": 2 * PARTS, "c": 15 * PARTS}


def test_a_team_shows_what_it_borrows_and_lends(desk: Desk) -> None:
    """Numbers that always add up."""
    desk.story.step(
        s.node("n0"),
        s.team("vision", guaranteed=2),
        s.team("speech", guaranteed=6),
        s.queued("a", of=s.spec("vision", gpus=5)),
        s.placed("a", "n0", gpus=5),
        s.queued("b", number=2),
    )

    desk.catch_up()

    rows = desk.all(
        "SELECT team, used, guaranteed_used, borrowed, lent, queued FROM teams ORDER BY team"
    )
    keys = ("team", "used", "guaranteed_used", "borrowed", "lent", "queued")
    assert rows == [
        dict(zip(keys, ("speech", 0, 0, 0, 3, 0), strict=True)),
        dict(zip(keys, ("vision", 5, 2, 3, 0, 1), strict=True)),
    ]


def test_fairness_compares_what_was_held_with_what_was_due(desk: Desk) -> None:
    """One hour in which a team held all eight GPUs while the other wanted its four."""
    story = desk.story
    story.step(s.node("n0"), s.team("vision", guaranteed=4), s.team("speech", guaranteed=4))
    story.step(s.queued("a"), s.placed("a", "n0"), s.queued("b", number=2, of=s.spec("speech")))
    story.wait(h=1)
    story.step()

    desk.catch_up()

    rows = desk.all("SELECT * FROM fairness WHERE window_s = 3600 ORDER BY team")
    seen = [(r["team"], r["delivered_gpu_hours"], r["entitled_gpu_hours"]) for r in rows]
    assert seen == [("speech", 0, 4), ("vision", 8, 4)]
    assert [row["error"] for row in rows] == [-0.5, 0.5]
    windows = desk.all("SELECT DISTINCT window_s FROM fairness ORDER BY window_s")
    assert [row["window_s"] for row in windows] == [3600, 86400, 604800]


def test_a_job_that_cannot_start_anyhow_is_no_demand(desk: Desk) -> None:
    """It is held, or waits for another job."""
    story = desk.story
    story.step(s.node("n0"), s.team("vision"))
    story.step(s.queued("a"), d.JobHeld(job="a", by="user:ada", why=""))
    story.step(s.queued("b", number=2), s.waits("b", cause=d.WaitCause.DEPENDENCY))
    story.wait(h=1)
    story.step()

    desk.catch_up()

    row = desk.one("SELECT * FROM fairness WHERE window_s = 3600")
    assert (row["entitled_gpu_hours"], row["demand_gpu_hours"]) == (0, 0)
