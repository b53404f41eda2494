"""A history as one page: pictures and numbers in one HTML file that needs nothing else."""

from gangline.replay.report.page import About, write_report

__all__ = ["About", "write_report"]
