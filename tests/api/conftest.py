"""An API with nothing in it."""

from __future__ import annotations

import pytest

from tests.api.fakes import World, make_world


@pytest.fixture
def world() -> World:
    """An API of this machine, without tokens."""
    return make_world()
