"""Index names of jobs by their parts, where the database has pg_trgm; teams by model of GPU."""

from gangline.projections.migrations import run_file

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0008_names.sql")
