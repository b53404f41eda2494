"""Make the views for analysts, and a role that may read them and nothing else."""

from gangline.projections.migrations import run_file

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0005_report.sql")
