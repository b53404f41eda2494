"""Small on purpose: what does not fit on a screen or two is two things.

When a limit makes a page worse, the limit is wrong: say so in an ADR and change it here.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.support.sources import parsed, python_files, shown, tracked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_FUNCTION = 60
LONGEST_FILE = 500
LONGEST_LINE = 100
SOURCES = {".css", ".html", ".js", ".py", ".scn", ".sh", ".sql", ".toml", ".yaml", ".yml"}


def _sources() -> list[Path]:
    """List the files that people here write and read as code; `vendor` holds those of others."""
    return [
        path
        for path in tracked()
        if (path.suffix in SOURCES or path.name == "Makefile") and "vendor" not in path.parts
    ]


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """List all functions of a file, also those inside others."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_function_is_longer_than_a_screen() -> None:
    """A function has at most 60 lines, its docstring included."""
    long = [
        f"{shown(path)}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in python_files()
        for node in _functions(path)
        if node.end_lineno is not None and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_no_file_holds_two_things() -> None:
    """A source file has at most 500 lines."""
    counts = {path: len(path.read_bytes().splitlines()) for path in _sources()}
    long = [
        f"{shown(path)}: {count} lines" for path, count in counts.items() if count > LONGEST_FILE
    ]
    assert not long, "\n".join(long)


def test_no_line_runs_out_of_the_window() -> None:
    """A line has at most 100 characters."""
    long = [
        f"{shown(path)}:{number}: {len(line)} characters"
        for path in _sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LONGEST_LINE
    ]
    assert not long, "\n".join(long)
