"""One attempt's folder, and what can be learned from it and from its supervisor's life."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import subprocess
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gangline.agents import plan as files
from gangline.agents import procfs, untrusted
from gangline.agents.core import Exit, Key
from gangline.agents.watch import Watch
from gangline.events import codec
from gangline.events.batch import AssignedMember, NodeAssignment
from gangline.events.envelope import Event

_MAX_FOLDER_NAME: Final = 180


def folder_name(key: Key) -> str:
    """A name for its folder that any job id may have; long ones are hashed."""
    name = f"{quote(key.job, safe='')}.{key.attempt}"
    if len(name) <= _MAX_FOLDER_NAME:
        return name
    return f"{hashlib.blake2b(key.job.encode(), digest_size=16).hexdigest()}.{key.attempt}"


@dataclass(slots=True)
class Attempt:
    """A member that has, or is about to have, processes here.

    handle: a pidfd of its supervisor. child: the supervisor if we started it ourselves. sweeping:
    its supervisor is gone, and we kill what is left by ourselves.
    """

    key: Key
    folder: Path
    token: str
    watch: Watch | None = None
    handle: int | None = None
    child: subprocess.Popen[bytes] | None = None
    started: bool = False
    lost: bool = False
    sweeping: bool = False
    swept_since_ms: int = 0
    stuck: bool = False

    # --- its supervisor --------------------------------------------------------------------------

    def supervisor_lives(self) -> bool:
        """Whether its supervisor has not ended."""
        return self.handle is not None and not procfs.ready([self.handle], 0)

    def attach(self) -> bool:
        """Find its supervisor by its own word, else by the token; whether it lives."""
        who = self._stated_identity()
        if who is None and not untrusted.is_there(self.folder / files.SUPERVISOR):
            who = next(filter(None, map(procfs.identity, procfs.with_token(self.token))), None)
        self.handle = None if who is None else procfs.open_identity(who)
        return self.handle is not None

    def _stated_identity(self) -> procfs.Identity | None:
        plain = files.read(self.folder / files.SUPERVISOR)
        if plain is None:
            return None
        return procfs.Identity(plain["boot_id"], plain["pid"], plain["start_ticks"])

    def order(self, order: files.Order) -> None:
        """Tell its supervisor when to stop; the file stands even if nobody reads it now."""
        files.write_surely(
            self.folder / files.ORDER,
            {
                "signal": order.signal,
                "signal_ms": order.signal_ms,
                "deadline_ms": order.deadline_ms,
                "cause": order.cause,
            },
        )
        if self.handle is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.handle, signal.SIGUSR1)

    def let_go(self) -> None:
        """Close what we hold of it; its processes are not touched."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    # --- what it says ----------------------------------------------------------------------------

    def started_ms(self) -> int:
        """When its ranks were started, in milliseconds since boot; 0 when they were not."""
        plain = files.read(self.folder / files.STARTED)
        return int(plain["at_ms"]) if plain else 0

    def exit(self) -> Exit | None:
        """How it ended, None while it has not."""
        result = files.load_result(self.folder)
        if result is None:
            return None
        return Exit(
            code=result.code,
            signal=result.signal,
            reason=result.reason,
            detail=result.detail,
            failed_at_ms=result.failed_at_ms,
        )

    def sweep(self) -> bool:
        """Kill whatever carries its token; whether nothing is left."""
        left = procfs.with_token(self.token)
        procfs.send_all(left, signal.SIGKILL, still=lambda pid: procfs.has_token(pid, self.token))
        return not left


def write_intent(folder: Path, order: AssignedMember) -> str:
    """Say who is going to be started here, before it is.

    The token that all its processes will carry.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    (folder / files.OPEN_FOLDER).mkdir(exist_ok=True)
    before = files.read(folder / files.INTENT)
    if before is not None:
        return str(before["token"])
    token = secrets.token_hex(16)
    intent = {"version": files.VERSION, "token": token, "boot_id": procfs.boot_id()}
    files.write(folder / files.INTENT, {**intent, "order": order_text(order)})
    return token


def note_refused(folder: Path, rank: int, result: files.Result) -> None:
    """Leave word of a member that was never started: for its people, and for who prunes."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        files.tell(folder / f"rank-{rank}.err", result.detail)
        result.save(folder)


@dataclass(frozen=True, slots=True)
class Intent:
    """What was going to be started in a folder. boot_id: of the machine then."""

    order: AssignedMember
    token: str
    boot_id: str


def read_intent(folder: Path) -> Intent | None:
    """The intent of a folder, None where there is none that can be read."""
    plain = files.read(folder / files.INTENT)
    if plain is None:
        return None
    try:
        orders = orders_of(plain["order"])
        return Intent(orders[0], str(plain["token"]), str(plain["boot_id"]))
    except (KeyError, IndexError, ValueError):
        return None


def order_text(*orders: AssignedMember) -> str:
    """Members of an assignment as text, in the log's own encoding."""
    body = NodeAssignment(genesis="", term=0, seq=0, node="", members=orders)
    event = Event(envelope=codec.envelope_for(body, id="kept", actor="node:self"), body=body)
    return b64encode(codec.encode(event)).decode()


def orders_of(text: str) -> tuple[AssignedMember, ...]:
    """The members again; ValueError when it is damaged."""
    body = codec.decode(b64decode(text)).body
    if not isinstance(body, NodeAssignment):
        raise ValueError("no assignment")  # noqa: TRY004 - damage, not a caller's mistake
    return body.members
