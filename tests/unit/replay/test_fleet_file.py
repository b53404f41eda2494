"""Fleet, team and policy files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events.facts import TeamSet
from gangline.events.spec import UNLIMITED
from gangline.replay.bad_input import BadInputError
from gangline.replay.fleet_file import (
    fleet_text,
    parse_duration_ms,
    read_fleet,
    read_policy,
    read_teams,
    split_guarantee,
    teams_text,
)

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = """
gpus_per_node = 8
levels = ["spine", "block"]
spines = 2
blocks_per_spine = 3
nodes_per_block = 4
"""


def file_of(folder: Path, text: str) -> Path:
    """A TOML file with this text."""
    path = folder / "it.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_counts_make_a_regular_tree(tmp_path: Path) -> None:
    """Nodes are named by their place, per parent."""
    fleet = read_fleet(file_of(tmp_path, COUNTS))

    assert len(fleet.nodes) == 24
    assert fleet.gpus == 192
    assert fleet.nodes[-1].name == "s1-b2-n3"
    assert fleet.nodes[-1].path == ("s1", "s1-b2")


def test_a_listed_fleet_reads_as_it_was_written(tmp_path: Path) -> None:
    """What `fleet_text` writes is the same fleet."""
    fleet = read_fleet(file_of(tmp_path, COUNTS))

    assert read_fleet(file_of(tmp_path, fleet_text(fleet))) == fleet


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spines = ", "expected TOML"),
        ("levels = ['spine']", "gpus_per_node: expected a count"),
        (COUNTS.replace("= 3", "= 0"), "blocks_per_spine: expected a count of at least 1, got 0"),
        ("[[node]]\nname = 'a'\npath = ['s']\ngpus = 8", "node 1: path: expected 2 names"),
        ("levels = []\n[[node]]\nname = 'a'\npath = []\ngpus = 'x'", "gpus: expected a count"),
        (
            "levels = []\ngpus_per_node = 8\n" + "[[node]]\nname = 'a'\npath = []\n" * 2,
            "node a: expected once, got 2 times",
        ),
    ],
)
def test_a_wrong_fleet_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, the key and what would be right."""
    with pytest.raises(BadInputError, match=r"it\.toml: .*") as caught:
        read_fleet(file_of(tmp_path, text))

    assert message in str(caught.value)


def test_teams_come_after_their_parents(tmp_path: Path) -> None:
    """The file may name a child first; words stand for no limit."""
    text = """
    [[team]]
    name = "child"
    guaranteed = 8
    parent = "org"
    borrow = "none"
    [[team]]
    name = "org"
    guaranteed = 16
    lend = "unlimited"
    """
    teams = read_teams(file_of(tmp_path, text))

    assert [team.team for team in teams] == ["org", "child"]
    assert teams[0].lend == UNLIMITED
    assert teams[1].borrow == 0


def test_teams_read_as_they_were_written(tmp_path: Path) -> None:
    """What `teams_text` writes is the same teams."""
    teams = (
        TeamSet(team="a", guaranteed=10, borrow=UNLIMITED, weight=2),
        TeamSet(team="b", guaranteed=4, parent="a", by_model={"h100": 2, "a 100": 1}),
    )

    assert read_teams(file_of(tmp_path, teams_text(teams))) == teams


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[teams.a]\nguaranteed = 8", "teams: expected tables [[team]] or [team.NAME]"),
        ("[[teams]]\nname = 'a'", "teams: expected tables [[team]] or [team.NAME]"),
        ("team = 3", "expected tables"),
        ("[[team]]\nguaranteed = 1", "name: expected a text"),
        ("[[team]]\nname = 'a'\nguarantee = 1", "guarantee: expected one of"),
        ("[[team]]\nname = 'a'\nguaranteed = -1", "guaranteed: expected GPUs"),
        ("[[team]]\nname = 'a'\nparent = 'a'", "no such parent: a"),
        ("[[team]]\nname = 'a'\n[[team]]\nname = 'a'", "team a: expected once"),
        ("[[team]]\nname = 'a'\nby_model = 3", "by_model: expected a table"),
        ("[[team]]\nname = 'a'\nby_model = { h = -1 }", "h: expected a count of at least 0"),
        (
            "[[team]]\nname = 'a'\nguaranteed = 8\nby_model = { h = 5, a = 4 }",
            "team a: by_model: expected at most 8, got 9 in all",
        ),
    ],
)
def test_wrong_teams_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message names the team, the key and what would be right."""
    with pytest.raises(BadInputError) as caught:
        read_teams(file_of(tmp_path, text))

    assert message in str(caught.value)


def test_a_policy_is_texts_and_counts(tmp_path: Path) -> None:
    """Which keys exist is for the core to say; a table is no value."""
    assert read_policy(file_of(tmp_path, 'a = "10m"\nb = 3')) == {"a": "10m", "b": 3}
    with pytest.raises(BadInputError, match='a: expected "10m" or a count'):
        read_policy(file_of(tmp_path, "a = [1]"))


def test_a_guarantee_is_split_equally() -> None:
    """Nothing is lost: what does not divide goes to the first teams."""
    teams = split_guarantee(["a", "b", "c"], 8)

    assert [(team.team, team.guaranteed) for team in teams] == [("a", 3), ("b", 3), ("c", 2)]


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("1h30m", 5_400_000), ("3d", 259_200_000), ("0", 0)]
)
def test_durations(text: str, milliseconds: int) -> None:
    """As people write them."""
    assert parse_duration_ms(text, where="--checkpoint") == milliseconds


def test_a_wrong_duration_is_refused() -> None:
    """The message names the option."""
    with pytest.raises(BadInputError, match=r"--checkpoint: expected a duration like"):
        parse_duration_ms("10 minutes", where="--checkpoint")
