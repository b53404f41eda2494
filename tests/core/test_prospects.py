"""The cheap look at a group refuses nobody whom the whole search would serve."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from gangline.scheduler.core.prospects import Prospects
from gangline.scheduler.core.schedule import Asking
from tests.core import make
from tests.core.life import Life

SEEDS = range(8)
STEPS = 150


class Looks:
    """What was refused, after how many decisions of the step; all are asked all the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: dict[Any, int] = {}
        self.looked = self.asked = 0
        self.wrong: list[str] = []
        really_any, really_try, really_plan = Prospects.any, Asking._try, Asking._plan

        def look(prospects: Prospects, group: Any) -> bool:
            self.looked += 1
            self.refused.pop(group, None)
            if not really_any(prospects, group):
                self.refused[group] = len(prospects.turn.decisions)
            return True

        def judged(really: Any) -> Any:
            def call(asking: Asking, group: Any, index: int, job: Any) -> None:
                decided = len(asking.turn.decisions)
                really(asking, group, index, job)
                if self.refused.get(group) == decided:
                    # Nothing was decided between the look and the question.
                    self.asked += 1
                    told = asking.turn.decisions[decided:]
                    self.wrong += [f"{job.id}: {one}" for one in told if not is_plan(one)]

            return call

        monkeypatch.setattr(Prospects, "any", look)
        monkeypatch.setattr(Asking, "_try", judged(really_try))
        monkeypatch.setattr(Asking, "_plan", judged(really_plan))


def is_plan(decision: Any) -> bool:
    """A plan far down the queue, where many before it can have none, may come a little later."""
    return isinstance(decision, d.ReservationPlanned) and decision.kind == "plan"


def test_who_is_refused_would_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a start nor a claim nor a firm plan, over random lives of a small cell."""
    looks = Looks(monkeypatch)

    for seed in SEEDS:
        life = Life(seed)
        life.world.step(*crowd())
        life.run(STEPS)

    assert looks.wrong == []
    assert looks.asked > 100


def crowd() -> list[Any]:
    """More jobs than may have plans, so that a look may refuse."""
    return [
        make.submitted(f"x{index}", 40 + index % 8, team="abc"[index % 3], limit_ms=make.HOUR)
        for index in range(24)
    ]
