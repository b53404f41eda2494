"""For training programs: where to save, what to resume, when to stop. Standard library only.

    from gangline import checkpoint

    stop = checkpoint.StopFlag()
    every = checkpoint.Interval()
    resumed = checkpoint.resume()
    for step in range(resumed.step if resumed else 0, steps):
        train(step)
        checkpoint.progress(step + 1)
        if every.due() or stop:
            with checkpoint.publish(step + 1) as folder:
                save_into(folder)
        if stop:
            raise SystemExit(checkpoint.STOPPED)

A checkpoint is a folder that appears whole under its last name and is announced by a marker after
that, so that nobody ever resumes half of one. Of several ranks one publishes (after all have
reached the step), or each publishes its shard and the last one announces the whole. Outside
Gangline the same code saves under `./checkpoints` and resumes from the newest one there.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

STOPPED: Final = 75
"""Exit with this code after saving on a stop: the work is not done, and no retry is spent."""
SAVED: Final = ".saved.json"
SAVING: Final = ".saving.json"
RECORDED: Final = ".recorded"
_DEFAULT_INTERVAL_S: Final = 600.0
_PROGRESS_S: Final = 1.0
_PACE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Resume:
    """A complete checkpoint to go on from. step: the program's own count."""

    path: Path
    step: int


def directory() -> Path:
    """Where this attempt saves; made if it is not there."""
    found = Path(os.environ.get("GANGLINE_CHECKPOINT_DIR") or "checkpoints")
    found.mkdir(parents=True, exist_ok=True)
    return found


def resume() -> Resume | None:
    """What to go on from, None for the beginning; every rank of a gang gets the same answer."""
    if "GANGLINE_JOB" in os.environ:
        path = os.environ.get("GANGLINE_RESUME_FROM", "")
        step = int(os.environ.get("GANGLINE_RESUME_STEP") or 0)
        return Resume(Path(path), step) if path else None
    return max(_complete(directory()), key=lambda one: one.step, default=None)


@contextlib.contextmanager
def publish(step: int, *, keep: int = 2, productive_s: float | None = None) -> Iterator[Path]:
    """A new folder to save into; on leaving it appears as `step-N` and is announced.

    keep: how many complete checkpoints of this attempt stay. productive_s: the job's productive
    running time over all attempts, where the program counts better than the agent.
    """
    root = directory()
    target = root / f"step-{step}"
    work = root / f".step-{step}.{os.getpid()}"
    announce_saving(step)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
        _sync_tree(work)
        _replace_folder(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    announce(step, target, productive_s=productive_s)
    prune(keep=keep)


@contextlib.contextmanager
def publish_shard(step: int, *, rank: int, world_size: int, keep: int = 2) -> Iterator[Path]:
    """A new folder for one rank's shard; whoever completes the set of shards announces the whole.

    Shards are `step-N/rank-R`; the checkpoint is the folder of all of them.
    """
    target = directory() / f"step-{step}"
    target.mkdir(exist_ok=True)
    work = target / f".rank-{rank}.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
        _sync_tree(work)
        _replace_folder(work, target / f"rank-{rank}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if all((target / f"rank-{other}").is_dir() for other in range(world_size)):
        announce(step, target)
        prune(keep=keep)


def announce(step: int, path: Path, *, productive_s: float | None = None) -> None:
    """State that the checkpoint at `path` is complete, for programs that save by themselves.

    path: in `directory()`, whole and synced before this is called.
    """
    root = directory()
    marker: dict[str, Any] = {"step": step, "path": os.path.relpath(path, root)}
    if productive_s is not None:
        marker["productive_s"] = productive_s
    _write(root / f"step-{step}{SAVED}", marker)
    (root / f"step-{step}{SAVING}").unlink(missing_ok=True)


def announce_saving(step: int) -> None:
    """State that a save has begun, so that its time is counted as such."""
    _write(directory() / f"step-{step}{SAVING}", {"step": step})


def prune(*, keep: int) -> None:
    """Remove all but the newest complete checkpoints of this attempt, markers first.

    Under Gangline the newest one that the log has stays, and all since: it is what the job would
    resume from if this node died now.
    """
    root = directory()
    complete = sorted(_complete(root), key=lambda one: one.step)
    oldest_needed = _newest_recorded(root, complete)
    for old in complete[: max(0, len(complete) - max(1, keep))]:
        if old.step < oldest_needed:
            (root / f"step-{old.step}{SAVED}").unlink(missing_ok=True)
            shutil.rmtree(old.path, ignore_errors=True)
            (root / f"step-{old.step}{RECORDED}").unlink(missing_ok=True)


def _newest_recorded(root: Path, complete: Sequence[Resume]) -> int:
    """The step of it, 0 while there is none; outside Gangline the newest of all."""
    if "GANGLINE_JOB" in os.environ:
        complete = [one for one in complete if (root / f"step-{one.step}{RECORDED}").exists()]
    return max((one.step for one in complete), default=0)


def progress(step: int | None = None) -> None:
    """Say that the program gets on; call it after each step, it does something once a second.

    step: how many are done. Then a rank that is slower than its gang is told apart; where all
    wait for each other in each step, only if they wait inside `waiting()`.
    """
    path, now = os.environ.get("GANGLINE_PROGRESS_FILE"), time.monotonic()
    if not path or now - _said.get(path, -_PROGRESS_S) < _PROGRESS_S:
        return
    _said[path] = now
    with contextlib.suppress(OSError):
        Path(path).touch()
        if step is not None and os.environ.get("RANK", "").isdecimal():
            pace = _pace.at(step, now)
            Path(f"{path}.{os.environ['RANK']}.new").write_text(json.dumps(pace))
            Path(f"{path}.{os.environ['RANK']}.new").replace(f"{path}.{os.environ['RANK']}")


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Around whatever waits for other ranks (a barrier, a blocking all-reduce).

    What is left of a step is the rank's own time: the rank that all wait for has most of it.
    """
    began = time.monotonic()
    try:
        yield
    finally:
        _pace.waited_s += time.monotonic() - began


class _Pace:
    """How long the last steps took. waited_s: in `waiting()`, since the start."""

    def __init__(self) -> None:
        self.waited_s = 0.0
        self._marks: deque[tuple[float, int, float]] = deque()

    def at(self, step: int, now: float) -> dict[str, Any]:
        """What is said after a step: seconds a step over the last minute, and how many its own."""
        while self._marks and (self._marks[0][1] >= step or self._is_old(now)):
            self._marks.popleft()
        found: dict[str, Any] = {"step": step}
        if self._marks:
            then, before, waited = self._marks[0]
            steps, took_s = step - before, now - then
            found["step_s"] = round(took_s / steps, 6)
            if self.waited_s:
                found["own_s"] = round((took_s - (self.waited_s - waited)) / steps, 6)
        self._marks.append((now, step, self.waited_s))
        return found

    def _is_old(self, now: float) -> bool:
        """Whether the second mark alone reaches back far enough."""
        return len(self._marks) > 1 and now - self._marks[1][0] > _PACE_S


_pace: Final = _Pace()
_said: dict[str, float] = {}


class Interval:
    """True once an interval, beginning one interval from now.

    seconds: None for what the job's spec says (else ten minutes).
    """

    def __init__(self, seconds: float | None = None) -> None:
        stated = os.environ.get("GANGLINE_CHECKPOINT_INTERVAL_S")
        self._seconds = seconds or float(stated or _DEFAULT_INTERVAL_S)
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time; asking begins the next interval if it is."""
        if time.monotonic() - self._last < self._seconds:
            return False
        self._last = time.monotonic()
        return True


class StopFlag:
    """True once the job is told to stop, by a signal or by the notice file.

    The handler sets a flag and nothing else: saving inside one can break what it interrupts, and
    it waits while the main thread is in native code. Look at it between steps.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self._set = False
        self._signals = signals or (signal.SIGTERM,)
        notice = os.environ.get("GANGLINE_NOTICE_FILE")
        self._notice = Path(notice) if notice else None
        for number in self._signals:
            signal.signal(number, self._on_signal)
        # A rank that leaves because others were told may be told itself while it is leaving.
        atexit.register(self._stop)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        """Remember it; a signal that comes from now on must not end a program that is leaving."""
        self._set = True
        for number in self._signals:
            with contextlib.suppress(ValueError):  # only the main thread may do this
                signal.signal(number, signal.SIG_IGN)

    def __bool__(self) -> bool:
        if not self._set and self._notice is not None and self._notice.exists():
            self._stop()
        return self._set

    def left_s(self) -> float | None:
        """How long until the kill, None when nobody said."""
        if self._notice is None:
            return None
        try:
            deadline = float(json.loads(self._notice.read_bytes())["deadline_unix_s"])
        except (OSError, ValueError, KeyError):
            return None
        return max(0.0, deadline - time.time())


def _complete(root: Path) -> list[Resume]:
    """All checkpoints here that are announced and there."""
    found = []
    for marker in sorted(root.glob(f"*{SAVED}")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            plain = json.loads(marker.read_bytes())
            path = root / plain["path"]
            if path.exists():
                found.append(Resume(path, int(plain["step"])))
    return found


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """A small file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync(path.parent)


def _replace_folder(work: Path, target: Path) -> None:
    """Put the folder there; what an earlier save of the same step left goes first."""
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    _sync(target.parent)


def _sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
