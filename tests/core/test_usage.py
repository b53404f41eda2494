"""Past use that decays, and shares that are filled like water."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.scheduler.core.usage import ONE, decay, grown, water_fill
from tests.core.make import DAY, HOUR, MINUTE, SECOND
from tests.support.examples import examples

# Of the exact value; the table has 1024 steps to a half-life, and lines between them.
RELATIVE_ERROR = Decimal("1e-6")
UNITS = Decimal(32) / ONE
ELAPSED = st.integers(0, 40 * DAY)
HALF_LIVES = st.sampled_from([HOUR, DAY, 7 * DAY, 86_399_999])


def exact_decay(elapsed_ms: int, half_life_ms: int) -> Decimal:
    """2^(-elapsed/half_life) with many digits."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(2) ** (-Decimal(elapsed_ms) / Decimal(half_life_ms))


def exact_growth(value: int, rate: int, elapsed_ms: int, half_life_ms: int) -> Decimal:
    """Decayed use after a time at a constant rate, with many digits."""
    left = exact_decay(elapsed_ms, half_life_ms)
    with localcontext() as context:
        context.prec = 60
        return value * left + rate * half_life_ms / Decimal(2).ln() * (1 - left)


@given(ELAPSED, HALF_LIVES)
@settings(max_examples=examples(100), deadline=None)
def test_decay_is_the_power_of_two_within_a_millionth(elapsed_ms: int, half_life_ms: int) -> None:
    """And within a few units of its last place."""
    exact = exact_decay(elapsed_ms, half_life_ms)

    assert abs(Decimal(decay(elapsed_ms, half_life_ms)) / ONE - exact) <= (
        exact * RELATIVE_ERROR + UNITS
    )


@pytest.mark.parametrize(
    ("elapsed_ms", "left"), [(0, 1), (DAY, 2), (2 * DAY, 4), (10 * DAY, 1024), (99 * DAY, 0)]
)
def test_whole_half_lives_are_exact(elapsed_ms: int, left: int) -> None:
    """Half, a quarter, …, and nothing after very long."""
    assert decay(elapsed_ms, DAY) == (ONE // left if left else 0)


@given(ELAPSED, ELAPSED, HALF_LIVES)
@settings(max_examples=examples(100), deadline=None)
def test_what_is_longer_ago_counts_less(one: int, other: int, half_life_ms: int) -> None:
    """Or as much."""
    early, late = sorted((one, other))

    assert decay(late, half_life_ms) <= decay(early, half_life_ms)


@given(st.integers(0, 10**15), st.integers(0, 8_000), ELAPSED, HALF_LIVES)
@settings(max_examples=examples(100), deadline=None)
def test_use_at_a_constant_rate_grows_as_it_should(
    value: int, rate: int, elapsed_ms: int, half_life_ms: int
) -> None:
    """Within a millionth of what there could be at most."""
    most = value + rate * half_life_ms * 2
    exact = exact_growth(value, rate, elapsed_ms, half_life_ms)

    found = grown(value, rate=rate, elapsed_ms=elapsed_ms, half_life_ms=half_life_ms)

    assert abs(found - exact) <= most * (RELATIVE_ERROR + UNITS) + 2


@pytest.mark.parametrize("often_ms", [100, SECOND, 10 * SECOND, MINUTE, HOUR])
def test_use_that_is_counted_often_is_not_lost(often_ms: int) -> None:
    """A team that starts and ends gangs all the time uses no less than one that holds them."""
    value, rate = 0, 8
    for _ in range(2_000):
        value = grown(value, rate=rate, elapsed_ms=often_ms, half_life_ms=DAY)

    exact = exact_growth(0, rate, 2_000 * often_ms, DAY)

    assert abs(value - exact) <= exact * Decimal("0.005")


CLAIMS = st.lists(st.tuples(st.integers(1, 10), st.integers(0, 200)), max_size=8)


@given(st.integers(0, 500), CLAIMS)
@settings(max_examples=examples(100), deadline=None)
def test_nothing_is_split_that_is_not_there(amount: int, claims: list[tuple[int, int]]) -> None:
    """Nobody gets more than wanted; what is left over is not wanted, or lost in rounding."""
    shares = water_fill(amount, claims)

    assert all(0 <= share <= wanted for share, (_, wanted) in zip(shares, claims, strict=True))
    assert sum(shares) <= amount
    wanted = sum(wanted for _, wanted in claims)
    assert sum(shares) >= min(amount, wanted) - len(claims)


@given(st.integers(0, 500), CLAIMS)
@settings(max_examples=examples(100), deadline=None)
def test_who_gets_less_than_wanted_has_as_much_as_anybody(
    amount: int, claims: list[tuple[int, int]]
) -> None:
    """By weight, but for rounding: the share is max-min fair."""
    shares = water_fill(amount, claims)
    pairs = list(zip(shares, claims, strict=True))

    for share, (weight, wanted) in pairs:
        if share < wanted:
            level = Fraction(share + 1, weight)
            assert all(Fraction(other, w) <= level for other, (w, _) in pairs)


@given(st.integers(0, 500), CLAIMS)
@settings(max_examples=examples(100), deadline=None)
def test_the_split_does_not_depend_on_the_order(amount: int, claims: list[tuple[int, int]]) -> None:
    """Teams that are listed another way get the same."""
    order = sorted(range(len(claims)), key=lambda i: (claims[i], i), reverse=True)
    shares = water_fill(amount, claims)

    assert water_fill(amount, [claims[i] for i in order]) == [shares[i] for i in order]
