"""Nothing in the repository depends on where it was written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.sources import shown, tracked

if TYPE_CHECKING:
    from pathlib import Path

# In pieces, so that this file may keep its own rules.
HOSTS = [
    "py" + "pi.org",
    "python" + "hosted",
    "repo1." + "maven",
    "repo." + "maven",
    "maven" + "central",
    "registry." + "npmjs",
    "proxy." + "golang",
    "static." + "crates",
    "deb." + "debian",
]
PLACES = [
    r"(?<![\w./-])/" + "work/",
    r"(?<![\w./-])/" + r"root/\w",
    r"(?<![\w./-])/" + r"home/\w",
    r"(?<![\w./-])/" + r"Users/\w",
]
TALK = [r"\.\./" + "shared", "issues " + r"show \d"]


@pytest.mark.parametrize("pattern", [*(re.escape(host) for host in HOSTS), *PLACES, *TALK])
def test_no_file_names_an_outside_host_or_a_place_on_a_machine(pattern: str) -> None:
    """A clone works behind any mirror, in any folder, for anybody."""
    wanted = re.compile(pattern, re.IGNORECASE)
    found = [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if wanted.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX"])
def test_what_is_open_stands_in_an_issue(word: str) -> None:
    """A note to oneself in the code is found by nobody."""
    marks = re.compile(rf"(#|--|//|<!--)\s*{word}\b")
    found = [
        f"{shown(path)}:{number}"
        for path in tracked()
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if marks.search(line)
    ]
    assert not found, "\n".join(found)


def _text(path: Path) -> str:
    """Read a file as text; nothing of one that is not."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
