"""Make the views of jobs, attempts, the queue and waits."""

from gangline.projections.migrations import run_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0002_jobs.sql")
