"""Alembic's entry point: migrations run on the connection that the ledger hands over, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
