"""Put the queue in the scheduler's order: how teams stand comes before age."""

from gangline.projections.migrations import run_file

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0009_order.sql")
