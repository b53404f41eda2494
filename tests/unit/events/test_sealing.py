"""Private parts that only the holder of a key can read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events.sealing import KeyStore, SealError, binding, bindings
from gangline.events.spec import Private

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b'{"env": {"TOKEN": "hunter2"}}'


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    """An empty store, whose folder is not there yet."""
    return KeyStore(tmp_path / "keys")


def test_what_is_sealed_can_be_opened_by_another_process(keys: KeyStore, tmp_path: Path) -> None:
    """With the same folder; the text shows nothing of what it holds."""
    sealed = keys.seal(SECRET, key_id="user:ada")

    assert KeyStore(tmp_path / "keys").unseal(sealed) == SECRET
    assert b"hunter2" not in sealed.ciphertext
    assert sealed.key_id == "user:ada"


def test_the_same_text_is_sealed_differently_each_time(keys: KeyStore) -> None:
    """So that nobody sees who repeats themselves."""
    first, second = (keys.seal(SECRET, key_id="a") for _ in range(2))

    assert first.nonce != second.nonce
    assert first.ciphertext != second.ciphertext


def test_a_destroyed_key_erases_what_it_sealed_and_nothing_else(
    keys: KeyStore, tmp_path: Path
) -> None:
    """One file a person; the log keeps bytes that nobody can read."""
    gone, kept = keys.seal(SECRET, key_id="user:ada"), keys.seal(SECRET, key_id="user:bob")
    (file,) = (tmp_path / "keys").glob("*ada.key")
    file.unlink()

    with pytest.raises(SealError, match="which is not here"):
        keys.unseal(gone)
    assert keys.unseal(kept) == SECRET


def test_a_changed_text_is_not_opened(keys: KeyStore) -> None:
    """Neither its bytes, nor its nonce, nor the name of its key may be others."""
    sealed = keys.seal(SECRET, key_id="a")
    keys.seal(b"", key_id="b")

    for changed in (
        replace(sealed, ciphertext=bytes([sealed.ciphertext[0] ^ 1]) + sealed.ciphertext[1:]),
        replace(sealed, nonce=bytes(12)),
        replace(sealed, nonce=b""),
        replace(sealed, key_id="b"),
    ):
        with pytest.raises(SealError, match="not sealed with this key"):
            keys.unseal(changed)


def test_a_key_is_for_its_owner_only_and_stays_in_the_folder(
    keys: KeyStore, tmp_path: Path
) -> None:
    """Whatever the name says."""
    keys.seal(SECRET, key_id="../../etc/user")

    (file,) = (tmp_path / "keys").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_key_is_said(keys: KeyStore, tmp_path: Path) -> None:
    """Not used."""
    sealed = keys.seal(SECRET, key_id="a")
    (tmp_path / "keys" / "a.key").write_text("abc")

    with pytest.raises(SealError, match="holds no key"):
        keys.unseal(sealed)


def test_clear_text_is_itself(keys: KeyStore) -> None:
    """Cells without keys leave private parts in clear."""
    assert keys.unseal(Private(ciphertext=SECRET)) == SECRET


@pytest.mark.parametrize(
    ("job", "team"), [("train", "speech"), ("train.1", "vision"), ("other", "vision")]
)
def test_what_was_sealed_for_a_job_is_opened_in_that_job_only(
    keys: KeyStore, job: str, team: str
) -> None:
    """Whoever reads the log can submit a copy of it; nobody runs that."""
    sealed = keys.seal(SECRET, key_id="a", bound_to=binding("train", team="vision", count=1))

    assert keys.unseal(sealed, bound_to=bindings("train", team="vision")) == SECRET
    with pytest.raises(SealError, match="for this job"):
        keys.unseal(sealed, bound_to=bindings(job, team=team))


def test_what_was_sealed_for_an_array_is_opened_in_its_tasks(keys: KeyStore) -> None:
    """And not in a job that only has the array's name."""
    sealed = keys.seal(SECRET, key_id="a", bound_to=binding("sweep", team="a", count=8))

    assert keys.unseal(sealed, bound_to=bindings("sweep.8", team="a")) == SECRET
    with pytest.raises(SealError, match="for this job"):
        keys.unseal(sealed, bound_to=bindings("sweep", team="a"))


def test_what_was_sealed_before_jobs_were_named_is_opened_as_before(keys: KeyStore) -> None:
    """Old logs stay readable."""
    sealed = keys.seal(SECRET, key_id="a")

    assert keys.unseal(sealed, bound_to=bindings("any", team="a")) == SECRET
