"""Index decisions and ended faults by time, for who looks at a past moment."""

from gangline.projections.migrations import run_file

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0007_moments.sql")
