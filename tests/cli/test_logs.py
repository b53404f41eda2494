"""`gangline logs`: output of any kind, as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gangline.cli import logs
from gangline.client import Client

if TYPE_CHECKING:
    import pytest

PART = 100_000


class Printing:
    """An API whose one job has printed this, and is asked for it part by part."""

    def __init__(self, printed: bytes) -> None:
        self.printed = printed

    route = staticmethod(Client.route)

    def request(self, _method: str, _path: str, **_: Any) -> dict[str, Any]:
        """The listing of an attempt that has ended."""
        file = {"node": "n0", "file": "rank-0.out", "size": len(self.printed)}
        return {"job": "j", "attempt": 1, "state": "ended", "files": [file]}

    def read_part(self, _path: str, *, attempt: int, offset: int) -> tuple[bytes, int]:
        """What stands there."""
        assert attempt == 1
        data = self.printed[offset : offset + PART]
        return data, offset + len(data)


def test_a_line_without_an_end_is_shown_in_pieces(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Kept until its end, a line as long as a file would take for ever."""
    printed = b"x" * 3_000_000 + b"\nlast"

    logs.follow(cast("Client", Printing(printed)), "j", attempt=1)

    shown = capfdbinary.readouterr().out
    assert shown.replace(b"\n", b"") == printed.replace(b"\n", b"")
    assert max(map(len, shown.split(b"\n"))) < logs.LONGEST + PART
    assert shown.endswith(b"x\nlast\n")
