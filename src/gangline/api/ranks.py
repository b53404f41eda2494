"""How each rank of a job gets on, and which are slower than their gang.

Programs say it (`checkpoint.progress(step)`), agents serve it, and here the ranks of all nodes are
compared: who reads compares (docs/adr/0010). Nothing is decided by it, and nobody is stopped.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median_low
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request

from gangline.api.jobs import Caller
from gangline.api.logs import ask, attempt_of, nodes_of
from gangline.api.names import Name
from gangline.api.problems import ProblemError
from gangline.api.query import only_known
from gangline.api.reads import OpenViews, job_or_problem
from gangline.api.views import Views
from gangline.events.pace import is_slower, usual

router = APIRouter(prefix="/v1", tags=["jobs"], dependencies=[Depends(only_known)])

_AT_ONCE: Final = 16
QUIET_STEPS: Final = 10
QUIET_S: Final = 30.0
"""One that is behind and quiet for so long, and for so many steps of the median, stands still."""

Rank = dict[str, Any]


@router.get("/jobs/{job}/ranks")
def ranks(
    job: Name,
    request: Request,
    views: OpenViews,
    _: Caller,
    attempt: Annotated[int | None, Query(ge=1)] = None,
) -> dict[str, Any]:
    """How each rank of an attempt (the last one) gets on, by its program's own word; how it ended.

    `step`: how many are done, null where it does not say; `step_s`: seconds of one; `own_s`: how
    many of them it did not wait for others. `slow`: why it counts as slower than its gang, empty
    where it does not. `code`: its exit code (128 + N: signal N), null before all of its node have
    ended. `failed_first`: whether the gang failed by it. `unreachable`: nodes that say nothing.
    """
    job_or_problem(views, job)
    found = attempt_of(views, job, attempt)
    nodes = list(nodes_of(found))
    path = f"/ranks/{quote(job, safe='')}/{found['attempt']}"
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = list(pool.map(lambda node: _said(request, views, node, path), nodes))
    told = [{"node": node, **answer} for node, answer in zip(nodes, said, strict=True) if answer]
    return {
        "job": job,
        "attempt": found["attempt"],
        "state": found["state"],
        "ranks": _with_ends(told, failed_on=str(found.get("exit_node") or "")),
        "unreachable": [node for node, answer in zip(nodes, said, strict=True) if answer is None],
    }


def _said(request: Request, views: Views, node: str, path: str) -> dict[str, Any] | None:
    """What a node says of its ranks, None where it cannot be asked."""
    try:
        answer = ask(request, views, node, path)
    except ProblemError:
        return None
    said: dict[str, Any] = json.loads(answer.content)
    return said


def _with_ends(told: Sequence[Mapping[str, Any]], *, failed_on: str) -> list[Rank]:
    """All ranks in their order: how they get on, judged together, and how they ended."""
    said = [{"node": node["node"], **each} for node in told for each in node["ranks"]]
    rows = {row["rank"]: {**row, **_RUNS} for row in judged(said)}
    for node in told:
        for end in node.get("ends", ()):
            row = rows.setdefault(end["rank"], {"node": node["node"], **_SILENT, **_RUNS})
            first = end["first"] and failed_on in ("", node["node"])
            row |= {"rank": end["rank"], "code": end["code"], "failed_first": first}
    return [rows[rank] for rank in sorted(rows)]


_RUNS: Final = {"code": None, "failed_first": False}
_SILENT: Final = {"step": None, "step_s": None, "own_s": None, "quiet_s": None, "slow": ""}


def judged(rows: Sequence[Rank]) -> list[Rank]:
    """The ranks of one gang, each with what makes it `slow`, empty for nothing."""
    gang = _Gang(rows)
    return [{**row, "slow": next(gang.reasons(row), "")} for row in rows]


class _Gang:
    """What is usual in a gang: medians, the lower one of two."""

    def __init__(self, rows: Sequence[Rank]) -> None:
        self.step = median_low([row["step"] for row in rows]) if rows else 0
        self.step_s = usual([row["step_s"] for row in rows])
        self.own_s = usual([row["own_s"] for row in rows])

    def reasons(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Why a rank is slower than the others, the surest first."""
        behind = self.step - row["step"]
        if behind > 0 and row["quiet_s"] > max(QUIET_S, QUIET_STEPS * (self.step_s or 0)):
            yield f"has been at step {row['step']} for {row['quiet_s']:.0f} s, others {behind} on"
        if is_slower(row["own_s"], self.own_s):
            yield f"needs {row['own_s']:.3g} s of its own a step, the gang {self.own_s:.3g}"
        if behind > 0 and is_slower(row["step_s"], self.step_s):
            yield f"needs {row['step_s']:.3g} s a step, the gang {self.step_s:.3g}"
