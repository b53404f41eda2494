"""How many examples a property is tried on: a few each time, as many as wanted in the long form."""

from __future__ import annotations

import os
from typing import Final

LONG: Final = int(os.environ.get("EXAMPLES", "0"))
"""`EXAMPLES=10000` in the environment: so many for each property."""


def examples(few: int) -> int:
    """So many, unless the long form asks for more."""
    return max(few, LONG)
