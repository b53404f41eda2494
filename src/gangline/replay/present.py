"""Where a live cell stands now, for whoever answers questions about it beside the scheduler.

The decisions are folded as they come: the first question folds from the newest snapshot, each
later one folds what is new. Nothing is written, and every answer is a value of its own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from gangline.replay.timetravel import Plain, When, as_plain
from gangline.replay.trial import Forecast, forecast
from gangline.scheduler import core
from gangline.scheduler.beginning import start_follower

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.events.log import Log
    from gangline.events.spec import Spec
    from gangline.scheduler.follower import Follower

_log: Final = logging.getLogger("gangline.replay")


class Present:
    """A cell's present state, folded from its log. Not for several threads at once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: Follower | None = None

    def plain(self) -> Plain:
        """The whole state as values that JSON has."""
        return as_plain(self._follower(), When())

    def policy(self) -> list[dict[str, Any]]:
        """Every key of the policy with its value now, its default, unit, least value, meaning."""
        values = self._follower().state.cell.policy
        return [
            {
                "key": key.name,
                "value": values[key.name],
                "default": key.default,
                "unit": key.unit,
                "least": key.least,
                "meaning": key.doc,
            }
            for key in core.policy.KEYS.values()
        ]

    def try_out(self, spec: Spec, *, now_ms: int, enough: Callable[[], bool]) -> Forecast:
        """What would become of a job that was submitted now; see `trial.forecast`."""
        follower = self._follower()
        decided_ms = 0 if follower.link is None else follower.link.now_ms
        state = core.load(core.dump(follower.state))
        return forecast(state, spec, now_ms=max(now_ms, decided_ms), enough=enough)

    def _follower(self) -> Follower:
        """The follower, at the end of the log. A broken one is not kept."""
        known, self._known = self._known, None
        if known is None:
            known = start_follower(self._log, core, warn=_log.warning)
        else:
            known.read_to_end(self._log)
        self._known = known
        return known
