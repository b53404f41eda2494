"""The page's pictures of large fleets and long queues stay small."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

from gangline.api.page_shapes import NodeRow, fleet_shape, queue_page

NODES = [f"s{i // 200}-b{i // 20 % 10}-n{i % 20}" for i in range(1_000)]


def _rows() -> list[NodeRow]:
    return [
        NodeRow(
            node=name, path=tuple(name.split("-")[:2]), marks="........", health="well",
            service="open",
        )
        for name in NODES
    ]  # fmt: skip


def _gangs(seats: list[tuple[str, int]], sizes: list[int]) -> list[dict[str, Any]]:
    """Gangs of these sizes, on the seats in their order."""
    gangs = []
    for number, size in enumerate(sizes):
        taken, seats = seats[:size], seats[size:]
        nodes: dict[str, list[int]] = {}
        for node, gpu in taken:
            nodes.setdefault(node, []).append(gpu)
        gangs.append(
            {
                "job": f"training-run-{number}", "team": f"team-{number % 10}", "state": "running",
                "seats": [{"node": node, "gpus": gpus} for node, gpus in nodes.items()],
            }
        )  # fmt: skip
    return gangs


def _wire(body: dict[str, Any]) -> int:
    return len(gzip.compress(json.dumps(body, separators=(",", ":")).encode(), 5))


def test_a_fleet_of_eight_thousand_gpus_is_less_than_20_kb() -> None:
    """Also when it is full of the smallest gangs of a shuffled fleet."""
    seats = [(node, gpu) for node in NODES for gpu in range(8)]
    mixed = _gangs(seats, [1, 2, 4, 8, 16, 32, 64] * 63)
    assert _wire(fleet_shape(_rows(), mixed)) < 20_000

    pairs = [(node, [gpu, gpu + 1]) for node in NODES for gpu in (0, 2, 4, 6)]
    random.Random(1).shuffle(pairs)  # noqa: S311 (to be repeated)
    small = [(node, gpu) for node, gpus in pairs for gpu in gpus]
    assert _wire(fleet_shape(_rows(), _gangs(small, [8] * 1_000))) < 20_000


def test_runs_say_for_each_gpu_whose_it_is() -> None:
    """Neighbours of one gang are one run; nodes that take no work are named."""
    rows = _rows()[:2]
    rows[1] = NodeRow(
        node=rows[1].node, path=rows[1].path, marks="...b....", health="lost", service="open"
    )
    gang = {
        "job": "a", "team": "t", "state": "starting", "seats": [{"node": NODES[0], "gpus": [6, 7]}],
    }  # fmt: skip

    shape = fleet_shape(rows, [gang])

    assert shape["runs"] == [[6, ".", -1], [2, "s", 0], [3, ".", -1], [1, "b", -1], [4, ".", -1]]
    assert shape["away"] == {NODES[1]: ["lost", "open"]}
    assert shape["gangs"] == [["a", "t", 2]]


def test_blocks_stand_in_the_order_of_numbers() -> None:
    """`b2` before `b10`, as people count."""
    shape = fleet_shape(_rows(), [])

    assert [block["path"][1] for block in shape["blocks"]][:11] == [f"b{i}" for i in range(10)] + [
        "b0"
    ]
    assert shape["blocks"][0]["nodes"][2:4] == ["s0-b0-n2", "s0-b0-n3"]


def _queue(count: int) -> list[dict[str, Any]]:
    return [
        {
            "job": f"job-{i}", "team": f"team-{i % 7}", "class": ("low", "urgent")[i % 2],
            "gpus": i % 64, "position": i + 1, "waited_s": count - i, "reason": "capacity",
            "reason_text": "", "start_p50_ms": i if i % 3 else None,
        }
        for i in range(count)
    ]  # fmt: skip


def test_a_queue_of_ten_thousand_is_sent_in_parts() -> None:
    """Filtered and sorted where it is; the counts are of all of it."""
    found = queue_page(
        _queue(10_000), wanted={"team": "team-3", "text": ""}, order="-gpus", first=0, count=100
    )

    assert len(found["items"]) == 100
    assert found["total"] == 10_000
    assert found["matching"] == found["facets"]["team"]["team-3"]
    gpus = [row["gpus"] for row in found["items"]]
    assert gpus == sorted(gpus, reverse=True)


def test_jobs_without_a_plan_stand_last_and_classes_by_rank() -> None:
    """Sorting by a column follows what it means, not its letters."""
    by_start = queue_page(_queue(9), wanted={}, order="start_p50_ms", first=0, count=9)["items"]
    by_class = queue_page(_queue(4), wanted={}, order="-class", first=0, count=4)["items"]

    assert [row["start_p50_ms"] for row in by_start][-3:] == [None, None, None]
    assert [row["class"] for row in by_class] == ["urgent", "urgent", "low", "low"]
