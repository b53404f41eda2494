"""`gangline logs`: output of any kind, as it comes, from agents that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from gangline.agents.attempts import folder_name
from gangline.agents.core import Key
from gangline.agents.log_server import LogServer
from gangline.cli import following, output, output_files
from gangline.client import Client, GanglineError, UnreachableError
from tests.cli.conftest import Done, Shell
from tests.support.api import listening_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PART = 100_000
TOKEN = "open sesame"
Reactions = dict[str, "Callable[[], None]"]


class Printing:
    """An API whose one job has printed this, and is asked for it part by part."""

    def __init__(self, printed: bytes) -> None:
        self.printed = printed

    route = staticmethod(Client.route)

    def job(self, _: str) -> dict[str, Any]:
        """It has ended."""
        attempt = {"attempt": 1, "state": "ended", "seats": [{"node": "n0"}]}
        return {"state": "succeeded", "attempts_list": [attempt]}

    def request(self, _method: str, _path: str, **_: Any) -> dict[str, Any]:
        """The listing of an attempt that has ended."""
        file = {"node": "n0", "file": "rank-0.out", "size": len(self.printed)}
        found = {"job": "j", "attempt": 1, "state": "ended", "files": [file]}
        return found | {"unreachable": []}

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
    client = cast("Client", Printing(printed))

    following.Follower(client, output_files.Wanted("j", attempt=1)).run()

    shown = capfdbinary.readouterr().out
    assert shown.replace(b"\n", b"") == printed.replace(b"\n", b"")
    assert max(map(len, shown.split(b"\n"))) < output_files.LONGEST + PART
    assert shown.endswith(b"x\nlast\n")


class Gang:
    """A job whose nodes' agents really serve what is written here; somebody watches it.

    When the watcher is told or shown something, `react` may change the world.
    """

    def __init__(self, shell: Shell, root: Path) -> None:
        self.shell = shell
        self.root = root
        self.servers: dict[str, LogServer] = {}
        self.reactions: Reactions = {}
        views = shell.world.views.tables
        self.job = {"job": "j", "team": "t", "state": "running", "submission": "jobs-0-0"}
        self.attempts = views["attempts"] = []
        self.nodes: list[dict[str, Any]] = views.setdefault("nodes", [])
        views["jobs"] = [self.job]

    def attempt(self, *nodes: str) -> None:
        """It runs, or runs again, on these nodes."""
        number = len(self.attempts) + 1
        seats = [{"node": node} for node in nodes]
        row = {"job": "j", "attempt": number, "state": "running", "seats": seats}
        self.attempts.append(row)

    def folder(self, node: str, attempt: int = 1) -> Path:
        """Where an attempt's output stands on a node."""
        folder = self.root / node / folder_name(Key("j", attempt))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def prints(self, node: str, text: str, *, rank: int = 0, attempt: int = 1) -> None:
        """A rank writes."""
        with (self.folder(node, attempt) / f"rank-{rank}.out").open("a") as file:
            file.write(text)

    def up(self, node: str) -> None:
        """The node's agent comes up, at a port of its own."""
        (self.root / node).mkdir(exist_ok=True)
        server = LogServer(self.root / node, address="127.0.0.1", port=0, token=TOKEN)
        self.servers[node] = server
        self.nodes[:] = [row for row in self.nodes if row["node"] != node]
        self.nodes.append({"node": node, "address": f"127.0.0.1:{server.port}"})

    def down(self, node: str) -> None:
        """The node's agent is gone."""
        self.servers.pop(node).close()

    def ends(self) -> None:
        """The last attempt is over, and so is the job."""
        self.attempts[-1]["state"] = "ended"
        self.job["state"] = "succeeded"

    def on(self, seen: str, reaction: Callable[[], None]) -> None:
        """Do this when the watcher has seen these words; once."""
        self.reactions[seen] = reaction

    def see(self, words: str) -> None:
        """The watcher sees something."""
        for seen in [each for each in self.reactions if each in words]:
            self.reactions.pop(seen)()


@pytest.fixture
def gang(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Gang]:
    """A gang of one attempt on two nodes, each with a line."""
    with listening_api(agent_token=TOKEN) as (url, world):
        monkeypatch.setenv("GANGLINE_URL", url)
        gang = Gang(Shell(capsys, world), tmp_path)
        say, write = output.say, output_files.write

        def said(words: str) -> None:
            say(words)
            gang.see(words)

        def written(file: output_files.File, data: bytes = b"", *, last: bool = False) -> None:
            write(file, data, last=last)
            gang.see(data.decode())

        monkeypatch.setattr(following, "say", said)
        monkeypatch.setattr(following, "write", written)
        monkeypatch.setattr(following, "POLL_S", 0.02)
        monkeypatch.setattr(following, "LONGEST_PAUSE_S", 0.1)
        gang.attempt("n0", "n1")
        for rank, node in enumerate(("n0", "n1")):
            gang.up(node)
            gang.prints(node, f"rank {rank}: step 1\n", rank=rank)
        yield gang
        for server in gang.servers.values():
            server.close()


def lines(done: Done) -> list[str]:
    """What was shown, in order."""
    return sorted(done.out.splitlines())


def test_following_outlives_the_agent_that_it_reads_from(gang: Gang) -> None:
    """What was written meanwhile comes once the agent is back; nothing twice, nothing left out."""

    def back() -> None:
        gang.prints("n0", "rank 0: step 2\nrank 0: st")
        gang.up("n0")

    def on() -> None:
        gang.prints("n0", "ep 3\n")
        gang.prints("n1", "rank 1: step 2\n", rank=1)
        gang.ends()

    gang.on("rank 0: step 1", lambda: gang.down("n0"))
    gang.on("n0 does not answer", back)
    gang.on("n0 answers again", on)

    done = gang.shell("logs", "-f", "j")

    assert done.code == 0
    assert lines(done) == [
        "0| rank 0: step 1", "0| rank 0: step 2", "0| rank 0: step 3",
        "1| rank 1: step 1", "1| rank 1: step 2",
    ]  # fmt: skip
    assert done.err.count("n0 does not answer") == 1
    assert done.err.endswith("j: succeeded\n")


def test_a_node_that_never_comes_back_keeps_nobody_elses_lines(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gang ends without it, and what it did not tell is said."""
    monkeypatch.setattr(following, "LAST_S", 0.0)
    gang.down("n0")
    gang.on("n0 does not answer", lambda: gang.prints("n1", "rank 1: step 2\n", rank=1))
    gang.on("rank 1: step 2", gang.ends)

    done = gang.shell("logs", "-f", "j")

    assert done.code == 0
    assert lines(done) == ["1| rank 1: step 1", "1| rank 1: step 2"]
    assert "what attempt 1 printed on n0 is not shown to its end" in done.err


def test_the_next_attempt_is_followed_and_the_last_ones_rest_comes_when_it_can(gang: Gang) -> None:
    """The gang goes on elsewhere; the node that was lost comes back later."""

    def elsewhere() -> None:
        gang.attempts[0]["state"] = "ended"
        gang.up("n2")
        gang.attempt("n2")
        gang.prints("n2", "rank 0: again\n", attempt=2)

    def back() -> None:
        gang.prints("n0", "rank 0: last words\n")
        gang.up("n0")

    gang.on("rank 0: step 1", lambda: gang.down("n0"))
    gang.on("n0 does not answer", elsewhere)
    gang.on("rank 0: again", back)
    gang.on("rank 0: last words", gang.ends)

    done = gang.shell("logs", "-f", "j")

    assert done.code == 0
    assert lines(done) == [
        "0| rank 0: last words", "0| rank 0: step 1", "1| rank 1: step 1", "rank 0: again",
    ]  # fmt: skip
    assert "j runs again, attempt 2" in done.err


def test_one_attempt_is_followed_to_its_own_end(gang: Gang) -> None:
    """Though the job runs again."""
    gang.on("rank 0: step 1", lambda: gang.attempts[0].update(state="ended"))

    done = gang.shell("logs", "-f", "--attempt", "1", "--rank", "0", "j")

    assert (done.code, done.out) == (0, "rank 0: step 1\n")
    assert gang.shell("logs", "-f", "--attempt", "2", "j").code == 3


def test_following_outlives_the_api(gang: Gang, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again; before it has answered once, it is an error as anywhere."""
    asked = Client.job
    answers = iter([None, None, UnreachableError("no API answers"), None])

    def job(client: Client, name: str) -> dict[str, Any]:
        if (error := next(answers, None)) is not None:
            raise error
        return asked(client, name)

    monkeypatch.setattr(Client, "job", job)
    gang.on("the API answers again", gang.ends)

    done = gang.shell("logs", "-f", "j")

    assert done.code == 0
    assert done.err.splitlines()[0] == "no API answers; it is asked again"
    answers = iter([UnreachableError("no API answers")])
    assert gang.shell("logs", "-f", "j").code == 7


def test_who_asks_too_often_asks_again(gang: Gang, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an error nor the node's fault."""
    read = Client.read_part
    turned_away = iter([GanglineError("try again in 1 s", status=429, problem="too-many")])

    def read_part(client: Client, path: str, *, attempt: int, offset: int) -> tuple[bytes, int]:
        if (error := next(turned_away, None)) is not None:
            raise error
        return read(client, path, attempt=attempt, offset=offset)

    monkeypatch.setattr(Client, "read_part", read_part)
    gang.on("rank 0: step 1", gang.ends)

    done = gang.shell("logs", "-f", "j")

    assert done.code == 0
    assert lines(done) == ["0| rank 0: step 1", "1| rank 1: step 1"]
    assert done.err == "j: succeeded\n"


def test_an_interrupt_ends_following_at_once(gang: Gang) -> None:
    """Whoever is away is not waited for."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    gang.down("n0")
    gang.on("n0 does not answer", interrupt)

    assert gang.shell("logs", "-f", "j").code == 130


def test_a_node_that_does_not_answer_is_named_and_the_others_are_shown(gang: Gang) -> None:
    """Without -f nobody waits: what is missing is an error, and the rest is there."""
    gang.down("n0")

    done = gang.shell("logs", "j")

    assert (done.code, done.out) == (7, "rank 1: step 1\n")
    assert "what was printed on n0 is not shown" in done.err


def test_an_array_is_followed_by_its_tasks(gang: Gang) -> None:
    """It prints nothing by itself."""
    task = {"job": "a.1", "array_of": "a", "team": "t", "state": "running", "gpus": 1}
    gang.shell.world.views.tables["jobs"].append(task)

    done = gang.shell("logs", "-f", "a")

    assert done.code == 2
    assert "follow one of its tasks, like a.1" in done.err
