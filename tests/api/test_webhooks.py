"""Ends of jobs reach whoever asked: signed, in order, again until there is an answer."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from gangline.api.webhooks import Courier, Hook, HooksError, read_hooks, run_couriers
from gangline.cli.main import run
from tests.api.fakes import FakeViews

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
STOP = threading.Event()


@dataclass
class Receiver(httpx2.BaseTransport):
    """Somebody's server. answers: its next status codes; then 204 for ever."""

    answers: list[int] = field(default_factory=list)
    heard: list[httpx2.Request] = field(default_factory=list)
    retry_after: str = ""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer as it was told to; 0: not at all."""
        self.heard.append(request)
        status = self.answers.pop(0) if self.answers else 204
        if status == 0:
            raise httpx2.ConnectError("nobody listens")
        headers = {"retry-after": self.retry_after} if self.retry_after else {}
        return httpx2.Response(status, headers=headers)

    def types(self) -> list[str]:
        """What it was told of, in order."""
        return [json.loads(request.content)["type"] for request in self.heard]


@dataclass
class Talker(Receiver):
    """Somebody whose answer never ends. said: how many pieces of it were taken."""

    said: int = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Talk for ever."""
        super().handle_request(request)
        return httpx2.Response(200, content=self._words())

    def _words(self) -> Iterator[bytes]:
        while self.said < 1_000:
            self.said += 1
            yield b"bla" * 1_000


@pytest.fixture
def views() -> FakeViews:
    """Three jobs, of which two have ended."""
    views = FakeViews()
    views.tables["jobs"] = [
        {"job": "a", "team": "vision", "state": "succeeded", "exit_code": 0, "env": "private"},
        {"job": "b", "team": "speech", "state": "failed", "exit_code": 7},
    ]
    return views


def end(views: FakeViews, *jobs: str) -> None:
    """These jobs end."""
    views.made += [{"kind": "GangReleased", "job": job} for job in jobs]
    views.made += [{"kind": "JobFinished", "job": job} for job in jobs]


def courier(views: FakeViews, folder: Path, receiver: Receiver, **more: Any) -> Courier:
    """One of a hook that wants to hear of everything, unless said otherwise."""
    hook = Hook(name="ci", url="http://ci.example/hook", key=KEY, **more.pop("only", {}))
    options = {"pause_s": 0.001, **more}
    return Courier(hook, views, cursor=folder / "ci.cursor", transport=receiver, **options)


def test_an_end_is_told_once_and_in_order(views: FakeViews, tmp_path: Path) -> None:
    """A new hook begins with the next end, and a restart goes on after the last one."""
    receiver = Receiver()
    end(views, "a")
    courier(views, tmp_path, receiver).turn(STOP)
    end(views, "b", "a")
    courier(views, tmp_path, receiver).turn(STOP)
    courier(views, tmp_path, receiver).turn(STOP)

    assert receiver.types() == ["job.failed", "job.succeeded"]
    assert json.loads(receiver.heard[0].content)["data"]["exit_code"] == 7
    assert b"private" not in receiver.heard[1].content


def test_what_is_told_is_signed(views: FakeViews, tmp_path: Path) -> None:
    """Whoever has the secret can check body, time and id."""
    receiver = Receiver()
    courier(views, tmp_path, receiver).turn(STOP)
    end(views, "a")
    courier(views, tmp_path, receiver).turn(STOP)
    (request,) = receiver.heard

    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode()
    expected = hmac.digest(KEY, signed + request.content, sha256)

    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()


@pytest.mark.parametrize("answers", [[0, 500, 429], [503]])
def test_an_end_is_told_again_until_there_is_an_answer(
    views: FakeViews, tmp_path: Path, answers: list[int]
) -> None:
    """Always with the same id, so that a receiver knows it again."""
    receiver = Receiver()
    courier(views, tmp_path, receiver).turn(STOP)
    end(views, "a")
    receiver.answers = list(answers)
    courier(views, tmp_path, receiver).turn(STOP)

    assert len(receiver.heard) == len(answers) + 1
    assert len({request.headers["webhook-id"] for request in receiver.heard}) == 1


def test_patience_ends_and_the_next_end_is_told(views: FakeViews, tmp_path: Path) -> None:
    """One end that nobody takes does not hold up all others for ever."""
    receiver = Receiver()
    courier(views, tmp_path, receiver).turn(STOP)
    end(views, "a", "b")
    receiver.answers = [500]
    courier(views, tmp_path, receiver, patience_s=0).turn(STOP)

    assert receiver.types() == ["job.succeeded", "job.failed"]


def test_who_is_stopped_while_nobody_answers_tells_it_after_the_restart(
    views: FakeViews, tmp_path: Path
) -> None:
    """The cursor moves after an answer only. A receiver that asks for time gets it."""
    receiver = Receiver()
    courier(views, tmp_path, receiver).turn(STOP)
    end(views, "a")
    receiver.answers, receiver.retry_after = [503], "3600"
    stopped = threading.Event()
    stopped.set()
    courier(views, tmp_path, receiver).turn(stopped)
    courier(views, tmp_path, receiver).turn(STOP)

    assert receiver.types() == ["job.succeeded"] * 2


@pytest.mark.parametrize("only", [{"teams": ("speech",)}, {"states": ("failed",)}])
def test_a_hook_hears_what_it_asked_for(
    views: FakeViews, tmp_path: Path, only: dict[str, Any]
) -> None:
    """Teams and states."""
    receiver = Receiver()
    courier(views, tmp_path, receiver, only=only).turn(STOP)
    end(views, "a", "b")
    courier(views, tmp_path, receiver, only=only).turn(STOP)

    assert receiver.types() == ["job.failed"]


@pytest.mark.parametrize("trouble", ["a cursor that is none", "a folder that is not there"])
def test_a_hook_that_cannot_go_on_goes_on_when_it_is_mended(
    views: FakeViews, tmp_path: Path, trouble: str
) -> None:
    """Its thread does not end in silence."""
    receiver, stop, folder = Receiver(), threading.Event(), tmp_path / "later"
    if trouble == "a cursor that is none":
        folder.mkdir()
        (folder / "ci.cursor").write_text("garbage")
    end(views, "a")
    thread = threading.Thread(
        target=courier(views, folder, receiver, mend_s=0.01).run, args=(stop,)
    )
    thread.start()
    stop.wait(0.05)
    assert receiver.heard == []

    folder.mkdir(exist_ok=True)
    (folder / "ci.cursor").write_text("0")

    while not receiver.heard and thread.is_alive():
        stop.wait(0.01)
    stop.set()
    thread.join()
    assert receiver.types() == ["job.succeeded"]


def test_what_a_receiver_says_is_not_read(views: FakeViews, tmp_path: Path) -> None:
    """An answer without an end costs no memory."""
    receiver = Talker()
    courier(views, tmp_path, receiver).turn(STOP)
    end(views, "a")

    courier(views, tmp_path, receiver).turn(STOP)

    assert receiver.types() == ["job.succeeded"]
    assert receiver.said == 0


def test_couriers_run_until_they_are_stopped(views: FakeViews, tmp_path: Path) -> None:
    """Each hook with a cursor of its own."""
    hooks = [Hook(name=name, url="http://127.0.0.1:9", key=KEY) for name in ("x", "y")]
    stop = threading.Event()
    stop.set()

    run_couriers(hooks, views, folder=tmp_path / "new", stop=stop)

    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hook = 1", "is no file of hooks"),
        ('[[hook]]\nname = "a"\nurl = "http://x"', "secret"),
        (f'[[hook]]\nname = "a"\nurl = "ftp://x"\nsecret = "{SECRET}"', "a url begins with"),
        ('[[hook]]\nname = "a"\nurl = "http://x"\nsecret = "whsec_c2hvcnQ="', "24 bytes"),
        (f'[[hook]]\nname = "a/b"\nurl = "http://x"\nsecret = "{SECRET}"', "is named by"),
        (
            f'[[hook]]\nname = "a"\nurl = "http://x"\nsecret = "{SECRET}"\nstates = ["done"]',
            "done is no end",
        ),
        (f'[[hook]]\nname = "a"\nurl = "http://x"\nsecret = "{SECRET}"\nteam = 1', "has no team"),
        (
            f'[[hook]]\nname = "a"\nurl = "http://x"\nsecret = "{SECRET}"\nteams = "vision"',
            'teams is a list, like ["vision"]',
        ),
        (f'[[hook]]\nname = "a"\nurl = "http://"\nsecret = "{SECRET}"', "names a host"),
        (f'[[hook]]\nname = "a"\nurl = "http://[::1"\nsecret = "{SECRET}"', "names a host"),
    ],
)
def test_a_file_of_hooks_that_is_wrong_says_what_would_be_right(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 2."""
    path = tmp_path / "hooks.toml"
    path.write_text(text)
    path.chmod(0o600)

    code = run(["webhooks", "run", "--database", "postgresql://x", "--hooks", str(path)])

    assert code == 2
    assert said in capsys.readouterr().err


def test_a_file_of_hooks_is_its_owners_alone(tmp_path: Path) -> None:
    """It holds secrets. A secret comes from the command line's own maker."""
    path = tmp_path / "hooks.toml"
    path.write_text(f'[[hook]]\nname = "a"\nurl = "http://x"\nsecret = "{SECRET}"')
    path.chmod(0o644)

    with pytest.raises(HooksError, match="chmod 600"):
        read_hooks(path)
    path.chmod(0o600)
    assert read_hooks(path)[0].key == KEY
