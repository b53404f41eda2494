"""Journal, spool, private parts, rotation: small files that must hold what they are given."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from gangline.agents.attempts import folder_name
from gangline.agents.core import Exit, Key, Stage
from gangline.agents.journal import Journal, JournalError
from gangline.agents.private import PrivateError, open_private
from gangline.agents.rotation import kept, rotate
from gangline.agents.spool import Spool
from gangline.events.spec import Private
from tests.agents import make
from tests.agents.node import Node

if TYPE_CHECKING:
    from pathlib import Path


def test_the_journal_gives_back_what_it_was_given(tmp_path: Path) -> None:
    """Members with their orders and ends, faults, and what was heard."""
    node = Node()
    node.running(gpus=(0, 1))
    node.state.members[Key("job", 1)].exit = Exit(code=3, detail="x")
    node.state.members[Key("job", 1)].stage = Stage.GONE
    node.state.faults[3, "ecc"] = 1
    journal = Journal(tmp_path / "journal.json")

    journal.keep(node.state)
    loaded = journal.load("n0")

    assert loaded is not None
    node.state.members[Key("job", 1)].progress_ms = 0
    assert loaded == node.state


def test_an_unchanged_state_is_not_written_again(tmp_path: Path) -> None:
    """A disk is not worn by heartbeats."""
    node, path = Node(), tmp_path / "journal.json"
    journal = Journal(path)
    journal.keep(node.state)
    path.unlink()

    journal.keep(node.state)

    assert not path.exists()


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1, "node": 3}', "\x00"])
def test_a_damaged_journal_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    """It says which file, and what to do."""
    path = tmp_path / "journal.json"
    path.write_text(text)

    with pytest.raises(JournalError, match="move it away"):
        Journal(path).load("n0")


def test_a_journal_of_another_node_is_refused(tmp_path: Path) -> None:
    """Two nodes with one folder would fight over it."""
    journal = Journal(tmp_path / "journal.json")
    journal.keep(Node().state)

    with pytest.raises(JournalError, match="belongs to node n0"):
        journal.load("n1")


def test_facts_leave_the_spool_in_order_and_survive_a_restart(tmp_path: Path) -> None:
    """What was not delivered is there again, what was is not."""
    spool = Spool(tmp_path)
    spool.put([b"a", b"b"])
    spool.put([b"c"])
    assert spool.take(2) == [b"a", b"b"]
    spool.done(2)
    spool.close()

    again = Spool(tmp_path)

    assert again.take(10) == [b"c"]
    again.close()


@pytest.mark.parametrize("cut", [1, 5, 8])
def test_a_torn_last_fact_is_cut_off(tmp_path: Path, cut: int) -> None:
    """It was never stated; those before it, and those after the repair, are whole."""
    spool = Spool(tmp_path)
    spool.put([b"whole", b"torn"])
    spool.close()
    facts = tmp_path / "facts"
    facts.write_bytes(facts.read_bytes()[:-cut])

    again = Spool(tmp_path)
    again.put([b"new"])

    assert again.take(10) == [b"whole", b"new"]
    again.close()


def test_a_long_outage_keeps_of_each_attempt_the_newest_checkpoint_only(tmp_path: Path) -> None:
    """When there are many; all else, its order, and what is being delivered, stay."""

    def about(value: bytes) -> str:
        return value[:4].decode() if value.startswith(b"save") else ""

    spool = Spool(tmp_path, about=about, most_bytes=2_000)
    spool.put([b"save under way", b"exit of another"])
    under_way = spool.take(1)
    for step in range(400):
        spool.put([b"save %d" % step])
    spool.put([b"exit"])

    assert under_way == [b"save under way"]
    assert (tmp_path / "facts").stat().st_size < 4_500
    spool.done(1)
    rest = spool.take(1_000)
    spool.close()
    assert rest[0] == b"exit of another"
    assert rest[-2:] == [b"save 399", b"exit"]
    assert rest == sorted(set(rest), key=rest.index)
    again = Spool(tmp_path, about=about)
    assert again.take(1_000) == rest
    again.close()


def test_a_spool_that_cannot_be_thinned_keeps_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full."""
    spool = Spool(tmp_path, about=lambda _: "one", most_bytes=10)
    with monkeypatch.context() as full:
        full.setattr(Spool, "_write_cursor", lambda *_: False)
        spool.put([b"first"])
        spool.put([b"second"])
    kept = spool.take(9)
    spool.close()

    again = Spool(tmp_path)
    assert kept == again.take(9) == [b"first", b"second"]
    again.close()


def test_a_delivered_spool_does_not_grow_for_ever(tmp_path: Path) -> None:
    """Once empty and large it begins anew, and numbering with it."""
    spool = Spool(tmp_path)
    spool.put([b"x" * 2_000_000])
    spool.done(1)
    assert (tmp_path / "facts").stat().st_size == 0
    spool.put([b"y"])
    spool.close()

    again = Spool(tmp_path)

    assert again.take(10) == [b"y"]
    again.close()


def test_a_plain_command_is_started_without_a_shell() -> None:
    """So that nothing stands between the job and its signals."""
    assert open_private(make.private("python train.py --lr 1")).argv == (
        "python",
        "train.py",
        "--lr",
        "1",
    )


@pytest.mark.parametrize("command", ["a && b", "echo $HOME", "exit 3", "X=1 a", "a > b", "a 'b c'"])
def test_a_command_with_shell_in_it_gets_a_shell(command: str) -> None:
    """The words mean what they mean there."""
    assert open_private(make.private(command)).argv == ("/bin/sh", "-c", command)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"secret", "no JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "no command"),
        (b'{"command": []}', "no command"),
        (b'{"command": ["a", 1]}', "no command"),
        (b'{"command": "a", "env": ["secret"]}', "env"),
        (b'{"command": "a", "env": {"A": 1}}', "env"),
        (b'{"command": "a", "workdir": 3}', "workdir"),
    ],
)
def test_an_unreadable_private_part_is_refused_without_quoting_it(text: bytes, says: str) -> None:
    """Its text may be a secret and must not come into facts or logs."""
    with pytest.raises(PrivateError, match=says) as caught:
        open_private(Private(ciphertext=text))
    assert "secret" not in str(caught.value)


def test_a_sealed_private_part_needs_its_key() -> None:
    """With the key it is like any other; without, it says which one is missing."""
    sealed = Private(key_id="k1", nonce=b"n", ciphertext=b"***")

    with pytest.raises(PrivateError, match="k1"):
        open_private(sealed)
    run = open_private(sealed, lambda _: b'{"command": ["true"]}')

    assert run.argv == ("true",)


def test_a_long_log_is_rotated_while_its_program_goes_on_writing(tmp_path: Path) -> None:
    """Its open file goes on at the beginning; old parts move up, and the oldest goes."""
    log = tmp_path / "rank-0.out"
    with log.open("a") as program:
        for text in ("one", "two", "three"):
            program.write(text * 10)
            program.flush()
            assert rotate(log, above=10, keep=2)
        program.write("now")

    assert log.read_text() == "now"
    assert (tmp_path / "rank-0.out.1").read_text() == "three" * 10
    assert (tmp_path / "rank-0.out.2").read_text() == "two" * 10
    assert not (tmp_path / "rank-0.out.3").exists()


def test_a_log_that_a_full_disk_cut_unkept_passes_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be copied is gone; older parts keep the offsets that they had."""
    log = tmp_path / "rank-0.out"
    for text in ("one", "two", "three", "four"):
        log.write_text(text * 10)
        with monkeypatch.context() as full:
            if text == "two":
                full.setattr("shutil.copyfileobj", _no_room)
            assert rotate(log, above=10, keep=3)

    assert (tmp_path / "rank-0.out.1").read_text() == "four" * 10
    assert [(part.path.name, part.begins) for part in kept(log)] == [
        ("rank-0.out", 150),
        ("rank-0.out.1", 110),
        ("rank-0.out.2", 60),
    ]


def _no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no room")


@pytest.mark.parametrize("job", ["a/b", "..", "ü" * 128, "a b\tc", "x" * 128])
def test_every_job_id_has_a_folder_of_its_own(tmp_path: Path, job: str) -> None:
    """Whatever characters it holds, the folder is below its root and can be made."""
    folder = tmp_path / folder_name(Key(job, 1))

    folder.mkdir()

    assert folder.resolve().parent == tmp_path.resolve()
    assert folder_name(Key(job, 1)) != folder_name(Key(job, 2))
