"""Make the views of teams, the ledger, fairness, nodes and faults."""

from gangline.projections.migrations import run_file

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0003_fleet.sql")
