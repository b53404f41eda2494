"""Where no broker can be had: on a laptop the test is skipped, elsewhere that is a failure."""

from __future__ import annotations

import pytest

from gangline.cli.local_process import LocalServerError
from tests.support.kafka import no_broker

ASKED_FOR = ("CI", "GANGLINE_CHAOS_SEEDS")


def test_a_laptop_may_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is shown."""
    for name in ASKED_FOR:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no `java` here"):
        no_broker(LocalServerError("there is no `java` here"))


@pytest.mark.parametrize("name", ASKED_FOR)
def test_nothing_that_was_asked_for_is_skipped(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Neither in CI nor by `make chaos-kafka`: a green run without a broker would be a lie."""
    for each in ASKED_FOR:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "1")
    with pytest.raises(pytest.fail.Exception, match="no `java` here"):
        no_broker(LocalServerError("there is no `java` here"))
