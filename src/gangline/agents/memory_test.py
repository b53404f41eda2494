"""A short memory test of GPUs: `PYTHON memory_test.py`, with a Python that has PyTorch and CUDA.

Fills what is free of each GPU with one pattern after the other and reads it back. Prints `GPU
memtest TEXT` for each GPU that gives back something else, as check commands do (health.py), and
ends with 1 and a line on stderr where there is nothing to ask. `GANGLINE_GPUS` says which GPUs,
`GANGLINE_MEMORY_TEST_SHARE` how much of their free memory (0.9). It runs as a file of its own, as
that Python has nothing of ours.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, Final

PATTERNS: Final = (0x00, 0xFF, 0x55, 0xAA)
BLOCK_BYTES: Final = 256 * 1024 * 1024


def main() -> int:
    """0: every GPU was asked; those that failed are on stdout."""
    try:
        torch = import_module("torch")  # which the agent itself does not have
    except ImportError as error:
        return _cannot(f"no PyTorch here: {error}")
    gpus = [int(word) for word in os.environ.get("GANGLINE_GPUS", "0").split(",")]
    if not torch.cuda.is_available() or torch.cuda.device_count() < len(gpus):
        return _cannot(f"CUDA sees {torch.cuda.device_count()} of the GPUs {gpus}")
    share = float(os.environ.get("GANGLINE_MEMORY_TEST_SHARE", "0.9"))
    for place, gpu in enumerate(gpus):
        found = wrong(torch, f"cuda:{place}", size=int(torch.cuda.mem_get_info(place)[0] * share))
        if found:
            print(f"{gpu} memtest {found}", flush=True)  # noqa: T201 - that is how it answers
    return 0


def wrong(torch: Any, device: str, *, size: int) -> str:  # noqa: ANN401 - no stubs of it here
    """What is wrong with so many bytes of a device, empty for nothing.

    All blocks are held until all are written, so that no place is read before its neighbours are
    full.
    """
    for pattern in PATTERNS:
        blocks = [
            torch.full((min(BLOCK_BYTES, size - at),), pattern, dtype=torch.uint8, device=device)
            for at in range(0, size, BLOCK_BYTES)
        ]
        for number, block in enumerate(blocks):
            bad = int((block != pattern).sum().item())
            if bad:
                return f"pattern {pattern:#04x}: {bad} bytes of block {number} differ"
        del blocks
    return ""


def _cannot(why: str) -> int:
    print(why, file=sys.stderr)  # noqa: T201 - that is how it answers
    return 1


if __name__ == "__main__":
    sys.exit(main())
