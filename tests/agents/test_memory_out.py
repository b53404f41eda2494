"""Memory that runs out: a real kill by the kernel, in a small cgroup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.agents import make

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agents.cell import Cell

_LIMIT = "67108864"


@pytest.fixture
def narrow() -> Iterator[Path]:
    """A control group with 64 MiB; skipped where we may not make one."""
    for root, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = root / f"gangline-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / limit).write_text(_LIMIT)
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip("we may not limit memory here")


def test_a_program_that_the_kernel_kills_for_its_memory_is_told_so(
    cell: Cell, narrow: Path
) -> None:
    """With its end, and where its people look; the signal alone might be anybody's."""
    hungry = "import os; held = os.urandom(1 << 20) * 512"
    spec = make.spec(f"echo $$ > {narrow}/cgroup.procs; exec python3 -c '{hungry}'")
    with cell.agent():
        order = cell.start(make.member(spec=spec))
        ended = cell.ended()
        output = cell.output(order)

    assert (ended.code, ended.signal, ended.reason) == (137, 9, "exited")
    assert ended.detail == "out of memory: the kernel killed a process on this node meanwhile"
    assert output.endswith(f"gangline: {ended.detail}\n")
