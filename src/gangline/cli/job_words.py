"""A job in words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.cli.output import Row, ago, nodes_in_words, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator


def job_lines(row: Row) -> Iterator[str]:
    """A job for people."""
    yield headline(row)
    gpus = "1 GPU" if row["gpus"] == 1 else f"{row['gpus']} GPUs"
    yield f"  team {row['team']}, class {row['class']}, {gpus}"
    age = seconds(row["age_s"]) if "age_s" in row else ago(row["submitted_at"])
    yield f"  submitted {age} ago, waited {seconds(row.get('wait_s')) or '—'}"
    if row.get("tasks"):
        states = ", ".join(f"{count} {state}" for state, count in row["states"].items())
        yield f"  {row['tasks']} tasks: {states}"
    if row.get("nodes") and row["state"] in ("starting", "running", "preempting"):
        yield f"  on {nodes_in_words(row['nodes'])}"
    for attempt in row.get("attempts_list", ()):
        nodes = nodes_in_words([seat["node"] for seat in attempt.get("seats") or ()])
        ended = f", {_ending(attempt)}" if attempt.get("cause") else ""
        resumed = attempt.get("resumed_s")
        yield (
            f"  attempt {attempt['attempt']}: {attempt['state']} on {nodes}"
            + (f", resumed at {seconds(resumed)}" if resumed else "")
            + ended
        )


def _ending(attempt: Row) -> str:
    """How an attempt ended."""
    code, signal = attempt.get("exit_code"), attempt.get("exit_signal")
    if attempt["cause"] == "preempted" and attempt.get("claimant"):
        why = _PREEMPTED.get(attempt.get("cause_text") or "", "")
        return f"preempted for {attempt['claimant']}{why}"
    if attempt["cause"] != "user":
        because = attempt.get("cause_text")
        return f"{attempt['cause']} ({because})" if because else str(attempt["cause"])
    if signal:
        return f"its program died of signal {signal} on {attempt['exit_node']}"
    if not code:
        return "its program failed"
    hint = " (it could not start)" if code == _NOT_STARTED else ""
    return f"its program ended with code {code} on {attempt['exit_node']}{hint}"


_PREEMPTED: Final = {
    "class": " (of a higher class)",
    "reclaim": " (which took back what its team is guaranteed)",
}
"""By which right a job was moved out for another one."""

_NOT_STARTED: Final = 127
"""The code of a command that could not be started; shells end with it too."""


def headline(row: Row) -> str:
    """A job in one line."""
    return f"{row['job']}: {row['state']}" + because(row)


def is_now(row: Row) -> str:
    """What a job that does not wait is, as the end of a sentence."""
    ended_by_itself = row["state"] in ("succeeded", "failed")
    return f"{'has' if ended_by_itself else 'is'} {row['state']}{because(row)}"


def because(row: Row) -> str:
    """Why it waits or ended, where there is a reason."""
    words = row.get("reason_text") or row.get("reason")
    return f" ({words})" if words and words != row["state"] else ""
