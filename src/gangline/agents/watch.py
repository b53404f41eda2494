"""Watching an attempt's folder of checkpoints for the markers of complete ones.

The convention (docs/agents.md): the program writes a checkpoint under another name, renames it
into place, and then renames a marker `NAME.saved.json` into GANGLINE_CHECKPOINT_DIR: `{"step":
120, "path": "step-120"}`, with `"productive_s"` if it counts better than we do. Only a marker
whose path exists is believed, so that one half written is never resumed. When the log has it,
`step-N.recorded` is put beside it. `NAME.saving.json` says that a save has begun.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.agents import untrusted
from gangline.agents.core import CheckpointSeen, Key, Progressed, SavingSeen

if TYPE_CHECKING:
    from gangline.agents.core import Cue

SAVED: Final = ".saved.json"
SAVING: Final = ".saving.json"
RECORDED: Final = ".recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A complete checkpoint. age_ms: how long ago it was published."""

    step: int
    path: str
    age_ms: int
    productive_ms: int | None = None


@dataclass(slots=True)
class Watch:
    """One attempt's checkpoints and signs of progress.

    signs: files whose newest change is a sign of progress: the progress file, else the output.
    """

    key: Key
    folder: Path
    progress: Path
    signs: tuple[Path, ...] = ()
    _seen: dict[str, int] = field(default_factory=dict)
    _newest: int = -1
    _saving: int = -1
    _sign_s: float = 0.0

    def look(self, *, now_ms: int) -> list[Cue]:
        """What is new since the last look; of several checkpoints, or saves, only the newest."""
        cues: list[Cue] = []
        saving = max(self._saving_steps(), default=-1)
        if saving > self._saving:
            self._saving = saving
            cues.append(SavingSeen(key=self.key, step=saving))
        marker = newest(self.folder, seen=self._seen)
        if marker is not None and marker.step > self._newest:
            self._newest = marker.step
            cues.append(seen(self.key, marker, now_ms=now_ms))
        sign_s = self._last_sign()
        if sign_s > self._sign_s:
            self._sign_s = sign_s
            cues.append(Progressed(key=self.key, at_ms=now_ms - _age_ms(sign_s)))
        return cues

    def _saving_steps(self) -> list[int]:
        names = [path.name for path in _markers(self.folder, SAVING) if path.name not in self._seen]
        found = []
        for name in names:
            self._seen[name] = 0
            read = untrusted.read_object(self.folder / name)
            step = untrusted.count_of(read[0].get("step")) if read else None
            found += [] if step is None else [step]
        return found

    def _last_sign(self) -> float:
        """The progress file's time if the program ever touched it, else its output's."""
        return _modified_s(self.progress) or max(map(_modified_s, self.signs), default=0.0)


def mark_recorded(checkpoint: Path, step: int) -> None:
    """Tell the program that the log has this checkpoint, so that older ones may go."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        os.close(os.open(checkpoint.parent / f"step-{step}{RECORDED}", flags, 0o644))


def seen(key: Key, marker: Marker, *, now_ms: int) -> CheckpointSeen:
    """The cue of a marker."""
    return CheckpointSeen(
        key=key,
        step=marker.step,
        path=marker.path,
        at_ms=now_ms - marker.age_ms,
        productive_ms=marker.productive_ms,
    )


def newest(folder: Path, *, seen: dict[str, int] | None = None) -> Marker | None:
    """The complete checkpoint with the highest step.

    Seen: markers read before are not read again.
    """
    known = {} if seen is None else seen
    found: list[Marker] = []
    for path in _markers(folder, SAVED):
        if path.name in known:
            continue
        marker = _marker(path)
        if marker is not None:
            known[path.name] = marker.step
            found.append(marker)
    return max(found, key=lambda marker: marker.step, default=None)


def _markers(folder: Path, suffix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(suffix))
    except OSError:
        return []


def _marker(path: Path) -> Marker | None:
    """A marker that may be believed, else None."""
    found = untrusted.read_object(path)
    if found is None:
        return None
    plain, written_s = found
    step, target = untrusted.count_of(plain.get("step")), plain.get("path")
    if step is None or not isinstance(target, str) or not target:
        return None
    if not untrusted.is_there(path.parent / target):
        return None
    productive_s = untrusted.seconds_of(plain.get("productive_s"))
    return Marker(
        step=step,
        path=str(path.parent / target),
        age_ms=_age_ms(written_s),
        productive_ms=int(productive_s * 1000) if productive_s else None,
    )


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _age_ms(modified_s: float) -> int:
    """How long ago; a shared disk's clock that is ahead of ours counts as now."""
    return max(0, int((time.time() - modified_s) * 1000))
