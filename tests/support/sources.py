"""What the repository holds, for tests that read it as a reviewer would."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "gangline"


@cache
def tracked() -> tuple[Path, ...]:
    """List the files that git keeps, or would keep if they were added now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    paths = sorted({ROOT / name for name in listed.split("\0") if name})
    return tuple(path for path in paths if path.is_file())


def python_files(under: Path = ROOT) -> list[Path]:
    """List the Python files under a folder."""
    return [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(under)]


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    """Name a file as a person at the repository's root would."""
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    """Name the module that a file of the package is."""
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """List what a file imports, anywhere in it, with the lines.

    `import a.b` is `a.b`; `from a import b` is both `a` and `a.b`, as b may be a module.
    """
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno
