"""Make the views of decisions and positions, and the comments that views share."""

from gangline.projections.migrations import run_file

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0004_feed.sql")
