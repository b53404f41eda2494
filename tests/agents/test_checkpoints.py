"""Checkpoints: the helper that programs use, and the agent's look at what they publish."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gangline import checkpoint
from gangline.agents.core import CheckpointSeen, Key, Progressed, SavingSeen
from gangline.agents.watch import Watch, mark_recorded, newest

if TYPE_CHECKING:
    from pathlib import Path

JOB = Key("job", 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoint folder of a job under Gangline."""
    monkeypatch.setenv("GANGLINE_JOB", "job")
    monkeypatch.setenv("GANGLINE_CHECKPOINT_DIR", str(tmp_path / "c"))
    monkeypatch.delenv("GANGLINE_RESUME_FROM", raising=False)
    return tmp_path / "c"


def _save(step: int, *, keep: int = 2) -> None:
    with checkpoint.publish(step, keep=keep) as work:
        (work / "model").write_text(str(step))


def _fail_to_save(step: int) -> None:
    with checkpoint.publish(step) as work:
        (work / "model").write_text("ha")
        raise OSError("the disk is full")


def test_a_published_checkpoint_is_seen_whole(folder: Path) -> None:
    """The agent learns its step and path, once."""
    watch = Watch(JOB, folder, folder / "progress")
    _save(3)

    cues = watch.look(now_ms=10_000)

    (seen,) = [cue for cue in cues if isinstance(cue, CheckpointSeen)]
    assert (seen.step, seen.path) == (3, str(folder / "step-3"))
    assert seen.at_ms == pytest.approx(10_000, abs=2_000)
    assert watch.look(now_ms=10_000) == []


def test_half_a_checkpoint_is_seen_by_nobody(folder: Path) -> None:
    """A save that fails leaves no folder, no marker, and nothing in the way of the next."""
    watch = Watch(JOB, folder, folder / "progress")
    with pytest.raises(OSError, match="full"):
        _fail_to_save(3)

    assert newest(folder) is None
    assert watch.look(now_ms=0) == [SavingSeen(key=JOB, step=3)]
    _save(3)
    assert newest(folder) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"step": 1}',
        '{"path": "step-1"}',
        '{"step": "1", "path": "step-1"}',
        '{"step": -1, "path": "step-1"}',
        '{"step": true, "path": "step-1"}',
        '{"step": 1, "path": "not-there"}',
        # What would end whoever reads it, or cannot be written into the log.
        "[" * 60_000,
        '{"step": 1' + "0" * 30 + ', "path": "step-1"}',
        '{"step": NaN, "path": "step-1"}',
        '{"step": 1, "path": "' + "x" * 5_000 + '"}',
        '{"step": 1, "path": "step-1/\\u0000"}',
        '{"step": 1, "path": "\\udc80"}',
        '{"step": 1, "path": "step-1"' + " " * 70_000 + "}",
    ],
)
def test_a_marker_that_says_nothing_sure_is_not_believed(folder: Path, text: str) -> None:
    """Only a step and a path that exists make a checkpoint."""
    (folder / "step-1").mkdir(parents=True)
    (folder / os.fsdecode(b"\x80")).mkdir()
    (folder / "step-1.saved.json").write_text(text)

    assert newest(folder) is None


@pytest.mark.parametrize("seconds", ["Infinity", "NaN", "1e300", "-1", '"1"', "true"])
def test_a_productive_time_that_cannot_be_is_counted_by_the_agent(
    folder: Path, seconds: str
) -> None:
    """The checkpoint itself may be right."""
    (folder / "step-1").mkdir(parents=True)
    text = f'{{"step": 1, "path": "step-1", "productive_s": {seconds}}}'
    (folder / "step-1.saved.json").write_text(text)

    found = newest(folder)

    assert found is not None
    assert found.productive_ms is None


@pytest.mark.parametrize("suffix", ["saved", "saving"])
def test_a_pipe_or_a_link_in_the_place_of_a_marker_holds_nobody_up(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    """Whoever opens a pipe that nobody writes to waits for ever."""
    (folder / "step-1").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text('{"step": 1, "path": "step-1"}')
    os.mkfifo(folder / f"step-1.{suffix}.json")
    (folder / f"step-2.{suffix}.json").symlink_to(elsewhere)

    assert Watch(JOB, folder, folder / "progress").look(now_ms=0) == []


def test_the_word_that_a_checkpoint_is_recorded_goes_where_it_belongs(
    folder: Path, tmp_path: Path
) -> None:
    """A link in its place leads nobody to make or touch another file."""
    folder.mkdir()
    (folder / "step-1.recorded").symlink_to(tmp_path / "elsewhere")

    mark_recorded(folder / "step-1", 1)

    assert not (tmp_path / "elsewhere").exists()


def test_a_marker_may_be_believed_later(folder: Path) -> None:
    """On a shared disk the folder may become visible after its marker."""
    folder.mkdir()
    watch = Watch(JOB, folder, folder / "progress")
    (folder / "step-1.saved.json").write_text('{"step": 1, "path": "step-1"}')
    assert watch.look(now_ms=0) == []

    (folder / "step-1").mkdir()

    assert len(watch.look(now_ms=0)) == 1


def test_a_program_may_count_its_productive_time_itself(folder: Path) -> None:
    """Its word goes before our clock."""
    (folder / "step-1").mkdir(parents=True)
    checkpoint.announce(1, folder / "step-1", productive_s=12.5)

    marker = newest(folder)

    assert marker is not None
    assert marker.productive_ms == 12_500


def test_of_several_new_checkpoints_only_the_newest_is_told(folder: Path) -> None:
    """The others say nothing more."""
    watch = Watch(JOB, folder, folder / "progress")
    _save(1)
    _save(2)

    seen = [cue.step for cue in watch.look(now_ms=0) if isinstance(cue, CheckpointSeen)]

    assert seen == [2]


def test_what_the_log_has_is_kept_until_it_has_a_newer_one(folder: Path) -> None:
    """A node that dies while the log is away must not take the only known checkpoint with it."""
    for step in (1, 2, 3, 4):
        _save(step, keep=1)
    assert (folder / "step-1").exists(), "nothing is recorded yet: all stay"

    mark_recorded(folder / "step-2", 2)
    _save(5, keep=1)

    assert not (folder / "step-1").exists()
    assert all((folder / f"step-{step}").exists() for step in (2, 3, 4, 5))
    mark_recorded(folder / "step-5", 5)
    _save(6, keep=1)
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["step-5", "step-6"]


def test_shards_are_announced_when_the_last_one_is_there(folder: Path) -> None:
    """The checkpoint that counts is the one that all ranks have."""
    with checkpoint.publish_shard(7, rank=1, world_size=2) as work:
        (work / "part").write_text("1")
    assert newest(folder) is None

    with checkpoint.publish_shard(7, rank=0, world_size=2) as work:
        (work / "part").write_text("0")

    marker = newest(folder)
    assert marker is not None
    assert sorted(path.name for path in (folder / "step-7").iterdir()) == ["rank-0", "rank-1"]


@pytest.mark.usefixtures("folder")
def test_a_job_resumes_from_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under Gangline the scheduler's word counts, not what lies about."""
    _save(9)
    assert checkpoint.resume() is None

    monkeypatch.setenv("GANGLINE_RESUME_FROM", "/elsewhere/step-4")
    monkeypatch.setenv("GANGLINE_RESUME_STEP", "4")
    resumed = checkpoint.resume()

    assert resumed is not None
    assert (str(resumed.path), resumed.step) == ("/elsewhere/step-4", 4)


def test_outside_gangline_the_newest_checkpoint_is_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same program works on a laptop."""
    monkeypatch.delenv("GANGLINE_JOB")
    for step in (1, 2, 3):
        _save(step, keep=1)

    resumed = checkpoint.resume()

    assert resumed is not None
    assert resumed.step == 3
    assert not (folder / "step-1").exists()


def test_a_stop_signal_only_sets_a_flag() -> None:
    """The program looks at it between steps."""
    before = signal.getsignal(signal.SIGUSR2)
    stop = checkpoint.StopFlag(signal.SIGUSR2)
    try:
        assert not stop
        os.kill(os.getpid(), signal.SIGUSR2)
        assert stop
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN, "leaving must not be cut short"
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_notice_file_stops_too_and_says_how_long_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For programs whose main thread is in native code when the signal comes."""
    notice = tmp_path / "notice.json"
    monkeypatch.setenv("GANGLINE_NOTICE_FILE", str(notice))
    before = signal.getsignal(signal.SIGUSR2)
    stop = checkpoint.StopFlag(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert not stop
    assert stop.left_s() is None

    notice.write_text(json.dumps({"deadline_unix_s": 0}))

    assert stop
    assert stop.left_s() == 0


def test_progress_is_a_file_that_the_agent_sees(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart from output, which a hung program may still write."""
    monkeypatch.setenv("GANGLINE_PROGRESS_FILE", str(tmp_path / "progress"))
    out = tmp_path / "rank-0.out"
    out.write_text("hello")
    os.utime(out, (1_000, 1_000))
    watch = Watch(JOB, folder, tmp_path / "progress", (out,))
    assert len(watch.look(now_ms=0)) == 1, "before that, output counts"

    checkpoint.progress()

    assert [type(cue) for cue in watch.look(now_ms=0)] == [Progressed]


def test_an_interval_is_due_again_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec's interval is the default."""
    now = [100.0]
    monkeypatch.setattr("gangline.checkpoint.time.monotonic", lambda: now[0])
    monkeypatch.setenv("GANGLINE_CHECKPOINT_INTERVAL_S", "30")
    every = checkpoint.Interval()

    answers = []
    for now[0] in (129.0, 130.0, 131.0, 160.0):
        answers.append(every.due())

    assert answers == [False, True, False, True]


def test_a_signal_that_comes_while_a_program_leaves_does_not_change_its_code(
    tmp_path: Path,
) -> None:
    """Other nodes were told first, and the gang left together; this one was not told yet."""
    program = (  # what dies last, after Python has given up its handlers, sends the signal
        "import os, sys\n"
        "from gangline.checkpoint import STOPPED, StopFlag\n"
        "flag = StopFlag()\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid()): kill(pid, 15)\n"
        "sys.late = Late()\n"
        "raise SystemExit(STOPPED)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)

    assert done.returncode == 75
