"""Fixtures of all tiers, and the markers that follow from them."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.support.postgres", "tests.support.kafka"]

_MARKERS = {"postgres_server": "postgres", "kafka_bootstrap": "kafka"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the real servers that it asks for, so that `-m 'not kafka'` is true."""
    for item in items:
        for fixture, marker in _MARKERS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(getattr(pytest.mark, marker))
