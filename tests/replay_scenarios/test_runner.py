"""The runner of scenario files: its lines, its exit codes, and what each expectation looks at."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gangline.replay.scenario import ScenarioRun, run_files
from gangline.replay.scenario_grammar import parse

FLEET = "fleet spines=1 blocks=2 nodes=2 gpus=8\nteam a guaranteed=32\n"


def play(text: str) -> str | None:
    """Play a story on the usual fleet; the line that says what went wrong."""
    commands = parse(FLEET + text, file="x.scn")
    return ScenarioRun("x.scn").play(commands)


def written(folder: Path, name: str, text: str) -> Path:
    """Put a scenario into a file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_file_has_a_line_and_the_last_one_counts(tmp_path: Path) -> None:
    """What passed is ok; what failed says where, what was expected and what was found."""
    good = written(tmp_path, "good.scn", FLEET + "submit j team=a gpus=8\nexpect j state=running\n")
    bad = written(tmp_path, "bad.scn", FLEET + "submit j team=a gpus=8\nexpect j state=queued\n")
    out = io.StringIO()

    code = run_files([good, bad], out)

    assert code == 1
    assert out.getvalue().splitlines() == [
        f"{good}: ok",
        f"{bad}:4: expected j state=queued, got state=running",
        "1 passed, 1 failed",
    ]


def test_all_passed_is_exit_code_0(tmp_path: Path) -> None:
    """And nothing else is."""
    good = written(tmp_path, "good.scn", FLEET)
    out = io.StringIO()

    assert run_files([good], out) == 0
    assert out.getvalue().splitlines()[-1] == "1 passed, 0 failed"


def test_what_cannot_be_read_is_exit_code_2(tmp_path: Path) -> None:
    """A wrong word, a missing file, bytes that are no text; the others are run all the same."""
    wrong = written(tmp_path, "wrong.scn", FLEET + "submit j team=a\n")
    binary = tmp_path / "binary.scn"
    binary.write_bytes(b"fleet \xff")
    good = written(tmp_path, "good.scn", FLEET)
    out = io.StringIO()

    code = run_files([wrong, binary, tmp_path / "none.scn", tmp_path, good], out)

    assert code == 2
    assert out.getvalue().splitlines() == [
        f"{wrong}:3: gpus: expected gpus=…, got nothing",
        f"{binary}: expected UTF-8 text, got invalid start byte at 6",
        f"{tmp_path / 'none.scn'}: expected a scenario file, got No such file or directory",
        f"{tmp_path}: expected a scenario file, got Is a directory",
        f"{good}: ok",
        "1 passed, 4 failed",
    ]


def test_no_file_is_no_pass() -> None:
    """Somebody whose pattern matched nothing should hear of it."""
    assert run_files([], io.StringIO()) == 2


@pytest.mark.parametrize(
    ("expectation", "complaint"),
    [
        ("expect j state=queued", "expected j state=queued, got state=running"),
        ("expect j attempts=2 nodes=2", "expected j attempts=2 nodes=2, got attempts=1 nodes=1"),
        ("expect j attempts>1", "expected j attempts>1, got attempts=1"),
        ("expect j preemptions>=1", "expected j preemptions>=1, got preemptions=0"),
        ("expect late wait<=100d", "expected late wait<=100d, got wait=never started"),
        ("expect late resumed_from>=0s", "got resumed_from=never started"),
        ("expect j lost>0s", "expected j lost>0s, got lost=0s"),
        ("expect wide within=block", "expected wide within=block, got within=2 blocks"),
        ("expect j not_on=j#0", "expected j not_on=j#0, got not_on=s0-b0-n0"),
        ("expect late on=s0-b0-n0", "expected late on=s0-b0-n0, got on=nowhere"),
        ("expect j reserved=yes", "expected j reserved=yes, got reserved=no"),
        ("expect reason late hold", "expected reason late hold, got capacity (needs 32 GPUs; "),
        ("expect reason j capacity", "expected reason j capacity, got running"),
        ("expect team a used=25 queued=1", "expected team a used=25, got used=24"),
        ("expect fleet held=8 free=8", "expected fleet held=8, got held=24"),
        ("expect total preemptions=1", "expected total preemptions=1, got preemptions=0"),
        ("fail j#3", "expected a node j#3, got j with 1 node"),
        ("cordon late#0", "expected a node late#0, got late with no place yet"),
        ("run until late running max=1h", "expected late running within 1h, got queued"),
    ],
)
def test_what_is_not_so_is_said_with_what_is(expectation: str, complaint: str) -> None:
    """Only the parts that are wrong are named."""
    story = (
        "submit j team=a gpus=8 runtime=9h\nsubmit wide team=a gpus=24 runtime=1m\nrun 2m\n"
        "submit half team=a gpus=16 runtime=9h\nsubmit late team=a gpus=32 runtime=1h\n"
    )
    problem = play(story + expectation + "\n")

    assert problem is not None
    assert complaint in problem


def test_time_ends_where_a_state_is_reached() -> None:
    """`run until` stops at the very event, and what follows counts from there."""
    assert (
        play(
            "submit j team=a gpus=8 runtime=10m30s\nrun until j succeeded max=11m\n"
            "submit k team=a gpus=8 runtime=1m\nrun 1m\nexpect k state=succeeded\n"
        )
        is None
    )


def test_a_state_that_lasts_no_time_is_seen() -> None:
    """A gang whose members are ready at once is starting for an instant."""
    assert play("submit j team=a gpus=8 after=i\n") is None
    story = "submit i team=a gpus=32 runtime=5m\nsubmit j team=a gpus=8\nrun until j starting\n"
    assert play(story + "expect j state=running wait<=5m\n") is None


def test_an_expectation_sees_all_of_its_instant() -> None:
    """Also what falls due at the very moment to which time was let pass."""
    assert play("submit j team=a gpus=8 runtime=10m\nrun 10m\nexpect j state=succeeded\n") is None


def test_a_crash_of_the_core_is_a_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what was raised and where; nobody has to read a traceback."""
    commands = parse(FLEET + "submit j team=a gpus=8\n", file="x.scn")
    run = ScenarioRun("x.scn")
    monkeypatch.setattr(run.world.core, "next_wake", lambda _state: 1 // 0)

    problem = run.play(commands)

    assert problem is not None
    assert problem.startswith("x.scn:1: expected no crash, got ZeroDivisionError: ")
    assert "test_runner.py" in problem


def test_lost_is_what_is_done_again() -> None:
    """Work after the last checkpoint, once it is started again; what is saved in a grace is not."""
    story = (
        "submit j team=a gpus=16 runtime=5h checkpoint=10m\nrun 25m\nfail j#0 for=1m\nrun 30s\n"
        "expect j lost=0s\nrun 1m\nexpect j attempts=2 resumed_from=20m lost=5m\n"
        "expect total lost=5m\nrun 25m\ndrain j#0 deadline=0s\nrun 5m\n"
        "expect j attempts=3 lost=5m resumed_from>45m\n"
    )
    assert play(story) is None


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Some editors write one, and lines that end as theirs do."""
    path = tmp_path / "windows.scn"
    path.write_bytes("\ufefffleet spines=1 blocks=1 nodes=1 gpus=8\r\n\trun 1m\r\n".encode())

    assert run_files([path], io.StringIO()) == 0
