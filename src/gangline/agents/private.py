"""The private part of a spec: command, environment, working directory and user, as JSON.

`{"command": [words] or "text for a shell", "env": {…}, "workdir": "…", "user": "…"}`. A text that
is one simple command is started as it is, so that no shell stands between the job and its
signals; any other is given to `sh`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from gangline.events.sealing import SealError, bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangline.events.batch import AssignedMember
    from gangline.events.spec import Private

    class Unseal(Protocol):
        """Opens sealed private parts (KeyStore.unseal)."""

        def __call__(self, private: Private, *, bound_to: Sequence[str] = ()) -> bytes:
            """The clear text."""


_SHELL_SIGNS: Final = frozenset(";&|<>()$`\\\"'\n*?[#~={}!")
_BUILTINS: Final = frozenset(
    {".", ":", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export"}
    | {"for", "if", "read", "readonly", "return", "set", "shift", "source", "times", "trap"}
    | {"type", "ulimit", "umask", "unset", "until", "wait", "while"}
)


class PrivateError(ValueError):
    """The private part of a spec cannot be read; the message says why without quoting it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What to run."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""


def open_order(order: AssignedMember, unseal: Unseal | None) -> Run:
    """What a member is to run; PrivateError where it cannot be read, or is another job's."""
    if unseal is None:
        return open_private(order.spec.private)
    bound_to = bindings(order.job, team=order.spec.team)
    return open_private(order.spec.private, lambda private: unseal(private, bound_to=bound_to))


def open_private(private: Private, unseal: Callable[[Private], bytes] | None = None) -> Run:
    """Read it. unseal: turns a sealed part into clear JSON; PrivateError where there is none."""
    if private.key_id and unseal is None:
        raise PrivateError(f"sealed with key {private.key_id}, which this node does not have")
    try:
        clear = unseal(private) if private.key_id and unseal else private.ciphertext
    except SealError as error:
        raise PrivateError(str(error)) from None
    try:
        plain = json.loads(clear)
    except (ValueError, RecursionError):
        raise PrivateError("its private part is no JSON") from None
    if not isinstance(plain, dict):
        raise PrivateError("its private part is no JSON object")
    return Run(
        argv=_argv(plain.get("command")),
        env=_env(plain.get("env")),
        workdir=_text(plain, "workdir"),
        user=_text(plain, "user"),
    )


def _argv(command: Any) -> tuple[str, ...]:  # noqa: ANN401 - anything may stand in JSON
    if isinstance(command, str) and command.strip() and _is_plain(command):
        words = command.split()
        simple = not _SHELL_SIGNS & set(command) and words[0] not in _BUILTINS
        return tuple(words) if simple else ("/bin/sh", "-c", command)
    if isinstance(command, list) and command and all(map(_is_plain, command)):
        return tuple(command)
    raise PrivateError("it has no command: a text, or a list of words")


def _env(env: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise PrivateError("its env is no object of texts")
    for name, value in env.items():
        if not name or "=" in name or not (_is_plain(name) and _is_plain(value)):
            raise PrivateError("its env is no object of texts")
    return dict(env)


def _text(plain: Mapping[str, Any], name: str) -> str:
    value = plain.get(name) or ""
    if not _is_plain(value):
        raise PrivateError(f"its {name} is no text")
    return value


def _is_plain(text: object) -> bool:
    """Whether it can be handed to a process: JSON may hold NUL, and halves of characters."""
    return isinstance(text, str) and not any(
        character == "\0" or "\ud800" <= character <= "\udfff" for character in text
    )
