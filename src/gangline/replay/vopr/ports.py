"""The scheduler's core as driver and simulation both use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gangline.replay.core_port import FleetNumbers, State, TeamNumbers

from gangline.scheduler.ports import Core as DriverCore


class Core(DriverCore, Protocol):
    """What schedulers use, and the numbers that the auditor asks for."""

    def team_numbers(self, state: State, team: str) -> TeamNumbers:
        """The GPUs of a team."""
        ...

    def fleet_numbers(self, state: State) -> FleetNumbers:
        """The GPUs of the fleet."""
        ...
