"""Durations, names and moments, for any text that people and programs may send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.api.durations import MAX_MS, parse_at_ms, parse_ms, show_ms
from gangline.api.moment import parse_moment
from gangline.api.problems import ProblemError
from gangline.api.spec_json import JobRequest, parse_request
from gangline.events import codec
from gangline.events.envelope import Event
from gangline.events.facts import JobSubmitted
from gangline.events.names import check_name

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [("500ms", 500), ("30s", 30_000), ("1.5h", 5_400_000), ("1h30m", 5_400_000), (90, 90_000),
     (0.25, 250), ("3d", 259_200_000), ("0s", 0)],
)  # fmt: skip
def test_a_duration_is_read_as_it_is_written(written: object, milliseconds: int) -> None:
    """Texts with units, or numbers of seconds."""
    assert parse_ms(written) == milliseconds


@pytest.mark.parametrize(
    "wrong",
    ["", "10", "m", "10 m", "-5s", "1e9s", "10m\n", "٣s", "9" * 50 + "s", "99999d", None, True,
     float("nan"), float("inf"), -1, [], {}],
)  # fmt: skip
def test_what_is_no_duration_is_said_to_be_none(wrong: object) -> None:
    """One ValueError with what would be right, whatever comes."""
    with pytest.raises(ValueError, match="duration"):
        parse_ms(wrong)


@given(st.integers(0, 20 * 86_400_000))
def test_a_shown_duration_is_at_most_the_real_one_and_near_it(milliseconds: int) -> None:
    """Two units are shown; the rest is cut."""
    shown = parse_ms(show_ms(milliseconds))

    assert shown <= milliseconds
    assert milliseconds - shown <= milliseconds * 0.05 + 1


@given(st.text(max_size=60))
def test_a_text_is_a_duration_or_an_error(text: str) -> None:
    """Nothing in between, and never beyond ten years."""
    try:
        assert 0 <= parse_ms(text) <= MAX_MS
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both ends are right


def test_a_moment_is_a_time_or_so_long_ago() -> None:
    """A time without a zone is UTC."""
    assert parse_at_ms("10m", now_ms=1_000_000) == 400_000
    assert parse_at_ms("now", now_ms=1_000_000) == 1_000_000
    assert parse_at_ms("400000", now_ms=1_000_000) == 400_000
    assert parse_at_ms("1970-01-01T00:00:01", now_ms=0) == 1_000
    assert parse_at_ms("1970-01-01T02:00:00+02:00", now_ms=0) == 0
    with pytest.raises(ValueError, match="a time is like"):
        parse_at_ms("yesterday", now_ms=0)


@given(st.text(max_size=140))
def test_a_name_fits_into_a_path_and_into_a_line(text: str) -> None:
    """What passes has no blank, nothing that does not print, and nothing that ends a path."""
    try:
        name = check_name(text)
    except ValueError:
        return
    assert name == text
    assert 0 < len(name) <= 128
    assert name.isprintable()
    assert not any(character.isspace() or character in "/?#%" for character in name)


@given(ANYTHING)
def test_any_json_is_a_spec_or_one_problem(value: object) -> None:
    """No other exception ever leaves the parser."""
    try:
        assert isinstance(parse_request(value), JobRequest)
    except ProblemError as problem:
        assert problem.slug == "invalid"  # noqa: PT017 - both ends are right


FIELDS = st.fixed_dictionaries(
    {"team": st.just("vision"), "gpus": st.integers(1, 4_096)},
    optional={
        "priority": st.sampled_from(["low", "normal", "high", "urgent"]),
        "limit": st.integers(1, 1_000_000) | st.sampled_from(["1h", "30m"]),
        "checkpoint": st.integers(1, 1_000_000),
        "topology": st.sampled_from(["any", "required:block", "preferred:spine"]),
        "retries": st.integers(0, 9),
        "preemptible": st.booleans() | st.sampled_from(["yes", "no"]),
        "command": st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"),
                                    min_size=1), min_size=1, max_size=4),
        "env": st.dictionaries(
            st.text("ABC_", min_size=1, max_size=9),
            st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
            max_size=3,
        ),
        "count": st.integers(1, 100),
    },
)  # fmt: skip


@given(FIELDS)
def test_every_valid_spec_survives_the_log(value: dict[str, object]) -> None:
    """What the parser lets through can be encoded, and comes out as it went in."""
    spec = parse_request(value).spec()
    body = JobSubmitted(job="j", spec=spec)
    envelope = codec.envelope_for(body, id="j", actor="user:x")

    assert codec.decode(codec.encode(Event(envelope=envelope, body=body))).body == body


@pytest.mark.parametrize(
    ("written", "signal", "lead_ms"),
    [("TERM", "TERM", 0), ("SIGUSR1", "USR1", 0), ("USR1@90s", "USR1", 90_000)],
)
def test_a_stop_signal_may_say_how_long_before_the_end_it_comes(
    written: str, signal: str, lead_ms: int
) -> None:
    """As `--signal` of other schedulers does."""
    launch = parse_request({"team": "a", "gpus": 1, "stop_signal": written}).spec().launch

    assert (launch.stop_signal, launch.stop_lead_ms) == (signal, lead_ms)


@pytest.mark.parametrize("written", ["KILL", "USR1@", "USR1@0s", "USR1@soon", "@90s"])
def test_a_stop_signal_that_is_none_is_refused(written: str) -> None:
    """With what would be right."""
    with pytest.raises(ProblemError, match=r"stop_signal: (a stop signal|the lead|a duration)"):
        parse_request({"team": "a", "gpus": 1, "stop_signal": written})


_DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("clock", "text", "at"),
    [
        ("12:00", "03:00", "03:00"),
        ("12:00", "3:00", "03:00"),
        ("12:00", "11:59:59", "11:59:59"),
        ("12:00", "12:00", "12:00"),
        ("12:00", "12:01", "12:01 of the day before"),
        ("00:00", "23:59:59", "23:59:59 of the day before"),
    ],
)
def test_a_time_of_the_day_is_the_last_one_that_has_been(clock: str, text: str, at: str) -> None:
    """In UTC, as the page reads it too."""
    day_ms = 20_000 * _DAY_MS

    def of_day(words: str) -> int:
        return sum(
            int(n) * f for n, f in zip(words.split(":"), (3_600_000, 60_000, 1_000), strict=False)
        )

    time_of_day, _, before = at.partition(" of ")
    expected = day_ms + of_day(time_of_day) - (_DAY_MS if before else 0)

    assert parse_moment(text, now_ms=day_ms + of_day(clock)).at_ms == expected


@pytest.mark.parametrize("wrong", ["24:00", "12:60", "1:2", "12:00:60", "٣:00", "03:00:00.5", ":"])
def test_what_is_no_time_of_the_day_is_no_moment(wrong: str) -> None:
    """It says what would be one."""
    with pytest.raises(ValueError, match="a moment is 2026-01-31T12:00:00Z, 03:00, 10m"):
        parse_moment(wrong, now_ms=0)
