"""How alembic runs the steps: in the transaction of the connection that `migrate` made."""

from alembic import context

from gangline.projections.migrations import SCHEMA

context.configure(connection=context.config.attributes["connection"], version_table_schema=SCHEMA)
context.run_migrations()
