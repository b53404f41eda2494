"""All read models, in the order in which they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.projections.attempts import Attempts
from gangline.projections.decisions import Decisions
from gangline.projections.fairness import Fairness
from gangline.projections.faults import Faults
from gangline.projections.jobs import Jobs
from gangline.projections.ledger import QuotaLedger
from gangline.projections.nodes import Nodes
from gangline.projections.queue import Queue
from gangline.projections.teams import Teams
from gangline.projections.waits import Waits

if TYPE_CHECKING:
    from gangline.projections.work import ReadModel


def all_models() -> list[ReadModel]:
    """A new set: read models may remember what they wrote last.

    Those with the most rows first: theirs are on their way while the others fold.
    """
    return [
        Decisions(),
        QuotaLedger(),
        Jobs(),
        Attempts(),
        Waits(),
        Queue(),
        Nodes(),
        Faults(),
        Teams(),
        Fairness(),
    ]
