"""The view `teams` tells what each is guaranteed of single GPU models, and what it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gangline.projections.migrations import migrate
from gangline.projections.models import all_models
from tests.projections import story as s
from tests.projections.conftest import Desk

if TYPE_CHECKING:
    from gangline.events import decisions as d


def of_model(name: str, model: str) -> d.NodeAdded:
    """A node that says what its GPUs are."""
    return replace(s.node(name), labels={"model": model})


def by_model(desk: Desk) -> dict[str, Any]:
    """The column of each team."""
    rows = desk.all("SELECT team, by_model FROM teams ORDER BY team")
    return {row["team"]: row["by_model"] for row in rows}


def fleet_of_two_models(desk: Desk) -> None:
    """A team under a parent that runs on one node of each model."""
    desk.story.step(
        of_model("n0", "h100"),
        of_model("n1", "a100"),
        s.node("n2"),
        s.team("lab", guaranteed=16),
        replace(s.team("vision", parent="lab"), by_model={"h100": 4, "a100": 0}),
    )
    two = replace(s.spec(), gpus=16, gpus_per_node=8)
    desk.story.step(s.queued("a", of=two))
    desk.story.step(s.placed("a", "n0", "n1"))


def test_a_guarantee_of_a_model_stands_beside_its_use(desk: Desk) -> None:
    """The parent is guaranteed what its children are; a model of which nobody is, is not there."""
    fleet_of_two_models(desk)

    desk.catch_up()

    of_it = {"h100": {"used": 8, "guaranteed": 4}}
    assert by_model(desk) == {"lab": of_it, "vision": of_it}


def test_where_no_model_is_guaranteed_nothing_is_told(desk: Desk) -> None:
    """Though nodes say what they are; and it ends when the last number is taken back."""
    desk.story.step(of_model("n0", "h100"), s.team("vision"))
    desk.catch_up()
    assert by_model(desk) == {"vision": {}}

    desk.story.step(replace(s.team("vision"), by_model={"h100": 4}))
    desk.catch_up()
    assert by_model(desk) == {"vision": {"h100": {"used": 0, "guaranteed": 4}}}

    desk.story.step(replace(s.team("vision"), by_model={"h100": 0}))
    desk.catch_up()
    assert by_model(desk) == {"vision": {}}


def test_a_node_that_comes_back_as_another_model_counts_as_that(desk: Desk) -> None:
    """Its label is what the last admission says."""
    fleet_of_two_models(desk)
    desk.catch_up(all_models())

    desk.story.step(of_model("n0", "b200"))
    desk.catch_up()

    assert by_model(desk)["vision"] == {"h100": {"used": 0, "guaranteed": 4}}


def test_views_of_before_learn_what_they_did_not_keep(postgres_url: str) -> None:
    """A database of an older version is right with the next step, without a rebuild."""
    migrate(postgres_url)
    desk = Desk(postgres_url)
    fleet_of_two_models(desk)
    desk.catch_up()
    before = by_model(desk)
    _forget_the_step(desk)

    migrate(postgres_url)
    desk.story.step(s.queued("b", number=2))
    desk.catch_up()

    assert by_model(desk) == before


def _forget_the_step(desk: Desk) -> None:
    """Bring the database back to the step before models were kept."""
    desk.execute("DROP VIEW teams")
    desk.execute("DROP VIEW queue")
    desk.execute("ALTER TABLE team DROP COLUMN by_model, DROP COLUMN standing")
    desk.execute("DROP FUNCTION index_names")
    desk.execute("DROP INDEX job_by_part_of_name")
    desk.execute("DELETE FROM view_memory WHERE key LIKE 'model:%'")
    desk.execute("UPDATE view_memory SET value = value - 'by_model' WHERE key LIKE 'team:%'")
    desk.execute("UPDATE alembic_version SET version_num = '0007'")
