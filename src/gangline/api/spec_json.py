"""A job's spec as clients write it in JSON, and as the log holds it.

The names are those of the scenario grammar, and `name`, `command`, `env` and `workdir`. Nothing is
guessed: an unknown field, a zero or a wrong type is an error that names the field and what would be
right.

A job without a command holds its GPUs for `runtime` (without one: until it is cancelled or over its
limit), then ends with code `exits`: what a shell script with `sleep` would do.
"""

import json
import re
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from fastapi import Request
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from gangline.api.durations import parse_ms, show_ms
from gangline.api.mistakes import invalid, mistakes
from gangline.api.names import Name, Text
from gangline.api.problems import ProblemError
from gangline.events import spec as words

Model = TypeVar("Model", bound=BaseModel)

MAX_LABELS: Final = 64
MAX_COUNT: Final = 10_000
_MAX_GPUS: Final = 1_000_000
_MAX_DIGITS: Final = 100
_CLASSES: Final = {job_class.word: job_class for job_class in words.JobClass}


def _yes_or_no(value: object) -> bool:
    known: dict[object, bool] = {"yes": True, "no": False, True: True, False: False}
    if not isinstance(value, (str, bool)) or value not in known:
        raise ValueError("this is yes or no")
    return known[value]


def _topology(value: str) -> str:
    kind, colon, level = value.partition(":")
    if value == "any" or (kind in ("preferred", "required") and colon and level):
        return value
    raise ValueError("a topology is any, preferred:LEVEL or required:LEVEL")


def _one_or_more(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


def _no_zero(value: int) -> int:
    if value <= 0:
        raise ValueError("this is more than 0")
    return value


def _signal(value: str) -> str:
    word, at, lead = value.removeprefix("SIG").partition("@")
    if word not in {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2"}:
        raise ValueError("a stop signal is TERM, INT, HUP, QUIT, USR1 or USR2")
    if at and not parse_ms(lead):
        raise ValueError("the lead of a stop signal is more than 0, like USR1@90s")
    return f"{word}{at}{lead}"


def _lead_ms(stop_signal: str) -> int:
    """How long before the end of the grace it is sent, 0 for at once."""
    _, at, lead = stop_signal.partition("@")
    return parse_ms(lead) if at else 0


def _image(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}", value):
        raise ValueError("an image is named like registry/team/name:tag")
    return value


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: JSON may hold half of a character that needs two."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


Duration = Annotated[
    int,
    BeforeValidator(parse_ms),
    Field(json_schema_extra={"type": "string", "examples": ["30s", "10m", "2h"]}),
]
PositiveDuration = Annotated[Duration, AfterValidator(_no_zero)]
YesOrNo = Annotated[bool, BeforeValidator(_yes_or_no)]


class JobRequest(BaseModel):
    """The body of `POST /v1/jobs`. Durations are texts like `10m`, or numbers of seconds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    team: Name
    gpus: Annotated[int, Field(ge=1, le=_MAX_GPUS)]
    gpus_per_node: Annotated[int, Field(ge=1, le=_MAX_GPUS)] | None = None
    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    runtime: Duration | None = None
    limit: PositiveDuration | None = None
    checkpoint: PositiveDuration | None = None
    grace: Duration | None = None
    topology: Annotated[Text, AfterValidator(_topology)] = "any"
    retries: Annotated[int, Field(ge=0, le=1_000)] | None = None
    exits: Annotated[int, Field(ge=0, le=255)] = 0
    exits_after: Duration | None = None
    after: Annotated[list[Name], BeforeValidator(_one_or_more), Field(max_length=100)] = []
    preemptible: YesOrNo = True
    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 1
    name: Name | None = None
    command: (
        Annotated[list[str], Field(min_length=1)] | Annotated[str, Field(min_length=1)] | None
    ) = None
    env: dict[Text, str] = {}
    workdir: str | None = None
    labels: Annotated[dict[Text, Text], Field(max_length=MAX_LABELS)] = {}
    selector: Annotated[dict[Text, Text], Field(max_length=MAX_LABELS)] = {}
    launcher: Literal["per-node", "per-gpu", "torchrun", "raw"] = "per-node"
    env_compat: list[Literal["torch", "slurm", "jax"]] = ["torch"]
    stop_signal: Annotated[str, AfterValidator(_signal)] = "TERM"
    progress_timeout: PositiveDuration | None = None
    at_most_one_writer: YesOrNo = False
    image: Annotated[str, AfterValidator(_image)] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.gpus_per_node and self.gpus % self.gpus_per_node:
            raise ValueError(
                f"gpus ({self.gpus}) is not a multiple of gpus_per_node ({self.gpus_per_node})"
            )
        lead_ms = _lead_ms(self.stop_signal)
        if self.grace is not None and lead_ms > self.grace:
            raise ValueError(
                f"the lead of stop_signal ({show_ms(lead_ms)}) is longer than the grace "
                f"({show_ms(self.grace)}): the signal would come at once"
            )
        if self.command is not None and (self.runtime is not None or self.exits_after is not None):
            raise ValueError("runtime and exits_after are for jobs without a command")
        if any("\0" in text or not _is_unicode(text) for text in self._private_texts()):
            raise ValueError("command, env and workdir hold no NUL and no half characters")
        if any("=" in name for name in self.env):
            raise ValueError("the name of a variable has no =")
        return self

    def _private_texts(self) -> list[str]:
        command = self.program()
        words = [command] if isinstance(command, str) else command
        return [*words, *self.env, *self.env.values(), self.workdir or ""]

    def program(self) -> list[str] | str:
        """The command, words or a shell's text; none is a stand-in that holds the GPUs."""
        if self.command is not None:
            return self.command
        ends_ms = self.runtime if self.exits_after is None else self.exits_after
        hold = "infinity" if ends_ms is None else f"{ends_ms / 1_000:g}"
        return ["sh", "-c", f"exec sleep {hold}" if not self.exits else
                f"sleep {hold} & wait $!; exit {self.exits}"]  # fmt: skip

    def spec(self) -> words.Spec:
        """The spec as it stands in the log, its private part in clear."""
        return words.Spec(
            team=self.team,
            gpus=self.gpus,
            gpus_per_node=self.gpus_per_node,
            job_class=_CLASSES[self.priority],
            limit_ms=self.limit,
            checkpoint=self._checkpoint(),
            grace_ms=self.grace,
            topology=self._topology(),
            retries=self.retries,
            after=tuple(self.after),
            count=self.count,
            preemptible=self.preemptible,
            selector=self.selector,
            labels={**self.labels, **({"name": self.name} if self.name else {})},
            launch=self._launch(),
            private=self._private(),
        )

    def _checkpoint(self) -> words.CheckpointSpec | None:
        return (
            None if self.checkpoint is None else words.CheckpointSpec(interval_ms=self.checkpoint)
        )

    def _topology(self) -> words.Topology:
        kind, _, level = self.topology.partition(":")
        return words.Topology(kind=words.TopologyKind(kind), level=level)

    def _launch(self) -> words.Launch:
        return words.Launch(
            launcher=self.launcher,
            env_compat=tuple(self.env_compat),
            stop_signal=self.stop_signal.partition("@")[0],
            stop_lead_ms=_lead_ms(self.stop_signal),
            progress_timeout_ms=self.progress_timeout,
            at_most_one_writer=self.at_most_one_writer,
            container_image=self.image or "",
        )

    def _private(self) -> words.Private:
        text = {
            "command": self.program(),
            "env": self.env,
            "workdir": self.workdir or "",
        }
        return words.Private(ciphertext=json.dumps(text, sort_keys=True).encode())


def parse_body(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """The JSON of a request's body; a `bad-request` problem says where it is broken."""
    try:
        return json.loads(
            body, parse_int=_int, parse_constant=_no_constant, object_pairs_hook=_no_twins
        )
    except (ValueError, RecursionError) as error:
        raise ProblemError("bad-request", f"the body is no JSON: {error}") from error


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON's")


def _int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits; at most {_MAX_DIGITS} are read")
    return int(digits)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for name, value in pairs:
        if name in whole:
            raise ValueError(f"{name[:60]!r} stands twice")
        whole[name] = value
    return whole


def parse_request(value: object) -> JobRequest:
    """A spec from decoded JSON; one `invalid` problem names every wrong field."""
    size = len(json.dumps(value).encode())
    if size > words.MAX_SPEC_BYTES:
        raise ProblemError(
            "invalid", f"a spec has at most {words.MAX_SPEC_BYTES:,} bytes, this one {size:,}"
        )
    return checked(JobRequest, value)


def checked(model: type[Model], value: object) -> Model:
    """The model of decoded JSON; one `invalid` problem names every wrong field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise invalid(mistakes(found, value=value, known=list(model.model_fields))) from error


async def optional_body(request: Request, model: type[Model]) -> Model:
    """A request's body as a model; one that is missing is an empty object."""
    body = await request.body()
    return checked(model, parse_body(body) if body.strip() else {})
