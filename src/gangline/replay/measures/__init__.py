"""What a history of decisions amounts to: the numbers and the heights over time of a report."""

from gangline.replay.measures.fold import Fold
from gangline.replay.measures.result import Measured, Window, measure

__all__ = ["Fold", "Measured", "Window", "measure"]
