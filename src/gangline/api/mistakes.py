"""What is wrong with a request's parameters and body, in plain words and by its own names.

The checks are pydantic's; what it says of them is for programmers. Here each mistake gets the name
that stands in the address, header or body, and one line that says what would be right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gangline.api.nearest import nearest
from gangline.api.problems import ProblemError

Mistake = Mapping[str, Any]
"""As pydantic tells it: `type`, `loc`, `msg`, `input`, `ctx`."""

_PLACES: Final = frozenset({"path", "query", "header", "cookie", "body"})
_MOST_SHOWN: Final = 60
_MOST_NAME: Final = 200

_WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "greater_than": lambda c: f"this is more than {_number(c['gt'])}",
    "greater_than_equal": lambda c: f"this is at least {_number(c['ge'])}",
    "less_than": lambda c: f"this is less than {_number(c['lt'])}",
    "less_than_equal": lambda c: f"this is at most {_number(c['le'])}",
    "int_type": lambda _: "this is a whole number",
    "int_parsing": lambda _: "this is a whole number",
    "int_parsing_size": lambda _: "this is a whole number of fewer digits",
    "int_from_float": lambda _: "this is a whole number",
    "float_type": lambda _: "this is a number",
    "float_parsing": lambda _: "this is a number",
    "finite_number": lambda _: "this is a finite number",
    "bool_type": lambda _: "this is true or false",
    "bool_parsing": lambda _: "this is true or false",
    "string_type": lambda _: "this is a text",
    "string_unicode": lambda _: "this is a text of whole characters",
    "list_type": lambda _: "this is a list",
    "dict_type": lambda _: "this is an object",
    "model_type": lambda _: "this is an object",
    "model_attributes_type": lambda _: "this is an object",
    "enum": lambda c: f"this is {_plain(c['expected'])}",
    "literal_error": lambda c: f"this is {_plain(c['expected'])}",
}


def mistakes(
    found: Sequence[Mistake], *, value: object = None, known: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Each mistake as `field` and `detail`. value: the body, where it is one; known: its fields."""
    told = [{"field": _field(each, value), "detail": _words(each, known)} for each in found]
    return list({tuple(each.items()): each for each in told}.values())


def invalid(told: Sequence[Mapping[str, str]]) -> ProblemError:
    """The problem of some mistakes: the first as one line, all of them as a list."""
    first = told[0]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return ProblemError("invalid", f"{first['field']}: {first['detail']}{more}", errors=told)


def printable(text: str, *, most: int = _MOST_NAME) -> str:
    """A text in one line, not too long, and harmless to a terminal."""
    return text[:most] if text.isprintable() else ascii(text[:most])


def _field(mistake: Mistake, value: object) -> str:
    """The name of what is wrong, as whoever asked wrote it."""
    location = list(mistake["loc"])
    place = location.pop(0) if location and location[0] in _PLACES and value is None else ""
    if place == "header" and location:
        return "-".join(word.capitalize() for word in str(location[0]).split("-"))
    names = location if value is None else _steps(location, value)
    return printable(".".join(map(str, names))) or str(place or "body")


def _steps(location: Sequence[Any], value: object) -> list[Any]:
    """The steps that lead into the value; what else stands there are pydantic's own marks."""
    steps: list[Any] = []
    for step in location:
        if isinstance(value, dict):
            if step in value or not steps:
                steps.append(step)
                value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            steps.append(step)
            value = value[step]
    return steps


def _words(mistake: Mistake, known: Sequence[str]) -> str:
    """What is wrong, and what would be right."""
    kind, context = mistake["type"], mistake.get("ctx", {})
    if kind == "extra_forbidden":
        return f"there is no such field{nearest(str(mistake['loc'][-1]), known)}"
    if kind == "missing":
        return "it is required"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])[:300]
    if kind.endswith(("too_long", "too_short")):
        return _length(kind, context, mistake["input"])
    said = _WORDS[kind](context) if kind in _WORDS else mistake["msg"]
    return f"{said}, not {printable(_shown(mistake['input']), most=_MOST_SHOWN)}"


def _shown(value: object) -> str:
    """A value as whoever asked may have written it: JSON has other words than Python."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


def _length(kind: str, context: Mapping[str, Any], value: Any) -> str:  # noqa: ANN401 - JSON
    most = kind.endswith("too_long")
    limit = context["max_length" if most else "min_length"]
    unit = "character" if kind.startswith("string") else "entry"
    many = {"character": "characters", "entry": "entries"}[unit]
    bound = f"at {'most' if most else 'least'} {limit:,} {unit if limit == 1 else many}"
    return f"this has {bound}, not {len(value):,}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def _plain(expected: str) -> str:
    """`'a', 'b' or 'c'` without the quotes; an empty one is said."""
    return expected.replace("''", "empty").replace("'", "")
