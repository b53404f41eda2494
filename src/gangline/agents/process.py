"""The executor: members as real processes, each attempt under its own supervisor.

It carries out what the core asks for and tells it what it sees; it decides nothing. What it does
can be repeated: after a restart it finds everything again in the attempts' folders and by the
tokens in /proc.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

import gangline
from gangline.agents import cgroups, environment, preflight, procfs, supervisor, untrusted
from gangline.agents import plan as files
from gangline.agents.attempts import Attempt, folder_name, note_refused, read_intent, write_intent
from gangline.agents.core import (
    Checked,
    Ended,
    Exit,
    Found,
    Key,
    Lost,
    Presence,
    Started,
    Stuck,
)
from gangline.agents.lookout import Lookout
from gangline.agents.planning import Planner
from gangline.agents.private import PrivateError
from gangline.agents.watch import Watch, mark_recorded, newest, seen

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection

    from gangline.agents.core import Check, Cue, Kill, Lease, Start, Stop
    from gangline.agents.private import Unseal
    from gangline.agents.settings import AgentSettings
    from gangline.events.batch import AssignedMember
    from gangline.events.facts import CheckpointSaved

_log = structlog.get_logger(__name__)

_FAST_S: Final = 0.05
_REBOOTED: Final = files.Result(
    code=0, reason="infrastructure", detail="the machine was booted meanwhile"
)
_LOST: Final = files.Result(
    code=0, reason="infrastructure", detail="the supervisor of its processes died"
)


class ProcessExecutor:
    """Runs members as processes of this machine.

    Used by one thread; `wake` may be called by any.
    """

    def __init__(self, settings: AgentSettings, *, unseal: Unseal | None = None) -> None:
        self._settings = settings
        self._unseal = unseal
        self._root = settings.folder / "attempts"
        self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._address = settings.reachable_address()
        self._planner = Planner(settings, unseal)
        self._lookout = Lookout(interval_s=settings.watch_interval_s, wake=self.wake)
        self._attempts: dict[Key, Attempt] = {}
        self._ports: dict[Key, socket.socket] = {}
        self._answers: queue.SimpleQueue[tuple[Checked, socket.socket | None]] = queue.SimpleQueue()
        self._checkers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="check")
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    # --- coming up -------------------------------------------------------------------------------

    def find(self, unended: Collection[Key]) -> tuple[Found, ...]:
        """Everything that earlier agents of this folder left; it is ours from now on.

        unended: members whose end was not stated; of others that have ended nothing is said.
        """
        found: dict[Key, Found] = {}
        wanted = set(map(folder_name, unended))
        for folder in sorted(path for path in self._root.iterdir() if path.is_dir()):
            told = (folder / files.RESULT).exists() and folder.name not in wanted
            intent = None if told else read_intent(folder)
            if intent is None:
                continue
            if intent.boot_id != procfs.boot_id() and not (folder / files.RESULT).exists():
                _REBOOTED.save(folder)
            key = Key(intent.order.job, intent.order.attempt)
            attempt = self._attempt(key, intent.order, folder, token=intent.token)
            found[key] = self._found(attempt, intent.order)
            if found[key].presence not in (Presence.ENDED, Presence.ABSENT):
                self._attempts[key] = attempt
        self._kill_strays()
        return tuple(found[key] for key in sorted(found))

    def _kill_strays(self) -> None:
        """Kill what supervisors of ours run of which we know nothing any more.

        A job that runs as our user may have removed its attempt's folder: it is to be gone before
        its member counts as gone.
        """
        for token, pids in procfs.tokens().items():
            if any(map(self._is_stray, pids)):
                _log.error("stray", pids=pids)
                _kill_all(token, within_s=self._settings.stuck_s)

    def _is_stray(self, pid: int) -> bool:
        """Whether it is a supervisor below our folder, of an attempt that is not there."""
        words = procfs.command(pid)
        if supervisor.__name__ not in words or not words[-1].startswith(f"{self._root}/"):
            return False
        return read_intent(Path(words[-1])) is None

    def _found(self, attempt: Attempt, order: AssignedMember) -> Found:
        presence = self._presence(attempt)
        folder = self._planner.checkpoint_folder(order)
        marker = self._lookout.newest(lambda: newest(folder))
        return Found(
            order=order,
            presence=presence,
            exit=attempt.exit(),
            started_ms=attempt.started_ms(),
            saved=seen(attempt.key, marker, now_ms=procfs.boot_ms()) if marker else None,
        )

    def _presence(self, attempt: Attempt) -> Presence:
        if attempt.exit() is not None:
            return Presence.ENDED
        if attempt.attach():
            attempt.started = attempt.started_ms() > 0
            return Presence.RUNNING if attempt.started else Presence.STARTING
        if untrusted.is_there(attempt.folder / files.SUPERVISOR):
            attempt.lost = True
            # It may have ended just now, between the two looks.
            return Presence.ENDED if attempt.exit() is not None else Presence.LOST
        return Presence.ABSENT

    def _attempt(self, key: Key, order: AssignedMember, folder: Path, *, token: str) -> Attempt:
        logs = tuple(
            folder / f"rank-{environment.first_rank(order) + local}.{kind}"
            for local in range(max(1, len(order.gpus)))
            for kind in ("out", "err")
        )
        progress = folder / files.OPEN_FOLDER / files.PROGRESS
        watch = Watch(key, self._planner.checkpoint_folder(order), progress, logs)
        return Attempt(key, folder, token, watch)

    # --- what the core asks for ------------------------------------------------------------------

    def check(self, check: Check) -> None:
        """Look whether a member could start; the answer comes by `poll`."""
        held = self._ports.pop(Key(check.order.job, check.order.attempt), None)
        if held is not None:
            held.close()
        self._checkers.submit(self._look, check)

    def _look(self, check: Check) -> None:
        key = Key(check.order.job, check.order.attempt)
        try:
            answer = preflight.look(
                check, self._settings, address=self._address, unseal=self._unseal
            )
        except Exception as error:  # noqa: BLE001 - the core needs an answer
            answer = Checked(key=key, problem=f"the check failed: {error!r}"), None
        refused = answer[0]
        if refused.code:
            how = files.Result(code=refused.code, detail=refused.problem)
            note_refused(self._root / folder_name(key), environment.first_rank(check.order), how)
        self._answers.put(answer)
        self.wake()

    def start(self, start: Start) -> None:
        """Start its supervisor; nothing happens if it has one. OSError when the disk is full."""
        order = start.order
        key = Key(order.job, order.attempt)
        folder = self._root / folder_name(key)
        token = write_intent(folder, order)
        attempt = self._attempts[key] = self._attempt(key, order, folder, token=token)
        try:
            self._planner.plan(order, folder, token).save(folder)
            self.forget(key)
            self._spawn(attempt)
        except (PrivateError, ValueError) as error:
            how = files.Result(code=preflight.NOT_EXECUTABLE, detail=str(error))
            note_refused(folder, environment.first_rank(order), how)
        except OSError as error:
            if error.errno in procfs.DISK_FULL:
                raise
            detail = f"cannot start its supervisor: {error}"
            files.Result(code=0, reason="infrastructure", detail=detail).save(folder)

    def _spawn(self, attempt: Attempt) -> None:
        package_root = str(Path(gangline.__path__[0]).parent)
        command = [sys.executable, "-S", "-s", "-m", supervisor.__name__, str(attempt.folder)]
        with (attempt.folder / "supervisor.log").open("ab") as log:
            child = subprocess.Popen(
                [*self._settings.supervisor_prefix, *command],
                env={"PYTHONPATH": package_root, procfs.TOKEN_VARIABLE: attempt.token},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        attempt.child = child
        attempt.handle = os.pidfd_open(child.pid)

    def lease(self, lease: Lease) -> None:
        """Tell its supervisor until when it may go on; its folder may not be there yet."""
        folder = self._root / folder_name(lease.key)
        plain = {"until_ms": lease.until_ms, "grace_ms": lease.grace_ms}
        files.write_surely(folder / files.LEASE, plain)

    def stop(self, stop: Stop) -> None:
        """Give it its grace: the notice file now, the signal and the kill at their times."""
        attempt = self._attempts.get(stop.key)
        if attempt is None:
            return
        _notify(attempt.folder / files.OPEN_FOLDER / files.NOTICE, stop)
        number = getattr(signal, f"SIG{stop.signal}", signal.SIGTERM)
        attempt.order(
            files.Order(
                signal=int(number),
                signal_ms=stop.signal_ms,
                deadline_ms=stop.deadline_ms,
                cause=stop.cause,
            )
        )

    def kill(self, kill: Kill) -> None:
        """Kill it now and for good: by its supervisor, or by ourselves if that is gone."""
        attempt = self._attempts.get(kill.key)
        if attempt is None:
            return
        now = procfs.boot_ms()
        attempt.order(
            files.Order(signal=signal.SIGKILL, signal_ms=now, deadline_ms=now, cause="killed")
        )
        if attempt.lost and not attempt.sweeping:
            attempt.sweeping, attempt.swept_since_ms = True, now

    def forget(self, key: Key) -> None:
        """Its port is free; its files stay until they are pruned."""
        held = self._ports.pop(key, None)
        if held is not None:
            held.close()

    def recorded(self, fact: CheckpointSaved) -> None:
        """The log has this checkpoint; for any thread."""
        self._lookout.run(lambda: mark_recorded(Path(fact.path), fact.step))

    # --- what it sees ----------------------------------------------------------------------------

    def poll(self) -> list[Cue]:
        """What has happened since the last call, in order."""
        cues: list[Cue] = list(self._answered())
        for key in sorted(self._attempts):
            cues += self._look_at(self._attempts[key])
        return cues

    def _answered(self) -> list[Checked]:
        answers = []
        with contextlib.suppress(queue.Empty):
            while True:
                answer, held = self._answers.get_nowait()
                answers.append(answer)
                if held is not None:
                    self._ports[answer.key] = held
        return answers

    def _look_at(self, attempt: Attempt) -> list[Cue]:
        cues: list[Cue] = []
        lives = attempt.supervisor_lives()
        if not attempt.started and attempt.started_ms():
            attempt.started = True
            cues.append(Started(attempt.key))
        how = attempt.exit()
        if how is not None:
            return cues + self._end(attempt, how)
        cues += self._watched(attempt)
        if not attempt.stuck and untrusted.is_there(attempt.folder / files.STUCK):
            attempt.stuck = True
            cues.append(Stuck(attempt.key, f"processes of {attempt.key.job} survive SIGKILL"))
        if not lives and not attempt.lost:
            cues += self._miss(attempt)
        if attempt.sweeping:
            cues += self._sweep(attempt)
        return cues

    def _miss(self, attempt: Attempt) -> list[Cue]:
        """Its supervisor ended without a result, or it was not the one that has the attempt."""
        self._reap(attempt)
        attempt.let_go()
        if attempt.exit() is not None or attempt.attach():
            return []
        attempt.lost = True
        return [Lost(attempt.key)]

    def _sweep(self, attempt: Attempt) -> list[Cue]:
        if self._settings.cgroup is not None:
            cgroups.kill(str(self._settings.cgroup / attempt.folder.name))
        if attempt.sweep():
            _LOST.save(attempt.folder)
            how = Exit(code=_LOST.code, reason=_LOST.reason, detail=_LOST.detail)
            return self._end(attempt, how)
        swept_ms = procfs.boot_ms() - attempt.swept_since_ms
        if swept_ms > self._settings.stuck_s * 1000 and not attempt.stuck:
            attempt.stuck = True
            return [Stuck(attempt.key, f"processes of {attempt.key.job} survive SIGKILL")]
        return []

    def _end(self, attempt: Attempt, how: Exit) -> list[Cue]:
        """Its last checkpoint, which is older than its end, and then that."""
        self._reap(attempt)
        attempt.let_go()
        seen = self._lookout.last(attempt.watch) if attempt.watch else []
        if seen is None:
            return []
        if self._settings.cgroup is not None:
            cgroups.remove(self._settings.cgroup / attempt.folder.name)
        self._lookout.forget(attempt.key)
        del self._attempts[attempt.key]
        return [*seen, Ended(attempt.key, how)]

    @staticmethod
    def _reap(attempt: Attempt) -> None:
        """Our own child is waited for, so that it is no zombie; it has ended, or is about to."""
        if attempt.child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                attempt.child.wait(timeout=5)
            attempt.child = None

    def _watched(self, attempt: Attempt) -> list[Cue]:
        """New checkpoints and signs of progress."""
        if not attempt.started or attempt.watch is None:
            return []
        return self._lookout.new(attempt.watch)

    # --- waiting ---------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> None:
        """Until something may have happened.

        A supervisor's end, an answer, `wake`, or the timeout.
        """
        handles = [one.handle for one in self._attempts.values() if one.handle is not None]
        starting = any(not one.started or one.sweeping for one in self._attempts.values())
        timeout = min(timeout_s, _FAST_S) if starting else timeout_s
        procfs.ready([self._wake_read, *handles], max(0.0, timeout))
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def wake(self) -> None:
        """End a `wait`, from any thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"!")

    def prune(self, *, older_than_s: float) -> None:
        """Remove folders of attempts that ended so long ago."""
        for folder in sorted(self._root.iterdir()):
            result = folder / files.RESULT
            with contextlib.suppress(OSError):
                if time.time() - result.stat().st_mtime > older_than_s:
                    shutil.rmtree(folder)

    def close(self) -> None:
        """Let go of everything; the members run on."""
        self._checkers.shutdown(wait=True, cancel_futures=True)
        self._lookout.close()
        self._answered()
        for held in self._ports.values():
            held.close()
        for attempt in self._attempts.values():
            attempt.let_go()
            if attempt.child is not None:
                attempt.child.returncode = 0  # it runs on, and that is no mistake
        os.close(self._wake_read)
        os.close(self._wake_write)


def _notify(path: Path, stop: Stop) -> None:
    """Put the notice there, if its job lets us: the folder is the job's own."""
    left_s = max(0, stop.deadline_ms - procfs.boot_ms()) / 1000
    plain = {"cause": stop.cause, "grace_s": left_s, "deadline_unix_s": time.time() + left_s}
    try:
        files.write(path, plain, mode=0o644)
    except OSError as error:
        if error.errno in procfs.DISK_FULL:
            raise
        _log.warning("no_notice", path=str(path), error=str(error))


def _kill_all(token: str, *, within_s: float) -> None:
    """Until nobody carries it."""
    deadline_s = time.monotonic() + within_s
    while (left := procfs.with_token(token)) and time.monotonic() < deadline_s:
        procfs.send_all(left, signal.SIGKILL, still=lambda pid: procfs.has_token(pid, token))
        time.sleep(_FAST_S)
