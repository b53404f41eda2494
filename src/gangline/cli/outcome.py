"""What became of what was asked for: a position in the log is no success yet.

Whoever asked waits until the views contain what followed, and reads whether the scheduler refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.output import for_people, put_one, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gangline.client import Client

ALREADY: Final = "already so"
"""The scheduler's word for what asks for what is; nobody has to be told of an error."""
UNANSWERED: Final = "the log has it, nobody has answered yet"


def refusal(client: Client, position: str) -> str | None:
    """Why the scheduler refused a fact, empty where it did not; None: nobody has answered yet."""
    from gangline.client import NotYetError  # noqa: PLC0415 - HTTP costs 100 ms

    path = client.route("facts", position)
    try:
        found = client.request("GET", path, params={"min_position": position})
    except NotYetError:
        return None
    return str(found["detail"] or found["reason"]) if found["refused"] else ""


def words(
    client: Client,
    position: str,
    *,
    done: str,
    already: Callable[[], str] | None = None,
    plain: Mapping[str, str] | None = None,
) -> str:
    """What to say of something that was asked for. ClickException where it was refused.

    done: if it was taken. already: what to say where that changes nothing. plain: reasons for which
    there are plainer words here.
    """
    why = refusal(client, position)
    if why is None:
        return f"{done}: {UNANSWERED}"
    if why == ALREADY:
        return already() if already else f"{done}: it is so already"
    if why:
        raise click.ClickException(f"{done} was refused: {(plain or {}).get(why, why)}")
    return done


def each(
    names: Iterable[str], ask: Callable[[str], dict[str, Any]], tell: Callable[[str, str], str]
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Ask for all, then tell of each: its name, the answer, the words. The last trouble is raised.

    tell: the words about a name and the position of what was asked.
    """
    from gangline.client import InvalidError, NotFoundError  # noqa: PLC0415 - HTTP costs 100 ms

    troubles: list[Exception] = []
    asked: list[tuple[str, dict[str, Any]]] = []
    for name in names:
        try:
            asked.append((name, ask(name)))
        except (InvalidError, NotFoundError) as trouble:
            troubles.append(trouble)
    for name, answer in asked:
        try:
            told = tell(name, answer["position"])
        except click.ClickException as trouble:
            troubles.append(trouble)
        else:
            yield name, answer, told
    if troubles:
        for other in troubles[:-1]:
            say(f"gangline: {getattr(other, 'message', other)}")
        raise troubles[-1]


def report(row: dict[str, Any], output: str | None, told: str) -> None:
    """Say what became of something that was asked for, or write it down as data."""
    if for_people(output):
        say(told)
    else:
        put_one(row, output=output, key="position", text=str)
