"""The operator's page on Kafka says what is."""

from __future__ import annotations

import re
from pathlib import Path

from gangline.events.kafka.settings import TRANSACTION_TIMEOUT_MS, settings_of
from gangline.events.log import TOPIC_SETTINGS, TopicSettings

PAGE = (Path(__file__).parents[3] / "docs" / "kafka.md").read_text(encoding="utf-8")


def kept(settings: TopicSettings) -> str:
    """How long, in the page's words."""
    if settings.compacted:
        return "newest of each key"
    return "for ever" if settings.retention_ms < 0 else f"{settings.retention_ms // 3_600_000} h"


def test_the_table_of_topics_is_right() -> None:
    """Each topic with its partitions and how long it is kept."""
    rows = re.findall(r"\| `gangline\.CELL\.(\w+)` \| (\d+) \| ([^|]+) \|", PAGE)
    assert rows == [
        (str(topic), str(settings.partitions), kept(settings))
        for topic, settings in TOPIC_SETTINGS.items()
    ]


def test_the_variables_it_names_are_taken() -> None:
    """Word for word, but for the file, which is not on this machine."""
    found = dict(re.findall(r"^ *(GANGLINE_KAFKA_\w+)=(\S+)$", PAGE, re.MULTILINE))
    assert found.pop("GANGLINE_KAFKA_CONFIG")
    assert settings_of(found)["sasl.username"] == "gangline-scheduler"
    assert len(found) == 5


def test_the_times_it_names_are_ours() -> None:
    """A hanging transaction of a scheduler ends by itself after so long."""
    assert f"ends by itself after {TRANSACTION_TIMEOUT_MS // 1000} s" in PAGE
