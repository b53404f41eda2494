"""Webhooks: each job's end is posted to whoever asked for it, signed, in order, at least once.

Every hook has a thread and a cursor of its own, so that one which does not answer holds up nobody
else. The cursor is written down after an answer, so a restart goes on where it was; the same end
may come twice, with the same `webhook-id`. The form is that of standardwebhooks.com: the signature
is HMAC-SHA256 over `id.timestamp.body`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import threading
import time
import tomllib
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx2
import structlog

from gangline.projections.queries import ViewsUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gangline.api.views import Row

PREFIX: Final = "whsec_"
_ENDS: Final = frozenset({"JobFinished", "JobRejected"})
_STATES: Final = ("succeeded", "failed", "cancelled", "rejected")
_SHOWN: Final = (
    "job", "team", "class", "gpus", "state", "reason", "reason_text", "exit_code", "attempts",
    "preemptions", "submitted_at", "started_at", "ended_at", "wait_s", "lost_gpu_s",
)  # fmt: skip
_PAGE: Final = 500
_POLL_S: Final = 1.0
_TIMEOUT_S: Final = 10.0
_MEND_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
_MAX_RETRY_AFTER_S: Final = 3_600.0
PATIENCE_S: Final = 24 * 3_600.0

_log = structlog.get_logger(__name__)


class HooksError(Exception):
    """The file of hooks cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Somebody who wants to hear of ends. teams, states: only these; empty for all."""

    name: str
    url: str
    key: bytes = field(repr=False)
    teams: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    def wants(self, row: Row) -> bool:
        """Whether it wants to hear of this job's end."""
        return (not self.teams or row["team"] in self.teams) and (
            not self.states or row["state"] in self.states
        )


class Ends(Protocol):
    """What is needed of `gangline.projections.queries.Views`."""

    def job(self, job: str) -> Row | None:
        """A job's row."""
        ...

    def decisions(self, *, after: str, job: str, limit: int) -> Sequence[Row]:
        """Decisions in order."""
        ...

    def end(self) -> str:
        """The position of the last decisions."""
        ...


def read_hooks(path: Path) -> list[Hook]:
    """The hooks of a TOML file (`[[hook]]` with name, url, secret, teams, states); HooksError."""
    try:
        if path.stat().st_mode & 0o077:
            raise HooksError(f"{path} holds secrets: let only its owner read it (chmod 600)")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["hook"]
        hooks = [_hook(table) for table in tables]
    except OSError as error:
        raise HooksError(f"{path} is no file of hooks: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise HooksError(f"{path} is no file of hooks: {error}") from error
    names = [hook.name for hook in hooks]
    if len(set(names)) < len(names):
        raise HooksError(f"{path}: two hooks have the same name")
    return hooks


def _hook(table: Mapping[str, Any]) -> Hook:
    """One hook; ValueError says what would be right."""
    unknown = sorted(set(table) - {"name", "url", "secret", "teams", "states"})
    if unknown:
        raise ValueError(f"a hook has no {unknown[0]}")
    name, url = str(table["name"]), str(table["url"])
    teams, states = _words(table, "teams"), _words(table, "states")
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"a hook is named by letters, digits, - and _, not {name!r}")
    if not url.startswith(("https://", "http://")) or not _leads_somewhere(url):
        raise ValueError(f"{name}: a url begins with https:// or http:// and names a host")
    if wrong := [state for state in states if state not in _STATES]:
        raise ValueError(f"{name}: {wrong[0]} is no end; there are {', '.join(_STATES)}")
    key = _key(str(table["secret"]), name)
    return Hook(name=name, url=url, key=key, teams=teams, states=states)


def _words(table: Mapping[str, Any], field_name: str) -> tuple[str, ...]:
    """A list of texts: one text alone would be taken letter by letter."""
    found = table.get(field_name, [])
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ValueError(f'{field_name} is a list, like ["vision"], not {found!r}')
    return tuple(found)


def _leads_somewhere(url: str) -> bool:
    try:
        return bool(httpx2.URL(url).host)
    except httpx2.InvalidURL:
        return False


def _key(secret: str, name: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name}: its secret is not base64: {error}") from error
    if not secret.startswith(PREFIX) or len(key) < 24:
        raise ValueError(f"{name}: a secret is {PREFIX} and 24 bytes or more in base64")
    return key


def signature(key: bytes, *, message_id: str, timestamp: int, body: bytes) -> str:
    """What receivers compare: `v1,` and the base64 of the HMAC."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()


class Courier:
    """Delivers to one hook. cursor: the file of its place; a new hook begins at the end."""

    def __init__(
        self,
        hook: Hook,
        views: Ends,
        *,
        cursor: Path,
        patience_s: float = PATIENCE_S,
        pause_s: float = _FIRST_PAUSE_S,
        mend_s: float = _MEND_S,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """patience_s: for how long one end is tried. pause_s: before the first repetition.

        mend_s: after a trouble of our own.
        """
        self._hook = hook
        self._views = views
        self._file = cursor
        self._patience_s = patience_s
        self._pause_s = pause_s
        self._mend_s = mend_s
        self._http = httpx2.Client(timeout=_TIMEOUT_S, transport=transport)
        self._log = _log.bind(hook=hook.name)

    def run(self, stop: threading.Event) -> None:
        """Deliver until told to stop."""
        while not stop.is_set():
            try:
                found = self.turn(stop)
            except ViewsUnreachableError as error:
                self._log.warning("views_unreachable", error=str(error))
                found = 0
            except (OSError, ValueError) as error:
                # A full disk, or a cursor that is none: said until somebody mends it.
                self._log.error("stands_still", cursor=str(self._file), error=str(error))
                stop.wait(self._mend_s)
                continue
            if found < _PAGE:
                stop.wait(_POLL_S)
        self._http.close()

    def turn(self, stop: threading.Event) -> int:
        """Deliver the ends of one page of decisions; how many decisions there were."""
        rows = self._views.decisions(after=self._cursor(), job="", limit=_PAGE)
        for row in rows:
            if row["kind"] in _ENDS and not self._end(str(row["job"]), str(row["key"]), stop):
                return len(rows)
        if rows:
            self._keep(str(rows[-1]["key"]))
        return len(rows)

    def _end(self, job: str, key: str, stop: threading.Event) -> bool:
        """Tell of one end; False when we were told to stop before there was an answer."""
        row = self._views.job(job)
        if row is not None and self._hook.wants(row):
            body = _body(row)
            if not self._deliver(f"end-{key}", body, stop):
                return False
        self._keep(key)
        return True

    def _deliver(self, message_id: str, body: bytes, stop: threading.Event) -> bool:
        """Post until there is a good answer, or patience ends; False when told to stop."""
        deadline = time.monotonic() + self._patience_s
        for pause_s in self._pauses():
            trouble, wait_s = self._post(message_id, body)
            if not trouble:
                self._log.info("delivered", id=message_id)
                return True
            if time.monotonic() + max(pause_s, wait_s) > deadline:
                self._log.error("given_up", id=message_id, error=trouble)
                return True
            self._log.warning("not_delivered", id=message_id, error=trouble)
            if stop.wait(max(pause_s, wait_s)):
                return False
        return True

    def _pauses(self) -> Iterator[float]:
        pause_s = self._pause_s
        while True:
            yield pause_s
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _post(self, message_id: str, body: bytes) -> tuple[str, float]:
        """What went wrong ('' for nothing), and how long the receiver wants us to wait."""
        now_s = int(time.time())
        signed = signature(self._hook.key, message_id=message_id, timestamp=now_s, body=body)
        headers = {
            "content-type": "application/json",
            "user-agent": "gangline",
            "webhook-id": message_id,
            "webhook-timestamp": str(now_s),
            "webhook-signature": signed,
        }
        try:
            # What the receiver has to say beside its status is not read, however long it is.
            with self._http.stream("POST", self._hook.url, content=body, headers=headers) as answer:
                trouble = "" if answer.is_success else f"HTTP {answer.status_code}"
                return trouble, _retry_after(answer)
        except httpx2.HTTPError as error:
            return str(error) or type(error).__name__, 0.0

    def _cursor(self) -> str:
        """Where this hook stands; a new one at the end of what there is."""
        try:
            return self._file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            position = self._views.end()
            self._keep(position)
            return position

    def _keep(self, cursor: str) -> None:
        new = self._file.with_name(self._file.name + ".new")
        new.write_text(cursor + "\n", encoding="utf-8")
        new.replace(self._file)


def _retry_after(answer: httpx2.Response) -> float:
    text = answer.headers.get("retry-after", "0")
    return min(float(text), _MAX_RETRY_AFTER_S) if text.isdecimal() else 0.0


def _body(row: Row) -> bytes:
    """What is told of an end: nothing of the private part."""
    data = {name: row.get(name) for name in _SHOWN if name in row}
    told = {"type": f"job.{row['state']}", "timestamp": row.get("ended_at"), "data": data}
    return json.dumps(told, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> str:  # noqa: ANN401 - JSON
    """Times as ISO 8601."""
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def run_couriers(
    hooks: Sequence[Hook], views: Ends, *, folder: Path, stop: threading.Event
) -> None:
    """Deliver to all hooks until told to stop. folder: of their cursors."""
    folder.mkdir(parents=True, exist_ok=True)
    threads = [
        threading.Thread(
            target=Courier(hook, views, cursor=folder / f"{hook.name}.cursor").run,
            args=(stop,),
            name=f"hook-{hook.name}",
        )
        for hook in hooks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
