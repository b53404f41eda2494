"""What broke a tie is said in words."""

from __future__ import annotations

import pytest

from gangline.replay.show import duration
from gangline.replay.ties import cost_in_words, order_in_words


def test_a_place_in_order_is_said_by_what_was_compared() -> None:
    """Class, bound, guarantee, share, age, number."""
    assert order_in_words("(-2, 0, 1, (0, 1), 1800000000000, 17)") == (
        "class high, a large gang past its bound, its team not below its guarantee, "
        "not below its share, submitted 2027-01-15 08:00:00, number 17"
    )
    assert order_in_words("(-1, 1, 0, (), 1800000000000, 3)") == (
        "class normal, its team below its guarantee, below its share, "
        "submitted 2027-01-15 08:00:00, number 3"
    )


def test_the_cost_of_victims_is_said_class_by_class() -> None:
    """The highest first, as they are compared."""
    none = (0, 0, 0)
    cost = (*none, *none, 3_600_000, 8, 1, 60_000, 24, 3, 4)

    assert cost_in_words(str(cost), duration=duration) == (
        "1 gang of class normal with 8 GPUs, 1h of GPU time lost; "
        "3 gangs of class low with 24 GPUs, 1m of GPU time lost"
    )
    assert cost_in_words(str((0,) * 13), duration=duration) == "nobody has to leave for it"


@pytest.mark.parametrize("text", ["", "(", "(1, 2)", "age", "(9, 0, 0, (), 0, 0)", "(" * 9_000])
def test_a_key_of_another_form_stays_as_it_is(text: str) -> None:
    """Of a log that a newer or older program wrote."""
    assert order_in_words(text) == text
    assert cost_in_words(text, duration=duration) == text
