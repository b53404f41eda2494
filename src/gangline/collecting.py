"""Python's cycle collector, kept out of work that makes many objects and hardly a cycle of them."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_collecting() -> Iterator[None]:
    """No pass until the end, unless somebody else has switched the collector off before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
