"""Keep the histories that grow for ever in partitions."""

from gangline.projections.migrations import run_file

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_file("0006_partitions.sql")
