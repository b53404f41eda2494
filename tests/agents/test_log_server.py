"""The logs of jobs over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from gangline.agents.attempts import folder_name
from gangline.agents.core import Key
from gangline.agents.log_server import LogServer, kept_token
from gangline.agents.plan import Result
from gangline.agents.rotation import rotate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.client import HTTPMessage
    from pathlib import Path


TOKEN = "open sesame"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LogServer]:
    """A server with one attempt's logs, and secrets beside them."""
    folder = tmp_path / folder_name(Key("a/b", 2))
    folder.mkdir()
    (folder / "rank-0.out").write_text("hello world")
    (folder / "rank-0.err").write_text("")
    (folder / "plan.json").write_text("secret")
    server = LogServer(tmp_path, address="127.0.0.1", port=0, token=TOKEN)
    yield server
    server.close()


def _get(server: LogServer, path: str, *, token: str = TOKEN) -> tuple[bytes, HTTPMessage]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
        return answer.read(), answer.headers


def _refused(server: LogServer, path: str, *, token: str = TOKEN) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        _get(server, path, token=token)
    caught.value.close()
    return int(caught.value.code)


def test_the_files_of_an_attempt_are_listed(server: LogServer) -> None:
    """Output only, with sizes."""
    body, _ = _get(server, "/logs/a%2Fb/2")

    assert json.loads(body) == {
        "files": [{"file": "rank-0.err", "size": 0}, {"file": "rank-0.out", "size": 11}]
    }


def test_a_file_is_read_from_an_offset_on(server: LogServer) -> None:
    """And says from where to go on, which is how it is followed."""
    body, headers = _get(server, "/logs/a%2Fb/2/rank-0.out?offset=6&limit=3")
    assert (body, headers["X-Next-Offset"], headers["X-Size"]) == (b"wor", "9", "11")

    body, headers = _get(server, "/logs/a%2Fb/2/rank-0.out?offset=11")
    assert (body, headers["X-Next-Offset"]) == (b"", "11")


def test_offsets_count_on_over_rotations(server: LogServer, tmp_path: Path) -> None:
    """Whoever was away for two rotations reads on where they were; what is gone is passed over."""
    log = tmp_path / folder_name(Key("a/b", 2)) / "rank-0.out"
    written = log.read_bytes()
    for more in (b"one", b"two", b"three"):
        assert rotate(log, above=1, keep=2)
        log.write_bytes(more * 5)
        written += more * 5

    _, headers = _get(server, "/logs/a%2Fb/2/rank-0.out?offset=99")
    assert (headers["X-Next-Offset"], headers["X-Size"]) == ("99", str(len(written)))
    read, offset = b"", 0
    while (answer := _get(server, f"/logs/a%2Fb/2/rank-0.out?offset={offset}&limit=4"))[0]:
        read += answer[0]
        offset = int(answer[1]["X-Next-Offset"])

    assert read == written.removeprefix(b"hello world")
    assert offset == len(written)


def test_how_each_rank_ended_is_told_with_the_one_that_failed_first(
    server: LogServer, tmp_path: Path
) -> None:
    """Once the supervisor has written it down; before, nobody knows."""
    before, _ = _get(server, "/ranks/a%2Fb/2")
    how = Result(code=9, first_rank=1, ranks={"1": 9, "0": 143})
    how.save(tmp_path / folder_name(Key("a/b", 2)))
    after, _ = _get(server, "/ranks/a%2Fb/2")

    assert json.loads(before) == {"ranks": [], "ends": []}
    assert json.loads(after)["ends"] == [
        {"rank": 0, "code": 143, "first": False},
        {"rank": 1, "code": 9, "first": True},
    ]


def test_who_has_no_token_sees_nothing(server: LogServer) -> None:
    """Not even whether a job exists."""
    assert _refused(server, "/logs/a%2Fb/2", token="wrong") == 401
    assert _refused(server, "/logs/nobody/1", token="") == 401


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/logs/a%2Fb/2/plan.json",
        "/logs/a%2Fb/2/..%2F..%2Fetc%2Fpasswd",
        "/logs/../..",
        "/logs/a%2Fb/x/rank-0.out",
        "/logs/a%2Fb/3/rank-0.out",
        "/logs/%2e%2e/2/rank-0.out",
    ],
)
def test_nothing_but_output_can_be_read(server: LogServer, path: str) -> None:
    """No plan, no journal, nothing outside."""
    assert _refused(server, path) == 404


def test_a_bad_offset_is_said(server: LogServer) -> None:
    """It is the client's mistake."""
    assert _refused(server, "/logs/a%2Fb/2/rank-0.out?offset=-1") == 400


def test_the_token_of_a_folder_is_made_once(tmp_path: Path) -> None:
    """For its owner's eyes only."""
    path = tmp_path / "log-token"

    token = kept_token(path)

    assert kept_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
