"""The parent of one attempt's ranks on one node: `python -m gangline.agents.supervisor FOLDER`.

Theory of operation. It is small on purpose: it outlives the agent that started it, its upgrades
and its crashes, and keeps what only a parent can know, the exit codes. It holds the folder's lock
for its whole life, so that no second one can run beside it; it is the reaper of everything below
it, so that nobody can leave its tree; it knows its own by descent and by the token in their
environment.

What it does is decided by two times, `_term_ms` and `_kill_ms`, in milliseconds since boot: after
the first everybody gets the stop signal once, after the second everybody is killed again and
again until nobody is left. Both come from the agent's order (a file; USR1 says look), from a
lease that it did not renew (another file), from the first rank that failed, or from all ranks being
gone. So a stop is carried out although the agent
died meanwhile. At the very end the result is written (temporary file, fsync, rename), and only
then is the attempt over. TERM, INT and HUP mean nothing to it: whoever wants it gone stops the
job.

Standard library only, and everything is loaded at the start: a new version on the disk changes
nothing for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gangline.agents import cgroups, procfs
from gangline.agents import plan as files
from gangline.agents.rotation import rotate

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK_MS: Final = 1000
KILL_TICK_MS: Final = 50
MOST_STOPS: Final = 50
MOST_REAP_MS: Final = 200
FAILURE_TERM_MS: Final = 5_000
FAILURE_KILL_MS: Final = 10_000
LEFTOVER_KILL_MS: Final = 2_000
STOPPED_CODE: Final = 75
"""How a program that saved on our signal and leaves work undone exits (EX_TEMPFAIL)."""
_NEVER: Final = 1 << 62
_MACHINE_TROUBLE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EIO}
)
"""Why a rank could not be started although it is no fault of the program's."""


class Supervisor:
    """The loop and what it knows of its ranks."""

    def __init__(self, folder: Path, plan: files.Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._ranks: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._leaders: list[int] = []
        self._first_failure: tuple[int, int] | None = None
        self._failed_at_ms = 0
        self._first_rank = -1
        self._order: files.Order | None = None
        self._signal: int = signal.SIGTERM
        self._term_ms = self._kill_ms = _NEVER
        self._termed = self._stuck = self._killed_ranks = self._sick = self._lease_over = False
        self._unwritten: dict[str, dict[str, Any]] = {}
        self._out_of_memory_before = _oom_kills()
        self._detail = ""

    # --- starting --------------------------------------------------------------------------------

    def start_ranks(self) -> None:
        """Start every rank.

        One that cannot be started counts as failed with 126 or 127, as in a shell.
        """
        cgroups.enter(self._plan.cgroup, "ranks")
        for rank in self._plan.ranks:
            try:
                self._ranks[self._spawn(rank)] = rank.rank
            except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
                self._detail = f"cannot start rank {rank.rank}: {error}"
                self._sick = isinstance(error, OSError) and error.errno in _MACHINE_TROUBLE
                code = 127 if isinstance(error, FileNotFoundError) else 126
                self._note_exit(rank.rank, code, 0)
                break
        cgroups.enter(self._plan.cgroup, "supervisor")
        started = {"version": files.VERSION, "at_ms": procfs.boot_ms(), "pids": [*self._ranks]}
        self._put(files.STARTED, started)

    def _put(self, name: str, value: dict[str, Any]) -> None:
        """Write a file now, or when the disk has room again."""
        self._unwritten[name] = value
        with contextlib.suppress(OSError):
            for waiting in list(self._unwritten):
                files.write(self._folder / waiting, self._unwritten[waiting])
                del self._unwritten[waiting]

    def _spawn(self, rank: files.RankPlan) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        out = os.open(rank.out, flags, 0o644)
        err = os.open(rank.err, flags, 0o644)
        try:
            user, group, groups = _user_of(self._plan.user)
            process = subprocess.Popen(
                rank.argv,
                env=rank.env,
                cwd=self._plan.workdir or None,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=groups,
            )
        finally:
            os.close(out)
            os.close(err)
        # We reap by ourselves; it must not look for its child when it is collected.
        process.returncode = 0
        self._leaders.append(os.pidfd_open(process.pid))
        return process.pid

    # --- the loop --------------------------------------------------------------------------------

    def run(self, wake: int) -> files.Result:
        """Until nothing is left of the attempt. wake: readable after every signal."""
        while True:
            self._kill_whole()
            self._reap()
            self._read_order()
            now = procfs.boot_ms()
            self._heed_lease(now)
            mine = self._mine() if self._all_ranks_gone() or now >= self._term_ms else None
            if mine is not None and not mine and self._all_ranks_gone():
                return self._result()
            if self._all_ranks_gone() and self._order is None:
                # In a grace everybody has until its end: a shell may be gone before its child.
                self._bring_forward(now, now + LEFTOVER_KILL_MS)
            self._act(now, mine or [])
            self._rotate_logs()
            if self._unwritten:
                self._put(*self._unwritten.popitem())
            self._wait(wake, now)

    def _kill_whole(self) -> None:
        """If it is time, kill what needs no list: a fork bomb makes that long."""
        if procfs.boot_ms() >= self._kill_ms:
            self._killed_ranks = self._killed_ranks or not self._all_ranks_gone()
            cgroups.kill(self._plan.cgroup)
            procfs.kill_groups(self._leaders)

    def _wait(self, wake: int, now: int) -> None:
        due = min(t for t in (self._term_ms, self._kill_ms, _NEVER) if t > now or t == _NEVER)
        timeout = min(TICK_MS, due - now)
        if now >= self._kill_ms or self._all_ranks_gone():
            timeout = KILL_TICK_MS
        procfs.ready([wake], timeout / 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)

    def _act(self, now: int, mine: list[int]) -> None:
        """Signal or kill, if it is time."""
        if now >= self._kill_ms:
            procfs.send_all(self._stopped(mine), signal.SIGKILL, still=self._is_mine)
            if now >= self._kill_ms + self._plan.stuck_ms and not self._stuck:
                self._stuck = True
                self._put(files.STUCK, {"version": files.VERSION, "pids": mine})
        elif now >= self._term_ms and not self._termed:
            self._termed = True
            procfs.send_all(mine, self._signal, still=self._is_mine)

    def _stopped(self, mine: list[int]) -> list[int]:
        """Stop everybody first, whoever is born meanwhile too: who forks fast outruns a kill."""
        stopped: set[int] = set()
        for _ in range(MOST_STOPS):
            born = set(mine) - stopped
            if not born:
                break
            procfs.send_all(sorted(born), signal.SIGSTOP, still=self._is_mine)
            stopped |= born
            mine = self._mine()
        return sorted(stopped | set(mine))

    def _bring_forward(self, term_ms: int, kill_ms: int) -> None:
        """Stop at these times at the latest; a time that stands is never put off."""
        self._term_ms = min(self._term_ms, term_ms)
        self._kill_ms = min(self._kill_ms, kill_ms)

    def _read_order(self) -> None:
        order = files.load_order(self._folder)
        if order is None or order == self._order:
            return
        if self._order is None and not self._all_ranks_gone():
            self._signal = order.signal
        self._order = order
        self._bring_forward(order.signal_ms, order.deadline_ms)

    def _heed_lease(self, now: int) -> None:
        """An at-most-one writer that nobody speaks for any more may have been replaced."""
        lease = files.read(self._folder / files.LEASE)
        if lease is None or now < lease["until_ms"] or self._order or self._all_ranks_gone():
            return
        self._lease_over = True
        self._detail = "its agent did not renew the lease of an at-most-one writer"
        self._bring_forward(now, now + lease["grace_ms"])

    # --- who is left -----------------------------------------------------------------------------

    def _reap(self) -> None:
        """The dead, for a while: who forks fast enough would keep us here for ever."""
        until_ms = procfs.boot_ms() + MOST_REAP_MS
        while procfs.boot_ms() < until_ms:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            rank = self._ranks.pop(pid, None)
            if rank is not None:
                code = os.waitstatus_to_exitcode(status)
                self._note_exit(rank, 128 - code if code < 0 else code, max(0, -code))

    def _note_exit(self, rank: int, code: int, by_signal: int) -> None:
        """The first rank that fails takes the others with it, some seconds later."""
        self._codes[rank] = code
        if code != 0 and self._first_failure is None:
            self._first_failure = (code, by_signal)
            self._failed_at_ms, self._first_rank = time.time_ns() // 1_000_000, rank
            if self._order is not None or self._lease_over:
                return  # in the grace everybody has until its end: others may still save
            self._tell_of_first(rank, code, by_signal)
            now = procfs.boot_ms()
            self._bring_forward(now + FAILURE_TERM_MS, now + FAILURE_KILL_MS)

    def _tell_of_first(self, rank: int, code: int, by_signal: int) -> None:
        """In its own output: that it was the first, and what the machine knows of it by now."""
        self._detail = self._detail or self._explain(by_signal)
        how = f"died of signal {by_signal}" if by_signal else f"ended with code {code}"
        several = len(self._plan.ranks) > 1
        words = [f"this rank failed first on its node: it {how}"] if several else []
        words += [self._detail] if self._detail else []
        err = next(Path(each.err) for each in self._plan.ranks if each.rank == rank)
        if words:
            files.tell(err, "; ".join(words))

    def _all_ranks_gone(self) -> bool:
        return not self._ranks

    def _mine(self) -> list[int]:
        """Everybody who is left: below us, with our token, or in our cgroup."""
        below = procfs.descendants(os.getpid())
        named = procfs.with_token(self._plan.token)
        return sorted({*below, *named, *cgroups.pids(self._plan.cgroup)})

    def _is_mine(self, pid: int) -> bool:
        return procfs.has_token(pid, self._plan.token) or pid in self._mine()

    # --- the end ---------------------------------------------------------------------------------

    def _result(self) -> files.Result:
        code, by_signal = self._first_failure or (0, 0)
        stopped = self._order is not None and (
            self._killed_ranks
            or code in (STOPPED_CODE, 128 + self._signal)
            or by_signal == self._signal
        )
        sick = self._sick or self._lease_over
        return files.Result(
            code=code,
            signal=by_signal,
            reason="infrastructure" if sick else "stopped" if stopped else "exited",
            detail=self._detail or self._explain(by_signal),
            failed_at_ms=self._failed_at_ms,
            first_rank=self._first_rank,
            ranks={str(rank): code for rank, code in sorted(self._codes.items())},
        )

    def _explain(self, by_signal: int) -> str:
        """What people should look at first, as far as the machine knows."""
        if by_signal == signal.SIGKILL and _oom_kills() > self._out_of_memory_before:
            return "out of memory: the kernel killed a process on this node meanwhile"
        places = (self._folder, Path(self._plan.workdir), Path(self._plan.checkpoints or "/"))
        if self._first_failure and (full := next(filter(_is_full, places), None)) is not None:
            return f"the disk of {full} is full"
        return ""

    def _rotate_logs(self) -> None:
        for path in (path for rank in self._plan.ranks for path in (rank.out, rank.err)):
            with contextlib.suppress(OSError):
                rotate(Path(path), above=self._plan.log_bytes, keep=self._plan.log_files)


def _user_of(user: str) -> tuple[int | None, int | None, list[int] | None]:
    """A user's id, group and groups for Popen, None for our own; KeyError when there is none."""
    if not user:
        return None, None, None
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid, os.getgrouplist(user, entry.pw_gid)


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since boot."""
    with contextlib.suppress(OSError, ValueError), Path("/proc/vmstat").open() as lines:
        return next((int(x.split()[1]) for x in lines if x.startswith("oom_kill ")), 0)
    return 0


def _is_full(path: Path) -> bool:
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < 1024 * 1024


def _save_surely(result: files.Result, folder: Path) -> None:
    """The result is what we live for: a disk without room is waited for."""
    while True:
        try:
            return result.save(folder)
        except OSError:
            time.sleep(TICK_MS / 1000)


def _listen() -> int:
    """A descriptor that becomes readable after every signal; TERM, INT and HUP do nothing else."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in ("SIGCHLD", "SIGUSR1", "SIGTERM", "SIGINT", "SIGHUP"):
        # A handler, not SIG_IGN: the ranks would inherit that.
        signal.signal(getattr(signal, number), lambda *_: None)
    return read_end


def _lock(folder: Path) -> int | None:
    """The folder's lock, held until this process ends; None when another supervisor has it."""
    handle = os.open(folder / files.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _make_folders(folder: Path, plan: files.Plan) -> None:
    """What the job's own user may write. A disk that refuses is for the program to find out."""
    with contextlib.suppress(OSError, KeyError):
        user, group, _ = _user_of(plan.user)
        if user is not None and group is not None:
            os.chown(folder / files.OPEN_FOLDER, user, group)
        if plan.checkpoints:
            _make_checkpoints(plan)


def _make_checkpoints(plan: files.Plan) -> None:
    """The folder to save in.

    Where the job named the root, its user makes it, without our rights: links may lead anywhere.
    """
    user, group, groups = _user_of(plan.user)
    if user is None or group is None:
        Path(plan.checkpoints).mkdir(parents=True, exist_ok=True)
    elif plan.checkpoints_named and os.geteuid() == 0:
        with _as(user, group, groups or []):
            Path(plan.checkpoints).mkdir(parents=True, exist_ok=True)
    else:
        Path(plan.checkpoints).mkdir(parents=True, exist_ok=True)
        os.chown(plan.checkpoints, user, group, follow_symlinks=False)


@contextlib.contextmanager
def _as(user: int, group: int, groups: list[int]) -> Iterator[None]:
    """What is done to files is done by this user."""
    before = os.getgroups()
    os.setgroups(groups)
    os.setegid(group)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


def supervise(folder: Path) -> None:
    """One attempt from its plan to its result."""
    wake = _listen()
    plan = files.Plan.load(folder)
    (folder / files.PLAN).unlink()
    procfs.become_subreaper()
    me = procfs.myself()
    who = {"boot_id": me.boot_id, "pid": me.pid, "start_ticks": me.start_ticks}
    files.write(folder / files.SUPERVISOR, {"version": files.VERSION, **who})
    _make_folders(folder, plan)
    supervisor = Supervisor(folder, plan)
    supervisor.start_ranks()
    result = supervisor.run(wake)
    if plan.cleanup:
        subprocess.run(plan.cleanup, check=False, timeout=60, stdin=subprocess.DEVNULL)
    _save_surely(result, folder)


def main(arguments: list[str]) -> int:
    """`python -m gangline.agents.supervisor FOLDER`.

    3 when the attempt has a supervisor, or had one.
    """
    folder = Path(arguments[0])
    lock = _lock(folder)
    if lock is None or (folder / files.SUPERVISOR).exists():
        return 3
    supervise(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
