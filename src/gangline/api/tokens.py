"""Tokens: who may come in.

A file holds their hashes only; the secret is shown once, when it is made.

A token is `gl_<name>_<secret>`, its secret 256 random bits, so that a plain SHA-256 of it cannot be
turned round; no slow hash is needed. The file is read again when it changes: a token is rotated by
making a new one and removing the old one, with no restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Role(StrEnum):
    """What a token is for: a team's jobs, the whole cell, or reading everything."""

    SUBMIT = "submit"
    OPERATE = "operate"
    AUDIT = "audit"


class TokensError(Exception):
    """The file of tokens cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token as it rests in the file.

    team: whose jobs it may change, empty for all roles but submit.
    """

    name: str
    role: Role
    team: str
    sha256: str
    created_s: int


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def read(path: Path) -> dict[str, Token]:
    """The tokens of a file, by name; none where there is no file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["tokens"]
        tokens = [Token(**{**row, "role": Role(row["role"])}) for row in rows]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise TokensError(f"{path} is no file of tokens: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TokensError(f"{path} is no file of tokens: {error}") from error
    return {token.name: token for token in tokens}


def _write(path: Path, tokens: Iterable[Token]) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        json.dump({"tokens": [asdict(token) for token in tokens]}, handle, indent=1)
    new.replace(path)


def create(path: Path, name: str, *, role: Role, team: str = "") -> str:
    """Make a token and return its text, which is nowhere kept; `TokensError`."""
    if not _NAME.fullmatch(name):
        raise TokensError(f"a token is named by a-z, 0-9 and -, at most 63 of them, not {name!r}")
    if (role is Role.SUBMIT) != bool(team):
        raise TokensError("a token of role submit names its team, and no other token does")
    tokens = read(path)
    if name in tokens:
        raise TokensError(f"there is a token {name} already; revoke it first, or take another name")
    secret = secrets.token_urlsafe(32)
    tokens[name] = Token(
        name=name, role=role, team=team, sha256=_digest(secret), created_s=int(time.time())
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, tokens.values())
    return f"gl_{name}_{secret}"


def rotate(path: Path, name: str) -> str:
    """Give a token a new secret and return its text; the old text comes in no more. TokensError."""
    tokens = read(path)
    if name not in tokens:
        raise TokensError(f"there is no token {name} in {path}")
    secret = secrets.token_urlsafe(32)
    tokens[name] = replace(tokens[name], sha256=_digest(secret), created_s=int(time.time()))
    _write(path, tokens.values())
    return f"gl_{name}_{secret}"


def revoke(path: Path, name: str) -> None:
    """Take a token away; `TokensError` where there is none of that name."""
    tokens = read(path)
    if tokens.pop(name, None) is None:
        raise TokensError(f"there is no token {name} in {path}")
    _write(path, tokens.values())


class TokenFile:
    """The tokens of a file as it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._tokens: Mapping[str, Token] = {}

    def find(self, text: str) -> Token | None:
        """The token of a text that a client sent, or None; `TokensError`: nobody comes in."""
        self._refresh()
        prefix, _, rest = text.partition("_")
        name, _, secret = rest.partition("_")
        token = self._tokens.get(name)
        if prefix != "gl" or token is None:
            return None
        return token if hmac.compare_digest(token.sha256, _digest(secret)) else None

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._seen, self._tokens = None, {}
            return
        except OSError as error:
            raise TokensError(f"{self._path} cannot be read: {error}") from error
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._tokens = read(self._path)
            self._seen = seen
