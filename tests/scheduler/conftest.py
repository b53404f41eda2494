"""The servers that the scheduler's tests run on."""

from __future__ import annotations

import pytest

from tests.support.buses import SERVERS, url_of


@pytest.fixture(params=SERVERS)
def bus(request: pytest.FixtureRequest) -> str:
    """The URL of the tests' own server, of either kind."""
    return url_of(request)
