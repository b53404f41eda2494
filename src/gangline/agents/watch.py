"""Watching an attempt's folder of checkpoints for the markers of complete ones.

The convention (docs/agents.md): the program writes a checkpoint under another name, renames it
into place, and then renames a marker `NAME.saved.json` into GANGLINE_CHECKPOINT_DIR: `{"step":
120, "path": "step-120"}`, with `"productive_s"` if it counts better than we do. Only a marker
whose path exists is believed, so that one half written is never resumed. When the log has it,
`step-N.recorded` is put beside it. `NAME.saving.json` says that a save has begun.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gangline.agents.core import CheckpointSeen, Key, Progressed, SavingSeen

if TYPE_CHECKING:
    from gangline.agents.core import Cue

SAVED: Final = ".saved.json"
SAVING: Final = ".saving.json"
RECORDED: Final = ".recorded"
_MAX_MARKER_BYTES: Final = 64 * 1024


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
        """What is new since the last look; of several checkpoints only the newest."""
        cues: list[Cue] = []
        for step in sorted(self._saving_steps()):
            if step > self._saving:
                self._saving = step
                cues.append(SavingSeen(key=self.key, step=step))
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
            plain = _read(self.folder / name)
            step = plain.get("step") if plain else None
            found += [step] if isinstance(step, int) else []
        return found

    def _last_sign(self) -> float:
        """The progress file's time if the program ever touched it, else its output's."""
        if self.progress.exists():
            return _modified_s(self.progress)
        return max(map(_modified_s, self.signs), default=0.0)


def mark_recorded(checkpoint: Path, step: int) -> None:
    """Tell the program that the log has this checkpoint, so that older ones may go."""
    with contextlib.suppress(OSError):
        (checkpoint.parent / f"step-{step}{RECORDED}").touch()


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
    plain = _read(path)
    if plain is None:
        return None
    step, target, productive_s = plain.get("step"), plain.get("path"), plain.get("productive_s")
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        return None
    if not isinstance(target, str) or not target or not (path.parent / target).exists():
        return None
    productive = isinstance(productive_s, int | float) and productive_s >= 0
    return Marker(
        step=step,
        path=str(path.parent / target),
        age_ms=_age_ms(_modified_s(path)),
        productive_ms=int(productive_s * 1000) if productive and productive_s else None,
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _MAX_MARKER_BYTES:
            return None
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _age_ms(modified_s: float) -> int:
    """How long ago; a shared disk's clock that is ahead of ours counts as now."""
    return max(0, int((time.time() - modified_s) * 1000))
