"""The commands of the pages for each kind of reader, run on a real stack."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.cli import local_postgres
from gangline.cli import stack as stacks
from gangline.cli.local_process import free_port
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (shutil.which("curl") and shutil.which("jq")), reason="the pages use curl and jq"
    ),
]
PAGES = ("services", "agents", "programs", "auditors", "analysts")


def commands(page: str) -> list[tuple[str, int]]:
    """The commands of a page, each with the exit code that it says (0)."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    found = []
    for line in lines:
        command, _, code = line.partition("  # exit ")
        found.append((command, int(code or 0)))
    return found


@pytest.fixture(scope="module")
def shell() -> Iterator[dict[str, str]]:
    """The environment of a shell beside a small stack that just came up."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-pages-"))
    folder.chmod(0o711)  # Postgres runs as another account where the tests run as root
    try:
        plan = stacks.Plan(
            directory=folder, port=free_port(), agents=1, gpus=2, schedulers=1, heartbeat_s=1.0
        )
        stack = stacks.up(plan)
        scratch = folder / "scratch"
        scratch.mkdir()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        known = {
            "GANGLINE_DIR": str(folder), "GANGLINE_URL": stack.url, "TMPDIR": str(scratch),
            "PATH": path, "NO_COLOR": "1",
        }  # fmt: skip
        yield {**os.environ, **known}
    finally:
        stacks.down(folder)
        local_postgres.remove(folder / "postgres")
        shutil.rmtree(folder)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_does_what_it_says(page: str, shell: dict[str, str]) -> None:
    """In the page's order, with the exit codes that it states, and no traceback anywhere.

    A page may set variables for what follows.
    """
    if page == "analysts" and not shutil.which("psql"):
        pytest.skip("the page uses psql")
    setup = ["gangline", "team", "set", "vision", "--guaranteed", "2"]
    subprocess.run(setup, env=shell, check=True, capture_output=True)

    before = ""
    for line, code in commands(page):
        if re.match(r"[A-Z]+=", line):
            before += f"{line}; "
            continue
        command = before + line
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            env=shell, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr

    assert commands(page)
