"""Threads that do not die in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def guarded(
    work: Callable[[], None], failed: Callable[[BaseException], None]
) -> Callable[[], None]:
    """The same work for a thread; what it raises is told to whoever can end the process."""

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told, not swallowed
            failed(error)

    return run
