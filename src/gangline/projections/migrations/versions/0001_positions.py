"""Make what all views share: positions, memory, and small functions."""

from gangline.projections.migrations import run_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0001_positions.sql")
