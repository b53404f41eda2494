"""The alarm: something was seen that must never be."""

from __future__ import annotations


class WrongError(BaseException):
    """What was seen, in a sentence. No `except Exception` of the code under test may swallow it."""
