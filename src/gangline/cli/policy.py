"""`gangline policy`: every number that an operator may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from gangline.cli.connection import connect
from gangline.cli.outcome import words
from gangline.cli.output import Column, for_people, output_options, put, put_one, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangline.cli.output import Row

_COLUMNS: Final = (
    Column("key", "KEY"),
    Column("default", "DEFAULT", right=True),
    Column("unit", "UNIT"),
    Column("meaning", "MEANING"),
)


@click.group("policy", invoke_without_command=True)
@click.pass_context
@output_options
def command_policy(context: click.Context, *, output: str | None) -> None:
    """List the policy's keys with units and defaults; `get` tells, `set` changes their values."""
    if context.invoked_subcommand is not None:
        return
    from gangline.api.durations import show_ms  # noqa: PLC0415 - standard library only
    from gangline.scheduler.core.policy import KEYS  # noqa: PLC0415

    rows = [
        {
            "key": key.name,
            "default": show_ms(key.default) if key.unit == "ms" else key.default,
            "unit": "duration" if key.unit == "ms" else key.unit,
            "meaning": key.doc,
        }
        for key in KEYS.values()
    ]
    put(rows, output=output, columns=_COLUMNS, key="key")


@command_policy.command("get")
@click.argument("keys", nargs=-1, metavar="[KEY…]")
@output_options
def get_policy(*, keys: tuple[str, ...], output: str | None) -> None:
    """The values in force, of all keys or of these."""
    from gangline.api.durations import show_ms  # noqa: PLC0415 - standard library only

    with connect() as client:
        rows = {row["key"]: row for row in client.request("GET", "/v1/policy")["items"]}
    for key in keys:
        _check_key(key, rows)

    def shown(row: Row, name: str) -> str:
        return show_ms(row[name]) if row["unit"] == "ms" else str(row[name])

    columns = (
        Column("key", "KEY"),
        Column("shown", "VALUE", right=True),
        Column("shown_default", "DEFAULT", right=True),
        Column("meaning", "MEANING"),
    )
    wanted = [rows[key] for key in keys or rows]
    listed = [
        {**row, "shown": shown(row, "value"), "shown_default": shown(row, "default")}
        for row in wanted
    ]
    plain = not for_people(output)
    put(wanted if plain else listed, output=output, columns=_IN_FORCE if plain else columns,
        key="key")  # fmt: skip


_IN_FORCE: Final = tuple(
    Column(name, name.upper()) for name in ("key", "value", "default", "unit", "meaning")
)


def _check_key(name: str, known: Iterable[str]) -> None:
    """A usage error with the nearest key for one that is none."""
    from gangline.api.nearest import nearest  # noqa: PLC0415 - standard library only

    names = list(known)
    if name not in names:
        raise click.UsageError(f"there is no policy key {name}{nearest(name, names)}")


@command_policy.command("set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE…")
@output_options
def set_policy(*, pairs: tuple[str, ...], output: str | None) -> None:
    """Give keys new values, like `gangline policy set start_timeout=90s retries=1`."""
    values = dict(map(value_of, pairs))
    with connect() as client:
        done = client.request("PUT", "/v1/policy", body={"values": values})
        told = words(client, done["position"], done=f"set {' '.join(pairs)}")
        if for_people(output):
            say(told)
        else:
            put_one({**values, **done}, output=output, key="position", text=str)


def value_of(pair: str) -> tuple[str, int]:
    """A key and its number: milliseconds of a duration, or a count."""
    from gangline.api.durations import parse_ms  # noqa: PLC0415 - standard library only
    from gangline.api.nearest import nearest  # noqa: PLC0415
    from gangline.scheduler.core.policy import KEYS  # noqa: PLC0415

    name, equals, text = pair.partition("=")
    key = KEYS.get(name)
    if key is None:
        raise click.UsageError(f"there is no policy key {name}{nearest(name, KEYS)}")
    if not equals:
        raise click.UsageError(f"{name}: it is set like {name}=VALUE")
    if key.unit == "ms":
        try:
            return name, parse_ms(text)
        except ValueError as error:
            raise click.UsageError(f"{name}: {error}") from error
    if not text.lstrip("-").isdecimal():
        raise click.UsageError(f"{name}: a whole number, not {text!r}")
    return name, int(text)
