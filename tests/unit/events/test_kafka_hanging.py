"""When a standing reader is a sign of a hanging transaction, and when it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events.kafka.hanging import LIMIT_S, REPEAT_S, HangingWatch
from gangline.events.kafka.settings import TRANSACTION_TIMEOUT_MS
from gangline.events.log import Topic, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

DECISIONS = TopicPartition(Topic.DECISIONS, 0)


@pytest.fixture
def look() -> Callable[[float, int, int], None]:
    """Give a look at a time, from where the reader stands to where the partition ends."""
    watch = HangingWatch("b1:9092")
    return lambda now_s, at, end: watch.look(
        DECISIONS, "gangline.main.decisions", at=at, end=end, now_s=now_s
    )


def test_it_waits_longer_than_a_broker_lets_a_transaction_take(
    look: Callable[[float, int, int], None], caplog: pytest.LogCaptureFixture
) -> None:
    """What ends by itself needs nobody."""
    assert LIMIT_S > TRANSACTION_TIMEOUT_MS / 1000
    look(100, 7, 9)
    look(100 + LIMIT_S - 1, 7, 9)
    assert caplog.messages == []
    look(100 + LIMIT_S, 7, 9)
    assert len(caplog.messages) == 1
    assert "--topic gangline.main.decisions --partition 0 --start-offset 7" in caplog.messages[0]


def test_it_is_said_once_a_minute(
    look: Callable[[float, int, int], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Not once a look."""
    for second in range(round(LIMIT_S + REPEAT_S) + 1):
        look(1000 + second, 7, 9)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("then", [(8, 9), (9, 9)], ids=["moved", "at the end"])
def test_a_reader_that_moves_is_not_stuck(
    look: Callable[[float, int, int], None],
    caplog: pytest.LogCaptureFixture,
    then: tuple[int, int],
) -> None:
    """A busy partition always has an open transaction, each time another one."""
    look(100, 7, 9)
    look(110, *then)
    look(100 + LIMIT_S + 5, 8, 12)
    assert caplog.messages == []
